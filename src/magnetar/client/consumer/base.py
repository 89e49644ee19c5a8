"""The common interface of all consumers: messages over one bounded queue, taken one by one, in batches or by iteration,
until the consumer is closed.

A cancelled receive has taken no message; a cancelled close continues in the background. Each consumer defines its own
attachments and the bookkeeping for a taken message (`_hand_out`, `_leave`).
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
from magnetar.client.consumer.context import ConsumerContext
from magnetar.client.consumer.receive.delivery import DeadLetterSink
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue
from magnetar.client.consumer.receive.waiters import ReceiveWaiters
from magnetar.client.consumer.receive.writer_schemas import WriterSchemas, writer_schemas
from magnetar.client.counters import Counters
from magnetar.client.message import Message
from magnetar.client.schema import Schema
from magnetar.observe.log import Log
from magnetar.runtime.runtime import Owner

T = TypeVar("T")

BATCH_MESSAGES_MAX = 100
BATCH_BYTES_MAX = 10 * 1024 * 1024
BATCH_WAIT_S = 0.1


class ConsumerBase(ABC, Generic[T]):
    """`kind` is the prefix of the generated name of an unnamed consumer. `facts` identify the consumer in errors.
    `watches`: whether it must be notified of every message that is taken.
    """

    _ends: ClassVar[tuple[type[MagnetarError], ...]] = (Closed,)  # errors that end an iteration

    def __init__(
        self,
        lookup: Lookup,
        config: ConsumerConfig,
        kind: str,
        *,
        log: Log,
        facts: dict[str, Any],
        watches: bool,
        closed: Callable[[Any], None] | None,
    ) -> None:
        self._runtime = lookup.pool.runtime
        if not config.name:  # one name for every part and attach: brokers order consumers by it
            unique = f"{self._runtime.rng('client.consumer').getrandbits(40):010x}"
            config = replace(config, name=f"{kind}-{unique}" if kind else unique)
        self.asked = config
        self.counters = Counters()
        self.closed = False
        self._lookup = lookup
        self._log = log
        self._facts = facts
        self._watches = watches
        self._on_closed = closed
        self._inbox = ReceiveQueue(config.queue_bytes)
        self.receiver = ReceiveWaiters(self._inbox)
        self._last = Owner(f"{kind or 'consumer'} {' '.join(facts.values())}, closing", self._crashed)
        self._closing: asyncio.Task[None] | None = None
        self._writers: WriterSchemas | None = None

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message. `NoMessage` if none arrives in time; `Sealed` after the last message of a plain topic that
        was terminated.
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
        """Messages until one of the bounds is reached; an empty list if none arrives in time."""
        if messages_max < 1 or bytes_max < 1:
            raise Misuse(
                "messages_max and bytes_max must be at least 1", messages_max=messages_max, bytes_max=bytes_max
            )
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
        """For repr: the subscription, its topics and the state."""
        topics: list[str] = getattr(self, "topics", None) or [getattr(self, "topic", "no topic")]
        of = topics[0] if len(topics) == 1 else f"{len(topics)} topics"
        state = "closed" if self.closed else f"{self.queued} queued"
        return f"{self.asked.subscription!r} of {of}, {state}"

    @property
    def queued(self) -> int:
        """The number of messages received and not taken yet."""
        return self._inbox.count

    async def close(self) -> None:
        """Send the waiting acknowledgements and close; unacknowledged messages go to other consumers. A cancelled close
        continues in the background; another call waits for the same end.
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

    # Defined by each consumer

    @abstractmethod
    def _hand_out(self, messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
        """Called in the step in which messages leave the queue for the application. Returns those that it gets; a
        message that is left out is redelivered. Must not raise: the messages are in no queue any more."""

    @abstractmethod
    async def _leave(self) -> None:
        """Detach from everything."""

    # Internal

    def _context(self, schema: Schema[Any], dead_letters: DeadLetterSink | None = None) -> ConsumerContext:
        """For its topics and segments."""
        self._writers = writer_schemas(self._lookup, schema)
        return ConsumerContext(
            self._lookup, self._inbox, self.receiver, self.counters, schema, self, dead_letters, self._writers
        )

    async def _close(self) -> None:
        try:
            await self._leave()
        finally:
            if self._writers is not None:
                await self._writers.close()
            if self._on_closed is not None:
                self._on_closed(self)

    def _check(self) -> None:
        if self.closed:
            raise Closed("the consumer is closed", **self._facts)

    def _crashed(self, name: str, error: BaseException) -> None:
        self._log.crashed("consumer_crashed", error, name=name)
