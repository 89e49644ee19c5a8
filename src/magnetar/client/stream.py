"""A stream consumer: the messages of a scalable topic, every key in order through all splits and merges.

What users hold. The topic's controller gives each consumer of a subscription its share of the segments; this follows it
(`follow`), receives over one bounded inbox, and acknowledges up to a message, over all segments at once (`positions`).
A segment's children are handed out when everything in it is acknowledged: whoever acknowledges nothing gets no further
than the next split, and is warned. Whatever is not acknowledged comes again. Every call belongs to one loop.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.ids import SegmentId
from magnetar.client.given import check_id, check_of
from magnetar.client.lookup import Lookup
from magnetar.client.message import Message, MessageId
from magnetar.client.moving import SeekTo, sought
from magnetar.client.places import Place, place_of_id, place_of_message
from magnetar.client.receiving import Receiving
from magnetar.client.schemas import Schema
from magnetar.client.strand import Strand
from magnetar.client.subscribing import Subscribing
from magnetar.observe.log import get
from magnetar.wire.ids import Vector

log = get("client.stream")

T = TypeVar("T")


class StreamConsumer(Receiving[T], Generic[T]):
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
        facts = {"subscription": asked.subscription}
        super().__init__(lookup, asked, "stream", log=log, facts=facts, watches=True, closed=closed)
        self.topic = topic
        self._strands: dict[str, Strand] = {}
        self._schema = schema
        self._stamps = itertools.count(1)
        self._prepare()

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

    # Its topic; a consumer of a namespace has others

    def _prepare(self) -> None:
        self._strands[self.topic] = self._strand(self.topic, self.asked, self._end)

    async def _begin(self, timeout_s: float) -> None:
        await self._strands[self.topic].start(timeout_s)

    async def _leave(self) -> None:
        await self._strands[self.topic].close()

    def _vectors(self, id: MessageId) -> Mapping[str, Mapping[SegmentId, Place]]:
        """By topic, what an id that was kept covers."""
        check_of(id, [self.topic])
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
        found.setdefault(SegmentId(message._delivery.source.segment), place_of_message(message))
        return tuple((segment, place.message_id) for segment, place in found.items())

    def _hand_out(self, messages: Sequence[Message[Any]]) -> None:
        """In the very step in which they leave the inbox: so no later message's positions can miss them (N8)."""
        for message in messages:
            part = message._delivery.source
            message._stamp = part.consumer.positions.delivered(SegmentId(part.segment), place_of_message(message))

    def _end(self, error: MagnetarError) -> None:
        if self.receiver.ended:
            return  # the first word holds: who loses its topic loses the subscription too
        log.warning("stream consumer ended", topic=self.topic, subscription=self.asked.subscription, why=error)
        self.hurry()  # of a topic that is gone there is nobody to tell
        self.receiver.end(error)


def vector_of(id: MessageId, topic: str) -> dict[SegmentId, Place]:
    """What an id says of a topic's segments."""
    vector = dict(id.topics).get(topic, id.vector)
    found = {SegmentId(segment): place_of_id(position) for segment, position in vector}
    if id.segment >= 0 and (not id.topics or id.topic == topic):
        found.setdefault(SegmentId(id.segment), place_of_id(id))
    if not found:
        raise Misuse("the id does not say which segment it is of", id=str(id))
    return found
