"""A bound on the producers and consumers that attach in one turn of the loop.

Hundreds of requests may wait for one topic to load, and all of them continue in the turn in which it is loaded.
Attaching costs up to half a millisecond each, so requests beyond the bound wait for later turns, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque

from magnetar.base.limits import ATTACH_TURN_MAX


class AttachRate:
    """Used on the loop."""

    def __init__(self, per_turn_max: int = ATTACH_TURN_MAX) -> None:
        self._max = per_turn_max
        self._left = per_turn_max
        self._waiting: deque[asyncio.Future[None]] = deque()  # bounded by the requests of all connections
        self._turning = False

    async def step(self) -> None:
        """Returns immediately while this turn has room, otherwise in one of the next turns."""
        self._turn()
        if self._left and not self._waiting:
            self._left -= 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def _turn(self) -> None:
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._turning = False
        self._left = self._max
        while self._waiting and self._left:
            future = self._waiting.popleft()
            if not future.done():  # else it was cancelled
                self._left -= 1
                future.set_result(None)
        if self._waiting:
            self._turn()
