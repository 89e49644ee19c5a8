"""Acknowledges messages in chunks that a seal cut short: not all of their chunks are in the segment (H-E8).

Their producer sends the whole message again, into a child; or a subscription began, or was moved, between two chunks.
No consumer can assemble such a message, so none would acknowledge its chunks. The segment would never be drained, and
its children would wait permanently. If a subscription has only such chunks left of a sealed segment, this class
acknowledges them for it. It changes nothing else: as long as one message can be assembled, all chunks stay. It ignores
readers: they acknowledge each chunk when it comes, and the last one when the message was taken.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.base.errors import Corrupt, MagnetarError
from magnetar.base.ids import Position
from magnetar.base.limits import LEFTOVER_AGAIN_S
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

    async def _look(self, end: Position) -> None:
        subscription = self._subscription
        topic = subscription.topic
        try:
            positions = await self._unfinished(end)
            while positions is None:
                await asyncio.sleep(LEFTOVER_AGAIN_S)  # possibly no further event starts another check
                positions = await self._unfinished(end)
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

    async def _unfinished(self, end: Position) -> list[Position] | None:
        """All that is unacknowledged, if it is chunks of which no message can be made; nothing otherwise. None: it
        cannot be read now."""
        subscription = self._subscription
        managed = subscription.topic.managed
        positions: list[Position] = []
        parts: dict[str, int] = {}  # by message, the number of chunks present from the first one on
        try:
            if not subscription.cursor.is_acked(end) and await self._chunk(end) is None:
                self._awaited = end  # most end so: what is acknowledged in order need not be looked at each time
                return []
            position = subscription.start()
            while position <= end:
                chunk = await self._chunk(position)
                uuid, place, chunks = chunk if chunk is not None else ("", 0, 1)
                parts[uuid] = place + 1 if place in (0, parts.get(uuid)) else parts.get(uuid, 0)
                if parts[uuid] == chunks:
                    self._awaited = position
                    return []
                positions.append(position)
                position = subscription.cursor.next_unacked(managed.after(position))
        except MagnetarError as error:
            log.info(
                "incomplete_chunks_check_failed", topic=managed.path, subscription=subscription.name, why=str(error)
            )
            return None
        return positions

    async def _chunk(self, position: Position) -> tuple[str, int, int] | None:
        """As which of how many chunks of which message an entry came; None: it is a message by itself, or gone."""
        run = await self._subscription.topic.managed.read(position, 1, 1)
        if run is None or run.position(0) != position:
            return None
        try:
            return entry.chunk(run.entry(0))
        except Corrupt:
            return None
