"""Statistics of topics as REST shows them, field by field as Pulsar's tools read them.

Values that this version does not measure have Pulsar's value for "nothing", so that dashboards and tools find every
field.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

NEVER = "1970-01-01T00:00:00Z"


class PublisherStats(msgspec.Struct, kw_only=True):
    accessMode: str = "Shared"
    msgRateIn: float = 0.0
    msgThroughputIn: float = 0.0
    averageMsgSize: float = 0.0
    chunkedMessageRate: float = 0.0
    producerId: int = 0
    supportsPartialProducer: bool = False
    producerName: str = ""
    address: str = ""
    connectedSince: str = ""
    clientVersion: str = ""
    metadata: dict[str, str] = {}
    msgDropRate: float | UnsetType = UNSET  # non-persistent topics only


class ConsumerStats(msgspec.Struct, kw_only=True):
    msgRateOut: float = 0.0
    msgThroughputOut: float = 0.0
    bytesOutCounter: int = 0
    msgOutCounter: int = 0
    msgRateRedeliver: float = 0.0
    messageAckRate: float = 0.0
    chunkedMessageRate: float = 0.0
    consumerName: str = ""
    availablePermits: int = 0
    unackedMessages: int = 0
    avgMessagesPerEntry: int = 0
    blockedConsumerOnUnackedMsgs: bool = False
    drainingHashesCount: int = 0
    drainingHashesClearedTotal: int = 0
    drainingHashesUnackedMessages: int = 0
    address: str = ""
    connectedSince: str = ""
    clientVersion: str = ""
    lastAckedTimestamp: int = 0
    lastConsumedTimestamp: int = 0
    firstMessagesSentTimestamp: int = 0
    lastConsumedFlowTimestamp: int = 0
    firstConsumedFlowTimestamp: int = 0
    keyHashRangeArrays: list[tuple[int, int]] | UnsetType = UNSET  # Key_Shared only
    metadata: dict[str, str] = {}
    lastAckedTime: str = NEVER
    lastConsumedTime: str = NEVER


class SubscriptionStats(msgspec.Struct, kw_only=True):
    """`msgBacklog` counts entries, as Pulsar does; the topic's counters count messages. Ours: `lagMessages` counts the
    messages that were not acknowledged, and `lagAgeSeconds` is the age of the oldest of them."""

    msgRateOut: float = 0.0
    msgThroughputOut: float = 0.0
    bytesOutCounter: int = 0
    msgOutCounter: int = 0
    msgRateRedeliver: float = 0.0
    messageAckRate: float = 0.0
    chunkedMessageRate: float = 0.0
    msgBacklog: int = 0
    backlogSize: int = 0
    earliestMsgPublishTimeInBacklog: int = 0
    msgBacklogNoDelayed: int = 0
    blockedSubscriptionOnUnackedMsgs: bool = False
    msgDelayed: int = 0
    msgInReplay: int = 0
    unackedMessages: int = 0
    type: str = "None"
    activeConsumerName: str | UnsetType = UNSET
    msgRateExpired: float = 0.0
    msgExpired: int = 0
    totalMsgExpired: int = 0
    lastExpireTimestamp: int = 0
    lastConsumedFlowTimestamp: int = 0
    lastConsumedTimestamp: int = 0
    lastAckedTimestamp: int = 0
    lastMarkDeleteAdvancedTimestamp: int = 0
    consumers: list[ConsumerStats] = []
    isDurable: bool = True
    isReplicated: bool = False
    allowOutOfOrderDelivery: bool = False
    keySharedMode: str | UnsetType = UNSET
    consumersAfterMarkDeletePosition: dict[str, str] = {}
    drainingHashesCount: int = 0
    drainingHashesClearedTotal: int = 0
    drainingHashesUnackedMessages: int = 0
    nonContiguousDeletedMessagesRanges: int = 0
    nonContiguousDeletedMessagesRangesSerializedSize: int = 0
    delayedMessageIndexSizeInBytes: int = 0
    subscriptionProperties: dict[str, str] = {}
    filterProcessedMsgCount: int = 0
    filterAcceptedMsgCount: int = 0
    filterRejectedMsgCount: int = 0
    filterRescheduledMsgCount: int = 0
    dispatchThrottledMsgEventsBySubscriptionLimit: int = 0
    dispatchThrottledBytesEventsBySubscriptionLimit: int = 0
    dispatchThrottledMsgEventsByTopicLimit: int = 0
    dispatchThrottledBytesEventsByTopicLimit: int = 0
    dispatchThrottledMsgEventsByBrokerLimit: int = 0
    dispatchThrottledBytesEventsByBrokerLimit: int = 0
    msgDropRate: float | UnsetType = UNSET  # non-persistent topics only
    durable: bool = True
    replicated: bool = False
    lagMessages: int | UnsetType = UNSET  # a broker of Pulsar does not send it, as the next
    lagAgeSeconds: float | UnsetType = UNSET


class CompactionStats(msgspec.Struct, kw_only=True):
    lastCompactionRemovedEventCount: int = 0
    lastCompactionSucceedTimestamp: int = 0
    lastCompactionFailedTimestamp: int = 0
    lastCompactionDurationTimeInMills: int = 0


class TopicStats(msgspec.Struct, kw_only=True):
    msgRateIn: float = 0.0
    msgThroughputIn: float = 0.0
    msgRateOut: float = 0.0
    msgThroughputOut: float = 0.0
    bytesInCounter: int = 0
    msgInCounter: int = 0
    systemTopicBytesInCounter: int = 0
    bytesOutCounter: int = 0
    msgOutCounter: int = 0
    bytesOutInternalCounter: int = 0
    averageMsgSize: float = 0.0
    msgChunkPublished: bool = False
    storageSize: int = 0
    backlogSize: int = 0
    backlogQuotaLimitSize: int = -1
    backlogQuotaLimitTime: int = -1
    oldestBacklogMessageAgeSeconds: int = -1
    publishRateLimitedTimes: int = 0
    earliestMsgPublishTimeInBacklogs: int = 0
    offloadedStorageSize: int = 0
    lastOffloadLedgerId: int = 0
    lastOffloadSuccessTimeStamp: int = 0
    lastOffloadFailureTimeStamp: int = 0
    ongoingTxnCount: int = 0
    abortedTxnCount: int = 0
    committedTxnCount: int = 0
    publishers: list[PublisherStats] = []
    waitingPublishers: int = 0
    subscriptions: dict[str, SubscriptionStats] = {}
    replication: dict[str, Any] = {}
    deduplicationStatus: str | UnsetType = UNSET
    nonContiguousDeletedMessagesRanges: int = 0
    nonContiguousDeletedMessagesRangesSerializedSize: int = 0
    delayedMessageIndexSizeInBytes: int = 0
    compaction: CompactionStats = msgspec.field(default_factory=CompactionStats)
    ownerBroker: str | UnsetType = UNSET
    topicCreationTimeStamp: int = 0
    lastPublishTimeStamp: int = 0
    msgDropRate: float | UnsetType = UNSET  # non-persistent topics only
    metadata: dict[str, Any] | UnsetType = UNSET  # partitioned topics only, as the next
    partitions: dict[str, TopicStats] | UnsetType = UNSET
    countersSinceTimestamp: int | UnsetType = UNSET  # ours: the counters began at 0 then


class LedgerInfo(msgspec.Struct, kw_only=True):
    ledgerId: int
    entries: int
    size: int
    offloaded: bool = False
    underReplicated: bool = False


class CursorStats(msgspec.Struct, kw_only=True):
    markDeletePosition: str | UnsetType = UNSET
    readPosition: str | UnsetType = UNSET
    waitingReadOp: bool = False
    pendingReadOps: int = 0
    messagesConsumedCounter: int = 0
    cursorLedger: int = -1
    cursorLedgerLastEntry: int = -1
    individuallyDeletedMessages: str | UnsetType = UNSET
    lastLedgerSwitchTimestamp: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    active: bool = False
    numberOfEntriesSinceFirstNotAckedMessage: int = 0
    totalNonContiguousDeletedMessagesRange: int = 0
    subscriptionHavePendingRead: bool = False
    subscriptionHavePendingReplayRead: bool = False
    properties: dict[str, int] | UnsetType = UNSET


class InternalStats(msgspec.Struct, kw_only=True):
    entriesAddedCounter: int = 0
    numberOfEntries: int = 0
    totalSize: int = 0
    currentLedgerEntries: int = 0
    currentLedgerSize: int = 0
    lastLedgerCreatedTimestamp: str | UnsetType = UNSET
    waitingCursorsCount: int = 0
    pendingAddEntriesCount: int = 0
    lastConfirmedEntry: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    ledgers: list[LedgerInfo] | UnsetType = UNSET
    cursors: dict[str, CursorStats] = {}
    schemaLedgers: list[LedgerInfo] | UnsetType = UNSET
    compactedLedger: LedgerInfo | UnsetType = UNSET


class PartitionedInternalStats(msgspec.Struct, kw_only=True):
    metadata: dict[str, Any]
    partitions: dict[str, InternalStats]
