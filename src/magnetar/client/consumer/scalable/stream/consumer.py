"""A stream consumer: the messages of a scalable topic, every key in order through all splits and merges.

This is the public class. The topic's controller assigns each consumer of a subscription its share of the segments. This
class follows the assignments (`stream/assignment`), receives over one bounded queue, and acknowledges up to a message,
over all segments together (`positions`). A segment's children follow when everything in it is acknowledged, or when one
consumer has received everything in all their parents (H-F20). If the parents of a merge are at several consumers, the
child waits, and the application gets a warning. Unacknowledged messages are redelivered. Every call belongs to one
loop.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.ids import SegmentId
from magnetar.base.public import public
from magnetar.client.arguments import check_id, check_of
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.base import ConsumerBase
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.consumer.scalable.seek import SeekTo, sought
from magnetar.client.consumer.scalable.stream.ack_position import AckPosition, place_of_id, place_of_message
from magnetar.client.consumer.scalable.stream.positions import Positions
from magnetar.client.consumer.scalable.stream.topic import StreamTopic
from magnetar.client.lag import Lag, of_subscription
from magnetar.client.message import Message, MessageId
from magnetar.client.schema import Schema
from magnetar.observe.log import get
from magnetar.wire.ids import Vector

log = get("client.stream")

T = TypeVar("T")


@public("magnetar.aio")
class StreamConsumer(ConsumerBase[T], Generic[T]):
    """Created by `Client.stream_consumer`. `async for message in consumer` ends when the consumer is closed."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        config: ConsumerConfig,
        *,
        schema: Schema[T],
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        facts = {"subscription": config.subscription}
        super().__init__(lookup, config, "stream", log=log, facts=facts, watches=True, closed=closed)
        self.topic = topic
        self._strands: dict[str, StreamTopic] = {}
        self._shared = self._context(schema)
        self._stamps = itertools.count(1)
        self._prepare()

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message. `NoMessage` if none arrives in time; it names segments that wait for acknowledgements."""
        try:
            return await super().receive(timeout_s)
        except NoMessage as error:
            waiting = {id: count for one in self._strands.values() for id, count in one.held_back.items()}
            if not waiting:
                raise
            named = ", ".join(f"{count} of segment {id}" for id, count in sorted(waiting.items()))
            raise NoMessage(
                f"no message arrived in time; unacknowledged messages ({named}) keep the next segments waiting: "
                "acknowledge them",
                **error.facts,
            ) from None

    # Acknowledging

    async def acknowledge_cumulative(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """Acknowledge a message and everything received before it, in all segments. A stored id, as bytes or in another
        process, works like the message: it contains the positions received before it. `confirm` awaits the brokers'
        replies; if that fails, the outcome is unknown, and the acknowledgements are sent again later.
        """
        self._check()
        if isinstance(message, Message):
            if getattr(message._delivery.source.consumer, "whole", None) is not self:
                raise Misuse("the message was received by another consumer: acknowledge it there", topic=message.topic)
            acks = [(strand, strand.positions.acknowledged(message._stamp)) for strand in self._strands.values()]
        else:
            check_id(message)
            vectors = self._vectors(message)
            acks = [
                (strand, strand.positions.covered(vectors.get(strand.topic, {}))) for strand in self._strands.values()
            ]
        self.counters.acks += 1
        parts = [part for strand, found in acks for part in strand.acknowledge(found)]
        if confirm:
            await asyncio.gather(*(part.confirm() for part in parts))
        else:
            for part in parts:
                part.acker.added()
        for strand, _ in acks:
            strand.settle()

    # Positions

    async def seek(self, to: SeekTo) -> None:
        """Move the subscription, for all of its consumers and segments, with every key in order from there: to the
        earliest or latest message, to the first message published at or after a time (a datetime, or milliseconds), or
        to a checkpoint. A consumer of a namespace moves all topics, or the topic of the checkpoint. Earlier received
        messages are discarded, and acknowledging them has no effect; an earlier stored id still acknowledges up to its
        position. `Conflict`: a later seek replaced this one.
        """
        self._check()
        await asyncio.gather(*(self._strands[topic].seek(to) for topic in sought(to, self.topics)))

    async def lag(self) -> Lag:
        """The backlog of the subscription over all its consumers and segments, including waiting segments: the
        unacknowledged messages, their bytes, and the publish time and age of the oldest. Acknowledgements of this
        consumer are sent first. `Refused`: the broker is not a Magnetar broker."""
        self._check()
        parts = [part for one in self._strands.values() for part in one.parts.values()]
        return await of_subscription(self._lookup, self.topics, self.subscription, parts)

    @property
    def _outstanding(self) -> set[int]:
        """The stamps of handed-out messages that can be acknowledged."""
        return {stamp for one in self._strands.values() for stamp in one.positions.stamps}

    # Properties

    @property
    def subscription(self) -> str:
        return self.asked.subscription

    @property
    def name(self) -> str:
        return self.asked.name

    @property
    def segments(self) -> list[int]:
        """The segments that it reads now."""
        return sorted(segment for one in self._strands.values() for segment in one.parts)

    @property
    def topics(self) -> list[str]:
        """The topics that it reads or is about to read; for a namespace, those that exist now."""
        return sorted(self._strands)

    @property
    def failing(self) -> Mapping[str, MagnetarError]:
        """Topics of its namespace that are not attached, and their errors: they are retried."""
        return {}

    @property
    def connected(self) -> bool:
        """Whether every segment is attached to its broker now."""
        return all(part.connection is not None for one in self._strands.values() for part in one.parts.values())

    @property
    def unacknowledged(self) -> int:
        """The number of messages taken and not acknowledged."""
        return sum(one.unacknowledged for one in self._strands.values())

    # Lifecycle

    async def _start(self) -> None:
        """Find the controller and register; its creator calls it once."""
        try:
            await self._begin(self._lookup.timeout_s)
        except BaseException:
            await self.close()
            raise

    def _hurry(self) -> None:
        """Before a close because of an error: do not wait for an unreachable controller."""
        for strand in self._strands.values():
            strand.hurry()

    # Its topic; a consumer of a namespace overrides these

    def _prepare(self) -> None:
        self._strands[self.topic] = self._strand(self.topic, self.asked, self._end)

    async def _begin(self, timeout_s: float) -> None:
        await self._strands[self.topic].start(timeout_s)

    async def _leave(self) -> None:
        await self._strands[self.topic].close()

    def _vectors(self, id: MessageId) -> Mapping[str, Mapping[SegmentId, AckPosition]]:
        """By topic, the positions that a stored id covers."""
        check_of(id, [self.topic])
        return {self.topic: vector_of(id, self.topic)}

    def _strand(
        self, topic: str, config: ConsumerConfig, ended: Callable[[MagnetarError], None], *, create: bool = True
    ) -> StreamTopic:
        return StreamTopic(self._shared, topic, config, stamps=self._stamps, ended=ended, create=create)

    # Called by messages

    def _stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        """The id of a handed-out message: its position, and the messages that had been handed out by then."""
        return replace(plain, vector=self._vector(self._strands[self.topic], message))

    # Internal

    def _vector(self, strand: StreamTopic, message: Message[Any]) -> Vector:
        vector = strand.positions.vector(getattr(message, "_stamp", 0))
        vector.setdefault(SegmentId(message._delivery.source.segment), place_of_message(message))
        return tuple((segment, place.message_id) for segment, place in vector.items())

    def _hand_out(self, messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
        """Records positions in the step in which messages leave the queue, so no later vector misses them (H-F23). A
        message of a released segment is dropped: the next consumer of the segment receives it (H-R1)."""
        vectors = []
        for message in messages:
            part = message._delivery.source
            segment = SegmentId(part.segment)
            positions: Positions[AckPosition] = part.consumer.positions
            if not positions.is_open(segment):
                log.warning("message_dropped", topic=part.topic, segment=segment, why="its segment was released")
                continue
            message._stamp = positions.delivered(segment, place_of_message(message))
            vectors.append(message)
        return vectors

    def _end(self, error: MagnetarError) -> None:
        if self.receiver.ended:
            return  # the first error is final: a lost topic also ends its subscription
        log.warning("stream_consumer_ended", topic=self.topic, subscription=self.asked.subscription, why=error)
        self._hurry()  # the topic may be deleted: do not wait for its controller
        self.receiver.end(error)


def vector_of(id: MessageId, topic: str) -> dict[SegmentId, AckPosition]:
    """The positions in a topic's segments that an id contains."""
    vector = dict(id.topics).get(topic, id.vector)
    positions = {SegmentId(segment): place_of_id(position) for segment, position in vector}
    if id.segment >= 0 and (not id.topics or id.topic == topic):
        positions.setdefault(SegmentId(id.segment), place_of_id(id))
    if not positions:
        raise Misuse("the id does not name its segment: use the message itself", id=str(id))
    return positions
