"""The effective settings of a topic from settings and policies: pure, and the only place that decides which layer
wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from magnetar.base.errors import Corrupt, InvalidRange
from magnetar.base.limits import QUORUM_DEFAULT
from magnetar.ledger.appender import ManagedConfig
from magnetar.ledger.retention import Retention
from magnetar.ledger.store import Quorum
from magnetar.ledger.tail import TailCache
from magnetar.policy.policies import Policies
from magnetar.policy.settings import DEFAULT_LAYER, Settings
from magnetar.topic.settings import TopicSettings
from magnetar.wire import entry

_RETENTION = ("defaultRetentionTimeInMinutes", "defaultRetentionSizeInMB")
_SCALABLE_RETENTION = ("defaultScalableTopicRetentionTimeInMinutes", "defaultScalableTopicRetentionSizeInMB")


def topic_settings(
    settings: Settings, policies: Policies, topic: Mapping[str, Any] | None = None, *, scalable: bool = False
) -> TopicSettings:
    """`policies` are those of the namespace and `topic` those of the topic. `scalable`: it is part of a scalable
    topic."""
    return TopicSettings(
        failover_consistent_hashing=settings.flag("activeConsumerFailoverConsistentHashing", policies),
        failover_delay_ms=settings.number("activeConsumerFailoverDelayTimeMillis", policies),
        key_shared_ring=settings.flag("subscriptionKeySharedUseConsistentHashing", policies),
        key_shared_points=settings.number("subscriptionKeySharedConsistentHashingReplicaPoints", policies),
        deduplication=settings.flag("brokerDeduplicationEnabled", policies),
        dedup_snapshot_entries=settings.number("brokerDeduplicationEntriesInterval", policies),
        dedup_snapshot_s=settings.number("brokerDeduplicationSnapshotIntervalSeconds", policies),
        dedup_inactivity_ms=settings.number("brokerDeduplicationProducerInactivityTimeoutMinutes", policies) * 60_000,
        delayed_delivery=settings.flag("delayedDeliveryEnabled", policies),
        batch_index_acks=settings.flag("acknowledgmentAtBatchIndexLevelEnabled", policies),
        subscription_types=frozenset(settings.get("subscriptionTypesEnabled", policies)),
        unacked_per_consumer_max=settings.number("maxUnackedMessagesPerConsumer", policies),
        unacked_per_subscription_max=settings.number("maxUnackedMessagesPerSubscription", policies),
        producers_max=settings.number("maxProducersPerTopic", policies),
        consumers_max=settings.number("maxConsumersPerTopic", policies),
        consumers_per_subscription_max=settings.number("maxConsumersPerSubscription", policies),
        subscriptions_max=settings.number("maxSubscriptionsPerTopic", policies),
        message_ttl_s=settings.number("ttlDurationDefaultInSeconds", policies, topic),
        expiry_check_s=settings.number("messageExpiryCheckIntervalInMinutes", policies) * 60,
        auto_subscription=settings.flag("allowAutoSubscriptionCreation", policies),
        retention=_retention(settings, policies, topic, scalable),
        quorum=_quorum_of_policies(settings, policies),
    )


def quorum(settings: Settings, policies: Policies | None = None) -> Quorum | None:
    """The copies of entries in new ledgers. None: nothing is set. InvalidRange: the numbers contradict each other."""
    ensemble = settings.get("managedLedgerDefaultEnsembleSize", policies)
    write = settings.get("managedLedgerDefaultWriteQuorum", policies)
    ack = settings.get("managedLedgerDefaultAckQuorum", policies)
    if ensemble is write is ack is None:
        return None
    ensemble = ensemble or max(QUORUM_DEFAULT, write or 0, ack or 0)
    write = write or max(min(QUORUM_DEFAULT, ensemble), ack or 0)
    return Quorum(ensemble, write, ack or min(QUORUM_DEFAULT, write))


def _quorum_of_policies(settings: Settings, policies: Policies) -> Quorum | None:
    """A stored policy that contradicts itself must not keep its topics from loading: the settings apply."""
    try:
        return quorum(settings, policies)
    except InvalidRange:
        return quorum(settings)


def _retention(settings: Settings, policies: Policies, topic: Mapping[str, Any] | None, scalable: bool) -> Retention:
    """Scalable topics have their own default, unless the settings of the broker set one for all topics."""
    everywhere = any(settings.explain(key).layer != DEFAULT_LAYER for key in _RETENTION)
    own = any(settings.explain(key).layer != DEFAULT_LAYER for key in _SCALABLE_RETENTION)
    if scalable and (own or not everywhere):
        return Retention(
            settings.number("defaultScalableTopicRetentionTimeInMinutes", policies, topic),
            settings.number("defaultScalableTopicRetentionSizeInMB", policies, topic),
        )
    return Retention(
        settings.number("defaultRetentionTimeInMinutes", policies, topic),
        settings.number("defaultRetentionSizeInMB", policies, topic),
    )


def managed_config(settings: Settings) -> ManagedConfig:
    """The configuration for all topics of a broker; they share its tail cache."""
    return ManagedConfig(
        publish_time_of=publish_time,
        tail=TailCache(),
        entries_max=settings.number("managedLedgerMaxEntriesPerLedger"),
        bytes_max=settings.number("managedLedgerMaxSizePerLedgerMbytes") * 1024 * 1024,
        age_min_s=settings.number("managedLedgerMinLedgerRolloverTimeMinutes") * 60,
        age_max_s=settings.number("managedLedgerMaxLedgerRolloverTimeMinutes") * 60,
    )


def publish_time(data: bytes) -> int:
    """The publish time; 0 if the metadata cannot be read: such an entry is older than any requested time."""
    try:
        return entry.publish_time(data)
    except Corrupt:
        return 0
