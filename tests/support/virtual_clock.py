"""An event loop whose clock jumps to the next timer when nothing is ready, so that no test waits and none hangs.

There are no sockets: a listener is a listener in name only. What nobody can ever wake is an error at once.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any


class Stuck(AssertionError):
    """Nothing is ready and no timer is set: whoever waits, waits for ever."""


class Idle(selectors.SelectSelector):
    """No descriptor is ever ready; waiting moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("nothing is ready and no timer is set")
        self.now += max(0.0, timeout)
        return []


class ClockLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._idle = Idle()
        self.longest_s = 0.0  # of all turns, in processor time of this thread: a busy machine does not lengthen it
        super().__init__(self._idle)

    def _run_once(self) -> None:
        began = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        self.longest_s = max(self.longest_s, time.thread_time() - began)

    def time(self) -> float:
        return self._idle.now

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:
        return Listener()


class Listener:
    """Nobody can connect: a test feeds connections by hand."""

    def __init__(self) -> None:
        self.sockets = (self,)

    def getsockname(self) -> tuple[str, int]:
        return ("nowhere", 6650)

    async def start_serving(self) -> None:
        pass

    def close(self) -> None:
        pass

    async def wait_closed(self) -> None:
        pass


@asynccontextmanager
async def no_turn_longer(limit_s: float) -> AsyncIterator[None]:
    """Fails where a turn of the loop takes more processor time. Without the garbage of other tests: nothing is
    collected meanwhile.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ClockLoop)
    gc.disable()
    try:
        await asyncio.sleep(0)  # what was done before, in this turn, is not meant
        loop.longest_s = 0.0
        yield
        await asyncio.sleep(0)
        assert loop.longest_s < limit_s, f"a turn of the loop took {loop.longest_s:.3f} s"
    finally:
        gc.enable()


async def settle(turns: int = 50) -> None:
    """Let everything that is ready run."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def pass_s(seconds: float) -> None:
    """The clock moves, and everything that is due by then has run."""
    loop = asyncio.get_running_loop()
    reached = loop.create_future()
    loop.call_later(seconds, reached.set_result, None)
    await reached
    await settle()


def run_on_clock(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """The story on a virtual clock. An exception in a task or callback that nobody looked at fails it."""
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        await body()
        await settle()

    with asyncio.Runner(loop_factory=ClockLoop) as runner:
        runner.run(main())
    assert not complaints, complaints
