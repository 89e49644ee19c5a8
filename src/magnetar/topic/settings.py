"""The settings and policies that apply to a topic, as one value. A change replaces the value."""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.ledger.retention import Retention
from magnetar.ledger.store import Quorum


@dataclass(frozen=True, slots=True)
class TopicSettings:
    failover_consistent_hashing: bool = False  # PIP-392: the ring for partitions too
    failover_delay_ms: int = 1000
    key_shared_ring: bool = True
    key_shared_points: int = 100
    deduplication: bool = False
    dedup_snapshot_entries: int = 1000
    dedup_snapshot_s: int = 120
    dedup_inactivity_ms: int = 6 * 60 * 60 * 1000
    delayed_delivery: bool = True
    batch_index_acks: bool = True
    subscription_types: frozenset[str] = frozenset({"Exclusive", "Shared", "Failover", "Key_Shared"})
    unacked_per_consumer_max: int = 50_000  # 0: no cap, as with all of these
    unacked_per_subscription_max: int = 200_000
    producers_max: int = 0
    consumers_max: int = 0
    consumers_per_subscription_max: int = 1_000
    subscriptions_max: int = 0
    message_ttl_s: int = 0  # unacknowledged messages expire after this; 0: never
    expiry_check_s: int = 300
    auto_subscription: bool = True
    retention: Retention = field(default_factory=Retention)
    quorum: Quorum | None = None  # of new ledgers; None: the default of the ledger store
