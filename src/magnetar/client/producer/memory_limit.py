"""Limits the messages of one client in flight, in bytes and number, over all its producers. Waiters are served in
order.

A message larger than the whole limit is admitted when no other message is in flight, so that it never waits forever.
"""

from __future__ import annotations

import asyncio
from collections import deque

from magnetar.base.limits import CLIENT_PENDING_BYTES_MAX, CLIENT_PENDING_MESSAGES_MAX


class MemoryLimit:
    """Used on the event loop. `bytes` and `messages` are the amounts in use."""

    def __init__(
        self, bytes_max: int = CLIENT_PENDING_BYTES_MAX, messages_max: int = CLIENT_PENDING_MESSAGES_MAX
    ) -> None:
        self.bytes_max = bytes_max
        self.messages_max = messages_max
        self.bytes = 0
        self.messages = 0
        self._line: deque[tuple[int, int, asyncio.Future[None]]] = deque()

    def take(self, size: int, messages: int = 1) -> bool:
        """Take room for one message, or for several that go together, if it is free and no earlier caller waits."""
        if self._line or not self._room(size):
            return False
        self.bytes += size
        self.messages += messages
        return True

    async def wait(self, size: int, messages: int = 1) -> None:
        """Wait for the turn of this caller and take the room. A cancelled call takes none."""
        if self.take(size, messages):
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (size, messages, granted)
        self._line.append(place)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                if place in self._line:
                    self._line.remove(place)
                self._grant()
            else:
                self.give(size, messages)  # granted and cancelled in the same turn of the loop
            raise

    def give(self, size: int, messages: int) -> None:
        self.bytes -= size
        self.messages -= messages
        self._grant()

    def _room(self, size: int) -> bool:
        return not self.messages or (self.messages < self.messages_max and self.bytes + size <= self.bytes_max)

    def _grant(self) -> None:
        while self._line and (self._line[0][2].cancelled() or self._room(self._line[0][0])):
            size, messages, granted = self._line.popleft()
            if not granted.cancelled():
                self.bytes += size
                self.messages += messages
                granted.set_result(None)
