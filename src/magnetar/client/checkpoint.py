"""A checkpoint consumer: a scalable topic read from a place that its user keeps, every key in order through all splits
and merges.

What users hold. Brokers remember nothing of it: `checkpoint()` says how far the application has received, over all
segments, and a consumer that starts there goes on with the next message of each. A segment is read when everything
before it was received (`layout.checkpoint` decides, `checkpoint_alone` acts). Messages that are gone before they were
read end it, unless `on_gap` is there to be told of each gap. Every call belongs to one loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from magnetar.base.errors import Closed, MagnetarError, Misuse
from magnetar.client.checkpoint_alone import Alone, DataLost, Losses, OnGap
from magnetar.client.checkpoint_group import Grouped
from magnetar.client.checkpoint_parts import Parts, Reading
from magnetar.client.checkpoint_start import StartAt, said
from magnetar.client.consumer import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, BATCH_WAIT_S
from magnetar.client.counters import Counters
from magnetar.client.inbox import Inbox
from magnetar.client.lookup import Lookup
from magnetar.client.message import Message, MessageId
from magnetar.client.receive import Receiver
from magnetar.client.schemas import Schema
from magnetar.client.subscribing import Subscribing
from magnetar.layout.checkpoint import Reached
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.wire.checkpoint import Checkpoint

__all__ = ["CheckpointConsumer", "DataLost", "OnGap"]

log = get("client.checkpoint")

T = TypeVar("T")


class CheckpointConsumer(Generic[T]):
    """Made by `Client.checkpoint_consumer`. `async for message in consumer` ends when the consumer is closed."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        asked: Subscribing,
        *,
        start: StartAt,
        schema: Schema[T],
        on_gap: OnGap | None = None,
        grouped: bool = False,
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        if not asked.name:
            unique = lookup.pool.runtime.rng("client.consumer").getrandbits(40)
            asked = replace(asked, name=f"checkpoint-{unique:010x}")
        self.topic = topic
        self.asked = asked
        self.counters = Counters()
        self.closed = False
        self._runtime = lookup.pool.runtime
        self._lookup = lookup
        self._start = said(start)
        self._schema = schema
        self._on_closed = closed
        self._inbox = Inbox(asked.queue_bytes)
        self.receiver = Receiver(self._inbox)
        losses = Losses(topic, self.counters, on_gap)
        kind: type[Alone] | type[Grouped] = Grouped if grouped else Alone
        self._reading = kind(lookup, topic, asked, make=self._parts, losses=losses, ended=self._end)
        self._last = Owner(f"checkpoint consumer of {topic}, closing", self._crashed)
        self._closing: asyncio.Task[None] | None = None

    # Receiving

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message. `NoMessage` if none came in time."""
        message = self._inbox.take()
        if message is None:
            message = await self.receiver.next(timeout_s)
        self._reading.handed((message,))
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
        self._reading.handed(batch)
        return batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None

    # Checkpoints

    async def checkpoint(self) -> Checkpoint:
        """How far the application has received, at this moment. Keep it, as `to_bytes()`, with what was made of the
        messages: a consumer that starts there receives all that came after, nothing twice. In a group it is the whole
        group's: what this member received is done with from now on, whoever reads next goes on behind it.
        """
        return Checkpoint.of(await self._reading.checkpoint())

    async def seek(self, to: StartAt) -> None:
        """Go on elsewhere: what was received and not taken is dropped. If it fails nothing has changed. A group is not
        moved by one of its members.
        """
        where = said(to)
        self._check()
        await self._reading.seek(*where)

    @property
    def positions(self) -> dict[int, Reached]:
        """The last message received of each segment: `START` where nothing was yet, `DONE` where nothing is left."""
        return {int(id): place for id, place in self._reading.positions.items()}

    # What it is

    @property
    def name(self) -> str:
        return self.asked.name

    @property
    def segments(self) -> list[int]:
        """The segments it reads at this moment."""
        return [] if self._reading.parts is None else sorted(self._reading.parts.parts)

    @property
    def connected(self) -> bool:
        """Is every segment attached to its broker at this moment?"""
        parts = self._reading.parts
        return parts is not None and all(part.connection is not None for part in parts.parts.values())

    @property
    def queued(self) -> int:
        """Messages received and not taken yet."""
        return self._inbox.count

    # Life

    async def start(self) -> None:
        """Learn the layout, find out where to start, attach; called once, by whoever made it."""
        try:
            await self._reading.start(*self._start)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Leave every segment. A close that is cancelled goes on by itself; another one waits for the same end."""
        if self._closing is None:
            self.receiver.end(Closed("the consumer is closed", topic=self.topic))
            self.closed = True
            self._closing = self._runtime.spawn(self._last, self._close())
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _close(self) -> None:
        try:
            await self._reading.close()
        finally:
            if self._on_closed is not None:
                self._on_closed(self)

    # What messages and the blocking consumer ask of it

    def stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        return plain

    def handed(self, messages: Iterable[Message[Any]]) -> None:
        """The application has these: from here on a checkpoint covers them."""
        self._reading.handed(messages)

    # Inside

    def _parts(self, reading: Reading) -> Parts:
        return Parts(
            self._lookup,
            self.topic,
            self.asked,
            reading,
            inbox=self._inbox,
            receiver=self.receiver,
            counters=self.counters,
            consumer=self,
            schema=self._schema,
        )

    def _end(self, error: MagnetarError) -> None:
        self.receiver.end(error)

    def _check(self) -> None:
        if self.closed:
            raise Closed("the consumer is closed", topic=self.topic)

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("checkpoint consumer failed", error, name=name)
