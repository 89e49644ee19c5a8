"""A stream consumer: the messages of a scalable topic, every key in order through all splits and merges.

What users hold. The topic's controller gives each consumer of a subscription its share of the segments; this follows it
(`follow`), receives over one bounded inbox, and acknowledges up to a message, over all segments at once (`positions`).
A segment's children are handed out when everything in it is acknowledged: whoever acknowledges nothing gets no further
than the next split, and is warned. Whatever is not acknowledged comes again. Every call belongs to one loop.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from magnetar.base.errors import Closed, MagnetarError, Misuse
from magnetar.base.ids import SegmentId
from magnetar.client.consumer import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, BATCH_WAIT_S
from magnetar.client.counters import Counters
from magnetar.client.inbox import Inbox
from magnetar.client.lookup import Lookup
from magnetar.client.message import Message, MessageId
from magnetar.client.moving import SeekTo, sought
from magnetar.client.places import Place, place_of_id, place_of_message
from magnetar.client.receive import Receiver
from magnetar.client.schemas import Schema
from magnetar.client.strand import Strand
from magnetar.client.subscribing import Subscribing
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.wire.ids import Vector

log = get("client.stream")

T = TypeVar("T")


class StreamConsumer(Generic[T]):
    """Made by `Client.stream_consumer`. `async for message in consumer` ends when the consumer is closed."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        asked: Subscribing,
        *,
        schema: Schema[T],
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        self._runtime = lookup.pool.runtime
        if not asked.name:
            asked = replace(asked, name=f"stream-{self._runtime.rng('client.consumer').getrandbits(40):010x}")
        self.topic = topic
        self.asked = asked
        self.counters = Counters()
        self.closed = False
        self._lookup = lookup
        self._on_closed = closed
        self._inbox = Inbox(asked.queue_bytes)
        self.receiver = Receiver(self._inbox)
        self._strands: dict[str, Strand] = {}
        self._schema = schema
        self._stamps = itertools.count(1)
        self._last = Owner(f"stream {asked.subscription}, closing", self._crashed)
        self._closing: asyncio.Task[None] | None = None
        self._prepare()

    # Receiving

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message. `NoMessage` if none came in time."""
        message = self._inbox.take()
        if message is None:
            message = await self.receiver.next(timeout_s)
        self._hand_out(message)
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
        for message in batch:
            self._hand_out(message)
        return batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None

    # Acknowledging

    async def acknowledge_cumulative(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """This one and everything that was received before it, of whatever segment. An id that was kept, as bytes or in
        another process, works as well as the message: it says what was received before it. With `confirm` the brokers'
        receipts are awaited; if that fails it is not known whether they arrived, and they are sent again later.
        """
        self._check()
        if isinstance(message, Message):
            if message._delivery.source.consumer.whole is not self:
                raise Misuse("the message was received by another consumer", topic=message.topic)
            acks = [(one, one.positions.acknowledged(message._stamp)) for one in self._strands.values()]
        else:
            known = self._vectors(message)
            acks = [(one, one.positions.covered(known.get(one.topic, {}))) for one in self._strands.values()]
        self.counters.acks += 1
        parts = [part for one, found in acks for part in one.acknowledge(found)]
        if confirm:
            await asyncio.gather(*(part.confirm() for part in parts))
        else:
            for part in parts:
                part.acker.added()
        for one, _ in acks:
            one.settle()

    # Moving about

    async def seek(self, to: SeekTo) -> None:
        """Move the subscription, for all of its consumers: to the earliest or latest message, to the first one
        published at or after a time (a datetime, or milliseconds), or to a checkpoint, over all segments and with every
        key in order from there. Of a consumer of a namespace all topics are moved, or the checkpoint's. What was
        received before is not handed out any more, and to acknowledge it does nothing. `Conflict`: a later seek took
        the place of this one.
        """
        self._check()
        await asyncio.gather(*(self._strands[topic].seek(to) for topic in sought(to, self.topics)))

    @property
    def outstanding(self) -> set[int]:
        """The turns of messages that were handed out and can be acknowledged."""
        return {stamp for one in self._strands.values() for stamp in one.positions.stamps}

    # What it is

    @property
    def subscription(self) -> str:
        return self.asked.subscription

    @property
    def name(self) -> str:
        return self.asked.name

    @property
    def segments(self) -> list[int]:
        """The segments it reads at this moment."""
        return sorted(segment for one in self._strands.values() for segment in one.parts)

    @property
    def topics(self) -> list[str]:
        """The topics it reads, or is about to: of a consumer of a namespace, those that are there now."""
        return sorted(self._strands)

    @property
    def failing(self) -> Mapping[str, MagnetarError]:
        """Topics of its namespace that are not attached, and why: they are tried again."""
        return {}

    @property
    def connected(self) -> bool:
        """Is every segment attached to its broker at this moment?"""
        return all(part.connection is not None for one in self._strands.values() for part in one.parts.values())

    @property
    def queued(self) -> int:
        """Messages received and not taken yet."""
        return self._inbox.count

    @property
    def unacknowledged(self) -> int:
        """Messages taken and not acknowledged."""
        return sum(one.unacknowledged for one in self._strands.values())

    # Life

    async def start(self) -> None:
        """Learn who leads and register; called once, by whoever made it."""
        try:
            await self._begin(self._lookup.timeout_s)
        except BaseException:
            await self.close()
            raise

    def hurry(self) -> None:
        """Before a close because of an error: do not wait for a controller that is away."""
        for one in self._strands.values():
            one.hurry()

    async def close(self) -> None:
        """Send the acknowledgements that wait, leave every segment, then the subscription's other consumers take over.
        A close that is cancelled goes on by itself; another one waits for the same end.
        """
        if self._closing is None:
            self.receiver.end(Closed("the consumer is closed", subscription=self.asked.subscription))
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
            await self._finish()
        finally:
            if self._on_closed is not None:
                self._on_closed(self)

    # Its topic; a consumer of a namespace has others

    def _prepare(self) -> None:
        self._strands[self.topic] = self._strand(self.topic, self.asked, self._end)

    async def _begin(self, timeout_s: float) -> None:
        await self._strands[self.topic].start(timeout_s)

    async def _finish(self) -> None:
        await self._strands[self.topic].close()

    def _vectors(self, id: MessageId) -> Mapping[str, Mapping[SegmentId, Place]]:
        """By topic, what an id that was kept covers."""
        return {self.topic: vector_of(id, self.topic)}

    def _strand(
        self, topic: str, asked: Subscribing, ended: Callable[[MagnetarError], None], *, create: bool = True
    ) -> Strand:
        return Strand(
            self._lookup,
            topic,
            asked,
            whole=self,
            inbox=self._inbox,
            receiver=self.receiver,
            counters=self.counters,
            schema=self._schema,
            stamps=self._stamps,
            ended=ended,
            create=create,
        )

    # What messages ask of it

    def stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        """The id of a message that was handed out: where it is, and what else had been handed out by then."""
        return replace(plain, vector=self._vector(self._strands[self.topic], message))

    # Inside

    def _vector(self, strand: Strand, message: Message[Any]) -> Vector:
        found = strand.positions.vector(getattr(message, "_stamp", 0))
        return tuple((segment, place.message_id) for segment, place in found.items())

    def _hand_out(self, message: Message[Any]) -> None:
        """In the very step in which it leaves the inbox: so no later message's positions can miss it (N8)."""
        part = message._delivery.source
        message._stamp = part.consumer.positions.delivered(SegmentId(part.segment), place_of_message(message))

    def _end(self, error: MagnetarError) -> None:
        log.warning("stream consumer ended", topic=self.topic, subscription=self.asked.subscription, why=error)
        self.hurry()  # of a topic that is gone there is nobody to tell
        self.receiver.end(error)

    def _check(self) -> None:
        if self.closed:
            raise Closed("the consumer is closed", subscription=self.asked.subscription)

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("stream consumer failed", error, name=name)


def vector_of(id: MessageId, topic: str) -> dict[SegmentId, Place]:
    """What an id says of a topic's segments."""
    vector = dict(id.topics).get(topic, id.vector)
    found = {SegmentId(segment): place_of_id(position) for segment, position in vector}
    if id.segment >= 0 and (not id.topics or id.topic == topic):
        found.setdefault(SegmentId(id.segment), place_of_id(id))
    if not found:
        raise Misuse("the id does not say which segment it is of", id=str(id))
    return found
