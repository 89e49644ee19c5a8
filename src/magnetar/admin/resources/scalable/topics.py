"""Scalable topics over REST: list, create, read, delete, statistics, subscriptions. `reshape` contains the reshapes.

Formats and words are Pulsar's. The controller of a topic makes the changes: a caller of another broker is redirected to
the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from magnetar.admin.monitoring.stats import topic_stats
from magnetar.admin.request import DONE, Request, Response, shown
from magnetar.admin.resolve import check_namespace, open_topic
from magnetar.admin.route import delete, get, put
from magnetar.base.errors import (
    AlreadyExists,
    MagnetarError,
    Misuse,
    Moved,
    NotFound,
    Refused,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.base.ids import SegmentId
from magnetar.base.limits import ATTENDANCE_WAIT_S, SEGMENTS_CREATE_MAX
from magnetar.base.names import TopicName
from magnetar.base.names import check_given as check_given_name
from magnetar.broker.metrics.lag import SubscriptionLag, subscription_lags
from magnetar.client.documents.scalable import (
    ScalableSubscriptionStats,
    ScalableTopicMetadata,
    ScalableTopicStats,
    SegmentStats,
    StreamConsumer,
    SubscribedConsumer,
    SubscribedSegment,
    SubscriptionPlan,
)
from magnetar.client.documents.stats import TopicStats
from magnetar.layout.lag import NO_LAG, Lag
from magnetar.ledger.properties import check_given
from magnetar.observe.log import get as get_log
from magnetar.scalable.machines import assign
from magnetar.scalable.machines.sessions import ConsumerSession
from magnetar.scalable.record import codec
from magnetar.scalable.record.subscription import Subscription, SubscriptionState, Type

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.scalable.record.record import Record

log = get_log("scalable")

_BLANKS = " \t\n\r\v\f"


async def names(node: Node, request: Request) -> Response:
    """All scalable topics of a namespace; each `property=key=value` restricts the list to topics with that property."""
    check_enabled(node)
    properties = [_property(text) for text in request.all("property")]
    matching = [
        str(name) for name in await node.scalable.names(str(request.namespace)) if await _has(node, name, properties)
    ]
    return shown(sorted(matching))


async def _has(node: Node, name: TopicName, properties: Sequence[tuple[str, str]]) -> bool:
    if not properties:
        return True
    record = await node.scalable.read(name)
    return record is not None and all(pair in record.properties for pair in properties)


async def create(node: Node, request: Request) -> Response:
    name = name_of(node, request)
    properties: dict[str, str] | None = request.read(dict[str, str])
    check_given(properties or {})
    segments = request.number("numInitialSegments", 1)
    if segments < 1:
        raise Misuse("numInitialSegments must be >= 1")
    if segments > SEGMENTS_CREATE_MAX:
        raise Misuse(f"numInitialSegments must be <= {SEGMENTS_CREATE_MAX}: split the topic later")
    await check_namespace(node, name)
    try:
        await node.scalable.create(name, segments=segments, properties=properties or {})
    except AlreadyExists as error:
        raise AlreadyExists(f"Scalable topic already exists: {name}") from error
    return DONE


async def read(node: Node, request: Request) -> Response:
    return shown(codec.rest(await record_of(node, name_of(node, request))))


async def remove(node: Node, request: Request) -> Response:
    name = name_of(node, request)
    await record_of(node, name)
    await node.scalable.delete(name, force=request.flag("force"))
    await node.topic_policies.delete(name)
    return DONE


async def stats(node: Node, request: Request) -> Response:
    name = name_of(node, request)
    record = await record_of(node, name, plain=True)
    layout = record.layout
    view = await node.scalable.view(name)
    return shown(
        ScalableTopicStats(
            epoch=layout.shown_epoch,
            totalSegments=len(layout),
            activeSegments=len(layout.active),
            sealedSegments=len(layout) - len(layout.active),
            segments={
                str(one.id): SegmentStats(
                    name=str(one.topic(name)),
                    state="ACTIVE" if one.is_active else "SEALED",
                    parentIds=list(one.parents),
                    childIds=list(one.children),
                    ownerBroker=view.owners[one.id].id if view is not None and one.id in view.owners else None,
                )
                for one in layout.segments
            },
            subscriptions=await _subscriptions(node, name, record),
            routing=record.routing,
            term=record.term,
            controller=None if view is None or view.leader is None else view.leader.id,
        )
    )


async def segment_stats(node: Node, request: Request) -> Response:
    """The statistics of the topic that stores the messages of a segment."""
    name = name_of(node, request)
    record = await record_of(node, name)
    segment = record.layout.segment(segment_of(request, "segment"))
    topic = await open_topic(node, segment.topic(name))
    return shown(await topic_stats(node, topic, publishers=True, consumers=True))


# Subscriptions


async def subscriptions(node: Node, request: Request) -> Response:
    name = name_of(node, request)
    return shown(await _subscriptions(node, name, await record_of(node, name, plain=True)))


async def _subscriptions(node: Node, name: TopicName, record: Record) -> dict[str, ScalableSubscriptionStats]:
    live = [
        subscribed
        for subscribed in await node.scalable.subscriptions(name)
        if subscribed.standing is SubscriptionState.LIVE
    ]
    seen = await subscription_lags(node, name, record, live)
    stats: dict[str, ScalableSubscriptionStats] = {}
    for subscribed in live:
        lag = seen[subscribed.name].lag if subscribed.name in seen else await _held(node, name, record, subscribed)
        stats[subscribed.name] = _subscription(
            subscribed,
            seen.get(subscribed.name) if subscribed.type is Type.QUEUE else None,
            None if lag is None else lag.at(node.runtime.wall()),
        )
    return stats


async def _held(node: Node, name: TopicName, record: Record, subscription: Subscription) -> Lag | None:
    """The lag of a hold, or of a group that reads by it. None: an owner does not respond, or the group has not
    started."""
    if subscription.hold is None:
        return None
    try:
        async with asyncio.timeout(ATTENDANCE_WAIT_S):
            return await node.handlers.holds.behind(name, record, dict(subscription.hold.places))
    except (MagnetarError, TimeoutError) as error:
        log.info("hold_not_measured", topic=str(name), hold=subscription.name, error=str(error))
        return None


async def subscription(node: Node, request: Request) -> Response:
    """Read from the controller, which alone knows the connected consumers. The owners of the segments report those of a
    queue."""
    name, subscription_name = name_of(node, request), request.parts["subscription"]
    record = await record_of(node, name, plain=True)
    leader = await node.scalable.leader(name)
    if leader is not None and leader.id != node.ownership.me.id:
        http = leader.urls.http or leader.urls.https
        raise Moved(
            f"{name} is led by {leader.id}: send the request to that broker",
            owner=leader.id,
            http=http,
            resource=str(name),
        )
    matching = [existing for existing in await node.scalable.subscriptions(name) if existing.name == subscription_name]
    if not matching or matching[0].standing is not SubscriptionState.LIVE:
        raise SubscriptionNotFound(f"Subscription {subscription_name} not found on topic {name}")
    [existing], who = matching, None if leader is None else leader.id
    seen = (await subscription_lags(node, name, record, matching)).get(existing.name)
    if seen is not None and existing.type is Type.QUEUE:
        return shown(_queue(existing, who, seen))
    return shown(_plan(existing, who, node.scalable.sessions(name, subscription_name), seen))


def _queue(subscription: Subscription, leader: str | None, seen: SubscriptionLag) -> SubscriptionPlan:
    return SubscriptionPlan(
        subscription=subscription.name,
        type=subscription.type,
        generation=subscription.plan.generation,
        controller=leader,
        consumers=[
            SubscribedConsumer(consumerName=name, segmentIds=list(ids), connected=True)
            for name, ids in sorted(seen.consumers.items())
        ],
        segments=[
            SubscribedSegment(
                segmentId=id,
                consumerName=", ".join(name for name, ids in sorted(seen.consumers.items()) if id in ids) or None,
                left=None if left is None else left.messages,
            )
            for id, left in seen.left.items()
        ],
        undecided=subscription.undecided,
    )


def _plan(
    subscription: Subscription,
    leader: str | None,
    sessions: Mapping[str, ConsumerSession] | None,
    seen: SubscriptionLag | None,
) -> SubscriptionPlan:
    by_name = sessions or {}
    left = {} if seen is None else seen.left
    return SubscriptionPlan(
        subscription=subscription.name,
        type=subscription.type,
        generation=subscription.plan.generation,
        controller=leader,
        drainedSegmentIds=list(subscription.latched),
        consumers=[
            SubscribedConsumer(
                consumerName=member.name,
                segmentIds=list(assign.assignment(subscription.plan, member.name)),
                connected=bool(by_name[member.name].connection) if member.name in by_name else None,
                graceUntilMs=by_name[member.name].until_ms if member.name in by_name else 0,
            )
            for member in subscription.members
        ],
        segments=[
            SubscribedSegment(
                segmentId=hold.segment,
                consumerName=", ".join(hold.sharers) or hold.holder or None,
                nextConsumerName=(", ".join(hold.joint) or hold.target) if hold.moving else None,
                left=None if (lag := left.get(hold.segment)) is None else lag.messages,
            )
            for hold in subscription.plan.holds
        ],
        remembered=[
            SubscribedSegment(segmentId=each.segment, consumerName=each.name) for each in subscription.plan.left
        ],
        leftMessages={str(id): lag.messages for id, lag in left.items() if lag is not None},
    )


async def subscribe(node: Node, request: Request) -> Response:
    name = name_of(node, request)
    text = request.query.get("type", Type.STREAM)
    if text not in (Type.STREAM, Type.QUEUE):
        raise NotFound(f"type must be STREAM or QUEUE, got {text}")
    earliest = request.query.get("position", "earliest").lower() != "latest"
    await record_of(node, name)
    subscription = check_given_name(request.parts["subscription"], "subscription")
    await node.scalable.subscribe(name, subscription, Type(text), earliest=earliest)
    return DONE


async def unsubscribe(node: Node, request: Request) -> Response:
    name = name_of(node, request)
    await record_of(node, name, plain=True)
    try:
        await node.scalable.unsubscribe(name, request.parts["subscription"])
    except SubscriptionNotFound:
        pass  # as Pulsar: gone is gone
    return DONE


def _subscription(
    subscription: Subscription, seen: SubscriptionLag | None, lag: Lag | None
) -> ScalableSubscriptionStats:
    behind = NO_LAG if lag is None else lag
    messages, size = (None, None) if lag is None else (lag.messages, lag.bytes)
    if seen is not None:
        return ScalableSubscriptionStats(
            consumerCount=len(seen.consumers),
            type=subscription.type,
            consumers=[
                StreamConsumer(consumerName=name, segmentIds=list(ids)) for name, ids in sorted(seen.consumers.items())
            ],
            lag=messages,
            lagBytes=size,
            lagOldestMs=behind.oldest_ms,
            lagAgeS=behind.age_s,
            undecided=subscription.undecided,
            subscriptionProperties=dict(subscription.properties),
        )
    return ScalableSubscriptionStats(
        consumerCount=len(subscription.members),
        type=subscription.type,
        drainedSegmentIds=list(subscription.latched),
        consumers=[
            StreamConsumer(consumerName=member.name, segmentIds=list(assign.assignment(subscription.plan, member.name)))
            for member in subscription.members
        ],
        lag=messages,
        lagBytes=size,
        lagOldestMs=behind.oldest_ms,
        lagAgeS=behind.age_s,
        subscriptionProperties=dict(subscription.properties),
    )


def name_of(node: Node, request: Request) -> TopicName:
    check_enabled(node)
    name = request.topic
    if name.local_name != name.local_name.strip(_BLANKS):
        raise Misuse("Topic name is not valid: it must not begin or end with white space")
    if name.is_partition:
        raise Misuse("Topic name is not valid: a scalable topic has no partitions")
    return name


async def record_of(node: Node, name: TopicName, *, plain: bool = False) -> Record:
    """`plain` also accepts the record of a plain topic, which stores subscriptions of stream consumers."""
    record = await node.scalable.read(name)
    if record is None or (record.is_plain and not plain):
        raise TopicNotFound(f"Scalable topic not found: {name}")
    return record


def segment_of(request: Request, part: str) -> SegmentId:
    number = request.number(part)
    if number < 0:
        raise NotFound(f"segment not found: {number}")
    return SegmentId(number)


def _property(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise Misuse(f"property filter must be in the form key=value, got: {text}")
    return key, value


def check_enabled(node: Node) -> None:
    if not node.scalable.enabled:
        words = "scalable topics are disabled on this broker (scalableTopicsEnabled)"
        raise Refused(words, http_status=404)


_NAMESPACE = "/admin/v2/scalable/{tenant}/{namespace}"
_TOPIC = f"{_NAMESPACE}/{{topic}}"
_SUBSCRIPTIONS = f"{_TOPIC}/subscriptions"
ROUTES = [
    get(_NAMESPACE, names, "The scalable topics of a namespace; filtered by `property=key=value`", list[str]),
    put(_TOPIC, create, "Create a scalable topic with `numInitialSegments`", dict[str, str]),
    get(_TOPIC, read, "The layout of a scalable topic", ScalableTopicMetadata),
    delete(_TOPIC, remove, "Delete a scalable topic; with force, also while it is used"),
    get(f"{_TOPIC}/stats", stats, "Segments, subscriptions and the controller", ScalableTopicStats),
    get(f"{_TOPIC}/segments/{{segment}}/stats", segment_stats, "The statistics of one segment", TopicStats),
    get(_SUBSCRIPTIONS, subscriptions, "The subscriptions", dict[str, ScalableSubscriptionStats]),
    get(
        f"{_SUBSCRIPTIONS}/{{subscription}}",
        subscription,
        "The consumers of a subscription with their assigned segments",
        SubscriptionPlan,
    ),
    put(f"{_SUBSCRIPTIONS}/{{subscription}}", subscribe, "Create a subscription of `type` STREAM or QUEUE"),
    delete(f"{_SUBSCRIPTIONS}/{{subscription}}", unsubscribe, "Delete a subscription on all segments"),
]
