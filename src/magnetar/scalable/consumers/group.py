"""Assigns the segments of a topic to the readers of one checkpoint group during one term.

It works as `coordinator.py` does for stream consumers, with two differences. A group has no cursors: its position is in
the hold of its record, and the checkpoints of its members move it. A segment is done when the hold says so; then its
children are assigned, and the new reader of a segment continues from that position (H-G5). A group of readers that keep
their own positions (Pulsar's client) has no hold. All its segments are assigned, parents and children alike, because
the broker cannot know when one is done. Readers leave no state on a segment, so a segment is free when no reader of the
group is attached.
"""

from __future__ import annotations

from dataclasses import replace

from magnetar.base.errors import SubscriptionNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import DRAINED_ASK_S
from magnetar.cluster.calls.topic_calls import SubscriptionLife
from magnetar.layout.layout import Layout
from magnetar.layout.readable_range import DONE
from magnetar.scalable.consumers.coordinator import Coordinator
from magnetar.scalable.machines import assign, drain, hold

NO_CURSOR = -1  # the life of a reader's subscription


class Group(Coordinator):
    async def _drained(self, event: drain.Event) -> None:
        await super()._drained(event)
        if isinstance(event, drain.LatchesStored):  # the hold may have moved
            await super()._drained(drain.PollDue())

    async def _ask_drained(self, segment: SegmentId, life: int, seeks: int) -> None:
        async with self._lock:
            held = self._kept.one.hold
            if held is not None and hold.place_in(held, self._layout, segment) == DONE:
                await self._drained(drain.SegmentDrained(segment, life, seeks))

    async def _ask_released(self, segment: SegmentId, consumer: str, evict: str = "") -> None:
        async def released() -> bool:
            try:
                return await self._term.context.segment_client.released(self._topic(segment), self._life, DRAINED_ASK_S)
            except SubscriptionNotFound:
                return True  # the segment has no reader

        if await self._until(released):
            async with self._lock:
                await self._planned(assign.SegmentReleased(segment, consumer))

    async def _reassign(self) -> None:
        has_hold = self._kept.one.hold is not None
        await self._planned(
            assign.InputsChanged(
                self._layout if has_hold else ungated(self._layout),
                frozenset(self._kept.one.latched),
                self._sessions.members,
                self._runtime.wall(),
                int(self._grace_s * 1000),
            )
        )

    @property
    def _life(self) -> SubscriptionLife:
        return SubscriptionLife(self.name, NO_CURSOR)


def ungated(layout: Layout) -> Layout:
    """The same segments, none before another."""
    return replace(layout, segments=tuple(replace(one, parents=(), children=()) for one in layout.segments))
