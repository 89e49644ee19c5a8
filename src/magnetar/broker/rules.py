"""From settings and policies to what a topic must know: pure, one place, so that "which layer won" has one answer."""

from __future__ import annotations

from magnetar.base.errors import Corrupt
from magnetar.ledger.retention import Retention
from magnetar.policy.policies import Policies
from magnetar.policy.settings import Settings
from magnetar.topic.settings import TopicSettings
from magnetar.wire import entry


def topic_settings(settings: Settings, policies: Policies) -> TopicSettings:
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
        auto_subscription=settings.flag("allowAutoSubscriptionCreation", policies),
        retention=Retention(
            settings.number("defaultRetentionTimeInMinutes", policies),
            settings.number("defaultRetentionSizeInMB", policies),
        ),
    )


def publish_time(data: bytes) -> int:
    """0 where a client's metadata cannot be read: such an entry is older than any time asked for."""
    try:
        return entry.publish_time(data)
    except Corrupt:
        return 0
