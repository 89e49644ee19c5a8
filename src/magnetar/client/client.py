"""The asyncio client: an application creates one for a service URL, and creates every other object from it.

The client owns the connections and the limit on unacknowledged bytes, and closes the objects created from it. It
refuses calls from another event loop than that of its first call. It does no work before the first call.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from magnetar.base.errors import MagnetarError
from magnetar.base.limits import CLIENT_OPERATION_S, CLIENT_PENDING_BYTES_MAX, CLIENT_PENDING_MESSAGES_MAX
from magnetar.base.names import topic_name
from magnetar.base.public import public
from magnetar.client.arguments import check_call, check_schema, check_topic, check_topics
from magnetar.client.awaitable import Creation, creation
from magnetar.client.connection.address import without_password
from magnetar.client.consumer.config import InitialPosition, Topics
from magnetar.client.consumer.consumer import Consumer, Listener, OnActive
from magnetar.client.consumer.reader import Reader
from magnetar.client.consumer.scalable.checkpoint.consumer import CheckpointConsumer, OnGap
from magnetar.client.consumer.scalable.checkpoint.start import StartAt
from magnetar.client.consumer.scalable.namespace.consumers import queue_of, stream_of
from magnetar.client.consumer.scalable.namespace.follower import Namespace
from magnetar.client.consumer.scalable.queue.consumer import QueueConsumer
from magnetar.client.consumer.scalable.stream.consumer import StreamConsumer
from magnetar.client.consumer.table_view import TableView
from magnetar.client.message import MessageId
from magnetar.client.option_help import documented
from magnetar.client.options import (
    CheckpointOptions,
    ConsumerOptions,
    ProducerOptions,
    QueueOptions,
    ReaderOptions,
    StreamOptions,
    checkpointing_of,
    opening_of,
    queueing_of,
    reading_of,
    streaming_of,
    subscribing_of,
)
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.producer import Producer
from magnetar.client.producer.router import Router
from magnetar.client.read_client import ReadClient
from magnetar.client.schema import BYTES, Schema
from magnetar.observe.log import get
from magnetar.runtime.runtime import Runtime

log = get("client")

T = TypeVar("T")
Taker = Consumer[Any] | StreamConsumer[Any] | QueueConsumer[Any] | CheckpointConsumer[Any] | Reader[Any]
Made = TypeVar("Made", bound=Taker | TableView[Any])


@public("magnetar.aio")
class Client(ReadClient):
    """`async with Client("pulsar://localhost:6650") as client: ...`. Safe to share within one loop."""

    def __init__(
        self,
        url: str,
        *,
        runtime: Runtime | None = None,
        operation_timeout_s: float = CLIENT_OPERATION_S,
        listener: str = "",
        pending_bytes_max: int = CLIENT_PENDING_BYTES_MAX,
        pending_messages_max: int = CLIENT_PENDING_MESSAGES_MAX,
    ) -> None:
        super().__init__(url, runtime=runtime, operation_timeout_s=operation_timeout_s, listener=listener)
        self.budget = MemoryLimit(pending_bytes_max, pending_messages_max)
        self._open: dict[Any, None] = {}  # objects created from this client, in order

    @overload
    def create_producer(self, topic: str, **options: Unpack[ProducerOptions]) -> Creation[Producer[bytes]]: ...

    @overload
    def create_producer(
        self, topic: str, *, schema: Schema[T], **options: Unpack[ProducerOptions]
    ) -> Creation[Producer[T]]: ...

    @documented(ProducerOptions)
    @creation
    async def create_producer(
        self, topic: str, *, schema: Schema[Any] = BYTES, **options: Unpack[ProducerOptions]
    ) -> Producer[Any]:
        """A producer, attached to its broker (to the broker of every partition). It sends bytes unless a schema is
        given."""
        self._check()
        check_schema(schema)
        check_topic(topic)
        start = self.runtime.rng("client.router").randrange(1 << 31)
        router = Router(options.get("routing", "round_robin"), options.get("hashing", "java"), start)
        producer: Producer[Any] = Producer(
            self.lookup,
            str(topic_name(topic)),
            opening_of(topic, schema, options, self.operation_timeout_s),
            schema=schema,
            router=router,
            budget=self.budget,
            closed=self._forget,
        )
        self._open[producer] = None
        try:
            await producer._start()
        except BaseException:
            await producer.close(flush=False)
            raise
        return producer

    @overload
    def subscribe(
        self,
        topics: Topics,
        subscription: str,
        *,
        listener: Listener | None = ...,
        on_active: OnActive | None = ...,
        **options: Unpack[ConsumerOptions],
    ) -> Creation[Consumer[bytes]]: ...

    @overload
    def subscribe(
        self,
        topics: Topics,
        subscription: str,
        *,
        schema: Schema[T],
        listener: Listener | None = ...,
        on_active: OnActive | None = ...,
        **options: Unpack[ConsumerOptions],
    ) -> Creation[Consumer[T]]: ...

    @documented(ConsumerOptions)
    @creation
    async def subscribe(
        self,
        topics: Topics,
        subscription: str,
        *,
        schema: Schema[Any] = BYTES,
        listener: Listener | None = None,
        on_active: OnActive | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer[Any]:
        """A consumer of one topic, of several topics, or of all topics that match a compiled pattern."""
        self._check()
        check_schema(schema)
        check_topics(topics)
        check_call(listener, "listener")
        check_call(on_active, "on_active")
        consumer: Consumer[Any] = Consumer(
            self.lookup,
            topics,
            subscribing_of(subscription, options),
            schema=schema,
            make_outbox=self._outbox,
            listener=listener,
            on_active=on_active,
            closed=self._forget,
        )
        return await self._started(consumer)

    @overload
    def stream_consumer(
        self, topic: str | Namespace, subscription: str, **options: Unpack[StreamOptions]
    ) -> Creation[StreamConsumer[bytes]]: ...

    @overload
    def stream_consumer(
        self, topic: str | Namespace, subscription: str, *, schema: Schema[T], **options: Unpack[StreamOptions]
    ) -> Creation[StreamConsumer[T]]: ...

    @documented(StreamOptions)
    @creation
    async def stream_consumer(
        self,
        topic: str | Namespace,
        subscription: str,
        *,
        schema: Schema[Any] = BYTES,
        **options: Unpack[StreamOptions],
    ) -> StreamConsumer[Any]:
        """A consumer of a scalable topic that keeps the order of every key across splits and merges. The consumers of
        one subscription share its segments. With a `Namespace` it reads all scalable topics, present and future.
        """
        self._check()
        check_schema(schema)
        config = streaming_of(topic, subscription, options)
        return await self._started(stream_of(self.lookup, topic, config, schema=schema, closed=self._forget))

    @overload
    def queue_consumer(
        self, topic: str | Namespace, subscription: str, **options: Unpack[QueueOptions]
    ) -> Creation[QueueConsumer[bytes]]: ...

    @overload
    def queue_consumer(
        self, topic: str | Namespace, subscription: str, *, schema: Schema[T], **options: Unpack[QueueOptions]
    ) -> Creation[QueueConsumer[T]]: ...

    @documented(QueueOptions)
    @creation
    async def queue_consumer(
        self, topic: str | Namespace, subscription: str, *, schema: Schema[Any] = BYTES, **options: Unpack[QueueOptions]
    ) -> QueueConsumer[Any]:
        """A consumer of a scalable topic that shares all messages with the others of its subscription, in no order, and
        acknowledges them one by one, across splits and merges. With a `Namespace` it reads all scalable topics, present
        and future.
        """
        self._check()
        check_schema(schema)
        config = queueing_of(topic, subscription, options)
        return await self._started(
            queue_of(self.lookup, topic, config, schema=schema, make_outbox=self._outbox, closed=self._forget)
        )

    @overload
    def checkpoint_consumer(
        self,
        topic: str,
        start: StartAt = ...,
        *,
        group: str | None = ...,
        on_gap: OnGap | None = ...,
        **options: Unpack[CheckpointOptions],
    ) -> Creation[CheckpointConsumer[bytes]]: ...

    @overload
    def checkpoint_consumer(
        self,
        topic: str,
        start: StartAt = ...,
        *,
        schema: Schema[T],
        group: str | None = ...,
        on_gap: OnGap | None = ...,
        **options: Unpack[CheckpointOptions],
    ) -> Creation[CheckpointConsumer[T]]: ...

    @documented(CheckpointOptions)
    @creation
    async def checkpoint_consumer(
        self,
        topic: str,
        start: StartAt = InitialPosition.EARLIEST,
        *,
        schema: Schema[Any] = BYTES,
        group: str | None = None,
        on_gap: OnGap | None = None,
        **options: Unpack[CheckpointOptions],
    ) -> CheckpointConsumer[Any]:
        """A reader of a whole scalable topic that keeps the order of every key across splits and merges. It starts at a
        checkpoint that the application stores, at the earliest or latest message, or at a publish time. Messages that
        were deleted before they were read end it with `DataLost`, or are reported to `on_gap` if given. Members of a
        `group` share the segments and one checkpoint, which brokers store; `start` applies only to a new group.
        """
        self._check()
        check_schema(schema)
        check_call(on_gap, "on_gap")
        config, name = checkpointing_of(topic, options, self._unique(), group), str(topic_name(topic))
        grouped, forget = group is not None, self._forget
        return await self._started(
            CheckpointConsumer(
                self.lookup, name, config, start=start, schema=schema, on_gap=on_gap, grouped=grouped, closed=forget
            )
        )

    @overload
    def create_reader(
        self, topic: str, start: MessageId = ..., **options: Unpack[ReaderOptions]
    ) -> Creation[Reader[bytes]]: ...

    @overload
    def create_reader(
        self, topic: str, start: MessageId = ..., *, schema: Schema[T], **options: Unpack[ReaderOptions]
    ) -> Creation[Reader[T]]: ...

    @documented(ReaderOptions)
    @creation
    async def create_reader(
        self,
        topic: str,
        start: MessageId = MessageId.EARLIEST,
        *,
        schema: Schema[Any] = BYTES,
        **options: Unpack[ReaderOptions],
    ) -> Reader[Any]:
        """A reader that starts after `start`, or at `start` itself with `start_inclusive`."""
        self._check()
        check_schema(schema)
        check_topics(topic)
        config = reading_of(start, options, self._unique())
        return await self._started(Reader(self.lookup, topic, config, schema=schema, closed=self._forget))

    @overload
    def create_table_view(self, topic: str, *, subscription: str = ...) -> Creation[TableView[bytes]]: ...

    @overload
    def create_table_view(
        self, topic: str, *, schema: Schema[T], subscription: str = ...
    ) -> Creation[TableView[T]]: ...

    @creation
    async def create_table_view(
        self, topic: str, *, schema: Schema[Any] = BYTES, subscription: str = ""
    ) -> TableView[Any]:
        """The newest value of every key: complete when this call returns, then kept up to date."""
        self._check()
        check_schema(schema)
        check_topic(topic)
        options = ReaderOptions(read_compacted=topic_name(topic).is_persistent)
        if subscription:
            options["subscription"] = subscription
        config = reading_of(MessageId.EARLIEST, options, self._unique())
        return await self._started(TableView(self.lookup, topic, config, schema=schema, closed=self._forget))

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self._open)} open"
        return f"<magnetar.aio.Client {without_password(self.url)}, {state}>"

    async def close(self) -> None:
        """Close every object created from this client. Producers first store all messages that they accepted. Raises
        the first error, after everything is closed.
        """
        if self.closed:
            return
        self._check_loop()
        self.closed = True
        errors: list[BaseException] = []
        for resource in list(self._open):
            try:
                await resource.close()
            except MagnetarError as error:
                errors.append(error)
        await self._end()
        if errors:
            raise errors[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
            return
        self.closed = True  # the block failed: leave without waiting for messages that may never be stored
        for resource in list(self._open):
            if isinstance(resource, StreamConsumer):
                resource._hurry()
            try:
                await (resource.close(flush=False) if isinstance(resource, Producer) else resource.close())
            except MagnetarError as also:
                log.info("close_failed", why=also)
        await self._end()

    # Internal

    async def _started(self, resource: Made) -> Made:
        self._open[resource] = None
        try:
            await resource._start()
        except BaseException:
            self._forget(resource)
            raise
        return resource

    def _forget(self, resource: Any) -> None:
        self._open.pop(resource, None)

    async def _outbox(self, topic: str, initial_subscription: str) -> Producer[bytes]:
        """A producer of dead letters and deferred messages. It chunks, because a message that arrived in chunks may
        exceed the broker's limit."""
        chunking = topic_name(topic).is_persistent
        return await self.create_producer(topic, initial_subscription=initial_subscription, chunking=chunking)

    def _unique(self) -> str:
        return f"{self.runtime.rng('client.names').getrandbits(40):010x}"
