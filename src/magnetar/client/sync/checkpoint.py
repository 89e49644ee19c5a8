"""The blocking checkpoint consumer: messages cross from the loop thread many at a time, and count as received when a
thread has taken them, not before: a checkpoint covers what the application has.
"""

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
    """Made by `Client.checkpoint_consumer`. `for message in consumer` ends when the consumer is closed."""

    _shelf: CountedOutbox[Message[T]]

    def _renewed(self, where: Portal, made: AsyncCheckpointConsumer[Any]) -> None:
        self._shelf = CountedOutbox(where)
        made.receiver.serve(_Threads(self._shelf, made))

    def receive_batch(
        self, messages_max: int = BATCH_MESSAGES_MAX, *, timeout_s: float = BATCH_WAIT_S
    ) -> list[Message[T]]:
        """What is at hand, at most so many; one at least if any comes in time."""
        try:
            first = self.receive(timeout_s)
        except NoMessage:
            return []
        return [first, *self._shelf.take_some(messages_max - 1)]

    def checkpoint(self) -> Checkpoint:
        """How far the application has received, in all its threads, at this moment."""
        return self._run(lambda made: self._checkpoint(made))

    def seek(self, to: StartAt) -> None:
        """Go on elsewhere: what was received and not taken is dropped. If it fails nothing has changed."""
        self._run(lambda made: made.seek(to))

    def lag(self) -> Lag:
        """How many messages lie behind the positions of this consumer, or of its group, their bytes, and the publish
        time and age of the oldest."""
        return self._run(lambda made: self._lag(made))

    # What it is

    @property
    def positions(self) -> dict[int, SegmentPosition]:
        """The last message received of each segment."""
        where, made = self._core()
        return where.run(lambda: self._positions(made))

    @property
    def topic(self) -> str:
        return self._core()[1].topic

    @property
    def name(self) -> str:
        return self._core()[1].name

    @property
    def segments(self) -> list[int]:
        """The segments it reads at this moment."""
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

    async def _fetch(self, made: AsyncCheckpointConsumer[Any], timeout_s: float | None) -> None:
        made._handed(self._shelf.taken())
        found = made.receiver.take_some(CLIENT_TAKEN_MESSAGES_MAX)
        if not found:
            self._shelf.put([await made.receiver.next(timeout_s)])
            found = made.receiver.take_some(CLIENT_TAKEN_MESSAGES_MAX)
        self._shelf.put(found)

    async def _checkpoint(self, made: AsyncCheckpointConsumer[Any]) -> Checkpoint:
        made._handed(self._shelf.taken())
        return await made.checkpoint()

    async def _lag(self, made: AsyncCheckpointConsumer[Any]) -> Lag:
        made._handed(self._shelf.taken())
        return await made.lag()

    async def _positions(self, made: AsyncCheckpointConsumer[Any]) -> dict[int, SegmentPosition]:
        made._handed(self._shelf.taken())
        return made.positions


class _Threads:
    """What they have taken is told before a reader is left, and what they have not is of no more use then: it comes
    again, or it is of before a seek. A reader that is attached anew goes on behind what was put on the shelf.
    """

    def __init__(self, shelf: CountedOutbox[Message[Any]], made: AsyncCheckpointConsumer[Any]) -> None:
        self._shelf = shelf
        self._consumer = made

    def arrived(self) -> None:
        pass

    def gather(self) -> None:
        self._shelf.drop(_left)
        self._consumer._handed(self._shelf.taken())

    def put_away(self, source: TopicConsumer, positions: set[tuple[int, int]] | None) -> None:
        if source.skipping:  # its segment is another's now
            self._shelf.drop(lambda message: message._delivery.source is source)
            self._consumer._handed(self._shelf.taken())


def _left(message: Message[Any]) -> bool:
    part: TopicConsumer = message._delivery.source
    return part.closed or part.failed is not None
