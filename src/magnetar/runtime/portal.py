"""A loop in its own thread, for code that cannot await: one per process, created at first use.

A forked child has no such thread and creates its own portal. The parent's portal is never touched in the child, because
its loop shares the parent's file descriptors. Calls block the calling thread. A call from the loop's own thread would
deadlock and is rejected. Work is passed through a queue and one wake-up byte in a pipe for all waiting items, at half
the cost of the loop's own threadsafe call.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import selectors
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from magnetar.base.errors import Closed, InvalidTransition, MagnetarError, Misuse, TimedOut

T = TypeVar("T")

Ended = Callable[[Any, BaseException | None], None]  # called once, on the loop: the result, or the error


class Portal:
    def __init__(self) -> None:
        self.ended = False
        self._turns = _Turns()
        self._loop = asyncio.SelectorEventLoop(self._turns)
        self._posted: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._rung = False
        self._over = False
        self._heard, self._bell = os.pipe()
        for end in (self._heard, self._bell):
            os.set_blocking(end, False)
            # only after the last wake-up: the descriptor number could then belong to another file
            weakref.finalize(self, os.close, end).atexit = False
        self._turns.listen(self._heard, self._answer)
        self._thread = threading.Thread(target=self._work, name="magnetar", daemon=True)
        self._thread.start()

    def run(self, make: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        """Runs a coroutine on the loop and waits for its end. An interrupt of the waiting thread cancels the
        coroutine.
        """
        self._check()
        call: _Call[T] = _Call(self._turns)
        self._post(self._start, make, call)
        try:
            return call.wait(timeout_s)
        except BaseException:
            self._post(call.cancel)
            raise

    def ask(self, start: Callable[[Ended], None]) -> Any:
        """Calls `start(ended)` on the loop and waits for a call of `ended(result, error)`. Cheaper than `run` if no
        coroutine is needed.
        """
        self._check()
        call: _Call[Any] = _Call(self._turns)
        self._post(self._begin, start, call)
        return call.wait(None)

    def call(self, work: Callable[[], T]) -> T:
        """Calls it on the loop and returns its result."""
        result: T = self.ask(lambda ended: ended(work(), None))
        return result

    def tell(self, work: Callable[[], None]) -> None:
        """Calls it on the loop without waiting."""
        self._post(work)

    def wake(self, waiter: threading.Lock) -> None:
        """On the loop: releases the lock at the end of this turn."""
        self._turns.hold(waiter)

    def close(self) -> None:
        """Ends the loop and cancels its remaining tasks."""
        if not self.ended:
            self.ended = True
            self._ring(self._loop.stop)
            self._thread.join()

    def _check(self) -> None:
        if threading.current_thread() is self._thread:
            raise Misuse("a blocking call from a callback would deadlock: use the asyncio client")

    def _post(self, work: Callable[..., object], *args: object) -> None:
        if self.ended:
            raise Closed("the loop of the blocking client has ended: create a new client")
        self._ring(work, *args)
        if self._over:  # the loop has ended in between and may have missed this call
            raise Closed("the loop of the blocking client has ended: create a new client")

    def _ring(self, work: Callable[..., object], *args: object) -> None:
        self._posted.append((work, args))
        if not self._rung:
            self._rung = True
            os.write(self._bell, b"!")

    def _answer(self) -> None:
        """Handles a wake-up: runs all posted work in order."""
        os.read(self._heard, 64)
        self._rung = False  # reset before the look: later posts wake the loop again
        posted = self._posted
        for _ in range(len(posted)):
            work, args = posted.popleft()
            try:
                work(*args)
            except Exception as error:  # nothing waits for this work: report the error like that of a callback
                self._loop.call_exception_handler({"message": "work posted to the loop failed", "exception": error})

    def _start(self, make: Callable[[], Coroutine[Any, Any, T]], call: _Call[T]) -> None:
        call.task = self._loop.create_task(call.carry(make))
        call.task.add_done_callback(call.ended_task)

    def _begin(self, start: Callable[[Ended], None], call: _Call[Any]) -> None:
        try:
            start(call.ended)
        except BaseException as error:  # passed to the calling thread
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
            self._over = True
            self._give_up()
            self._turns.wake()

    def _give_up(self) -> None:
        """Releases threads that posted work while the loop ended."""
        while self._posted:
            for arg in self._posted.popleft()[1]:
                if isinstance(arg, _Call):
                    arg.ended(None, asyncio.CancelledError())


class _Turns(selectors.DefaultSelector):
    """Marks the turns of the loop. Threads are woken at the end of a turn, just before the loop sleeps: a thread that
    is woken earlier only waits for the interpreter lock. Work posted by threads runs first in a turn, and callbacks
    that it schedules belong to the same turn.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held: list[threading.Lock] = []
        self._answer: Callable[[], None] | None = None

    def listen(self, bell: int, answer: Callable[[], None]) -> None:
        self._answer = answer
        self.register(bell, selectors.EVENT_READ, answer)

    def hold(self, waiter: threading.Lock) -> None:
        self._held.append(waiter)

    def wake(self) -> None:
        held, self._held = self._held, []
        for waiter in held:
            waiter.release()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._held:
            self.wake()
        events = super().select(timeout)
        for index, (key, _) in enumerate(events):
            if key.data == self._answer:
                del events[index]
                key.data()
                break
        return events


class _Call(Generic[T]):
    """A thread that waits for a result."""

    __slots__ = ("_done", "_error", "_result", "_turns", "task")

    def __init__(self, turns: _Turns) -> None:
        self._turns = turns
        self._done = threading.Lock()
        self._done.acquire()
        self._result: Any = None
        self._error: BaseException | None = None
        self.task: asyncio.Task[None] | None = None

    def wait(self, timeout_s: float | None) -> T:
        if not self._done.acquire(timeout=-1 if timeout_s is None else timeout_s):
            raise TimedOut("no result in time: the operation may still finish", timeout_s=timeout_s)
        error, self._error = self._error, None
        if isinstance(error, asyncio.CancelledError):
            raise Closed("the loop of the blocking client has ended: create a new client")
        if error is not None:
            raise without_frames(error) from error.__cause__
        result: T = self._result
        return result

    async def carry(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Wakes the thread in the same turn of the loop, not in the next one."""
        try:
            result = await make()
        except Exception as error:  # passed to the calling thread
            self.ended(None, error)
        else:
            self.ended(result, None)

    def ended(self, result: Any, error: BaseException | None) -> None:
        self._result, self._error = result, error
        self._turns.hold(self._done)

    def ended_task(self, task: asyncio.Task[None]) -> None:
        """For a task that could not report its end: it was cancelled, possibly before its first step."""
        if task.cancelled():
            self.ended(None, asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.ended(None, error)

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


def without_frames(error: BaseException) -> BaseException:
    """The same error without the internal frames of the client. Its causes stay, without their frames.

    Errors that are faults of the client itself keep their frames.
    """
    if not isinstance(error, MagnetarError) or isinstance(error, InvalidTransition):
        return error
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link.__suppress_context__ = True
        link = link.__cause__
    return error


_here: Portal | None = None  # portal of this process
_left: list[Portal | None] = []  # portals of parent processes: referenced, but never used
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
    """In the child: the thread does not exist here, and another thread of the parent may have held the lock."""
    global _here, _lock
    _left.append(_here)
    _here = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _close() -> None:
    if _here is not None:
        _here.close()
