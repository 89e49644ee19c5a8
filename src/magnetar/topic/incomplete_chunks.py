"""What a seal cut short: chunks of messages that are not in the segment as a whole (H-E8).

Their producer sends the whole message again, into a child; or a subscription began, or was moved, between two chunks.
Nobody can put these together, so nobody would ever acknowledge them, and the segment would never be drained: its
children would wait for it for good. When such chunks are all that a subscription has left of a sealed segment, they are
acknowledged for it. Nothing else is touched: a message that can be put together keeps everything as it is. Readers are
left alone: they say of each chunk that it came, and of the last one when the message was taken.
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
        self._awaited: Position | None = None  # somebody has to acknowledge this one: until then there is no question
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
            found = await self._unfinished(end)
            while found is None:
                await asyncio.sleep(LEFTOVER_AGAIN_S)  # nobody may come by any more
                found = await self._unfinished(end)
        finally:
            self._looking = False
        left = [(one, None) for one in found if not subscription.cursor.is_acked(one)]
        if left and len(left) == subscription.backlog:  # else it was moved back meanwhile
            log.info("chunks left out", topic=str(topic.name), subscription=subscription.name, chunks=len(left))
            subscription.ack(None, list(left))
        elif self._awaited is not None and subscription.cursor.is_acked(self._awaited):
            self.look()  # that came meanwhile

    async def _unfinished(self, end: Position) -> list[Position] | None:
        """All that is unacknowledged, if it is chunks of which no message can be made; nothing otherwise. None: it
        cannot be read now."""
        subscription = self._subscription
        managed = subscription.topic.managed
        found: list[Position] = []
        parts: dict[str, int] = {}  # of messages, how many chunks are there from the first one on
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
                found.append(position)
                position = subscription.cursor.next_unacked(managed.after(position))
        except MagnetarError as error:
            log.info("end not looked at", topic=managed.path, subscription=subscription.name, why=str(error))
            return None
        return found

    async def _chunk(self, position: Position) -> tuple[str, int, int] | None:
        """As which of how many chunks of which message an entry came; None: it is a message by itself, or gone."""
        run = await self._subscription.topic.managed.read(position, 1, 1)
        if run is None or run.position(0) != position:
            return None
        try:
            return entry.chunk(run.entry(0))
        except Corrupt:
            return None
