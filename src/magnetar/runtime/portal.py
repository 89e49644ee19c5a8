"""A loop in a thread of its own, for code that cannot await: one for the whole process, made when first asked for.

A forked child has no such thread, so the child gets a portal of its own; the parent's is left untouched there, because
its loop still shares the parent's file descriptors. Calls block the calling thread; a call from the loop's own thread
would wait for itself and is refused.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from magnetar.base.errors import Closed, Misuse, TimedOut

T = TypeVar("T")

Ended = Callable[[Any, BaseException | None], None]  # called once, on the loop: the result, or the error


class Portal:
    def __init__(self) -> None:
        self.ended = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="magnetar", daemon=True)
        self._thread.start()

    def run(self, make: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its end. An interrupt of the waiting thread cancels it."""
        self._check()
        call: _Call[T] = _Call()
        self._post(self._start, make, call)
        try:
            return call.wait(timeout_s)
        except BaseException:
            self._post(call.cancel)
            raise

    def ask(self, start: Callable[[Ended], None]) -> Any:
        """`start(ended)` is called on the loop; wait until it or somebody after it calls `ended(result, error)`. Costs
        less than `run` where no coroutine is needed.
        """
        self._check()
        call: _Call[Any] = _Call()
        self._post(self._begin, start, call)
        return call.wait(None)

    def call(self, work: Callable[[], T]) -> T:
        """Call it on the loop, and wait for what it returns."""
        result: T = self.ask(lambda ended: ended(work(), None))
        return result

    def tell(self, work: Callable[[], None]) -> None:
        """Have it called on the loop, and do not wait."""
        self._post(work)

    def close(self) -> None:
        """End the loop; what still runs on it is cancelled."""
        if not self.ended:
            self.ended = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _check(self) -> None:
        if threading.current_thread() is self._thread:
            raise Misuse("a blocking call from a callback would wait for itself: use the asyncio client")

    def _post(self, work: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(work, *args)
        except RuntimeError:
            raise Closed("the loop of the blocking client has ended") from None

    def _start(self, make: Callable[[], Coroutine[Any, Any, T]], call: _Call[T]) -> None:
        call.task = self._loop.create_task(call.carry(make))
        call.task.add_done_callback(call.ended_task)

    def _begin(self, start: Callable[[Ended], None], call: _Call[Any]) -> None:
        try:
            start(call.ended)
        except BaseException as error:  # handed to the thread that asked
            call.ended(None, error)

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left))
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


class Mailbox(Generic[T]):
    """Items from any thread, taken on the loop in the order they were put, many at a time. `put` waits while it is
    full; the loop is woken once for all that come before it looks.
    """

    def __init__(self, portal: Portal, taken: Callable[[], None], items_max: int) -> None:
        self._portal = portal
        self._taken = taken
        self._items_max = items_max
        self._items: deque[T] = deque()
        self._woken = False
        self._room = threading.Condition()
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        self._items.append(item)
        if not self._woken:
            self._woken = True
            self._portal.tell(self._look)
        if len(self._items) >= self._items_max:
            self._wait_for_room()

    def take(self) -> T | None:
        """The oldest, None if there is none. On the loop."""
        try:
            item = self._items.popleft()
        except IndexError:
            return None
        if self._waiting and len(self._items) <= self._items_max // 2:
            with self._room:
                self._room.notify_all()
        return item

    def _look(self) -> None:
        self._woken = False  # before looking: whatever comes from now on wakes the loop again
        self._taken()

    def _wait_for_room(self) -> None:
        with self._room:
            self._waiting += 1
            self._room.wait_for(lambda: len(self._items) <= self._items_max // 2)
            self._waiting -= 1


class _Call(Generic[T]):
    """One thread waiting for one result."""

    __slots__ = ("_done", "_error", "_result", "task")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self._result: Any = None
        self._error: BaseException | None = None
        self.task: asyncio.Task[None] | None = None

    def wait(self, timeout_s: float | None) -> T:
        if not self._done.acquire(timeout=-1 if timeout_s is None else timeout_s):
            raise TimedOut("no result in time: it may still happen", timeout_s=timeout_s)
        error, self._error = self._error, None
        if isinstance(error, asyncio.CancelledError):
            raise Closed("the loop of the blocking client has ended")
        if error is not None:
            raise error
        result: T = self._result
        return result

    async def carry(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """The thread hears of the end at once, not in the turn of the loop after it."""
        try:
            result = await make()
        except Exception as error:  # handed to the thread that asked
            self.ended(None, error)
        else:
            self.ended(result, None)

    def ended(self, result: Any, error: BaseException | None) -> None:
        self._result, self._error = result, error
        self._done.release()

    def ended_task(self, task: asyncio.Task[None]) -> None:
        """Of a task that could not tell so itself: cancelled, maybe before its first step."""
        if task.cancelled():
            self.ended(None, asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.ended(None, error)

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


_here: Portal | None = None  # of this process
_left: list[Portal | None] = []  # those of the processes it was forked from: kept, and never touched
_lock = threading.Lock()


def portal() -> Portal:
    """The portal of this process."""
    global _here
    here = _here
    if here is None or here.ended:
        with _lock:
            if _here is None or _here.ended:
                _here = Portal()
            here = _here
    return here


def _forked() -> None:
    """In the child: there is no such thread here, and another one may have held the lock."""
    global _here, _lock
    _left.append(_here)
    _here = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _close() -> None:
    if _here is not None:
        _here.close()
