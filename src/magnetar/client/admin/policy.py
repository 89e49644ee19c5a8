"""The policies of a namespace as values: each has its path and its type, so that one method reads, one sets and one
removes any of them, and a type checker knows the result type.

    await admin.namespaces.set_policy("public/default", RETENTION, Retention(60, 512))

Policies that Magnetar stores without effect can only be read; a real Pulsar accepts them through `Admin.call`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from magnetar.client.documents.policies import (
    AutoSubscriptionCreation,
    AutoTopicCreation,
    DelayedDelivery,
    Persistence,
    Retention,
)
from magnetar.layout.autoscale.policy import AutoScaleOverride

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Policy(Generic[T]):
    """A readable policy."""

    name: str
    kind: type[T]


@dataclass(frozen=True, slots=True)
class Settable(Policy[T]):
    """A policy that can be set."""


@dataclass(frozen=True, slots=True)
class Removable(Settable[T]):
    """A policy that can be set, and removed, so that the broker's own setting applies."""


RETENTION = Removable("retention", Retention)
MESSAGE_TTL_S = Removable("messageTTL", int)
DEDUPLICATION = Removable("deduplication", bool)
DEDUPLICATION_SNAPSHOT_INTERVAL_S = Settable("deduplicationSnapshotInterval", int)
PERSISTENCE = Removable("persistence", Persistence)
DELAYED_DELIVERY = Removable("delayedDelivery", DelayedDelivery)
AUTO_TOPIC_CREATION = Removable("autoTopicCreation", AutoTopicCreation)
AUTO_SUBSCRIPTION_CREATION = Removable("autoSubscriptionCreation", AutoSubscriptionCreation)
PRODUCERS_PER_TOPIC_MAX = Removable("maxProducersPerTopic", int)
CONSUMERS_PER_TOPIC_MAX = Removable("maxConsumersPerTopic", int)
CONSUMERS_PER_SUBSCRIPTION_MAX = Removable("maxConsumersPerSubscription", int)
UNACKED_MESSAGES_PER_CONSUMER_MAX = Removable("maxUnackedMessagesPerConsumer", int)
UNACKED_MESSAGES_PER_SUBSCRIPTION_MAX = Removable("maxUnackedMessagesPerSubscription", int)
SUBSCRIPTIONS_PER_TOPIC_MAX = Removable("maxSubscriptionsPerTopic", int)
TOPICS_PER_NAMESPACE_MAX = Removable("maxTopicsPerNamespace", int)
FAILOVER_BY_CONSISTENT_HASHING = Removable("activeConsumerFailoverConsistentHashing", bool)
AUTO_SCALE = Removable("scalableTopicAutoScalePolicy", AutoScaleOverride)
REPLICATION_CLUSTERS = Settable("replication", list[str])
TOPIC_BUCKETS = Settable("numberOfTopicBuckets", int)  # fixed at creation: setting another number is refused

SUBSCRIPTION_EXPIRATION_MINUTES = Policy("subscriptionExpirationTime", int)
BACKLOG_QUOTAS = Policy("backlogQuotaMap", dict[str, Any])
INACTIVE_TOPICS = Policy("inactiveTopicPolicies", dict[str, Any])
COMPACTION_THRESHOLD_BYTES = Policy("compactionThreshold", int)
OFFLOAD_THRESHOLD_BYTES = Policy("offloadThreshold", int)
OFFLOAD_THRESHOLD_S = Policy("offloadThresholdInSeconds", int)
SCHEMA_COMPATIBILITY = Policy("schemaCompatibilityStrategy", str)
SCHEMA_VALIDATION_ENFORCED = Policy("schemaValidationEnforced", bool)
SCHEMA_AUTO_UPDATE_ALLOWED = Policy("isAllowAutoUpdateSchema", bool)
SUBSCRIPTION_TYPES_ENABLED = Policy("subscriptionTypesEnabled", list[str])
SUBSCRIPTION_AUTH_MODE = Policy("subscriptionAuthMode", str)
ENCRYPTION_REQUIRED = Policy("encryptionRequired", bool)
ALLOWED_CLUSTERS = Policy("allowedClusters", list[str])
PUBLISH_RATE = Policy("publishRate", dict[str, Any])
DISPATCH_RATE = Policy("dispatchRate", dict[str, Any])
SUBSCRIPTION_DISPATCH_RATE = Policy("subscriptionDispatchRate", dict[str, Any])
REPLICATOR_DISPATCH_RATE = Policy("replicatorDispatchRate", dict[str, Any])
SUBSCRIBE_RATE = Policy("subscribeRate", dict[str, Any])

ALL: dict[str, Policy[Any]] = {one.name: one for one in list(globals().values()) if isinstance(one, Policy)}
