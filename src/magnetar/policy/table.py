# long: one table, a row a key; it is read as a page, not as code
"""Every key of broker.conf and standalone.conf that is known here: its form, its default, what it means, where it may
be overridden.

The one table: the parser, the layers and docs/CONFIGURATION.md come from it. Defaults are those of Pulsar's standalone.
`honoured` false means that the key is understood and does nothing yet; a key that is not here at all is kept, and
warned of once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from magnetar.base.errors import Misuse

Value = bool | int | float | str | list[str] | None


@dataclass(frozen=True, slots=True)
class Kind:
    name: str  # the expected form, for people
    read: Callable[[str], Value]  # ValueError when the text is not of that form


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: Kind
    default: Value
    doc: str
    dynamic: bool = False  # may be changed while running, through /admin/v2/brokers/configuration
    namespace: str = ""  # the field of the namespace's policies that overrides it, dotted
    topic: str = ""  # the same of the topic's policies
    honoured: bool = True

    def read(self, text: str) -> Value:
        """Nothing means the default, as in Pulsar's files."""
        if text.strip() == "":
            return self.default
        try:
            return self.kind.read(text.strip())
        except ValueError:
            raise Misuse(f"{self.name} is not {self.kind.name}", key=self.name, value=text) from None


def _bool(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


def _whole(low: int, high: int = 2**63 - 1) -> Callable[[str], Value]:
    def read(text: str) -> int:
        number = int(text)
        if "_" in text or not low <= number <= high:
            raise ValueError(text)
        return number

    return read


def _one_of(*words: str) -> Kind:
    def read(text: str) -> str:
        for word in words:
            if text.lower() == word.lower():
                return word
        raise ValueError(text)

    return Kind("one of " + ", ".join(words), read)


def _words(text: str) -> list[str]:
    return [word for word in (part.strip() for part in text.split(",")) if word]


BOOL = Kind("true or false", _bool)
COUNT = Kind("a whole number from 0", _whole(0))
POSITIVE = Kind("a whole number from 1", _whole(1))
NUMBER = Kind("a whole number from -1", _whole(-1))
PORT = Kind("a port from 0 to 65535", _whole(0, 65535))
TEXT = Kind("text", str)
LIST = Kind("words with commas between them", _words)


def _key(name: str, kind: Kind, default: Value, doc: str, **more: Any) -> Key:
    return Key(name, kind, default, doc, **more)


_LISTENING = [
    _key("clusterName", TEXT, "standalone", "Name of this cluster; part of generated producer names and of metrics."),
    _key("bindAddress", TEXT, "0.0.0.0", "Address the broker and the REST server listen on."),
    _key("advertisedAddress", TEXT, "localhost", "Host that lookups answer; clients must be able to reach it."),
    _key("advertisedListeners", TEXT, "", "Further listeners, `name:pulsar://host:port` with commas between them."),
    _key(
        "internalListenerName", TEXT, "internal", "Listener that is answered when a lookup names none.", honoured=False
    ),
    _key(
        "brokerClientAuthenticationParameters",
        TEXT,
        "",
        "Who this broker is to the other brokers of its cluster: `token:` and the token.",
    ),
    _key("brokerServicePort", PORT, 6650, "Port of the binary protocol; 0 lets the system choose."),
    _key("webServicePort", PORT, 8080, "Port of REST; 0 lets the system choose."),
    _key("brokerServicePortTls", PORT, None, "TLS port of the binary protocol.", honoured=False),
    _key("webServicePortTls", PORT, None, "TLS port of REST.", honoured=False),
    _key(
        "keepAliveIntervalSeconds",
        POSITIVE,
        30,
        "A silent connection is pinged after this long and closed after twice that.",
    ),
    _key(
        "maxMessageSize",
        POSITIVE,
        5242880,
        "Largest message in bytes; announced to clients. Frames may be 10 KiB larger.",
    ),
    _key("brokerMaxConnections", COUNT, 0, "Connections at once; 0 is no limit."),
    _key("brokerMaxConnectionsPerIp", COUNT, 0, "Connections of one address at once; 0 is no limit."),
    _key(
        "maxConcurrentLookupRequest",
        POSITIVE,
        50000,
        "Lookups at once; more are answered TooManyRequests.",
        dynamic=True,
    ),
    _key(
        "maxPendingPublishRequestsPerConnection",
        POSITIVE,
        1000,
        "Entries of one connection that wait for the disk before its socket is no longer read.",
        honoured=False,
    ),
    _key(
        "maxMessagePublishBufferSizeInMB",
        NUMBER,
        512,
        "Payload of all connections that waits for the disk before sockets are no longer read; -1 is no limit.",
        dynamic=True,
    ),
    _key(
        "brokerShutdownTimeoutMs",
        COUNT,
        60000,
        "How long a stopping broker waits for its topics.",
        dynamic=True,
        honoured=False,
    ),
    _key(
        "exposingBrokerEntryMetadataToClientEnabled",
        BOOL,
        False,
        "Deliver broker entry metadata to clients that ask for it.",
        honoured=False,
    ),
]

_TOPICS = [
    _key(
        "allowAutoTopicCreation",
        BOOL,
        True,
        "A client may create a topic by using it.",
        dynamic=True,
        namespace="autoTopicCreationOverride.allowAutoTopicCreation",
    ),
    _key(
        "allowAutoTopicCreationType",
        _one_of("non-partitioned", "partitioned"),
        "non-partitioned",
        "What such a topic is.",
        dynamic=True,
        namespace="autoTopicCreationOverride.topicType",
    ),
    _key(
        "defaultNumPartitions",
        POSITIVE,
        1,
        "Partitions of such a topic when it is partitioned.",
        dynamic=True,
        namespace="autoTopicCreationOverride.defaultNumPartitions",
    ),
    _key(
        "allowAutoSubscriptionCreation",
        BOOL,
        True,
        "A consumer may create a subscription by using it.",
        dynamic=True,
        namespace="autoSubscriptionCreationOverride.allowAutoSubscriptionCreation",
        topic="autoSubscriptionCreationOverride.allowAutoSubscriptionCreation",
    ),
    _key("maxNumPartitionsPerPartitionedTopic", COUNT, 0, "Largest number of partitions; 0 is no limit.", dynamic=True),
    _key(
        "maxTopicsPerNamespace",
        COUNT,
        0,
        "Topics of a namespace, partitions counted one by one; 0 is no limit.",
        dynamic=True,
        namespace="max_topics_per_namespace",
    ),
    _key("maxNamespacesPerTenant", COUNT, 0, "Namespaces of a tenant; 0 is no limit.", dynamic=True),
    _key("maxTenants", COUNT, 0, "Tenants of the cluster; 0 is no limit.", dynamic=True),
    _key(
        "defaultNumberOfNamespaceBundles",
        POSITIVE,
        4,
        "Bundles of a namespace that is created without saying.",
        dynamic=True,
    ),
    _key("forceDeleteNamespaceAllowed", BOOL, False, "A namespace may be deleted with its topics.", dynamic=True),
    _key("forceDeleteTenantAllowed", BOOL, False, "A tenant may be deleted with its namespaces.", dynamic=True),
    _key("enablePersistentTopics", BOOL, True, "Persistent topics are served."),
    _key("enableNonPersistentTopics", BOOL, True, "Non-persistent topics are served."),
    _key(
        "brokerDeleteInactiveTopicsEnabled",
        BOOL,
        False,
        "Delete topics that nobody uses.",
        dynamic=True,
        namespace="inactive_topic_policies.deleteWhileInactive",
        topic="inactiveTopicPolicies.deleteWhileInactive",
        honoured=False,
    ),
    _key(
        "brokerDeleteInactiveTopicsFrequencySeconds",
        POSITIVE,
        60,
        "How often unused topics are looked for.",
        dynamic=True,
        honoured=False,
    ),
    _key(
        "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds",
        POSITIVE,
        None,
        "Unused for this long; the frequency when not set.",
        dynamic=True,
        namespace="inactive_topic_policies.maxInactiveDurationSeconds",
        topic="inactiveTopicPolicies.maxInactiveDurationSeconds",
        honoured=False,
    ),
    _key(
        "brokerDeleteInactiveTopicsMode",
        _one_of("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"),
        "delete_when_no_subscriptions",
        "What counts as unused.",
        dynamic=True,
        namespace="inactive_topic_policies.inactiveTopicDeleteMode",
        topic="inactiveTopicPolicies.inactiveTopicDeleteMode",
        honoured=False,
    ),
    _key(
        "brokerDeleteInactivePartitionedTopicMetadataEnabled",
        BOOL,
        False,
        "Forget a partitioned topic whose partitions were all deleted as unused.",
        dynamic=True,
        honoured=False,
    ),
    _key("subscriptionPatternMaxLength", POSITIVE, 50, "Longest pattern of a topic-list watch, in characters."),
    _key(
        "enableBrokerSideSubscriptionPatternEvaluation",
        BOOL,
        True,
        "Evaluate patterns here and push changes of topic lists.",
    ),
    _key("enableBrokerTopicListWatcher", BOOL, True, "Serve topic-list watches."),
]

_CONSUMING = [
    _key(
        "acknowledgmentAtBatchIndexLevelEnabled",
        BOOL,
        True,
        "Keep acknowledgements of single messages inside a batch.",
    ),
    _key(
        "subscriptionTypesEnabled",
        LIST,
        ["Exclusive", "Shared", "Failover", "Key_Shared"],
        "Subscription types that are served.",
        dynamic=True,
        namespace="subscription_types_enabled",
        topic="subscriptionTypesEnabled",
    ),
    _key(
        "subscriptionKeySharedUseConsistentHashing",
        BOOL,
        True,
        "Key_Shared: a ring with points, rather than ranges that are halved.",
    ),
    _key(
        "subscriptionKeySharedConsistentHashingReplicaPoints",
        POSITIVE,
        100,
        "Key_Shared: points of one consumer on the ring.",
    ),
    _key(
        "activeConsumerFailoverConsistentHashing",
        BOOL,
        False,
        "Failover: choose by a ring on partitioned topics too (PIP-392).",
        dynamic=True,
        namespace="activeConsumerFailoverConsistentHashing",
    ),
    _key(
        "activeConsumerFailoverDelayTimeMillis", COUNT, 1000, "Failover: pause before a new active consumer is served."
    ),
    _key(
        "maxUnackedMessagesPerConsumer",
        COUNT,
        50000,
        "A Shared or Key_Shared consumer with this many unacknowledged messages gets no more; 0 is no limit.",
        namespace="max_unacked_messages_per_consumer",
        topic="maxUnackedMessagesOnConsumer",
    ),
    _key(
        "maxUnackedMessagesPerSubscription",
        COUNT,
        200000,
        "The same for a whole subscription; 0 is no limit.",
        namespace="max_unacked_messages_per_subscription",
        topic="maxUnackedMessagesOnSubscription",
    ),
    _key("maxUnackedMessagesPerBroker", COUNT, 0, "The same for the broker; 0 is no limit.", honoured=False),
    _key(
        "maxProducersPerTopic",
        COUNT,
        0,
        "Producers of a topic; 0 is no limit.",
        namespace="max_producers_per_topic",
        topic="maxProducerPerTopic",
    ),
    _key(
        "maxConsumersPerTopic",
        COUNT,
        0,
        "Consumers of a topic; 0 is no limit.",
        namespace="max_consumers_per_topic",
        topic="maxConsumerPerTopic",
    ),
    _key(
        "maxConsumersPerSubscription",
        COUNT,
        0,
        "Consumers of a subscription; 0 is no limit.",
        namespace="max_consumers_per_subscription",
        topic="maxConsumersPerSubscription",
    ),
    _key(
        "maxSubscriptionsPerTopic",
        COUNT,
        0,
        "Subscriptions of a topic; 0 is no limit.",
        namespace="max_subscriptions_per_topic",
        topic="maxSubscriptionsPerTopic",
    ),
    _key(
        "delayedDeliveryEnabled",
        BOOL,
        True,
        "Hold messages back until their `deliver_at`.",
        namespace="delayed_delivery_policies.active",
        topic="delayedDeliveryEnabled",
    ),
    _key(
        "delayedDeliveryTickTimeMillis",
        POSITIVE,
        1000,
        "How exactly in time.",
        namespace="delayed_delivery_policies.tickTime",
        topic="delayedDeliveryTickTimeMillis",
        honoured=False,
    ),
    _key(
        "delayedDeliveryMaxDelayInMillis",
        COUNT,
        0,
        "Longest delay; 0 is no limit.",
        namespace="delayed_delivery_policies.maxDeliveryDelayInMillis",
        topic="delayedDeliveryMaxDelayInMillis",
        honoured=False,
    ),
    _key(
        "dispatcherMaxReadBatchSize",
        POSITIVE,
        100,
        "Entries one read of a backlog asks for at most.",
        dynamic=True,
        honoured=False,
    ),
    _key(
        "dispatcherMaxReadSizeBytes",
        POSITIVE,
        5242880,
        "Bytes one read of a backlog asks for at most.",
        dynamic=True,
        honoured=False,
    ),
    _key(
        "dispatcherMaxRoundRobinBatchSize",
        POSITIVE,
        20,
        "Entries a Shared consumer gets before it is the next one's turn.",
        dynamic=True,
        honoured=False,
    ),
    _key(
        "subscriptionExpirationTimeMinutes",
        COUNT,
        0,
        "A subscription unused for this long is deleted; 0 is never.",
        namespace="subscription_expiration_time_minutes",
        honoured=False,
    ),
    _key(
        "strictlyVerifySubscriptionName",
        BOOL,
        False,
        "Refuse subscription names with characters outside [-=:.\\w].",
        dynamic=True,
        honoured=False,
    ),
]

_STORING = [
    _key(
        "brokerDeduplicationEnabled",
        BOOL,
        False,
        "Drop messages that a producer sends twice.",
        namespace="deduplicationEnabled",
        topic="deduplicationEnabled",
    ),
    _key(
        "brokerDeduplicationEntriesInterval",
        POSITIVE,
        1000,
        "Entries between two snapshots of the producers' sequences.",
    ),
    _key(
        "brokerDeduplicationSnapshotIntervalSeconds",
        COUNT,
        120,
        "Time between two snapshots of the producers' sequences; 0 is never by time.",
        namespace="deduplicationSnapshotIntervalSeconds",
        topic="deduplicationSnapshotIntervalSeconds",
    ),
    _key(
        "brokerDeduplicationSnapshotFrequencyInSeconds",
        COUNT,
        120,
        "How often it is looked whether one is due.",
        honoured=False,
    ),
    _key(
        "brokerDeduplicationProducerInactivityTimeoutMinutes",
        POSITIVE,
        360,
        "A producer's sequence is forgotten after this long.",
    ),
    _key(
        "brokerDeduplicationMaxNumberOfProducers",
        POSITIVE,
        10000,
        "Producers remembered for one topic.",
        honoured=False,
    ),
    _key(
        "defaultRetentionTimeInMinutes",
        NUMBER,
        0,
        "Keep acknowledged messages for this long; -1 is for ever.",
        namespace="retention_policies.retentionTimeInMinutes",
        topic="retentionPolicies.retentionTimeInMinutes",
    ),
    _key(
        "defaultRetentionSizeInMB",
        NUMBER,
        0,
        "Keep acknowledged messages up to this size; -1 is any size.",
        namespace="retention_policies.retentionSizeInMB",
        topic="retentionPolicies.retentionSizeInMB",
    ),
    _key("retentionCheckIntervalInSeconds", POSITIVE, 120, "How often it is looked what may go.", honoured=False),
    _key(
        "ttlDurationDefaultInSeconds",
        COUNT,
        0,
        "Messages older than this count as acknowledged; 0 is never.",
        namespace="message_ttl_in_seconds",
        topic="messageTTLInSeconds",
        honoured=False,
    ),
    _key("messageExpiryCheckIntervalInMinutes", POSITIVE, 5, "How often messages are expired.", honoured=False),
    _key("managedLedgerMaxEntriesPerLedger", POSITIVE, 50000, "A ledger is closed after this many entries."),
    _key("managedLedgerMinLedgerRolloverTimeMinutes", COUNT, 10, "But not before this long."),
    _key("managedLedgerMaxLedgerRolloverTimeMinutes", POSITIVE, 240, "A ledger is closed after this long."),
    _key("managedLedgerMaxSizePerLedgerMbytes", POSITIVE, 2048, "A ledger is closed at this size."),
    _key(
        "managedLedgerMaxUnackedRangesToPersist",
        POSITIVE,
        200000,
        "Holes in a cursor from which on it is warned; none is ever dropped.",
        honoured=False,
    ),
    _key(
        "managedLedgerCursorMaxEntriesPerLedger",
        POSITIVE,
        50000,
        "Snapshots of a cursor in one ledger.",
        honoured=False,
    ),
    _key(
        "managedLedgerDefaultMarkDeleteRateLimit",
        Kind("a number from 0", lambda text: _rate(text)),
        1.0,
        "Snapshots of a cursor in a second.",
        honoured=False,
    ),
    _key("backlogQuotaCheckEnabled", BOOL, True, "Apply backlog quotas.", honoured=False),
    _key("backlogQuotaDefaultLimitBytes", NUMBER, -1, "Backlog of a topic in bytes; -1 is no limit.", honoured=False),
    _key("backlogQuotaDefaultLimitSecond", NUMBER, -1, "Age of a topic's backlog; -1 is no limit.", honoured=False),
    _key(
        "backlogQuotaDefaultRetentionPolicy",
        _one_of("producer_request_hold", "producer_exception", "consumer_backlog_eviction"),
        "producer_request_hold",
        "What happens past it.",
        honoured=False,
    ),
]

_OTHERS = [
    _key(
        "schemaCompatibilityStrategy",
        _one_of(
            "UNDEFINED",
            "ALWAYS_INCOMPATIBLE",
            "ALWAYS_COMPATIBLE",
            "BACKWARD",
            "FORWARD",
            "FULL",
            "BACKWARD_TRANSITIVE",
            "FORWARD_TRANSITIVE",
            "FULL_TRANSITIVE",
        ),
        "FULL",
        "How a new schema must fit those before it.",
        namespace="schema_compatibility_strategy",
        topic="schemaCompatibilityStrategy",
        honoured=False,
    ),
    _key(
        "isAllowAutoUpdateSchemaEnabled",
        BOOL,
        True,
        "A producer may add a schema version.",
        dynamic=True,
        namespace="is_allow_auto_update_schema",
        honoured=False,
    ),
    _key(
        "isSchemaValidationEnforced",
        BOOL,
        False,
        "Producers without a schema are refused where a topic has one.",
        namespace="schema_validation_enforced",
        honoured=False,
    ),
    _key(
        "metadataStoreUrl",
        TEXT,
        "",
        "Where metadata lives; empty is the embedded store in the data directory.",
        honoured=False,
    ),
    _key(
        "zookeeperSessionExpiredPolicy",
        _one_of("reconnect", "shutdown"),
        "reconnect",
        "What to do when the metadata session is lost.",
        honoured=False,
    ),
    _key(
        "metadataStoreSessionTimeoutMillis",
        POSITIVE,
        30000,
        "A metadata session is lost after this long in silence.",
        honoured=False,
    ),
    _key("systemTopicEnabled", BOOL, True, "Keep topic policies in system topics.", honoured=False),
    _key("topicLevelPoliciesEnabled", BOOL, True, "Policies of single topics.", honoured=False),
    _key("transactionCoordinatorEnabled", BOOL, False, "Transactions.", honoured=False),
    _key("authenticationEnabled", BOOL, False, "Ask clients who they are.", honoured=False),
    _key("authenticationProviders", LIST, [], "Who checks what they say.", honoured=False),
    _key("authorizationEnabled", BOOL, False, "Ask what they may do.", honoured=False),
    _key("superUserRoles", LIST, [], "Roles that may do everything.", dynamic=True, honoured=False),
    _key("anonymousUserRole", TEXT, "", "Role of a client that does not say.", honoured=False),
    _key("webSocketServiceEnabled", BOOL, False, "The WebSocket proxy.", honoured=False),
    _key("loadBalancerEnabled", BOOL, True, "Move bundles between brokers.", honoured=False),
]

_RATE_HELP = "of one segment, in a second"
_SCALABLE = [
    _key(
        "scalableTopicsEnabled",
        BOOL,
        True,
        "Scalable topics (topic://). Off: their commands and routes are refused, what is stored stays. "
        "`scalableTopicEnabled` is read as this.",
    ),
    _key(
        "scalableTopicConsumerSessionGracePeriodSeconds",
        COUNT,
        60,
        "A stream consumer that lost its connection keeps its segments for this long.",
    ),
    _key(
        "scalableTopicAutoScaleEnabled",
        BOOL,
        True,
        "Split and merge segments by their load.",
        dynamic=True,
        honoured=False,
    ),
    _key("scalableTopicAutoScaleIntervalSeconds", POSITIVE, 60, "How often load is looked at.", honoured=False),
    _key("scalableTopicMaxSegments", POSITIVE, 64, "No automatic split beyond.", dynamic=True, honoured=False),
    _key("scalableTopicMinSegments", POSITIVE, 1, "No automatic merge below.", dynamic=True, honoured=False),
    _key(
        "scalableTopicMaxDagDepth",
        POSITIVE,
        10,
        "No automatic merge beyond this many generations.",
        dynamic=True,
        honoured=False,
    ),
    _key(
        "scalableTopicEntryBucketBudget",
        POSITIVE,
        4,
        "Entry buckets of a new topic, shared out among its segments: as many stream consumers can read it together.",
        dynamic=True,
    ),
    _key(
        "scalableTopicEntryBucketMaxPerSegment",
        POSITIVE,
        1024,
        "Entry buckets of a segment, at most.",
        dynamic=True,
        honoured=False,
    ),
    _key("scalableTopicSplitCooldownSeconds", COUNT, 60, "Between two splits.", dynamic=True, honoured=False),
    _key("scalableTopicMergeCooldownSeconds", COUNT, 300, "Between two merges.", dynamic=True, honoured=False),
    _key(
        "scalableTopicMergeWindowSeconds",
        COUNT,
        300,
        "Segments are idle for this long before they are merged.",
        dynamic=True,
        honoured=False,
    ),
    _key("scalableTopicRebucketCooldownSeconds", COUNT, 60, "Between two rebucketings.", dynamic=True, honoured=False),
    *(
        _key(
            f"scalableTopic{verb}{what}Threshold",
            COUNT,
            number,
            f"{verb} {'above' if verb == 'Split' else 'below'} this {words} {_RATE_HELP}.",
            dynamic=True,
            honoured=False,
        )
        for verb, what, number, words in (
            ("Split", "MsgRateIn", 10_000, "many messages in"),
            ("Split", "BytesRateIn", 50_000_000, "many bytes in"),
            ("Split", "MsgRateOut", 50_000, "many messages out"),
            ("Split", "BytesRateOut", 250_000_000, "many bytes out"),
            ("Merge", "MsgRateIn", 1000, "many messages in"),
            ("Merge", "BytesRateIn", 5_000_000, "many bytes in"),
            ("Merge", "MsgRateOut", 5000, "many messages out"),
            ("Merge", "BytesRateOut", 25_000_000, "many bytes out"),
        )
    ),
    _key(
        "scalableTopicSplitVsRebucketMinMsgRateInThreshold",
        COUNT,
        1000,
        "Below this many messages in, in a second, buckets are added rather than a segment split.",
        dynamic=True,
        honoured=False,
    ),
    _key("scalableTopicLoadReportIntervalSeconds", POSITIVE, 10, "How often load is reported.", honoured=False),
    _key(
        "scalableTopicLoadReportRateChangeThreshold",
        Kind("a number from 0", lambda text: _rate(text)),
        0.25,
        "A change of load by this part is reported at once.",
        dynamic=True,
        honoured=False,
    ),
]

SECRETS = ("brokerClientAuthenticationParameters",)  # never shown
ALIASES = {"scalableTopicEnabled": "scalableTopicsEnabled"}  # other names that keys were given; the right-hand one wins

SECTIONS: dict[str, list[Key]] = {
    "Listening and connections": _LISTENING,
    "Tenants, namespaces, topics": _TOPICS,
    "Consuming": _CONSUMING,
    "Storing": _STORING,
    "Scalable topics": _SCALABLE,
    "Schemas, security and the rest": _OTHERS,
}
KEYS: dict[str, Key] = {key.name: key for keys in SECTIONS.values() for key in keys}


def _rate(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError(text)
    return number
