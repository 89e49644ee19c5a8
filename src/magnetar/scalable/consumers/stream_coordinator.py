"""Lets stream consumers read ahead of their acknowledgements: asks owners what `read_ahead.py` has to know.

A question for each condition: has the holder of a sealed segment received all of it; is that so still after the
proposal was stored; has the reader left an ancestor; are the acknowledgements of a segment applied whose ancestors are
done. What comes back is an event for `assign.py`. Nothing is remembered over a failover: a new controller asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.base.limits import DRAINED_ASK_S, READ_AHEAD_LEAVE_S, READ_AHEAD_WAIT_S
from magnetar.observe.log import get
from magnetar.scalable.consumers.coordinator import Coordinator
from magnetar.scalable.machines import assign, drain, read_ahead
from magnetar.scalable.record.subscription import Early, Hold, Subscription

if TYPE_CHECKING:
    from magnetar.scalable.leader import term

log = get("controller")


class StreamCoordinator(Coordinator):
    def __init__(self, leading: term.Term, subscription: Subscription, version: int) -> None:
        super().__init__(leading, subscription, version)
        self._received: dict[SegmentId, str] = {}  # sealed segments, and who has received everything of them
        self._received_seeks = subscription.seeks

    def _received_by(self) -> Mapping[SegmentId, str]:
        if self._received_seeks != self._kept.one.seeks:  # it was moved: all of it is delivered again
            self._received_seeks = self._kept.one.seeks
            self._received.clear()
        return dict(self._received)

    def _forget_received(self, holds: tuple[Hold, ...]) -> None:
        """A consumer receives a segment again after its hold ended: the answer counts for one hold only. A stale answer
        would keep the question from being asked, and segments behind it would never be assigned (H-F20)."""
        reading = {
            hold.segment: hold.holder
            for hold in holds
            if not hold.moving and not hold.sharers and hold.early in (Early.NO, Early.GRANTED)
        }
        self._received = {
            segment: consumer for segment, consumer in self._received.items() if reading.get(segment) == consumer
        }

    def _ask_more(self, holds: tuple[Hold, ...]) -> None:
        self._forget_received(holds)
        by_segment = {hold.segment: hold for hold in holds}
        latched = frozenset(self._kept.one.latched)
        early = any(hold.early is not Early.NO for hold in holds)
        ancestry = read_ahead.unfinished_ancestors(self._layout, latched, by_segment) if early else {}
        for segment, consumer in read_ahead.watched(holds, ancestry).items():
            self._ask(("left", segment, consumer), partial(self._ask_left, segment, consumer))
        for hold in holds:
            if hold.moving or hold.sharers or not hold.holder:
                continue
            segment, consumer = hold.segment, hold.holder
            if hold.early is Early.PROPOSED:
                work = partial(self._ask_confirmed, segment, consumer, sorted(ancestry.get(segment, ())))
                self._ask(("confirmed", segment, consumer), work)
                continue
            if hold.early is Early.GRANTED and segment not in ancestry:
                self._ask(("applied", segment, consumer), partial(self._ask_applied, segment, consumer))
            if self._may_receive(segment) and self._received.get(segment) != consumer:
                self._ask(("received", segment, consumer), partial(self._ask_received, segment, consumer))

    def _may_receive(self, segment: SegmentId) -> bool:
        """Sealed, with children. A plain topic that was migrated is not read ahead of."""
        if segment not in self._layout:
            return False
        parent = self._layout.segment(segment)
        return not parent.is_active and bool(parent.children) and not parent.legacy_topic

    def _holds(self, segment: SegmentId, consumer: str) -> bool:
        return any(
            hold.segment == segment and hold.holder == consumer == hold.target and not hold.sharers
            for hold in self._assign.plan.holds
        )

    async def _ask_received(self, segment: SegmentId, consumer: str) -> None:
        """A segment that is acknowledged immediately is not read ahead of, because it is drained a moment later. An
        answer from before a seek does not count, and the question is asked again."""
        segment_client = self._term.context.segment_client

        async def received() -> bool:
            if not self._holds(segment, consumer):
                return True
            return await segment_client.received(self._topic(segment), self._life, consumer, DRAINED_ASK_S)

        while True:
            seeks = self._kept.one.seeks
            if not await self._until(received):
                return
            await asyncio.sleep(READ_AHEAD_WAIT_S)
            async with self._lock:
                if not self._holds(segment, consumer):
                    return
                if seeks == self._kept.one.seeks:
                    self._received[segment] = consumer
                    await self._reassign()
                    return

    async def _ask_confirmed(self, segment: SegmentId, consumer: str, ancestors: list[SegmentId]) -> None:
        segment_client = self._term.context.segment_client
        lost: SegmentId | None = None
        for ancestor in ancestors:
            try:
                if await segment_client.received(self._topic(ancestor), self._life, consumer, 0.0):
                    continue
            except MagnetarError as error:
                log.debug("owner_request_failed", topic=str(self._term.name), subscription=self.name, error=str(error))
            lost = ancestor
            break
        async with self._lock:
            if lost is None:
                await self._planned(assign.EarlyConfirmed(segment, consumer))
            else:
                self._received.pop(lost, None)
                await self._planned(assign.EarlyRefused(segment, consumer))

    async def _ask_left(self, segment: SegmentId, consumer: str) -> None:
        """No consumer may attach while descendants are read early. So if none is attached, the reader has left. If it
        had acknowledged the whole segment, no message is redelivered, and the segment drains after its ancestors."""
        segment_client, subscription = self._term.context.segment_client, self._kept.one

        async def left() -> bool:
            if not self._watches(segment, consumer):
                return True
            return await segment_client.released(self._topic(segment), self._life, DRAINED_ASK_S)

        drained = False

        async def decided() -> bool:
            nonlocal drained
            if not self._watches(segment, consumer):
                return True
            answer = await segment_client.acknowledged(self._topic(segment), self._life, READ_AHEAD_WAIT_S)
            drained = answer.happened
            return answer.happened or not answer.complete

        if not await self._until(left) or not await self._until(decided):
            return
        async with self._lock:
            if drained:
                await self._drained(drain.SegmentDrained(segment, subscription.life, subscription.seeks))
            elif self._watches(segment, consumer):
                await self._lost(segment)

    def _watches(self, segment: SegmentId, consumer: str) -> bool:
        holds = self._assign.plan.holds
        ancestry = read_ahead.unfinished_ancestors(
            self._layout, frozenset(self._kept.one.latched), {hold.segment: hold for hold in holds}
        )
        return read_ahead.watched(holds, ancestry).get(segment) == consumer

    async def _lost(self, ancestor: SegmentId) -> None:
        self._received.pop(ancestor, None)
        self._runtime.mark("read_ahead.ended", topic=str(self._term.name), subscription=self.name, segment=ancestor)
        await self._planned(assign.AncestorLost(ancestor, self._layout))

    def _departed(self, consumer: str) -> None:
        """One that read ahead has left. It closes its segments by itself; where it does not, others would wait."""
        if self._sessions.find(consumer) is not None:
            return
        for hold in self._assign.plan.holds:
            if hold.holder == consumer and self._watches(hold.segment, consumer):
                self._ask(("evicted", hold.segment, consumer), partial(self._evict_later, hold.segment, consumer))

    async def _evict_later(self, segment: SegmentId, consumer: str) -> None:
        await asyncio.sleep(READ_AHEAD_LEAVE_S)
        if self._sessions.find(consumer) is None and self._watches(segment, consumer):
            await self._evict(segment, consumer)

    async def _ask_applied(self, segment: SegmentId, consumer: str) -> None:
        segment_client = self._term.context.segment_client
        while True:
            seeks = self._kept.one.seeks
            if not await self._until(partial(segment_client.apply_acks, self._topic(segment), self._life, seeks)):
                return
            async with self._lock:
                if seeks == self._kept.one.seeks:
                    await self._planned(assign.AcksApplied(segment, consumer))
                    await self._reassign()
                    return
                if not self._is_applicable(segment, consumer):
                    return

    def _is_applicable(self, segment: SegmentId, consumer: str) -> bool:
        """Whether the consumer still holds the segment early, and nothing before it is left."""
        by_segment = {hold.segment: hold for hold in self._assign.plan.holds}
        hold = by_segment.get(segment)
        if hold is None or hold.early is not Early.GRANTED or hold.holder != consumer:
            return False
        latched = frozenset(self._kept.one.latched)
        return segment not in read_ahead.unfinished_ancestors(self._layout, latched, by_segment)
