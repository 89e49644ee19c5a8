"""Consumers of all scalable topics of a namespace, as streams or as queues: the public classes.

New topics are attached and deleted ones closed; the consumer never creates a topic (`follower`). All topics feed one
receive queue. A topic that is newer than the consumer is read from its first message, regardless of the initial
position. A topic that cannot be attached is retried and does not block the others; `failing` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.client.arguments import check_of
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.ack.dead_letter_publisher import MakeOutbox
from magnetar.client.consumer.ack.dead_letters import left_out
from magnetar.client.consumer.config import ConsumerConfig, InitialPosition
from magnetar.client.consumer.scalable.namespace.follower import Failed, Namespace, NamespaceFollower
from magnetar.client.consumer.scalable.queue.consumer import QueueConsumer
from magnetar.client.consumer.scalable.queue.topic import QueueTopic
from magnetar.client.consumer.scalable.stream.ack_position import AckPosition
from magnetar.client.consumer.scalable.stream.consumer import StreamConsumer, vector_of
from magnetar.client.consumer.scalable.stream.topic import StreamTopic
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.message import Message, MessageId
from magnetar.client.schema import Schema

T = TypeVar("T")


class NamespaceStreamConsumer(StreamConsumer[T], Generic[T]):
    """Created by `Client.stream_consumer` with a `Namespace`. Each key of each topic is in order, and one cumulative
    acknowledgement covers every earlier received message, of all topics.
    """

    def __init__(
        self,
        lookup: Lookup,
        namespace: Namespace,
        config: ConsumerConfig,
        *,
        schema: Schema[T],
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        self.namespace = namespace
        super().__init__(lookup, namespace.name, config, schema=schema, closed=closed)

    @property
    def failing(self) -> Mapping[str, MagnetarError]:
        """Topics of the namespace that are not attached, and their errors."""
        return self._following.failing

    def _stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        """The id of the message, and the messages of every topic that had been received by then."""
        topics = [(one.topic, self._vector(one, message)) for _, one in sorted(self._strands.items())]
        return replace(plain, topic=message.topic, topics=tuple(found for found in topics if found[1]))

    def _prepare(self) -> None:
        self._following: NamespaceFollower[StreamTopic] = NamespaceFollower(
            self._lookup, self.namespace, make=self._make, topics=self._strands
        )

    async def _begin(self, timeout_s: float) -> None:
        await self._following.start(timeout_s)

    async def _leave(self) -> None:
        await self._following.close()

    def _vectors(self, id: MessageId) -> Mapping[str, Mapping[SegmentId, AckPosition]]:
        if not id.topic:
            raise Misuse("the id does not name its topic: use the message itself", id=str(id))
        check_of(id, (), namespace=self.namespace.name)
        own = str(topic_name(id.topic).parent) if id.topic.startswith("segment://") else id.topic
        return {topic: vector_of(id, topic) for topic in [own, *(one for one, _ in id.topics if one != own)]}

    def _make(self, topic: str, newer: bool, failed: Failed) -> StreamTopic:
        def ended(error: MagnetarError) -> None:
            strand.hurry()  # the topic was deleted: no broker waits for a close
            failed(error)

        strand = self._strand(topic, _asked(self.asked, topic, newer), ended, create=False)
        return strand


class NamespaceQueueConsumer(QueueConsumer[T], Generic[T]):
    """Created by `Client.queue_consumer` with a `Namespace`. Each topic has its own dead-letter and retry topics, and
    those of the subscription are not consumed as topics of the namespace.
    """

    def __init__(
        self,
        lookup: Lookup,
        namespace: Namespace,
        config: ConsumerConfig,
        *,
        schema: Schema[T],
        make_outbox: MakeOutbox,
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        self.namespace = namespace
        super().__init__(lookup, namespace.name, config, schema=schema, make_outbox=make_outbox, closed=closed)

    @property
    def failing(self) -> Mapping[str, MagnetarError]:
        """Topics of the namespace that are not attached, and their errors."""
        return self._following.failing

    def _stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        return replace(plain, topic=message.topic)

    def _source_of(self, message: Message[Any] | MessageId) -> TopicConsumer | None:
        if isinstance(message, MessageId) and not message.topic:
            raise Misuse("the id does not name its topic: use the message itself", id=str(message))
        return super()._source_of(message)

    def _check_of(self, id: MessageId) -> None:
        check_of(id, (), namespace=self.namespace.name)

    def _prepare(self) -> None:
        config = self.asked
        self._following: NamespaceFollower[QueueTopic] = NamespaceFollower(
            self._lookup,
            self.namespace,
            make=self._make,
            topics=self._limbs,
            left_out=lambda topic: left_out(config, topic),
        )

    async def _begin(self, timeout_s: float) -> None:
        await self._following.start(timeout_s)

    async def _finish(self) -> None:
        await self._following.close()

    def _make(self, topic: str, newer: bool, failed: Failed) -> QueueTopic:
        return self._limb(
            topic,
            _asked(self.asked, topic, newer),
            failed,
            open_elsewhere=lambda: sum(1 for one in self._limbs.values() if one.topic != topic for _ in one.parts),
            create=False,
        )


def stream_of(
    lookup: Lookup, topic: str | Namespace, config: ConsumerConfig, *, schema: Schema[T], closed: Callable[[Any], None]
) -> StreamConsumer[T]:
    """A stream consumer of one topic, or of all topics of a namespace."""
    if isinstance(topic, Namespace):
        return NamespaceStreamConsumer(lookup, topic, config, schema=schema, closed=closed)
    return StreamConsumer(lookup, str(topic_name(topic)), config, schema=schema, closed=closed)


def queue_of(
    lookup: Lookup,
    topic: str | Namespace,
    config: ConsumerConfig,
    *,
    schema: Schema[T],
    make_outbox: MakeOutbox,
    closed: Callable[[Any], None],
) -> QueueConsumer[T]:
    if isinstance(topic, Namespace):
        return NamespaceQueueConsumer(lookup, topic, config, schema=schema, make_outbox=make_outbox, closed=closed)
    return QueueConsumer(lookup, str(topic_name(topic)), config, schema=schema, make_outbox=make_outbox, closed=closed)


def _asked(config: ConsumerConfig, topic: str, newer: bool) -> ConsumerConfig:
    """The configuration for one topic; named as Pulsar's V5 client names it."""
    position = InitialPosition.EARLIEST if newer else config.initial_position
    return replace(config, name=f"{config.name}-{topic_name(topic).local_name}", initial_position=position)
