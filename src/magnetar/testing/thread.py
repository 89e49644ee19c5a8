"""A thread with its own event loop, for a broker beside the test code.

It uses uvloop if installed, else asyncio. Work comes from any thread and runs in order; its future completes in the
thread. The thread is a daemon, so that an aborted test run cannot hang on it.
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
    """`make_loop` creates the loop in the thread. Default: uvloop or asyncio."""

    def __init__(self, name: str, make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._make_loop = make_loop
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Queue[Item | None]]] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._loop, self._queue = self._started.result()

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Runs it after earlier work. The future cannot be cancelled: started work always finishes."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (work, future))
        return future

    def call(self, work: Callable[[], object]) -> None:
        """Runs it between two steps of the running work, without waiting."""
        self._loop.call_soon_threadsafe(work)

    def close(self, timeout_s: float) -> bool:
        """Ends after all submitted work, and waits for this. False: it did not end in time."""
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)
        except RuntimeError:  # already closed
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
            self._started.set_exception(error)  # passed to the creator instead

    async def _serve(self) -> None:
        queue: asyncio.Queue[Item | None] = asyncio.Queue()
        self._started.set_result((asyncio.get_running_loop(), queue))
        while (item := await queue.get()) is not None:
            work, future = item
            try:
                result = await work()
            except BaseException as error:  # belongs to the future of this work
                future.set_exception(error)
            else:
                future.set_result(result)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop
    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_loop
