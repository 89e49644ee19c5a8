"""One thread that runs blocking work in order and returns each result to the calling loop.

It uses only a queue and `call_soon_threadsafe`. Compared with an executor, a round trip takes 10 us less of 80 on
asyncio and 40 less of 60 on uvloop; every durable append makes one. The thread starts with the first work item. Started
work always finishes, even if its caller was cancelled: cancellation does not undo a write.
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
    """Used from the loop's thread; `close` waits for all queued work."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._queue: SimpleQueue[Item | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if self._closed:
            raise Closed(f"the lane {self.name} is closed")
        if self._thread is None:
            # A daemon, so that a missing `close` cannot block the interpreter's exit; the runtime joins the thread
            # anyway.
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
        """Simulates the death of the process: unstarted work never runs, and its futures never complete. `close` must
        follow.
        """
        self._closed = True
        while not self._queue.empty():
            try:
                self._queue.get_nowait()
            except Empty:  # the thread took the last item
                break


def _work(queue: SimpleQueue[Item | None]) -> None:
    while (item := queue.get()) is not None:
        work, future, loop = item
        result: Any = None
        error: BaseException | None = None
        try:
            result = work()
        except StopIteration as stop:  # a future rejects this exception, because it would end the awaiting coroutine
            error = RuntimeError(f"work raised {stop!r}")
        except BaseException as raised:  # passed to the awaiting caller; the lane itself must continue
            error = raised
        try:
            loop.call_soon_threadsafe(_complete, future, result, error)
        except RuntimeError:
            pass  # the loop was closed in between: the result has no receiver
        item = work = future = loop = result = error = None  # type: ignore[assignment]  # hold no buffers while waiting


def _complete(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
