"""The blocking queue consumer: threads share it, each message goes to one of them and is acknowledged by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from magnetar.base.errors import MagnetarError
from magnetar.base.public import public
from magnetar.client.consumer.scalable.queue.consumer import QueueConsumer as AsyncQueueConsumer
from magnetar.client.consumer.scalable.seek import SeekTo
from magnetar.client.counters import Counters
from magnetar.client.lag import Lag
from magnetar.client.sync.acking_consumer import AckingConsumer

T = TypeVar("T")


@public("magnetar")
class QueueConsumer(AckingConsumer[AsyncQueueConsumer[Any], T], Generic[T]):
    """Made by `Client.queue_consumer`. `for message in consumer` ends when the consumer is closed. Messages cross from
    the loop thread many at a time; those that were not handed out yet count as received.
    """

    def seek(self, to: SeekTo) -> None:
        """Move the subscription, for all of its consumers: to the earliest or latest message, a publish time, or a
        checkpoint. What was received before and not taken is not handed out any more."""
        self._run(lambda made: self._after_acks(made.seek(to)))

    def lag(self) -> Lag:
        """How far the subscription is behind, of all its consumers and segments together: messages that are not
        acknowledged, their bytes, and the publish time and age of the oldest."""
        found: Lag = self._run(lambda made: self._after_acks(made.lag()))
        return found

    @property
    def topic(self) -> str:
        return self._core()[1].topic

    @property
    def name(self) -> str:
        return self._core()[1].name

    @property
    def segments(self) -> list[int]:
        """The segments it is attached to, or about to be."""
        return self._core()[1].segments

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
