"""The blocking stream consumer: messages cross from the loop thread many at a time and count as received from then on.

So they keep their turn among all that was received, and an acknowledgement of a later one covers them: threads of one
consumer that acknowledge must agree on what is done.
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
    """Made by `Client.stream_consumer`. `for message in consumer` ends when the consumer is closed."""

    def acknowledge_cumulative(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """This one and everything that was received before it, of whatever segment. With `confirm` the brokers'
        receipts are awaited.
        """
        self._run(lambda made: made.acknowledge_cumulative(message, confirm=confirm))

    def seek(self, to: SeekTo) -> None:
        """Move the subscription, for all of its consumers: to the earliest or latest message, a publish time, or a
        checkpoint. What was received before is not handed out any more, and to acknowledge such a message does nothing;
        an id that was kept from before still says how far to acknowledge."""
        self._run(lambda made: self._seek(made, to))

    def lag(self) -> Lag:
        """How far the subscription is behind, of all its consumers and segments together: messages that are not
        acknowledged, their bytes, and the publish time and age of the oldest."""
        return self._run(lambda made: made.lag())

    async def _seek(self, made: AsyncStreamConsumer[Any], to: SeekTo) -> None:
        """On the loop, where messages are put on the shelf: what came behind the seek stays there."""
        await made.seek(to)
        known, items = made._outstanding, self._shelf.items
        for message in list(items):  # one by one where they are: what stays keeps its turn while threads take
            if message._stamp not in known:
                with suppress(ValueError):  # taken meanwhile
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
        """The segments it reads at this moment."""
        return self._core()[1].segments

    @property
    def queued(self) -> int:
        return self._core()[1].queued + len(self._shelf)

    @property
    def unacknowledged(self) -> int:
        return self._core()[1].unacknowledged

    @property
    def topics(self) -> list[str]:
        """The topics it reads, or is about to: of a consumer of a namespace, those that are there now."""
        return self._core()[1].topics

    @property
    def failing(self) -> Mapping[str, MagnetarError]:
        """Topics of its namespace that are not attached, and why: they are tried again."""
        return self._core()[1].failing

    @property
    def counters(self) -> Counters:
        return self._core()[1].counters

    @property
    def closed(self) -> bool:
        return self._core()[1].closed
