"""A checkpoint consumer: reads a scalable topic from a position that its user stores, with every key in order through
all splits and merges.

This is the public class. Brokers store nothing for it: `checkpoint()` returns the received positions of all segments,
and a consumer that starts there continues with the next message of each. A segment is read after every message before
it was received (`layout.checkpoint` decides, `single` acts). Messages that were deleted before they were read end it
with `DataLost`, or are reported to `on_gap` if given. Every call belongs to one event loop.
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
    """Created by `Client.checkpoint_consumer`. `async for message in consumer` ends when the consumer is closed."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        config: ConsumerConfig,
        *,
        start: StartAt,
        schema: Schema[T],
        on_gap: OnGap | None = None,
        grouped: bool = False,
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__(lookup, config, "checkpoint", log=log, facts={"topic": topic}, watches=True, closed=closed)
        config = self.asked
        self.topic = topic
        self._begin_at = said(start)
        self._shared = self._context(schema)
        losses = LossReporter(topic, self.counters, on_gap)
        kind: type[SingleReader] | type[GroupMember] = GroupMember if grouped else SingleReader
        self._reading = kind(lookup, topic, config, make=self._parts, losses=losses, ended=self._end)

    # Checkpoints

    async def checkpoint(self) -> Checkpoint:
        """The positions up to which the application has received now. Store them, as `to_bytes()`, with the results of
        the messages: a consumer that starts there receives every later message, and none twice. In a group it is the
        checkpoint of the whole group: messages received by this member are done, and their next reader skips them.
        """
        return Checkpoint.of(await self._reading.checkpoint())

    async def seek(self, to: StartAt) -> None:
        """Continue at another position: messages received and not taken are dropped. If it fails, nothing changes. A
        member cannot seek its group.
        """
        where = said(to)
        self._check()
        await self._reading.seek(*where)

    async def lag(self) -> Lag:
        """The number of messages after the positions of this consumer, their bytes, and the publish time and age of the
        oldest. In a group: after the positions of the whole group's last checkpoint."""
        self._check()
        group = self._reading.group
        if group is not None:
            return await of_subscription(self._lookup, [self.topic], group)
        return await of_places(self._lookup, self.topic, self._reading.positions)

    @property
    def positions(self) -> dict[int, SegmentPosition]:
        """The last received message of each segment: `START` before the first one, `DONE` after the last one."""
        return {int(id): place for id, place in self._reading.positions.items()}

    # Properties

    @property
    def name(self) -> str:
        return self.asked.name

    @property
    def segments(self) -> list[int]:
        """The segments that it reads now."""
        return [] if self._reading.parts is None else sorted(self._reading.parts.parts)

    @property
    def connected(self) -> bool:
        """Whether every segment is attached to its broker now."""
        parts = self._reading.parts
        return parts is not None and all(part.connection is not None for part in parts.parts.values())

    # Lifecycle

    async def _start(self) -> None:
        """Fetch the layout, find the start position, attach; its creator calls it once."""
        try:
            await self._reading.start(*self._begin_at)
        except BaseException:
            await self.close()
            raise

    # Called by messages and the blocking consumer

    def _stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        return plain

    def _handed(self, messages: Iterable[Message[Any]]) -> None:
        """The application took these messages: from here on a checkpoint covers them."""
        self._reading.handed(messages)

    # Internal

    def _hand_out(self, messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
        self._reading.handed(messages)
        return messages

    async def _leave(self) -> None:
        await self._reading.close()

    def _parts(self, reading: ReaderProtocol) -> SegmentReaders:
        return SegmentReaders(self._shared, self.topic, self.asked, reading)

    def _end(self, error: MagnetarError) -> None:
        self.receiver.end(error)
