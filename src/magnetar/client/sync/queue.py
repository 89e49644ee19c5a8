"""The blocking queue consumer: threads share it; each message goes to one thread and is acknowledged individually."""

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
    """Created by `Client.queue_consumer`. `for message in consumer` ends when the consumer is closed. Messages cross
    from the loop thread in groups; those that were not handed out yet count as received.
    """

    def seek(self, to: SeekTo) -> None:
        """Move the subscription, for all of its consumers: to the earliest or latest message, a publish time, or a
        checkpoint. Messages received before and not taken are discarded."""
        self._run(lambda consumer: self._after_acks(consumer.seek(to)))

    def lag(self) -> Lag:
        """The backlog of the subscription over all its consumers and segments: the unacknowledged messages, their
        bytes, and the publish time and age of the oldest."""
        lag: Lag = self._run(lambda consumer: self._after_acks(consumer.lag()))
        return lag

    @property
    def topic(self) -> str:
        return self._core()[1].topic

    @property
    def name(self) -> str:
        return self._core()[1].name

    @property
    def segments(self) -> list[int]:
        """The attached or attaching segments."""
        return self._core()[1].segments

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
