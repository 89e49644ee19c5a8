"""What all consumers are to whoever holds one: messages over one bounded inbox, taken one by one, many at a time or by
iterating, until it is closed.

A receive that is cancelled has taken nothing; a close that is cancelled goes on by itself. What a consumer is attached
to, and what taking a message means to it, is its own (`_hand_out`, `_leave`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from magnetar.base.errors import Closed, MagnetarError, Misuse
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue
from magnetar.client.consumer.receive.waiters import ReceiveWaiters
from magnetar.client.counters import Counters
from magnetar.client.message import Message
from magnetar.observe.log import Log
from magnetar.runtime.runtime import Owner

T = TypeVar("T")

BATCH_MESSAGES_MAX = 100
BATCH_BYTES_MAX = 10 * 1024 * 1024
BATCH_WAIT_S = 0.1


class ConsumerBase(ABC, Generic[T]):
    """`kind` begins the name that it gets if it was given none. `facts` say which one it is; `watches`: does it want to
    know of every message that is taken?
    """

    _ends: ClassVar[tuple[type[MagnetarError], ...]] = (Closed,)  # what ends an iteration

    def __init__(
        self,
        lookup: Lookup,
        asked: ConsumerConfig,
        kind: str,
        *,
        log: Log,
        facts: dict[str, Any],
        watches: bool,
        closed: Callable[[Any], None] | None,
    ) -> None:
        self._runtime = lookup.pool.runtime
        if not asked.name:  # the same for every part and every attach: brokers order consumers by it
            unique = f"{self._runtime.rng('client.consumer').getrandbits(40):010x}"
            asked = replace(asked, name=f"{kind}-{unique}" if kind else unique)
        self.asked = asked
        self.counters = Counters()
        self.closed = False
        self._lookup = lookup
        self._log = log
        self._facts = facts
        self._watches = watches
        self._on_closed = closed
        self._inbox = ReceiveQueue(asked.queue_bytes)
        self.receiver = ReceiveWaiters(self._inbox)
        self._last = Owner(f"{kind or 'consumer'} {' '.join(facts.values())}, closing", self._crashed)
        self._closing: asyncio.Task[None] | None = None

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message. `NoMessage` if none came in time; of a plain topic that was terminated `Sealed` behind the
        last one.
        """
        while True:
            message = self._inbox.take()
            if message is None:
                message = await self.receiver.next(timeout_s)
            if not self._watches or self._hand_out((message,)):
                return message

    async def receive_batch(
        self,
        messages_max: int = BATCH_MESSAGES_MAX,
        *,
        bytes_max: int = BATCH_BYTES_MAX,
        timeout_s: float = BATCH_WAIT_S,
    ) -> list[Message[T]]:
        """As many messages as come until one of the bounds is reached; none at all if the time is over first."""
        if messages_max < 1 or bytes_max < 1:
            raise Misuse("a batch holds at least one message", messages_max=messages_max, bytes_max=bytes_max)
        batch = await self.receiver.batch(messages_max, bytes_max, timeout_s)
        return list(self._hand_out(batch)) if self._watches else batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        while True:
            message = self._inbox.take()
            if message is None:
                try:
                    message = await self.receiver.next(None)
                except self._ends:
                    raise StopAsyncIteration from None
            if not self._watches or self._hand_out((message,)):
                return message

    def __repr__(self) -> str:
        return f"<magnetar.aio.{type(self).__name__} {self._described()}>"

    def _described(self) -> str:
        """For people: which one it is, of what, and how it is."""
        topics: list[str] = getattr(self, "topics", None) or [getattr(self, "topic", "no topic")]
        of = topics[0] if len(topics) == 1 else f"{len(topics)} topics"
        state = "closed" if self.closed else f"{self.queued} queued"
        return f"{self.asked.subscription!r} of {of}, {state}"

    @property
    def queued(self) -> int:
        """Messages received and not taken yet."""
        return self._inbox.count

    async def close(self) -> None:
        """Send the acknowledgements that wait, and leave: what was not taken or not acknowledged goes to others. A
        close that is cancelled goes on by itself; another one waits for the same end.
        """
        if self._closing is None:
            self.receiver.end(Closed("the consumer is closed", **self._facts))
            self.closed = True  # after `end`, which gathers what threads have acknowledged
            self._closing = self._runtime.spawn(self._last, self._close())
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Its own

    @abstractmethod
    def _hand_out(self, messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
        """The application gets these: called in the very step in which they leave the inbox. Returns those that it
        gets; a message that is left out comes again. It does not raise: what it was given is in no queue any more."""

    @abstractmethod
    async def _leave(self) -> None:
        """Everything that it is attached to."""

    # Inside

    async def _close(self) -> None:
        try:
            await self._leave()
        finally:
            if self._on_closed is not None:
                self._on_closed(self)

    def _check(self) -> None:
        if self.closed:
            raise Closed("the consumer is closed", **self._facts)

    def _crashed(self, name: str, error: BaseException) -> None:
        self._log.crashed("consumer failed", error, name=name)
