"""One thread that does blocking work in order, and hands each result back to the loop that asked.

A queue and `call_soon_threadsafe` and nothing else: measured beside an executor it saves 10 us of 80 a round trip on
asyncio and 40 of 60 on uvloop, which matters when every durable append makes one. The thread starts with the first
piece of work. Work that was begun is finished even if nobody waits for it any more: a caller that was cancelled does
not undo a write.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from magnetar.base.errors import Closed

T = TypeVar("T")
Item = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]


class SerialWorker:
    """Used from the loop's thread; `close` waits for the work queued before it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._queue: SimpleQueue[Item | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if self._closed:
            raise Closed(f"the lane {self.name} is closed")
        if self._thread is None:
            # A daemon so that a forgotten `close` cannot hang the interpreter's end; the runtime joins it at exit all
            # the same.
            self._thread = threading.Thread(target=_work, args=(self._queue,), name=self.name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put((work, future, loop))
        return future

    def close(self) -> None:
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()

    def drop(self) -> None:
        """As when the process dies: what was not begun is never done, and nobody hears of it. `close` comes next."""
        self._closed = True
        while not self._queue.empty():
            try:
                self._queue.get_nowait()
            except Empty:  # the thread was quicker
                break


def _work(queue: SimpleQueue[Item | None]) -> None:
    while (item := queue.get()) is not None:
        work, future, loop = item
        result: Any = None
        error: BaseException | None = None
        try:
            result = work()
        except StopIteration as stop:  # a future refuses this one: it would end the coroutine that awaits it
            error = RuntimeError(f"work raised {stop!r}")
        except BaseException as raised:  # handed to whoever awaits the future; the lane itself must go on
            error = raised
        try:
            loop.call_soon_threadsafe(_complete, future, result, error)
        except RuntimeError:
            pass  # the loop was closed meanwhile: there is nobody left to tell
        item = work = future = loop = result = error = None  # type: ignore[assignment]  # hold no buffers while waiting


def _complete(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
