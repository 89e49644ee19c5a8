"""Waiting for messages: `receive`, batches, and who is woken when something comes.

A wake-up carries no message: whoever is woken takes one himself, in the same step in which it is returned. So a receive
that is cancelled, at whatever moment, has taken nothing, and passes its wake-up on. The order of waiting is the order
of being woken.
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
    """Nothing came in time. Also a `TimeoutError`, which is what callers of a receive with a deadline expect."""


def waited(timeout_s: float | None, take: Callable[[], M]) -> M:
    """For threads, which spend a part of the time before the loop waits: the error says the time that was asked for."""
    try:
        return take()
    except NoMessage as error:
        if "timeout_s" in error.facts:
            error.facts["timeout_s"] = timeout_s
        raise


class ExternalSource(Protocol):
    """The blocking consumer, as the loop's side sees it."""

    def arrived(self) -> None:
        """Messages came, or an end."""
        ...

    def gather(self) -> None:
        """Bring the acknowledgements that threads gave and the loop has not seen."""
        ...

    def put_away(self, source: Any, positions: set[tuple[int, int]] | None) -> None:
        """These entries of a part (None: all) come again: what no thread has taken of them is of no more use."""
        ...


class ReceiveWaiters:
    """Waits on one inbox. Once `end` was called there is nothing to wait for: what is left is handed out, then the
    error is raised.
    """

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
        """Is there a message, or an end to tell? May be asked in any thread."""
        return self._inbox.count > 0 or self._error is not None

    @property
    def ended(self) -> bool:
        return self._error is not None

    def serve(self, outside: ExternalSource) -> None:
        """Threads wait for the same messages."""
        self._outside = outside

    def gather(self) -> None:
        """Acknowledgements that threads still hold are wanted now."""
        if self._outside is not None:
            self._outside.gather()

    def put_away(self, source: Any, positions: set[tuple[int, int]] | None = None) -> None:
        """What was taken from the inbox for threads, and has not reached them."""
        if self._outside is not None:
            self._outside.put_away(source, positions)

    def notify(self, messages: int) -> None:
        """Messages came, or something else changed: wake as many as may find one."""
        waiters = self._waiters
        while waiters and messages > 0:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(True)
                messages -= 1
        if self._outside is not None:
            self._outside.arrived()

    def end(self, error: MagnetarError | None) -> None:
        """None takes it back: there may be more to come."""
        self._error = error
        if error is not None:
            self.gather()
            self.notify(len(self._waiters))

    def take_some(self, count_max: int) -> list[Message[Any]]:
        """What is there, at most so many."""
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
                raise NoMessage("no message came in time", timeout_s=timeout_s)

    async def batch(self, count_max: int, bytes_max: int, timeout_s: float) -> list[Message[Any]]:
        """Up to so many messages or bytes, whatever is there when the time is up; at least one message if any is there,
        however large.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        inbox = self._inbox
        while True:
            wanted = min(count_max, inbox.capacity)
            if inbox.count >= wanted or inbox.size >= bytes_max or (self._error is not None and inbox.count):
                if inbox.count:
                    return self._take(count_max, bytes_max)
            elif self._error is not None:
                raise self._error
            self._ask()
            if not await self._wake(deadline):
                return self._take(count_max, bytes_max)
            if inbox.count and self._waiters and inbox.count < wanted:
                self.notify(1)  # it is not enough for this one, but maybe for the next

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
        """Lanes without a queue get a permit only while somebody waits."""
        for lane in self._inbox.lanes:
            if lane.queue_max:
                return
            lane.ask_one()

    async def _wake(self, deadline: float | None) -> bool:
        """Until woken; False once the deadline has passed."""
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
                self.notify(1)  # woken and cancelled at once: the message is still there, for the next one
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)


def _overdue(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
