"""A loop whose clock jumps to the next timer when nothing is ready: waiting costs no time and is the same twice."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
TURN_S = 0.01  # how far a wait for something without an event of its own lets the clock go on
LIFE_S_MAX = 3_600.0


class Idle(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing is ready and no timer is set: whoever waits, waits for ever"
        assert self.now < LIFE_S_MAX, "only timers ring: whoever waits, waits for ever"
        self.now += max(0.0, timeout)
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._idle = Idle()
        super().__init__(self._idle)

    def time(self) -> float:
        return self._idle.now


def here() -> bool:
    return isinstance(asyncio.get_running_loop(), JumpingLoop)


async def rest(seconds: float) -> None:
    """The clock goes on; nobody really waits."""
    passed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, passed.cancel)
    await asyncio.wait([passed])


def run(body: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(body)
