"""How fast one connection creates topics by using them.

A new topic is a record on the disk and an object in memory, and costs a client one command. A connection has a burst
for an application that starts, and then a rate. Beyond it a request waits for its turn: clients that take
TooManyRequests for final then see a slow answer and no error. A request that would wait too long is refused with
ServiceNotReady, which stock clients repeat. Creation over REST is the explicit act of an administrator and has no rate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from magnetar.base.errors import Throttled
from magnetar.base.limits import CREATION_WAIT_S_MAX, CREATIONS_BURST_MAX, CREATIONS_PER_S_MAX
from magnetar.cluster.topics import free
from magnetar.observe.log import get

log = get("connection")

T = TypeVar("T")


class CreationRate:
    """Of one connection. Used on the loop."""

    __slots__ = ("_at", "_peer", "_room")

    def __init__(self, peer: Callable[[], str]) -> None:
        self._peer = peer
        self._room = float(CREATIONS_BURST_MAX)  # below zero: turns that waiting requests have reserved
        self._at: float | None = None

    async def paced(self, work: Callable[..., Awaitable[T]]) -> T:
        """`work(charge=...)`, and once more in its turn where it must wait. It creates one topic at most."""
        try:
            return await work(charge=self._take)
        except _NotYet:
            await asyncio.sleep(self._reserve())
        return await work(charge=free)

    def _take(self) -> None:
        if self._refill() < 1:
            raise _NotYet("this connection creates topics too fast")
        self._room -= 1

    def _reserve(self) -> float:
        """Seconds until the turn."""
        room = self._refill()
        wait_s = (1 - room) / CREATIONS_PER_S_MAX
        if wait_s > CREATION_WAIT_S_MAX:
            rate = f"more than {CREATIONS_PER_S_MAX} topics in a second"
            # TooManyRequests is final for some stock clients.
            raise Throttled(f"this connection creates {rate}: create them more slowly, or over REST", wire_code=6)
        if room >= 0:
            log.info("topic_creation_slowed", peer=self._peer(), topics_per_s_max=CREATIONS_PER_S_MAX)
        self._room -= 1
        return max(wait_s, 0.0)

    def _refill(self) -> float:
        now = asyncio.get_running_loop().time()
        if self._at is not None:
            self._room = min(CREATIONS_BURST_MAX, self._room + (now - self._at) * CREATIONS_PER_S_MAX)
        self._at = now
        return self._room


class _NotYet(Throttled):
    """The request waits for its turn. No client sees it."""
