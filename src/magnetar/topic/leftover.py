"""What a seal cut short: chunks of messages whose last chunk is not in the segment (H-E8).

Their producer sends the whole message again, into a child. Nobody can put these chunks together, so nobody would ever
acknowledge them, and the segment would never be drained: its children would wait for it for good. When such chunks are
all that a subscription has left of a sealed segment, they are acknowledged for it. Nothing else is touched: a message
that can be put together keeps everything as it is.
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
    from magnetar.topic.subscription import Subscription

log = get("subscription")


class Leftover:
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

    async def _unfinished(self, end: Position) -> list[Position] | None:
        """All that is unacknowledged, if it is chunks of messages that do not end here; nothing otherwise. None: it
        cannot be read now."""
        subscription = self._subscription
        managed = subscription.topic.managed
        found: list[Position] = []
        position = subscription.start()
        while position <= end:
            try:
                run = await managed.read(position, 1, 1)
            except MagnetarError as error:
                log.info("end not looked at", topic=managed.path, subscription=subscription.name, why=str(error))
                return None
            if run is None or run.position(0) != position or not _begun(run.entry(0)):
                self._awaited = position
                return []
            found.append(position)
            position = subscription.cursor.next_unacked(managed.after(position))
        return found


def _begun(data: bytes) -> bool:
    """Is it a chunk that is not the last of its message? Whoever has the last one, unacknowledged, has the message."""
    try:
        chunk = entry.chunk(data)
    except Corrupt:
        return False
    return chunk is not None and chunk[1] < chunk[2] - 1
