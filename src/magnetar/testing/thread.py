"""A thread with an event loop of its own, in which a broker lives beside the code that tests against it.

uvloop where it is installed, else asyncio. Work is given from any thread and done in order; its future completes in the
thread, whoever waits. The thread is a daemon, so that a test run that is torn down cannot hang on it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
Item = tuple[Callable[[], Coroutine[Any, Any, Any]], "Future[Any]"]


class LoopThread:
    """`make_loop` makes the loop, in the thread; without it uvloop or asyncio does."""

    def __init__(self, name: str, make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._make_loop = make_loop
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Queue[Item | None]]] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._loop, self._queue = self._started.result()

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run it after what was submitted before. The future cannot be cancelled: what is begun is finished."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (work, future))
        return future

    def call(self, work: Callable[[], object]) -> None:
        """Between two steps of what runs there, without waiting for it."""
        self._loop.call_soon_threadsafe(work)

    def close(self, timeout_s: float) -> bool:
        """End after what was submitted before, and wait for that. False: it did not end in time."""
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)
        except RuntimeError:  # closed already
            pass
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._make_loop or _loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # whoever made us is told instead

    async def _serve(self) -> None:
        queue: asyncio.Queue[Item | None] = asyncio.Queue()
        self._started.set_result((asyncio.get_running_loop(), queue))
        while (item := await queue.get()) is not None:
            work, future = item
            try:
                result = await work()
            except BaseException as error:  # belongs to whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made
