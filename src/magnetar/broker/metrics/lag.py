"""The lag of subscriptions in messages, and the consumers that are attached to the segments of a scalable topic.

The owners of the topics, partitions or segments measure a subscription with cursors; a hold, or a group of checkpoint
consumers, is measured from its positions like a read plan. The record of a topic lists the consumers of streams and
groups. Queue consumers attach to every segment and do not register, so the owners report them. The part of an owner
that does not respond in time stays unknown: callers do not wait for it, and nothing is guessed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError, NotReady, SubscriptionNotFound, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import ATTENDANCE_WAIT_S, CALLS_AT_ONCE_MAX
from magnetar.base.names import Domain, TopicName
from magnetar.cluster.calls.topic_calls import InspectPlainTopic, PlainFacts
from magnetar.layout.lag import NO_LAG, Lag
from magnetar.layout.readable_range import Places
from magnetar.observe.log import get
from magnetar.scalable.record.subscription import Subscription, SubscriptionState

if TYPE_CHECKING:
    from magnetar.broker.peers.handlers import PeerHandlers
    from magnetar.cluster.calls.topic_calls import Peers
    from magnetar.cluster.topics import Catalogue
    from magnetar.scalable.record.record import Record
    from magnetar.scalable.service import ScalableTopics

log = get("lag")

_OF_SEGMENT = re.compile(r"-seg-\d+$")  # as consumers name what they attach to a segment


class LagNode(Protocol):
    """What this module uses of the node."""

    peers: Peers
    handlers: PeerHandlers
    catalogue: Catalogue
    scalable: ScalableTopics


@dataclass(frozen=True, slots=True)
class SubscriptionLag:
    """The lag and consumers of one subscription. `left`: the lag of each segment, None if its owner does not respond.
    `consumers`: the consumers attached to segments."""

    consumers: dict[str, list[SegmentId]] = field(default_factory=dict)
    left: dict[SegmentId, Lag | None] = field(default_factory=dict)

    @property
    def lag(self) -> Lag | None:
        """The total lag; None: an owner does not respond."""
        return total(self.left.values())


def total(parts: Collection[Lag | None]) -> Lag | None:
    lags = [one for one in parts if one is not None]
    return reduce(add, lags, NO_LAG) if len(lags) == len(parts) else None


async def subscription_lags(
    node: LagNode, name: TopicName, record: Record, subscriptions: Collection[Subscription]
) -> dict[str, SubscriptionLag]:
    """For subscriptions with cursors. Only segments that one of them has not drained are requested."""
    with_cursors = [one for one in subscriptions if one.has_cursors]
    seen = {one.name: SubscriptionLag() for one in with_cursors}
    segments = [one for one in record.layout.segments if any(one.id not in each.latched for each in with_cursors)]
    facts = await look(node, [one.topic(name) for one in segments])
    by_segment = dict(zip([one.id for one in segments], facts, strict=True))
    for subscription in with_cursors:
        for segment in record.layout.segments:
            drained = segment.id in subscription.latched
            _add(
                seen[subscription.name],
                subscription.name,
                segment.id,
                PlainFacts(lags={}) if drained else by_segment[segment.id],
            )
    return seen


def _add(subscription_lags: SubscriptionLag, name: str, segment: SegmentId, facts: PlainFacts | None) -> None:
    if facts is None:
        subscription_lags.left[segment] = None
        return
    subscription_lags.left[segment] = None if facts.lags is None else facts.lags.get(name, NO_LAG)
    for consumer in sorted({_OF_SEGMENT.sub("", each.name) for each in facts.clients if each.subscription == name}):
        subscription_lags.consumers.setdefault(consumer, []).append(segment)


async def look(node: LagNode, topics: list[TopicName]) -> list[PlainFacts | None]:
    """The facts about topics with messages, from their owners. None: the owner does not respond."""
    facts: list[PlainFacts | None] = []
    for start in range(0, len(topics), CALLS_AT_ONCE_MAX):
        facts += await asyncio.gather(*(_look(node, one) for one in topics[start : start + CALLS_AT_ONCE_MAX]))
    return facts


async def _look(node: LagNode, topic: TopicName) -> PlainFacts | None:
    try:
        async with asyncio.timeout(ATTENDANCE_WAIT_S):
            answer = await node.peers.owner(topic).ask(InspectPlainTopic(op="lag", lags=True))
    except TopicNotFound:
        return PlainFacts(lags={})  # the topic has not been used yet
    except (MagnetarError, TimeoutError) as error:
        log.info("lag_request_failed", topic=str(topic), error=str(error))
        return None
    assert isinstance(answer, PlainFacts)
    return answer


async def lag_of(node: LagNode, name: TopicName, subscription: str) -> Lag:
    """The lag of a subscription, a group or a hold, over all partitions or segments. NotReady: an owner does not
    respond. TopicNotFound, SubscriptionNotFound."""
    if name.domain is Domain.NON_PERSISTENT:
        return NO_LAG  # nothing is kept
    scalable = await _scalable(node, name, subscription)
    if scalable is not None:
        record, stored = scalable
        if stored.hold is not None:
            return await node.handlers.holds.behind(name, record, dict(stored.hold.places))
        return _known((await subscription_lags(node, name.scalable, record, [stored]))[stored.name].lag, name)
    topics = [name]
    if name.domain is Domain.PERSISTENT:
        partitioned = None if name.is_partition else await node.catalogue.partitioned(name)
        if partitioned is not None:
            topics = [name.partition(index) for index in range(partitioned.partitions)]
        elif not await node.catalogue.exists(name):
            raise TopicNotFound(f"Topic {name} not found")
    elif name.domain is Domain.TOPIC and await node.scalable.read(name) is None:
        raise TopicNotFound(f"Scalable topic not found: {name}")
    facts = [] if name.domain is Domain.TOPIC else await look(node, topics)
    if not any(one is None or one.lags is None or subscription in one.lags for one in facts):
        raise SubscriptionNotFound(f"Subscription {subscription} not found on topic {name}")
    return _known(total([_part(one, subscription) for one in facts]), name)


async def lag_behind(node: LagNode, name: TopicName, places: Places) -> Lag:
    """The lag of a reader without a subscription at these positions."""
    record = await node.handlers.plans.record(name)
    return await node.handlers.holds.behind(name, record, places, kept=False)


async def _scalable(node: LagNode, name: TopicName, subscription: str) -> tuple[Record, Subscription] | None:
    if not node.scalable.enabled or name.is_partition or name.domain is Domain.SEGMENT:
        return None
    record = await node.scalable.read(name.scalable)
    if record is None:
        return None
    for stored in await node.scalable.subscriptions(name.scalable):
        if stored.name == subscription and stored.standing is SubscriptionState.LIVE:
            return record, stored
    return None


def _part(facts: PlainFacts | None, subscription: str) -> Lag | None:
    return None if facts is None or facts.lags is None else facts.lags.get(subscription, NO_LAG)


def _known(lag: Lag | None, name: TopicName) -> Lag:
    if lag is None:
        raise NotReady(f"the owner of a part of {name} does not respond: try again")
    return lag
