"""The blocking checkpoint consumer: messages cross from the loop thread in groups, and count as received only after a
thread took them, so that a checkpoint covers the messages that the application has."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from magnetar.base.limits import CLIENT_TAKEN_MESSAGES_MAX
from magnetar.base.public import public
from magnetar.client.consumer.base import BATCH_MESSAGES_MAX, BATCH_WAIT_S
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.consumer.scalable.checkpoint.consumer import CheckpointConsumer as AsyncCheckpointConsumer
from magnetar.client.consumer.scalable.checkpoint.start import StartAt
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.counters import Counters
from magnetar.client.lag import Lag
from magnetar.client.message import Message
from magnetar.client.sync.pulling_consumer import PullingConsumer
from magnetar.layout.checkpoint import SegmentPosition
from magnetar.runtime.portal import Portal
from magnetar.runtime.thread_queues import CountedOutbox
from magnetar.wire.scalable.checkpoint import Checkpoint

T = TypeVar("T")


@public("magnetar")
class CheckpointConsumer(PullingConsumer[AsyncCheckpointConsumer[Any], T], Generic[T]):
    """Created by `Client.checkpoint_consumer`. `for message in consumer` ends when the consumer is closed."""

    _shelf: CountedOutbox[Message[T]]

    def _renewed(self, where: Portal, consumer: AsyncCheckpointConsumer[Any]) -> None:
        self._shelf = CountedOutbox(where)
        consumer.receiver.serve(_Threads(self._shelf, consumer))

    def receive_batch(
        self, messages_max: int = BATCH_MESSAGES_MAX, *, timeout_s: float = BATCH_WAIT_S
    ) -> list[Message[T]]:
        """The available messages, up to the bound; at least one if any arrives in time."""
        try:
            first = self.receive(timeout_s)
        except NoMessage:
            return []
        return [first, *self._shelf.take_some(messages_max - 1)]

    def checkpoint(self) -> Checkpoint:
        """The positions up to which the application has received, in all its threads, now."""
        return self._run(lambda consumer: self._checkpoint(consumer))

    def seek(self, to: StartAt) -> None:
        """Continue at another position: messages received and not taken are dropped. If it fails, nothing changes."""
        self._run(lambda consumer: consumer.seek(to))

    def lag(self) -> Lag:
        """The number of messages after the positions of this consumer, or of its group, their bytes, and the publish
        time and age of the oldest."""
        return self._run(lambda consumer: self._lag(consumer))

    # Properties

    @property
    def positions(self) -> dict[int, SegmentPosition]:
        """The last received message of each segment."""
        where, consumer = self._core()
        return where.run(lambda: self._positions(consumer))

    @property
    def topic(self) -> str:
        return self._core()[1].topic

    @property
    def name(self) -> str:
        return self._core()[1].name

    @property
    def segments(self) -> list[int]:
        """The segments that it reads now."""
        return self._core()[1].segments

    @property
    def queued(self) -> int:
        return self._core()[1].queued + len(self._shelf)

    @property
    def counters(self) -> Counters:
        return self._core()[1].counters

    @property
    def closed(self) -> bool:
        return self._core()[1].closed

    # On the loop

    async def _fetch(self, consumer: AsyncCheckpointConsumer[Any], timeout_s: float | None) -> None:
        consumer._handed(self._shelf.taken())
        messages = consumer.receiver.take_some(CLIENT_TAKEN_MESSAGES_MAX)
        if not messages:
            self._shelf.put([await consumer.receiver.next(timeout_s)])
            messages = consumer.receiver.take_some(CLIENT_TAKEN_MESSAGES_MAX)
        self._shelf.put(messages)

    async def _checkpoint(self, consumer: AsyncCheckpointConsumer[Any]) -> Checkpoint:
        consumer._handed(self._shelf.taken())
        return await consumer.checkpoint()

    async def _lag(self, consumer: AsyncCheckpointConsumer[Any]) -> Lag:
        consumer._handed(self._shelf.taken())
        return await consumer.lag()

    async def _positions(self, consumer: AsyncCheckpointConsumer[Any]) -> dict[int, SegmentPosition]:
        consumer._handed(self._shelf.taken())
        return consumer.positions


class _Threads:
    """Reports messages that threads took before a reader is closed. Messages that no thread took are dropped then: they
    are redelivered, or outdated by a seek. A reattached reader continues after the messages put on the shelf.
    """

    def __init__(self, shelf: CountedOutbox[Message[Any]], consumer: AsyncCheckpointConsumer[Any]) -> None:
        self._shelf = shelf
        self._consumer = consumer

    def arrived(self) -> None:
        pass

    def gather(self) -> None:
        self._shelf.drop(_left)
        self._consumer._handed(self._shelf.taken())

    def put_away(self, source: TopicConsumer, positions: set[tuple[int, int]] | None) -> None:
        if source.skipping:  # its segment is assigned to another reader now
            self._shelf.drop(lambda message: message._delivery.source is source)
            self._consumer._handed(self._shelf.taken())


def _left(message: Message[Any]) -> bool:
    part: TopicConsumer = message._delivery.source
    return part.closed or part.failed is not None
