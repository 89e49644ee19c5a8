"""Acknowledges messages in chunks that a seal cut short: not all of their chunks are in the segment (H-E8).

Their producer sends the whole message again, into a child; or a subscription began, or was moved, between two chunks.
No consumer can assemble such a message, so none would acknowledge its chunks. The segment would never be drained, and
its children would wait permanently. If a subscription has only such chunks left of a sealed segment, this class
acknowledges them for it. It changes nothing else: as long as one message can be assembled, all chunks stay. It ignores
readers: they acknowledge each chunk when it comes, and the last one when the message was taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.base.errors import Corrupt, MagnetarError
from magnetar.base.ids import Position
from magnetar.base.limits import LEFTOVER_AGAIN_S, POSITIONS_PASSED_MAX
from magnetar.observe.log import get
from magnetar.wire import entry

if TYPE_CHECKING:
    from magnetar.topic.subscriptions.subscription import Subscription

log = get("subscription")


class IncompleteChunks:
    """One for each subscription."""

    __slots__ = ("_awaited", "_looking", "_subscription")

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._awaited: Position | None = None  # an assemblable message: the check waits until it is acknowledged
        self._looking = False

    def look(self) -> None:
        """Something was acknowledged, sealed, or asked about: is anything left that can be consumed?"""
        subscription = self._subscription
        topic, cursor = subscription.topic, subscription.cursor
        if self._looking or topic.managed.terminated is None or topic.part_of is None or not cursor.backlog:
            return
        if not cursor.durable:
            return
        if self._awaited is None or cursor.is_acked(self._awaited):
            self._looking = True
            topic.runtime.spawn(topic.owner, self._look(topic.managed.terminated))

    async def only(self, end: Position) -> bool:
        """Whether consumers have acknowledged everything except such chunks, also before the ancestors of the segment
        are done (H-F20). False: perhaps, but it cannot be read now."""
        early = self._subscription.early
        left = await self._unfinished(end, self._subscription.is_acked)
        # Acknowledgements that were dropped during the check count for nothing.
        return left is not None and left[1] is None and self._subscription.early is early

    async def _look(self, end: Position) -> None:
        subscription = self._subscription
        topic = subscription.topic
        try:
            left_over = await self._unfinished(end, subscription.cursor.is_acked)
            while left_over is None:
                await asyncio.sleep(LEFTOVER_AGAIN_S)  # possibly no further event starts another check
                left_over = await self._unfinished(end, subscription.cursor.is_acked)
            positions, message = left_over
            if message is not None:
                self._awaited = message
                positions = []
        finally:
            self._looking = False
        left = [(one, None) for one in positions if not subscription.cursor.is_acked(one)]
        if left and len(left) == subscription.backlog:  # else a seek moved it back in between
            log.info(
                "incomplete_chunks_acknowledged",
                topic=str(topic.name),
                subscription=subscription.name,
                chunks=len(left),
            )
            subscription.ack(None, list(left))
        elif self._awaited is not None and subscription.cursor.is_acked(self._awaited):
            self.look()  # the acknowledgement came during the check

    async def _unfinished(
        self, end: Position, is_acked: Callable[[Position], bool]
    ) -> tuple[list[Position], Position | None] | None:
        """The unacknowledged positions before the first message that can be assembled, and that message. Without such
        a message: all chunks that belong to no complete message. None: the entries cannot be read now."""
        subscription = self._subscription
        cursor, managed = subscription.cursor, subscription.topic.managed
        positions: list[Position] = []
        parts: dict[str, int] = {}  # by message, the number of chunks present from the first one on
        try:
            if not is_acked(end) and await self._chunk(end) is None:
                return [], end  # the common case: nothing before the end is read
            position = subscription.start()
            passed = 0
            while position <= end:
                passed += 1
                if passed % POSITIONS_PASSED_MAX == 0:
                    await asyncio.sleep(0)  # early acknowledgements are passed one by one, up to their maximum
                if not is_acked(position):
                    chunk = await self._chunk(position)
                    uuid, place, chunks = chunk if chunk is not None else ("", 0, 1)
                    parts[uuid] = place + 1 if place in (0, parts.get(uuid)) else parts.get(uuid, 0)
                    if parts[uuid] == chunks:
                        return positions, position
                    positions.append(position)
                position = cursor.next_unacked(managed.after(position))
        except MagnetarError as error:
            log.info(
                "incomplete_chunks_check_failed", topic=managed.path, subscription=subscription.name, why=str(error)
            )
            return None
        return positions, None

    async def _chunk(self, position: Position) -> tuple[str, int, int] | None:
        """As which of how many chunks of which message an entry came; None: it is a message by itself, or gone."""
        run = await self._subscription.topic.managed.read(position, 1, 1)
        if run is None or run.position(0) != position:
            return None
        try:
            return entry.chunk(run.entry(0))
        except Corrupt:
            return None
