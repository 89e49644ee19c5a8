"""The values that travel together from a consumer to the consumers of its single topics and segments.

Frozen values without behaviour. A consumer makes one context; its topics hand it on unchanged, or with another owner
of the messages (`dataclasses.replace`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import MagnetarError
from magnetar.client.connection.lookup import Lookup
from magnetar.client.connection.reconnect import Fatal, consumer_fatal
from magnetar.client.consumer.receive.delivery import DeadLetterSink
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue
from magnetar.client.consumer.receive.waiters import ReceiveWaiters
from magnetar.client.consumer.receive.writer_schemas import WriterSchemas
from magnetar.client.counters import Counters
from magnetar.client.schema import Schema

if TYPE_CHECKING:
    from magnetar.client.consumer.topic_consumer import TopicConsumer


@dataclass(frozen=True, slots=True)
class ConsumerContext:
    """What all topics of one consumer share. `consumer`: the owner of the messages."""

    lookup: Lookup
    inbox: ReceiveQueue
    receiver: ReceiveWaiters
    counters: Counters
    schema: Schema[Any]
    consumer: Any
    dead_letters: DeadLetterSink | None = None
    writers: WriterSchemas | None = None


@dataclass(frozen=True, slots=True)
class ScalableSegment:
    """A segment of a scalable topic. `topic`: the scalable topic. `home`: the topic of its consumer; differs if `topic`
    is the consumer's retry topic."""

    id: int
    topic: str = ""
    home: str = ""


def _ignore(part: TopicConsumer, is_active: bool) -> None:
    pass


@dataclass(frozen=True, slots=True)
class TopicCallbacks:
    """The reports of the consumer of one topic to its owner. `fatal`: the errors that end it."""

    ended: Callable[[TopicConsumer], None]  # the topic is terminated, and all its messages are acknowledged
    failed: Callable[[TopicConsumer, MagnetarError], None]
    active: Callable[[TopicConsumer, bool], None] = _ignore
    fatal: Fatal = consumer_fatal
