"""Documents of namespace policies, in Pulsar's field names.

Policies that the broker applies are typed. Policies that only Pulsar supports are left out; the admin client reads
those as plain JSON values.
"""

from __future__ import annotations

import msgspec


class Bundles(msgspec.Struct, frozen=True):
    boundaries: list[str] = []
    numBundles: int = 0


class Retention(msgspec.Struct, frozen=True):
    """How long acknowledged messages are kept; -1 means without limit."""

    retentionTimeInMinutes: int = 0
    retentionSizeInMB: int = 0


class AutoTopicCreation(msgspec.Struct, frozen=True, omit_defaults=True):
    allowAutoTopicCreation: bool
    topicType: str | None = None
    defaultNumPartitions: int | None = None


class AutoSubscriptionCreation(msgspec.Struct, frozen=True):
    allowAutoSubscriptionCreation: bool


class Persistence(msgspec.Struct, frozen=True):
    """How many bookies store each ledger and each of its entries, and how many must have stored an entry."""

    bookkeeperEnsemble: int = 2
    bookkeeperWriteQuorum: int = 2
    bookkeeperAckQuorum: int = 2
    managedLedgerMaxMarkDeleteRate: float = 0.0


class DelayedDelivery(msgspec.Struct, frozen=True):
    tickTime: int = 1000
    active: bool = True
    maxDeliveryDelayInMillis: int = 0


class Policies(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A namespace's policies. None: not set. A request to create a namespace has only changed values."""

    replication_clusters: list[str] = []
    bundles: Bundles | None = None
    deduplicationEnabled: bool | None = None
    autoTopicCreationOverride: AutoTopicCreation | None = None
    autoSubscriptionCreationOverride: AutoSubscriptionCreation | None = None
    message_ttl_in_seconds: int | None = None
    retention_policies: Retention | None = None
    delayed_delivery_policies: DelayedDelivery | None = None
    persistence: Persistence | None = None
    max_producers_per_topic: int | None = None
    max_consumers_per_topic: int | None = None
    max_consumers_per_subscription: int | None = None
    max_unacked_messages_per_consumer: int | None = None
    max_unacked_messages_per_subscription: int | None = None
    max_subscriptions_per_topic: int | None = None
    max_topics_per_namespace: int | None = None
    deduplicationSnapshotIntervalSeconds: int | None = None
    properties: dict[str, str] = {}
    numberOfTopicBuckets: int | None = None
    activeConsumerFailoverConsistentHashing: bool | None = None
