"""Sends the calls of the machines to the owners of segments, and turns the answers into events.

A final refusal, a fenced call and an overtaken call have their own events. Any other error, a timeout included, is
`CallLost`: the call may have happened. The client looks the owner up at every call, and trusts `Peers` to deliver it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

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
from magnetar.base.ids import BEFORE_ALL
from magnetar.base.limits import CALLS_AT_ONCE_MAX
from magnetar.base.names import TopicName
from magnetar.cluster import peers
from magnetar.cluster.peers import Peers, Stale, SubscriptionLife
from magnetar.layout.layout import Child
from magnetar.layout.segment import Ending
from magnetar.observe.log import get
from magnetar.scalable.machines.effects import (
    CallFenced,
    CallLost,
    CallOvertaken,
    CallRefused,
    ChildProvisioned,
    ChildSeeded,
    CursorPlaced,
    CursorRemoved,
    CursorReset,
    DeleteSegment,
    Event,
    FenceParent,
    OwnerCall,
    ParentFenced,
    ParentSealed,
    Place,
    PlaceCursor,
    ProvisionChild,
    RemoveCursor,
    ResetCursor,
    Seal,
    SealParent,
    SeedChild,
    SegmentDeleted,
)

log = get("scalable")

# The owner's no is an answer to these. To the others there is only one way, and it is asked again.
REFUSABLE: dict[type[OwnerCall], type[MagnetarError] | tuple[type[MagnetarError], ...]] = {
    ProvisionChild: Refused,
    PlaceCursor: (TopicNotFound, SubscriptionNotFound),
    RemoveCursor: (TopicNotFound, SubscriptionNotFound),
    ResetCursor: (TopicNotFound, SubscriptionNotFound),
}
PASSING = (Closed, Moved)  # the segment is being unloaded or has another owner now: that one is asked
ENSURE_WAITS_S = (0.05, 0.2, 1.0, 3.0)  # between tries to make one segment of a new topic
# A segment that should be there and is not: the record says why.
LOOKED_AT = (SealParent, FenceParent, SeedChild)


class SegmentClient:
    def __init__(self, owners: Peers) -> None:
        self._peers = owners

    async def ensure(self, topic: TopicName, segments: Sequence[Child], *, incarnation: int) -> None:
        """Creates the segments that the record lists as active. An owner that does not answer is asked again; a segment
        that is still missing is created by its first use."""
        request = peers.EnsureSegment(op=f"create-{incarnation}", incarnation=incarnation)
        for start in range(0, len(segments), CALLS_AT_ONCE_MAX):
            batch = segments[start : start + CALLS_AT_ONCE_MAX]
            await asyncio.gather(*(self._ensure(one.topic(topic), request) for one in batch))

    async def _ensure(self, segment: TopicName, request: peers.EnsureSegment) -> None:
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

    async def acknowledged(self, segment: TopicName, subscription: SubscriptionLife, wait_s: float) -> peers.Awaited:
        """Whether the segment is drained, or complete: it will be drained when its ancestors are."""
        request = peers.AwaitDrained(op="drained", subscription=subscription, wait_s=wait_s)
        answer = await self._peers.owner(segment).ask(request)
        assert isinstance(answer, peers.Awaited)
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
        request = peers.AwaitReleased(
            op="released", subscription=subscription, wait_s=wait_s, evict=evict, keeps_acks=keeps_acks
        )
        return _happened(await self._peers.owner(segment).ask(request))

    async def received(self, segment: TopicName, subscription: SubscriptionLife, consumer: str, wait_s: float) -> bool:
        """Whether this consumer, alone, has received everything of a sealed segment."""
        request = peers.AwaitReceived(op="received", subscription=subscription, wait_s=wait_s, consumer=consumer)
        return _happened(await self._peers.owner(segment).ask(request))

    async def apply_acks(self, segment: TopicName, subscription: SubscriptionLife, seeks: int) -> bool:
        """All ancestors of a segment that was read early are done."""
        request = peers.ApplyAcks(op="applied", subscription=subscription, seeks=seeks)
        return _happened(await self._peers.owner(segment).ask(request))

    async def look(self, plain: TopicName, op: str, *, guard: bool = False) -> peers.PlainFacts:
        """What a plain topic has; with `guard`, and keeps until its migration is over."""
        answer = await self._peers.owner(plain).ask(peers.InspectPlainTopic(op=op, guard=guard))
        assert isinstance(answer, peers.PlainFacts)
        return answer

    async def call(self, topic: TopicName, call: OwnerCall, segment: Child) -> Event:
        """`segment`: whose owner is asked."""
        try:
            event = await self._call(topic, call, segment)
        except Fenced:
            return CallFenced(call.op, call)
        except MagnetarError as error:
            return _failed(topic, call, error)
        return CallOvertaken(call.op, call) if event is None else event

    async def _call(self, topic: TopicName, call: OwnerCall, segment: Child) -> Event | None:
        owner = self._peers.owner(segment.topic(topic))
        match call:
            case SealParent():
                sealed = await owner.seal(call.op, call.term)
                bounds = sealed.first_publish_ms, sealed.last_publish_ms
                ending = Ending(sealed.end, sealed.messages, sealed.size_bytes, *bounds)
                return ParentSealed(call.op, segment.id, Seal(ending, sealed.dedup, sealed.fence))
            case DeleteSegment():
                await owner.delete(call.op, call.term, force=True)
                return SegmentDeleted(call.op, segment.id)
        answer = await owner.ask(_request(topic, call))
        if isinstance(answer, Stale):
            return None
        match call:
            case ProvisionChild():
                return ChildProvisioned(call.op, segment.id, call.subs_gen)
            case SeedChild():
                return ChildSeeded(call.op, segment.id)
            case FenceParent():
                assert isinstance(answer, peers.TermFenced)
                return ParentFenced(call.op, segment.id, answer.sealed)
            case PlaceCursor():
                return CursorPlaced(call.op, segment.id)
            case RemoveCursor():
                return CursorRemoved(call.op, segment.id)
            case ResetCursor():
                assert isinstance(answer, peers.CursorPlacedReply)
                return CursorReset(call.op, segment.id, answer.drained)


def _request(
    topic: TopicName, call: ProvisionChild | SeedChild | FenceParent | PlaceCursor | RemoveCursor | ResetCursor
) -> peers.SegmentRequest:
    match call:
        case ProvisionChild():
            cursors = tuple(SubscriptionLife(one.name, one.life, one.properties) for one in call.subscriptions)
            return peers.ProvisionSegment(
                op=call.op, term=call.term, incarnation=call.incarnation, subs_gen=call.subs_gen, cursors=cursors
            )
        case SeedChild():
            dedups = tuple(seal.dedup for _, seal in call.seals)
            fence = max(seal.fence for _, seal in call.seals)
            return peers.SeedDedup(op=call.op, term=call.term, incarnation=call.incarnation, dedups=dedups, fence=fence)
        case FenceParent():
            return peers.Fence(op=call.op, term=call.term, incarnation=call.incarnation)
        case PlaceCursor():
            subscription = SubscriptionLife(call.subscription, call.life)
            at_end = call.place is Place.END
            return peers.PlaceCursor(op=call.op, incarnation=call.incarnation, subscription=subscription, at_end=at_end)
        case RemoveCursor():
            subscription = SubscriptionLife(call.subscription, call.life)
            return peers.RemoveCursor(op=call.op, incarnation=call.incarnation, subscription=subscription)
        case ResetCursor():
            stop = call.stop
            return peers.ResetCursor(
                op=call.op,
                topic=topic.canonical,
                subscription=SubscriptionLife(call.subscription, call.life),
                seeks=call.seeks,
                position=stop.position or BEFORE_ALL,
                time_ms=stop.time_ms,
                by_time=stop.position is None,
            )


def _failed(topic: TopicName, call: OwnerCall, error: MagnetarError) -> Event:
    if isinstance(error, TopicNotFound) and isinstance(call, LOOKED_AT):
        return CallOvertaken(call.op, call)
    if isinstance(error, REFUSABLE.get(type(call), ())) and not isinstance(error, PASSING):
        return CallRefused(call.op, call, str(error))
    log.warning("owner_call_failed", topic=str(topic), call=type(call).__name__, error=str(error))
    return CallLost(call.op, call)


def _happened(answer: peers.SegmentAnswer) -> bool:
    assert isinstance(answer, peers.Awaited)
    return answer.happened
