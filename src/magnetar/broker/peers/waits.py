"""The calls of other brokers that wait here for an event. A broker that stops answers all of them immediately.

Without this the stop would wait for each of them, up to half a minute, and then cut it. The callers ask the next owner
of the topic. `stop` is final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from magnetar.base.errors import NotReady

T = TypeVar("T")


class PeerWaits:
    """Used on the loop."""

    def __init__(self) -> None:
        self._waits: dict[asyncio.Timeout, None] = {}
        self._stopped = False

    def __len__(self) -> int:
        return len(self._waits)

    async def answer(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `work`. NotReady: the broker stops."""
        if self._stopped:
            raise _stops()
        wait = asyncio.timeout(None)
        try:
            async with wait:
                self._waits[wait] = None
                return await work()
        except TimeoutError:
            if not wait.expired():
                raise
            raise _stops() from None
        finally:
            self._waits.pop(wait, None)

    def stop(self) -> None:
        self._stopped = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            wait.reschedule(now)


def _stops() -> NotReady:
    return NotReady("the broker stops: ask the next owner of the topic")
