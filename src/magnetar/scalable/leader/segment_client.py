"""Sends the calls of the machines to the owners of segments, and turns the answers into events.

A final refusal, a fenced call and an overtaken call have their own events. Any other error, a timeout included, is
`CallLost`: the call may have happened. The client looks the owner up at every call, and trusts `Peers` to deliver it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from magnetar.base.errors import (
    Closed,
    Fenced,
    MagnetarError,
    Moved,
    Refused,
    SubscriptionNotFound,
    TopicNotFound,
    Unavailable,
    Unknown,
)
from magnetar.base.limits import CALLS_AT_ONCE_MAX
from magnetar.base.names import TopicName
from magnetar.cluster.calls import topic_calls
from magnetar.cluster.calls.topic_calls import (
    Delete,
    Fence,
    Peers,
    PlaceCursor,
    ProvisionSegment,
    RemoveCursor,
    ResetCursor,
    Seal,
    SeedDedup,
    Stale,
    SubscriptionLife,
)
from magnetar.layout.autoscale.load import SegmentLoad
from magnetar.layout.layout import Child
from magnetar.layout.segment import Ending
from magnetar.observe.log import get
from magnetar.scalable.machines.effects import (
    AskOwner,
    CallFenced,
    CallLost,
    CallOvertaken,
    CallRefused,
    ChildProvisioned,
    ChildSeeded,
    CursorPlaced,
    CursorRemoved,
    CursorReset,
    Event,
    OwnerRequest,
    ParentFenced,
    ParentSealed,
    SealSummary,
    SegmentDeleted,
)
from magnetar.topic.seal import SealResult

log = get("scalable")

# The owner's no is an answer to these. To the others there is only one way, and it is asked again.
REFUSABLE: dict[type[OwnerRequest], type[MagnetarError] | tuple[type[MagnetarError], ...]] = {
    ProvisionSegment: Refused,
    PlaceCursor: (TopicNotFound, SubscriptionNotFound),
    RemoveCursor: (TopicNotFound, SubscriptionNotFound),
    ResetCursor: (TopicNotFound, SubscriptionNotFound),
}
PASSING = (Closed, Moved)  # the segment is being unloaded or has another owner now: that one is asked
ENSURE_WAITS_S = (0.05, 0.2, 1.0, 3.0)  # between tries to make one segment of a new topic
# A segment that should be there and is not: the record says why.
LOOKED_AT = (Seal, Fence, SeedDedup)


class SegmentClient:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def ensure(self, topic: TopicName, segments: Sequence[Child], *, incarnation: int) -> None:
        """Creates the segments that the record lists as active. An owner that does not answer is asked again; a segment
        that is still missing is created by its first use."""
        request = topic_calls.EnsureSegment(op=f"create-{incarnation}", incarnation=incarnation)
        for start in range(0, len(segments), CALLS_AT_ONCE_MAX):
            batch = segments[start : start + CALLS_AT_ONCE_MAX]
            await asyncio.gather(*(self._ensure(one.topic(topic), request) for one in batch))

    async def _ensure(self, segment: TopicName, request: topic_calls.EnsureSegment) -> None:
        for wait_s in ENSURE_WAITS_S:
            try:
                await self._peers.owner(segment).ask(request)
                return
            except (Unavailable, Unknown) as error:
                log.info("owner_request_retried", segment=str(segment), error=str(error))
            await asyncio.sleep(wait_s)
        await self._peers.owner(segment).ask(request)

    async def drained(self, segment: TopicName, subscription: SubscriptionLife, wait_s: float) -> bool:
        return (await self.acknowledged(segment, subscription, wait_s)).happened

    async def acknowledged(
        self, segment: TopicName, subscription: SubscriptionLife, wait_s: float
    ) -> topic_calls.Awaited:
        """Whether the segment is drained, or complete: it will be drained when its ancestors are."""
        request = topic_calls.AwaitDrained(op="drained", subscription=subscription, wait_s=wait_s)
        answer = await self._peers.owner(segment).ask(request)
        assert isinstance(answer, topic_calls.Awaited)
        return answer

    async def released(
        self,
        segment: TopicName,
        subscription: SubscriptionLife,
        wait_s: float,
        *,
        evict: str = "",
        keeps_acks: bool = False,
    ) -> bool:
        request = topic_calls.AwaitReleased(
            op="released", subscription=subscription, wait_s=wait_s, evict=evict, keeps_acks=keeps_acks
        )
        return _happened(await self._peers.owner(segment).ask(request))

    async def received(self, segment: TopicName, subscription: SubscriptionLife, consumer: str, wait_s: float) -> bool:
        """Whether this consumer, alone, has received everything of a sealed segment."""
        request = topic_calls.AwaitReceived(op="received", subscription=subscription, wait_s=wait_s, consumer=consumer)
        return _happened(await self._peers.owner(segment).ask(request))

    async def apply_acks(self, segment: TopicName, subscription: SubscriptionLife, seeks: int) -> bool:
        """All ancestors of a segment that was read early are done."""
        request = topic_calls.ApplyAcks(op="applied", subscription=subscription, seeks=seeks)
        return _happened(await self._peers.owner(segment).ask(request))

    async def load(self, segment: TopicName, interval_s: float) -> SegmentLoad:
        answer = await self._peers.owner(segment).ask(topic_calls.MeasureLoad(op="load", interval_s=interval_s))
        assert isinstance(answer, topic_calls.MeasuredLoad)
        return answer.load

    async def look(self, plain: TopicName, op: str, *, guard: bool = False) -> topic_calls.PlainFacts:
        """What a plain topic has; with `guard`, and keeps until its migration is over."""
        answer = await self._peers.owner(plain).ask(topic_calls.InspectPlainTopic(op=op, guard=guard))
        assert isinstance(answer, topic_calls.PlainFacts)
        return answer

    async def call(self, topic: TopicName, call: AskOwner) -> Event:
        request = call.request
        if isinstance(request, ResetCursor):
            request = replace(request, topic=topic.canonical)
        try:
            answer = await self._peers.owner(call.segment.topic(topic)).ask(request)
        except Fenced:
            return CallFenced(call.op, call)
        except MagnetarError as error:
            return _failed(topic, call, error)
        return _event(call, answer)


def _event(call: AskOwner, answer: topic_calls.Answer) -> Event:
    op, id = call.op, call.segment.id
    match call.request, answer:
        case _, Stale():
            return CallOvertaken(op, call)
        case Seal(), SealResult():
            bounds = answer.first_publish_ms, answer.last_publish_ms
            ending = Ending(answer.end, answer.messages, answer.size_bytes, *bounds)
            return ParentSealed(op, id, SealSummary(ending, answer.dedup, answer.fence))
        case Delete(), topic_calls.Deleted():
            return SegmentDeleted(op, id)
        case ProvisionSegment(subs_gen=subs_gen), topic_calls.Provisioned():
            return ChildProvisioned(op, id, subs_gen)
        case SeedDedup(), topic_calls.Seeded():
            return ChildSeeded(op, id)
        case Fence(), topic_calls.TermFenced(sealed=sealed):
            return ParentFenced(op, id, sealed)
        case PlaceCursor(), topic_calls.CursorPlacedReply():
            return CursorPlaced(op, id)
        case RemoveCursor(), topic_calls.CursorRemovedReply():
            return CursorRemoved(op, id)
        case ResetCursor(), topic_calls.CursorPlacedReply(drained=drained):
            return CursorReset(op, id, drained)
    raise AssertionError((call, answer))


def _failed(topic: TopicName, call: AskOwner, error: MagnetarError) -> Event:
    request = call.request
    if isinstance(error, TopicNotFound) and isinstance(request, LOOKED_AT):
        return CallOvertaken(call.op, call)
    if isinstance(error, REFUSABLE.get(type(request), ())) and not isinstance(error, PASSING):
        return CallRefused(call.op, call, str(error))
    log.warning("owner_call_failed", topic=str(topic), call=type(request).__name__, error=str(error))
    return CallLost(call.op, call)


def _happened(answer: topic_calls.Answer) -> bool:
    assert isinstance(answer, topic_calls.Awaited)
    return answer.happened
