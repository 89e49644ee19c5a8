"""Waits for messages: for `receive` and for batches, and wakes waiters when messages arrive.

A wake-up carries no message: a woken waiter takes a message itself, in the same step that returns it. So a receive that
is cancelled at any moment has taken no message, and passes its wake-up on. Waiters are woken in the order in which they
began to wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from magnetar.base.errors import MagnetarError, Unavailable
from magnetar.base.public import public
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue
from magnetar.client.message import Message

M = TypeVar("M")


@public("magnetar")
class NoMessage(Unavailable, TimeoutError):
    """No message arrived in time. Also a `TimeoutError`, which callers of a receive with a deadline expect."""


def waited(timeout_s: float | None, take: Callable[[], M]) -> M:
    """For threads, which wait partly before the loop waits: the error names the timeout of the caller."""
    try:
        return take()
    except NoMessage as error:
        if "timeout_s" in error.facts:
            error.facts["timeout_s"] = timeout_s
        raise


class ExternalSource(Protocol):
    """The blocking consumer, as seen from the loop."""

    def arrived(self) -> None:
        """Messages arrived, or the end was reached."""
        ...

    def gather(self) -> None:
        """Deliver the acknowledgements of threads to the loop."""
        ...

    def put_away(self, source: Any, positions: set[tuple[int, int]] | None) -> None:
        """These entries of a part (None: all) are redelivered: discard those that no thread has taken."""
        ...


class ReceiveWaiters:
    """Waits on one receive queue. After `end`, waiters get the remaining messages and then the error."""

    def __init__(self, inbox: ReceiveQueue) -> None:
        self._inbox = inbox
        self._waiters: deque[asyncio.Future[bool]] = deque()
        self._error: MagnetarError | None = None
        self._outside: ExternalSource | None = None

    @property
    def waiting(self) -> bool:
        return bool(self._waiters)

    @property
    def ready(self) -> bool:
        """Whether there is a message, or an end to report. Any thread may call it."""
        return self._inbox.count > 0 or self._error is not None

    @property
    def ended(self) -> bool:
        return self._error is not None

    def serve(self, outside: ExternalSource) -> None:
        """Threads wait for the same messages."""
        self._outside = outside

    def gather(self) -> None:
        """Request the acknowledgements that threads still hold."""
        if self._outside is not None:
            self._outside.gather()

    def put_away(self, source: Any, positions: set[tuple[int, int]] | None = None) -> None:
        """Discard messages that were taken from the queue for threads and have not reached them."""
        if self._outside is not None:
            self._outside.put_away(source, positions)

    def notify(self, messages: int) -> None:
        """Messages arrived, or another change happened: wake as many waiters as may find a message."""
        waiters = self._waiters
        while waiters and messages > 0:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(True)
                messages -= 1
        if self._outside is not None:
            self._outside.arrived()

    def end(self, error: MagnetarError | None) -> None:
        """End with an error. None revokes the end: more messages may arrive."""
        self._error = error
        if error is not None:
            self.gather()
            self.notify(len(self._waiters))

    def take_some(self, count_max: int) -> list[Message[Any]]:
        """The available messages, at most `count_max`."""
        return self._take(count_max, self._inbox.size + 1)

    async def next(self, timeout_s: float | None) -> Message[Any]:
        inbox = self._inbox
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while True:
            message = inbox.take()
            if message is not None:
                return message
            if self._error is not None:
                raise self._error
            self._ask()
            if not await self._wake(deadline):
                message = inbox.take()
                if message is not None:
                    return message
                raise NoMessage("no message arrived in time", timeout_s=timeout_s)

    async def batch(self, count_max: int, bytes_max: int, timeout_s: float) -> list[Message[Any]]:
        """Messages up to the bounds, or those available when the time is over; at least one message if any is
        available, regardless of its size.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        inbox = self._inbox
        while True:
            target = min(count_max, inbox.capacity)
            if inbox.count >= target or inbox.size >= bytes_max or (self._error is not None and inbox.count):
                if inbox.count:
                    return self._take(count_max, bytes_max)
            elif self._error is not None:
                raise self._error
            self._ask()
            if not await self._wake(deadline):
                return self._take(count_max, bytes_max)
            if inbox.count and self._waiters and inbox.count < target:
                self.notify(1)  # not enough for this waiter, but maybe for the next

    def _take(self, count_max: int, bytes_max: int) -> list[Message[Any]]:
        inbox = self._inbox
        taken: list[Message[Any]] = []
        size = 0
        while len(taken) < count_max and size < bytes_max:
            message = inbox.take()
            if message is None:
                break
            taken.append(message)
            size += len(message.data)
        return taken

    def _ask(self) -> None:
        """Topics without a queue get a permit only while a receive waits."""
        for queue in self._inbox.queues:
            if queue.queue_max:
                return
            queue.ask_one()

    async def _wake(self, deadline: float | None) -> bool:
        """Wait until woken; False once the deadline has passed."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        timer = None
        if deadline is not None:
            if loop.time() >= deadline:
                return False
            timer = loop.call_at(deadline, _overdue, waiter)
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.notify(1)  # woken and cancelled in one step: the message is left for the next waiter
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)


def _overdue(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
