"""A reader: reads a topic from any position, without a lasting subscription.

It is an exclusive, non-durable consumer, whose acknowledgements only report its progress to the broker. It also reads
partitioned topics. After a lost connection it continues after the last message that was taken: no message is skipped or
repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from magnetar.base.errors import Closed, Sealed
from magnetar.base.public import public
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.consumer import Consumer
from magnetar.client.consumer.scalable.stream.ack_position import completes, entry_of
from magnetar.client.counters import Counters
from magnetar.client.lag import Lag
from magnetar.client.message import Message, MessageId
from magnetar.client.schema import Schema

T = TypeVar("T")


@public("magnetar.aio")
class Reader(Generic[T]):
    """Created by `Client.create_reader`. `async for message in reader` reads, and waits for new messages at the end."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        config: ConsumerConfig,
        *,
        schema: Schema[T],
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        self._consumer: Consumer[T] = Consumer(lookup, topic, config, schema=schema)
        self._asked = config
        self._forget = closed

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message; `NoMessage` if none arrives in time."""
        message = await self._consumer.receive(timeout_s)
        self._tell(message)
        return message

    async def receive_batch(self, messages_max: int = 100, *, timeout_s: float = 0.1) -> list[Message[T]]:
        batch = await self._consumer.receive_batch(messages_max, timeout_s=timeout_s)
        for message in batch:
            self._tell(message)
        return batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        try:
            return await self.receive()
        except (Sealed, Closed):
            raise StopAsyncIteration from None

    async def has_message_available(self) -> bool:
        """Whether there is a message after the last one read. False: the reader is at the present end of the topic."""
        return await self._consumer.has_message_available()

    async def lag(self) -> Lag:
        """The number of messages that the broker keeps for this reader: those not acknowledged on its behalf yet."""
        return await self._consumer.lag()

    async def seek(self, to: MessageId | int | datetime, *, inclusive: bool = False) -> None:
        await self._consumer.seek(to, inclusive=inclusive)

    async def last_message_ids(self) -> list[MessageId]:
        return await self._consumer.last_message_ids()

    def __repr__(self) -> str:
        return f"<magnetar.aio.Reader {self._described()}>"

    def _described(self) -> str:
        return self._consumer._described()

    @property
    def topics(self) -> list[str]:
        return self._consumer.topics

    @property
    def connected(self) -> bool:
        return self._consumer.connected

    @property
    def counters(self) -> Counters:
        return self._consumer.counters

    @property
    def closed(self) -> bool:
        return self._consumer.closed

    async def _start(self) -> None:
        """Attach; its creator calls it once."""
        await self._consumer._start()
        if self._asked.start == MessageId.LATEST and self._asked.start_inclusive:
            try:
                for last in await self._consumer.last_message_ids():
                    if last.entry >= 0:
                        await self._consumer.seek(last, inclusive=True)
            except BaseException:
                await self._consumer.close()
                raise

    async def close(self) -> None:
        await self._consumer.close()
        if self._forget is not None:
            self._forget(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _tell(self, message: Message[T]) -> None:
        """Acknowledge the position once per entry, so that the broker can count the backlog."""
        if completes(message):
            part = message._delivery.source
            part.ack_until(entry_of(message))
            part.acker.added()
