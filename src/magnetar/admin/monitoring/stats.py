"""Statistics of topics: of one topic, of its ledgers, and of all partitions of one topic.

They read the counters of the topic; nothing is measured for a request. Sizes of backlogs come from the index of the
ledgers.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET

from magnetar.admin import fan_out
from magnetar.admin.monitoring.health import broker_id
from magnetar.admin.monitoring.rates import AnySubscription, observe, outgoing, subscriptions
from magnetar.admin.request import Request, Response, shown
from magnetar.admin.resolve import open_topic, partitions
from magnetar.admin.route import Route, get
from magnetar.base.errors import Corrupt, TopicNotFound
from magnetar.base.names import TopicName
from magnetar.broker.segments.cursors import given
from magnetar.client.documents.stats import (
    ConsumerStats,
    CursorStats,
    InternalStats,
    LedgerInfo,
    PartitionedInternalStats,
    PublisherStats,
    SubscriptionStats,
    TopicStats,
)
from magnetar.topic.dispatch.key_shared import KeySharedDispatcher
from magnetar.topic.dispatch.shared import SharedDispatcher
from magnetar.topic.dispatch.single import SingleActive
from magnetar.topic.producers.access import Mode
from magnetar.topic.producers.producer import Producer
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.topic.subscriptions.subscription import TYPE_NAMES, Subscription
from magnetar.topic.topic import Topic
from magnetar.wire import entry

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.broker.topics.topics import AnyTopic

T = TypeVar("T")

ACCESS_MODES = {
    Mode.SHARED: "Shared",
    Mode.EXCLUSIVE: "Exclusive",
    Mode.WAIT_FOR_EXCLUSIVE: "WaitForExclusive",
    Mode.EXCLUSIVE_WITH_FENCING: "ExclusiveWithFencing",
}


async def read(node: Node, request: Request) -> Response:
    return shown(await _read(node, request, request.topic))


async def _read(node: Node, request: Request, name: TopicName) -> TopicStats:
    return await topic_stats(
        node,
        await open_topic(node, name),
        publishers=not request.flag("excludePublishers"),
        consumers=not request.flag("excludeConsumers"),
    )


async def read_internal(node: Node, request: Request) -> Response:
    return shown(internal_stats(await open_topic(node, request.topic)))


async def read_partitioned(node: Node, request: Request) -> Response:
    name = request.topic
    document, parts = await _partitioned(node, name)

    async def stats_of(part: TopicName) -> TopicStats:
        return await _read(node, request, part)

    # a partition that is not found is not created yet
    each = await fan_out.of_owners(node, request, parts, stats_of, TopicStats, tail="stats", skips=TopicNotFound)
    total = merged(list(each.values()))
    total.metadata = document
    total.partitions = _by_name(each) if request.flag("perPartition", True) else {}
    return shown(total)


async def read_partitioned_internal(node: Node, request: Request) -> Response:
    document, parts = await _partitioned(node, request.topic)

    async def internal_stats_of(part: TopicName) -> InternalStats:
        return internal_stats(await open_topic(node, part))

    each = await fan_out.of_owners(
        node, request, parts, internal_stats_of, InternalStats, tail="internalStats", skips=TopicNotFound
    )
    return shown(PartitionedInternalStats(metadata=document, partitions=_by_name(each)))


def _by_name(each: dict[TopicName, T]) -> dict[str, T]:
    return {str(part): value for part, value in each.items()}


async def _partitioned(node: Node, name: TopicName) -> tuple[dict[str, Any], list[TopicName]]:
    parts = await partitions(node, name)
    metadata = await node.catalogue.partitioned(name)
    if parts is None or metadata is None:
        raise TopicNotFound(f"Partitioned Topic {name} not found")
    return metadata.document(), parts


async def topic_stats(node: Node, topic: AnyTopic, *, publishers: bool, consumers: bool) -> TopicStats:
    rates = observe(node).of(topic)
    each = {one.name: await _subscription(one, consumers=consumers) for one in subscriptions(topic)}
    stats = TopicStats(
        msgRateIn=rates.messages_in,
        msgThroughputIn=rates.bytes_in,
        msgRateOut=rates.messages_out,
        msgThroughputOut=rates.bytes_out,
        bytesInCounter=topic.bytes_in,
        msgInCounter=topic.messages_in,
        bytesOutCounter=sum(one.bytesOutCounter for one in each.values()),
        msgOutCounter=sum(one.msgOutCounter for one in each.values()),
        averageMsgSize=rates.bytes_in / rates.messages_in if rates.messages_in else 0.0,
        publishers=[_publisher(producer) for producer in topic.producers] if publishers else [],
        subscriptions=each,
        waitingPublishers=topic.producers.waiting,
        ownerBroker=broker_id(node),
        countersSinceTimestamp=topic.since_ms,
    )
    if isinstance(topic, Topic):
        stats.topicCreationTimeStamp = topic.managed.created_ms
        stats.storageSize = topic.managed.bytes
        stats.lastPublishTimeStamp = await _last_publish_ms(topic)
        stats.backlogSize = max((one.backlogSize for one in each.values()), default=0)
        times = [one.earliestMsgPublishTimeInBacklog for one in each.values() if one.earliestMsgPublishTimeInBacklog]
        stats.earliestMsgPublishTimeInBacklogs = min(times, default=0)
        stats.oldestBacklogMessageAgeSeconds = int(max(0, node.runtime.wall() - min(times)) / 1000) if times else -1
        stats.deduplicationStatus = "Enabled" if topic.settings.deduplication else "Disabled"
        stats.nonContiguousDeletedMessagesRanges = sum(one.nonContiguousDeletedMessagesRanges for one in each.values())
    else:
        stats.msgDropRate = 0.0
        stats.backlogQuotaLimitSize = stats.backlogQuotaLimitTime = stats.oldestBacklogMessageAgeSeconds = 0
    return stats


async def _last_publish_ms(topic: Topic) -> int:
    """The publish time of the last message; 0 if the topic has no message or its metadata cannot be read."""
    if not topic.managed.has(topic.managed.last):
        return 0
    run = await topic.managed.read(topic.managed.last, 1, 1)
    try:
        return entry.publish_time(run.entry(0)) if run is not None else 0
    except Corrupt:
        return 0


def _publisher(producer: Producer) -> PublisherStats:
    size = producer.bytes_in / producer.messages_in if producer.messages_in else 0.0
    return PublisherStats(
        accessMode=ACCESS_MODES[Mode(producer.access_mode)],
        averageMsgSize=size,
        producerId=producer.id,
        producerName=producer.name,
        address=f"/{producer.address}",
        connectedSince=moment(producer.connected_ms),
        clientVersion=producer.outlet.client_version,
        metadata=producer.metadata,
    )


async def _subscription(subscription: AnySubscription, *, consumers: bool) -> SubscriptionStats:
    messages, size = outgoing(subscription)
    attached = subscription.consumers
    stats = SubscriptionStats(
        bytesOutCounter=size,
        msgOutCounter=messages,
        unackedMessages=sum(consumer.pending.messages for consumer in attached),
        type="None" if subscription.type is None or not attached else TYPE_NAMES[subscription.type],
        consumers=[_consumer(consumer) for consumer in attached] if consumers else [],
        isDurable=subscription.durable,
        durable=subscription.durable,
    )
    if not isinstance(subscription, Subscription):
        stats.msgDropRate = 0.0
        return stats
    cursor = subscription.cursor
    stats.msgBacklog = cursor.backlog
    stats.nonContiguousDeletedMessagesRanges = cursor.holes
    stats.subscriptionProperties = given(cursor.properties)
    lag = (await subscription.lag.measure()).at(subscription.topic.runtime.wall())
    stats.backlogSize, stats.earliestMsgPublishTimeInBacklog = lag.bytes, lag.oldest_ms
    stats.lagMessages, stats.lagAgeSeconds = lag.messages, lag.age_s
    dispatcher = subscription.dispatcher
    if isinstance(dispatcher, SharedDispatcher | KeySharedDispatcher):
        stats.msgDelayed = len(dispatcher.delay.index)
        stats.blockedSubscriptionOnUnackedMsgs = any(consumer.blocked for consumer in attached)
    if isinstance(dispatcher, SharedDispatcher):
        stats.msgInReplay = len(dispatcher.replay)
    if isinstance(dispatcher, SingleActive) and dispatcher.active is not None:
        stats.activeConsumerName = dispatcher.active.name
    if isinstance(dispatcher, KeySharedDispatcher) and attached:
        key_shared = attached[0].key_shared
        stats.keySharedMode = "STICKY" if key_shared is not None and key_shared.sticky else "AUTO_SPLIT"
        stats.allowOutOfOrderDelivery = key_shared is not None and key_shared.out_of_order
    stats.msgBacklogNoDelayed = max(0, stats.msgBacklog - stats.msgDelayed)
    return stats


def _consumer(consumer: Consumer) -> ConsumerStats:
    return ConsumerStats(
        bytesOutCounter=consumer.bytes_out,
        msgOutCounter=consumer.messages_out,
        consumerName=consumer.name,
        availablePermits=consumer.permits,
        unackedMessages=consumer.pending.messages,
        blockedConsumerOnUnackedMsgs=consumer.blocked,
        address=f"/{consumer.address}",
        connectedSince=moment(consumer.connected_ms),
        clientVersion=consumer.outlet.client_version,
        metadata=consumer.metadata,
    )


def internal_stats(topic: AnyTopic) -> InternalStats:
    if not isinstance(topic, Topic):
        loose = {one.name: CursorStats(cursorLedger=0, cursorLedgerLastEntry=0) for one in subscriptions(topic)}
        return InternalStats(entriesAddedCounter=topic.entries_in, cursors=loose)
    managed = topic.managed
    links = managed.chain.links
    return InternalStats(
        entriesAddedCounter=topic.entries_in,
        numberOfEntries=managed.entries,
        totalSize=managed.bytes,
        currentLedgerEntries=links[-1].entries if links else 0,
        currentLedgerSize=links[-1].bytes if links else 0,
        lastLedgerCreatedTimestamp=moment(_last_ledger_ms(topic)),
        pendingAddEntriesCount=topic.in_flight,
        lastConfirmedEntry=str(managed.last),
        state="Terminated" if managed.terminated is not None else "LedgerOpened",
        ledgers=[LedgerInfo(ledgerId=link.ledger, entries=link.entries, size=link.bytes) for link in links],
        cursors={one.name: _cursor(one) for one in topic.subscriptions},
        schemaLedgers=[],
        compactedLedger=LedgerInfo(ledgerId=-1, entries=-1, size=-1),
    )


def _last_ledger_ms(topic: Topic) -> int:
    """The creation time of the last ledger: when the previous one was closed, or the topic was created."""
    links = topic.managed.chain.links
    return links[-2].closed_ms if len(links) > 1 else topic.managed.created_ms


def _cursor(subscription: Subscription) -> CursorStats:
    cursor, managed = subscription.cursor, subscription.topic.managed
    return CursorStats(
        markDeletePosition=str(cursor.mark),
        readPosition=str(subscription.dispatcher.read_position),
        messagesConsumedCounter=max(0, managed.entries - cursor.backlog),
        lastLedgerSwitchTimestamp=moment(cursor.created_ms),
        individuallyDeletedMessages="[]" if cursor.contiguous else f"[{cursor.holes} ranges]",
        state="Open",
        active=bool(subscription.consumers),
        numberOfEntriesSinceFirstNotAckedMessage=cursor.backlog,
        totalNonContiguousDeletedMessagesRange=cursor.holes,
        properties={},
    )


def merged(each: list[TopicStats]) -> TopicStats:
    """The statistics of all partitions as one topic: counts are added, producers and consumers of one name are
    grouped."""
    total = TopicStats()
    for stats in each:
        for field in _SUMS:
            setattr(total, field, getattr(total, field) + getattr(stats, field))
        total.publishers = total.publishers + stats.publishers
        if stats.countersSinceTimestamp is not UNSET:
            before_ms = total.countersSinceTimestamp
            total.countersSinceTimestamp = (
                stats.countersSinceTimestamp if before_ms is UNSET else min(before_ms, stats.countersSinceTimestamp)
            )
        total.lastPublishTimeStamp = max(total.lastPublishTimeStamp, stats.lastPublishTimeStamp)
        total.earliestMsgPublishTimeInBacklogs = _earlier(
            total.earliestMsgPublishTimeInBacklogs, stats.earliestMsgPublishTimeInBacklogs
        )
        total.oldestBacklogMessageAgeSeconds = max(
            total.oldestBacklogMessageAgeSeconds, stats.oldestBacklogMessageAgeSeconds
        )
        for name, subscription in stats.subscriptions.items():
            before = total.subscriptions.get(name)
            total.subscriptions = {
                **total.subscriptions,
                name: subscription if before is None else _merged_subscription(before, subscription),
            }
    return total


def _merged_subscription(left: SubscriptionStats, right: SubscriptionStats) -> SubscriptionStats:
    sums = {field: getattr(left, field) + getattr(right, field) for field in _SUBSCRIPTION_SUMS}
    merged = msgspec.structs.replace(left, **sums, consumers=left.consumers + right.consumers)
    merged.earliestMsgPublishTimeInBacklog = _earlier(
        left.earliestMsgPublishTimeInBacklog, right.earliestMsgPublishTimeInBacklog
    )
    if left.lagMessages is not UNSET and right.lagMessages is not UNSET:
        merged.lagMessages = left.lagMessages + right.lagMessages
        merged.lagAgeSeconds = max(left.lagAgeSeconds or 0.0, right.lagAgeSeconds or 0.0)
    return merged


def _earlier(left: int, right: int) -> int:
    """The earlier of two times, where 0 means never."""
    return min(left, right) if left and right else left or right


_SUMS = [
    "msgRateIn",
    "msgThroughputIn",
    "msgRateOut",
    "msgThroughputOut",
    "bytesInCounter",
    "msgInCounter",
    "bytesOutCounter",
    "msgOutCounter",
    "storageSize",
    "backlogSize",
    "nonContiguousDeletedMessagesRanges",
]
_SUBSCRIPTION_SUMS = [
    "bytesOutCounter",
    "msgOutCounter",
    "msgBacklog",
    "backlogSize",
    "msgBacklogNoDelayed",
    "msgDelayed",
    "msgInReplay",
    "unackedMessages",
    "nonContiguousDeletedMessagesRanges",
]


_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_000  # the years 1 to 9999: what a date can be


def moment(ms: int) -> str:
    """Milliseconds since 1970 as ISO text. A producer may send any number, so it is limited to the range of dates."""
    return (
        datetime.fromtimestamp(min(max(ms, _FIRST_MS), _LAST_MS) / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _routes(domain: str) -> list[Route]:
    topic = f"/admin/v2/{domain}/{{tenant}}/{{namespace}}/{{topic}}"
    internal = PartitionedInternalStats
    return [
        get(f"{topic}/stats", read, "Statistics of a topic", TopicStats),
        get(f"{topic}/internalStats", read_internal, "Ledgers and cursors of a topic", InternalStats),
        get(f"{topic}/partitioned-stats", read_partitioned, "Statistics of all partitions", TopicStats),
        get(
            f"{topic}/partitioned-internalStats",
            read_partitioned_internal,
            "Ledgers and cursors of all partitions",
            internal,
        ),
    ]


ROUTES = _routes("persistent") + _routes("non-persistent")
