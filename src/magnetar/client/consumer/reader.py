"""A reader: a topic from a place of one's own choosing, without a subscription that outlives it.

A consumer underneath, exclusive and not durable, whose acknowledgements only tell the broker how far it is. It reads
partitioned topics too. After a lost connection it goes on behind the message that was taken last: nothing is missed,
nothing is seen twice.
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
    """Made by `Client.create_reader`. `async for message in reader` reads and then waits for more."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        asked: ConsumerConfig,
        *,
        schema: Schema[T],
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        self._consumer: Consumer[T] = Consumer(lookup, topic, asked, schema=schema)
        self._asked = asked
        self._forget = closed

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message; `NoMessage` if none came in time."""
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
        """Is there anything behind what was read last? False: read up to the end of the topic, as of now."""
        return await self._consumer.has_message_available()

    async def lag(self) -> Lag:
        """How many messages the broker keeps for this reader: those that it has not acknowledged on its behalf yet."""
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
        """Attach; called once, by whoever made it."""
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
        """How far it is, once for each entry: the broker counts its backlog by it."""
        if completes(message):
            part = message._delivery.source
            part.ack_until(entry_of(message))
            part.acker.added()
