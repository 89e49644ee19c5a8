"""The blocking client: an application creates one for a service URL; threads share it, forked children recreate it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from magnetar.base.ids import SegmentId
from magnetar.base.limits import CLIENT_OPERATION_S, CLIENT_PENDING_BYTES_MAX, CLIENT_PENDING_MESSAGES_MAX
from magnetar.base.public import public
from magnetar.client import client as aio
from magnetar.client.arguments import check_call
from magnetar.client.batch_read.hold import Hold
from magnetar.client.batch_read.plan import From, Plan
from magnetar.client.connection.address import addresses, without_password
from magnetar.client.consumer.config import InitialPosition, Topics
from magnetar.client.consumer.consumer import Consumer as AsyncConsumer
from magnetar.client.consumer.scalable.checkpoint.consumer import OnGap
from magnetar.client.consumer.scalable.checkpoint.start import StartAt
from magnetar.client.consumer.scalable.namespace.follower import Namespace
from magnetar.client.message import Message, MessageId
from magnetar.client.option_help import documented
from magnetar.client.options import (
    CheckpointOptions,
    ConsumerOptions,
    ProducerOptions,
    QueueOptions,
    ReaderOptions,
    StreamOptions,
)
from magnetar.client.schema import BYTES, Schema
from magnetar.client.sync.checkpoint import CheckpointConsumer
from magnetar.client.sync.consumer import Consumer, Reader, TableView
from magnetar.client.sync.producer import Producer
from magnetar.client.sync.proxy import _left
from magnetar.client.sync.queue import QueueConsumer
from magnetar.client.sync.stream import StreamConsumer
from magnetar.layout.readable_range import ReadPosition
from magnetar.runtime.portal import Portal, portal
from magnetar.runtime.system_runtime import RealRuntime

T = TypeVar("T")

SyncListener = Callable[[Consumer[Any], Message[Any]], None]


@public("magnetar")
class Client:
    """`with Client("pulsar://localhost:6650") as client: ...`. Safe to share between threads. Does no work before the
    first call.
    """

    def __init__(
        self,
        url: str,
        *,
        operation_timeout_s: float = CLIENT_OPERATION_S,
        listener: str = "",
        pending_bytes_max: int = CLIENT_PENDING_BYTES_MAX,
        pending_messages_max: int = CLIENT_PENDING_MESSAGES_MAX,
    ) -> None:
        addresses(url)
        self.url = url
        self.closed = False
        self._options: dict[str, Any] = {
            "operation_timeout_s": operation_timeout_s,
            "listener": listener,
            "pending_bytes_max": pending_bytes_max,
            "pending_messages_max": pending_messages_max,
        }
        self._portal: Portal | None = None
        self._client: aio.Client | None = None

    @overload
    def create_producer(self, topic: str, **options: Unpack[ProducerOptions]) -> Producer[bytes]: ...

    @overload
    def create_producer(self, topic: str, *, schema: Schema[T], **options: Unpack[ProducerOptions]) -> Producer[T]: ...

    @documented(ProducerOptions)
    def create_producer(
        self, topic: str, *, schema: Schema[Any] = BYTES, **options: Unpack[ProducerOptions]
    ) -> Producer[Any]:
        """A producer, attached to its broker. It sends bytes unless a schema is given."""
        return Producer(self, lambda client: client.create_producer(topic, schema=schema, **options))

    @overload
    def subscribe(
        self,
        topics: Topics,
        subscription: str,
        *,
        listener: SyncListener | None = ...,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer[bytes]: ...

    @overload
    def subscribe(
        self,
        topics: Topics,
        subscription: str,
        *,
        schema: Schema[T],
        listener: SyncListener | None = ...,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer[T]: ...

    @documented(ConsumerOptions)
    def subscribe(
        self,
        topics: Topics,
        subscription: str,
        *,
        schema: Schema[Any] = BYTES,
        listener: SyncListener | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer[Any]:
        """A consumer of one topic, of several topics, or of all topics that match a compiled pattern. A listener runs
        in its own thread, one message after another, and may block.
        """
        check_call(listener, "listener")
        heard = None if listener is None else _Listening(listener)
        consumer: Consumer[Any] = Consumer(
            self, lambda client: client.subscribe(topics, subscription, schema=schema, listener=heard, **options)
        )
        if heard is not None:
            heard.begin(consumer)
        return consumer

    @overload
    def stream_consumer(
        self, topic: str | Namespace, subscription: str, **options: Unpack[StreamOptions]
    ) -> StreamConsumer[bytes]: ...

    @overload
    def stream_consumer(
        self, topic: str | Namespace, subscription: str, *, schema: Schema[T], **options: Unpack[StreamOptions]
    ) -> StreamConsumer[T]: ...

    @documented(StreamOptions)
    def stream_consumer(
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
        return StreamConsumer(
            self, lambda client: client.stream_consumer(topic, subscription, schema=schema, **options)
        )

    @overload
    def queue_consumer(
        self, topic: str | Namespace, subscription: str, **options: Unpack[QueueOptions]
    ) -> QueueConsumer[bytes]: ...

    @overload
    def queue_consumer(
        self, topic: str | Namespace, subscription: str, *, schema: Schema[T], **options: Unpack[QueueOptions]
    ) -> QueueConsumer[T]: ...

    @documented(QueueOptions)
    def queue_consumer(
        self, topic: str | Namespace, subscription: str, *, schema: Schema[Any] = BYTES, **options: Unpack[QueueOptions]
    ) -> QueueConsumer[Any]:
        """A consumer of a scalable topic that shares all messages with the others of its subscription, in no order, and
        acknowledges them one by one, across splits and merges. With a `Namespace` it reads all scalable topics, present
        and future.
        """
        return QueueConsumer(self, lambda client: client.queue_consumer(topic, subscription, schema=schema, **options))

    @overload
    def checkpoint_consumer(
        self,
        topic: str,
        start: StartAt = ...,
        *,
        group: str | None = ...,
        on_gap: OnGap | None = ...,
        **options: Unpack[CheckpointOptions],
    ) -> CheckpointConsumer[bytes]: ...

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
    ) -> CheckpointConsumer[T]: ...

    @documented(CheckpointOptions)
    def checkpoint_consumer(
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
        were deleted before they were read end it with `DataLost`, or are reported to `on_gap`, which runs on the loop's
        thread and must not block. Members of a `group` share the segments and one checkpoint.
        """
        return CheckpointConsumer(
            self,
            lambda client: client.checkpoint_consumer(
                topic, start, schema=schema, group=group, on_gap=on_gap, **options
            ),
        )

    @overload
    def create_reader(self, topic: str, start: MessageId = ..., **options: Unpack[ReaderOptions]) -> Reader[bytes]: ...

    @overload
    def create_reader(
        self, topic: str, start: MessageId = ..., *, schema: Schema[T], **options: Unpack[ReaderOptions]
    ) -> Reader[T]: ...

    @documented(ReaderOptions)
    def create_reader(
        self,
        topic: str,
        start: MessageId = MessageId.EARLIEST,
        *,
        schema: Schema[Any] = BYTES,
        **options: Unpack[ReaderOptions],
    ) -> Reader[Any]:
        """A reader that starts after `start`, or at `start` itself with `start_inclusive`."""
        return Reader(self, lambda client: client.create_reader(topic, start, schema=schema, **options))

    @overload
    def create_table_view(self, topic: str, *, subscription: str = ...) -> TableView[bytes]: ...

    @overload
    def create_table_view(self, topic: str, *, schema: Schema[T], subscription: str = ...) -> TableView[T]: ...

    def create_table_view(self, topic: str, *, schema: Schema[Any] = BYTES, subscription: str = "") -> TableView[Any]:
        """The newest value of every key: complete when this call returns, then kept up to date."""
        return TableView(self, lambda client: client.create_table_view(topic, schema=schema, subscription=subscription))

    def partitions(self, topic: str) -> list[str]:
        """The names of a topic's partitions, or the topic itself if it has no partitions. Does not create the topic."""
        where, client = self._core()
        return where.run(lambda: client.partitions(topic))

    def plan(
        self,
        topic: str,
        places: Mapping[SegmentId, ReadPosition] | None = None,
        *,
        start: From | int = "start",
        messages_max: int = 0,
        bytes_max: int = 0,
        targets: Mapping[SegmentId, ReadPosition] | None = None,
        publish_times: bool = False,
        subscription: str = "",
    ) -> Plan:
        """Plan how far a scalable topic is readable, by segment; see `magnetar.aio.Client.plan`."""
        where, client = self._core()
        return where.run(
            lambda: client.plan(
                topic,
                places,
                start=start,
                messages_max=messages_max,
                bytes_max=bytes_max,
                targets=targets,
                publish_times=publish_times,
                subscription=subscription,
            )
        )

    def hold(
        self,
        topic: str,
        name: str,
        places: Mapping[SegmentId, ReadPosition] | None = None,
        *,
        expires_s: int = 0,
        owner: str = "",
        incarnation: int = 0,
    ) -> Hold:
        """Keep the messages after given places; see `magnetar.aio.Client.hold`."""
        where, client = self._core()
        options = {"expires_s": expires_s, "incarnation": incarnation}
        return where.run(lambda: client.hold(topic, name, places, owner=owner, **options))

    def release(self, topic: str, name: str) -> None:
        """End a hold."""
        where, client = self._core()
        where.run(lambda: client.release(topic, name))

    def __repr__(self) -> str:
        state = "closed" if self.closed else "not used yet" if self._client is None else "open"
        return f"<magnetar.Client {without_password(self.url)}, {state}>"

    def close(self) -> None:
        """Close every object created from this client. Does nothing in a forked child that never used it."""
        self.closed = True
        client = self._client
        if client is not None and portal() is self._portal:
            portal().run(client.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client = self._client
        if kind is None or client is None or portal() is not self._portal:
            self.close()
        else:
            self.closed = True
            portal().run(lambda: client.__aexit__(kind, error, trace))

    def _core(self) -> tuple[Portal, aio.Client]:
        """The loop thread of this process and its asyncio client, created at the first use in this process."""
        here = portal()
        client = self._client
        if here is self._portal and client is not None:
            return here, client
        return here, here.call(lambda: self._renewed(here))

    def _renewed(self, here: Portal) -> aio.Client:
        """Runs on the loop, so that two threads with a simultaneous first use get the same client."""
        if self._client is None or self._portal is not here:
            _left.append((self._portal, self._client))
            self._client = aio.Client(self.url, **self._options)
            self._client.closed = self.closed
            self._portal = here
        return self._client


class _Listening:
    """Passes messages to a blocking listener in its own thread, in order."""

    def __init__(self, listener: SyncListener) -> None:
        self._listener = listener
        self._runtime = RealRuntime()
        self._begun: list[Consumer[Any]] = []
        self._waiting: list[asyncio.Future[None]] = []

    def begin(self, consumer: Consumer[Any]) -> None:
        self._begun.append(consumer)
        consumer._core()[0].tell(self._wake)

    async def __call__(self, source: AsyncConsumer[Any], message: Message[Any]) -> None:
        if not self._begun:  # the message arrived before `subscribe` returned the consumer
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        consumer = self._begun[0]
        await self._runtime.offload(lambda: self._listener(consumer, message), f"listener {source.subscription}")

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
