"""The blocking stream consumer: messages cross from the loop thread in groups and count as received from then on.
So they keep their order among all received messages, and an acknowledgement of a later one covers them: threads of one
consumer that acknowledge must coordinate.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

from magnetar.base.errors import MagnetarError
from magnetar.base.public import public
from magnetar.client.consumer.scalable.seek import SeekTo
from magnetar.client.consumer.scalable.stream.consumer import StreamConsumer as AsyncStreamConsumer
from magnetar.client.counters import Counters
from magnetar.client.lag import Lag
from magnetar.client.message import Message, MessageId
from magnetar.client.sync.pulling_consumer import PullingConsumer

T = TypeVar("T")


@public("magnetar")
class StreamConsumer(PullingConsumer[AsyncStreamConsumer[Any], T], Generic[T]):
    """Created by `Client.stream_consumer`. `for message in consumer` ends when the consumer is closed."""

    def acknowledge_cumulative(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """Acknowledge a message and everything received before it, in all segments. `confirm` awaits the brokers'
        replies.
        """
        self._run(lambda consumer: consumer.acknowledge_cumulative(message, confirm=confirm))

    def seek(self, to: SeekTo) -> None:
        """Move the subscription, for all of its consumers: to the earliest or latest message, a publish time, or a
        checkpoint. Earlier received messages are discarded, and acknowledging them has no effect; an earlier stored id
        still acknowledges up to its position."""
        self._run(lambda consumer: self._seek(consumer, to))

    def lag(self) -> Lag:
        """The backlog of the subscription over all its consumers and segments: the unacknowledged messages, their
        bytes, and the publish time and age of the oldest."""
        return self._run(lambda consumer: consumer.lag())

    async def _seek(self, consumer: AsyncStreamConsumer[Any], to: SeekTo) -> None:
        """Runs on the loop, where messages are put on the shelf: messages that arrived after the seek stay there."""
        await consumer.seek(to)
        outstanding, items = consumer._outstanding, self._shelf.items
        for message in list(items):  # one by one in place: the rest keeps its order while threads take messages
            if message._stamp not in outstanding:
                with suppress(ValueError):  # a thread took it
                    items.remove(message)

    @property
    def topic(self) -> str:
        return self._core()[1].topic

    @property
    def subscription(self) -> str:
        return self._core()[1].subscription

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
    def unacknowledged(self) -> int:
        return self._core()[1].unacknowledged

    @property
    def topics(self) -> list[str]:
        """The topics that it reads or is about to read; for a namespace, those that exist now."""
        return self._core()[1].topics

    @property
    def failing(self) -> Mapping[str, MagnetarError]:
        """Topics of its namespace that are not attached, and their errors: they are retried."""
        return self._core()[1].failing

    @property
    def counters(self) -> Counters:
        return self._core()[1].counters

    @property
    def closed(self) -> bool:
        return self._core()[1].closed
