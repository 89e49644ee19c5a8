"""A stream consumer: the messages of a scalable topic, every key in order through all splits and merges.

What users hold. The topic's controller gives each consumer of a subscription its share of the segments; this follows it
(`stream/assignment`), receives over one bounded inbox, and acknowledges up to a message, over all segments at once
(`positions`). A segment's children come when everything in it is acknowledged, or when one consumer has received
everything in all their parents (H-F20). Where the parents of a merge are at several consumers the child waits, and the
application is warned. Whatever is not acknowledged comes again. Every call belongs to one loop.
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
    """Made by `Client.stream_consumer`. `async for message in consumer` ends when the consumer is closed."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        asked: ConsumerConfig,
        *,
        schema: Schema[T],
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        facts = {"subscription": asked.subscription}
        super().__init__(lookup, asked, "stream", log=log, facts=facts, watches=True, closed=closed)
        self.topic = topic
        self._strands: dict[str, StreamTopic] = {}
        self._schema = schema
        self._stamps = itertools.count(1)
        self._prepare()

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message. `NoMessage` if none came in time; it says so if segments wait for acknowledgements."""
        try:
            return await super().receive(timeout_s)
        except NoMessage as error:
            waiting = {id: count for one in self._strands.values() for id, count in one.held_back.items()}
            if not waiting:
                raise
            named = ", ".join(f"{count} of segment {id}" for id, count in sorted(waiting.items()))
            raise NoMessage(
                f"no message came in time; unacknowledged messages ({named}) keep the next segments waiting: "
                "acknowledge them",
                **error.facts,
            ) from None

    # Acknowledging

    async def acknowledge_cumulative(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """This one and everything that was received before it, of whatever segment. An id that was kept, as bytes or in
        another process, works as well as the message: it says what was received before it. With `confirm` the brokers'
        receipts are awaited; if that fails it is not known whether they arrived, and they are sent again later.
        """
        self._check()
        if isinstance(message, Message):
            if getattr(message._delivery.source.consumer, "whole", None) is not self:
                raise Misuse("the message was received by another consumer", topic=message.topic)
            acks = [(one, one.positions.acknowledged(message._stamp)) for one in self._strands.values()]
        else:
            check_id(message)
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
        received before is not handed out any more, and to acknowledge such a message does nothing; an id that was kept
        from before still says how far to acknowledge. `Conflict`: a later seek took the place of this one.
        """
        self._check()
        await asyncio.gather(*(self._strands[topic].seek(to) for topic in sought(to, self.topics)))

    async def lag(self) -> Lag:
        """How far the subscription is behind, of all its consumers and segments together, also of segments that wait:
        messages that are not acknowledged, their bytes, and the publish time and age of the oldest. Acknowledgements of
        this consumer are sent first. `Refused`: the broker is not a Magnetar broker."""
        self._check()
        parts = [part for one in self._strands.values() for part in one.parts.values()]
        return await of_subscription(self._lookup, self.topics, self.subscription, parts)

    @property
    def _outstanding(self) -> set[int]:
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
    def unacknowledged(self) -> int:
        """Messages taken and not acknowledged."""
        return sum(one.unacknowledged for one in self._strands.values())

    # Life

    async def _start(self) -> None:
        """Learn who leads and register; called once, by whoever made it."""
        try:
            await self._begin(self._lookup.timeout_s)
        except BaseException:
            await self.close()
            raise

    def _hurry(self) -> None:
        """Before a close because of an error: do not wait for a controller that is away."""
        for one in self._strands.values():
            one.hurry()

    # Its topic; a consumer of a namespace has others

    def _prepare(self) -> None:
        self._strands[self.topic] = self._strand(self.topic, self.asked, self._end)

    async def _begin(self, timeout_s: float) -> None:
        await self._strands[self.topic].start(timeout_s)

    async def _leave(self) -> None:
        await self._strands[self.topic].close()

    def _vectors(self, id: MessageId) -> Mapping[str, Mapping[SegmentId, AckPosition]]:
        """By topic, what an id that was kept covers."""
        check_of(id, [self.topic])
        return {self.topic: vector_of(id, self.topic)}

    def _strand(
        self, topic: str, asked: ConsumerConfig, ended: Callable[[MagnetarError], None], *, create: bool = True
    ) -> StreamTopic:
        return StreamTopic(
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

    def _stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        """The id of a message that was handed out: where it is, and what else had been handed out by then."""
        return replace(plain, vector=self._vector(self._strands[self.topic], message))

    # Inside

    def _vector(self, strand: StreamTopic, message: Message[Any]) -> Vector:
        found = strand.positions.vector(getattr(message, "_stamp", 0))
        found.setdefault(SegmentId(message._delivery.source.segment), place_of_message(message))
        return tuple((segment, place.message_id) for segment, place in found.items())

    def _hand_out(self, messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
        """Records positions in the step in which messages leave the queue, so no later vector misses them (H-F23). A
        message of a segment that was left is dropped: the next consumer of the segment receives it (H-R1)."""
        found = []
        for message in messages:
            part = message._delivery.source
            segment = SegmentId(part.segment)
            positions: Positions[AckPosition] = part.consumer.positions
            if not positions.is_open(segment):
                log.warning("message_dropped", topic=part.topic, segment=segment, why="its segment was left")
                continue
            message._stamp = positions.delivered(segment, place_of_message(message))
            found.append(message)
        return found

    def _end(self, error: MagnetarError) -> None:
        if self.receiver.ended:
            return  # the first word holds: who loses its topic loses the subscription too
        log.warning("stream consumer ended", topic=self.topic, subscription=self.asked.subscription, why=error)
        self._hurry()  # of a topic that is gone there is nobody to tell
        self.receiver.end(error)


def vector_of(id: MessageId, topic: str) -> dict[SegmentId, AckPosition]:
    """What an id says of a topic's segments."""
    vector = dict(id.topics).get(topic, id.vector)
    found = {SegmentId(segment): place_of_id(position) for segment, position in vector}
    if id.segment >= 0 and (not id.topics or id.topic == topic):
        found.setdefault(SegmentId(id.segment), place_of_id(id))
    if not found:
        raise Misuse("the id does not say which segment it is of", id=str(id))
    return found
