"""A checkpoint consumer: a scalable topic read from a place that its user keeps, every key in order through all splits
and merges.

What users hold. Brokers remember nothing of it: `checkpoint()` says how far the application has received, over all
segments, and a consumer that starts there goes on with the next message of each. A segment is read when everything
before it was received (`layout.checkpoint` decides, `single` acts). Messages that are gone before they were
read end it with `DataLost`, unless `on_gap` is there to be told of each gap. Every call belongs to one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from magnetar.base.errors import MagnetarError
from magnetar.base.public import public
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.base import ConsumerBase
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.scalable.checkpoint.group import GroupMember
from magnetar.client.consumer.scalable.checkpoint.segments import ReaderProtocol, SegmentReaders
from magnetar.client.consumer.scalable.checkpoint.single import LossReporter, OnGap, SingleReader
from magnetar.client.consumer.scalable.checkpoint.start import StartAt, said
from magnetar.client.lag import Lag, of_places, of_subscription
from magnetar.client.message import Message, MessageId
from magnetar.client.schema import Schema
from magnetar.layout.checkpoint import SegmentPosition
from magnetar.observe.log import get
from magnetar.wire.scalable.checkpoint import Checkpoint

__all__ = ["CheckpointConsumer", "OnGap"]

log = get("client.checkpoint")

T = TypeVar("T")


@public("magnetar.aio")
class CheckpointConsumer(ConsumerBase[T], Generic[T]):
    """Made by `Client.checkpoint_consumer`. `async for message in consumer` ends when the consumer is closed."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        asked: ConsumerConfig,
        *,
        start: StartAt,
        schema: Schema[T],
        on_gap: OnGap | None = None,
        grouped: bool = False,
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__(lookup, asked, "checkpoint", log=log, facts={"topic": topic}, watches=True, closed=closed)
        asked = self.asked
        self.topic = topic
        self._begin_at = said(start)
        self._schema = schema
        losses = LossReporter(topic, self.counters, on_gap)
        kind: type[SingleReader] | type[GroupMember] = GroupMember if grouped else SingleReader
        self._reading = kind(lookup, topic, asked, make=self._parts, losses=losses, ended=self._end)

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

    async def lag(self) -> Lag:
        """How many messages lie behind the positions of this consumer, their bytes, and the publish time and age of the
        oldest. In a group: behind the places of the whole group, as of its last checkpoint."""
        self._check()
        group = self._reading.group
        if group is not None:
            return await of_subscription(self._lookup, [self.topic], group)
        return await of_places(self._lookup, self.topic, self._reading.positions)

    @property
    def positions(self) -> dict[int, SegmentPosition]:
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

    # Life

    async def _start(self) -> None:
        """Learn the layout, find out where to start, attach; called once, by whoever made it."""
        try:
            await self._reading.start(*self._begin_at)
        except BaseException:
            await self.close()
            raise

    # What messages and the blocking consumer ask of it

    def _stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        return plain

    def _handed(self, messages: Iterable[Message[Any]]) -> None:
        """The application has these: from here on a checkpoint covers them."""
        self._reading.handed(messages)

    # Inside

    def _hand_out(self, messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
        self._reading.handed(messages)
        return messages

    async def _leave(self) -> None:
        await self._reading.close()

    def _parts(self, reading: ReaderProtocol) -> SegmentReaders:
        return SegmentReaders(
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
