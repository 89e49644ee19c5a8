"""The public producer: sends values and returns message ids, over one topic, all its partitions or all its segments.

It encodes values, takes room in the memory limit and chooses the partition; the `TopicPublisher` orders and stores. A
failed message without a callback (`send_nowait`, `post`) is never lost silently: `flush` or `close` raises its error. A
`send` that is cancelled after it took room does not withdraw the message: the message may be stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypedDict, TypeVar, Unpack

from magnetar.base.errors import Busy, MagnetarError, Misuse
from magnetar.base.limits import CLIENT_PARTITIONS_S
from magnetar.base.names import topic_name
from magnetar.base.public import public
from magnetar.client.arguments import unknown_option
from magnetar.client.connection.backoff import persist
from magnetar.client.connection.lookup import Lookup
from magnetar.client.producer.config import Counters, ProducerConfig
from magnetar.client.producer.fields import Done, MessageFields, fields_of, keyed
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.prebuilt_batch import BatchingPlan, PrebuiltBatch, in_order
from magnetar.client.producer.protocol import TopicPublisher
from magnetar.client.producer.publisher import Publisher
from magnetar.client.producer.router import Router
from magnetar.client.producer.scalable.publisher import ScalablePublisher
from magnetar.client.schema import Schema
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.wire import codec
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb

log = get("client.producer")

T = TypeVar("T")


@public("magnetar")
class Compression(Enum):
    NONE = codec.NONE
    LZ4 = codec.LZ4
    ZLIB = codec.ZLIB
    ZSTD = codec.ZSTD
    SNAPPY = codec.SNAPPY


@public("magnetar")
class AccessMode(Enum):
    """Which other producers may produce to the topic. `EXCLUSIVE` fails if another producer is connected,
    `WAIT_FOR_EXCLUSIVE` waits until it leaves, `EXCLUSIVE_WITH_FENCING` disconnects it.
    """

    SHARED = pb.Shared
    EXCLUSIVE = pb.Exclusive
    WAIT_FOR_EXCLUSIVE = pb.WaitForExclusive
    EXCLUSIVE_WITH_FENCING = pb.ExclusiveWithFencing


class MessageOptions(TypedDict, total=False):
    """The optional fields of one message. Times are milliseconds since 1970; an empty `replicate_to` keeps the message
    in this cluster.
    """

    key: str | bytes | None
    ordering_key: bytes | None
    properties: Mapping[str, str] | None
    event_time_ms: int | None
    deliver_at_ms: int | None
    deliver_after_s: float | None
    sequence_id: int | None
    replicate_to: Sequence[str] | None


# Names of the stock Python client for the same options.
_STOCK_OPTIONS = {
    "partition_key": "key",
    "event_timestamp": "event_time_ms",
    "deliver_at": "deliver_at_ms",
    "deliver_after": "deliver_after_s",
    "replication_clusters": "replicate_to",
}


@public("magnetar.aio")
class Producer(Generic[T]):
    """Created by `Client.create_producer`. `async with` closes it after every sent message is stored."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        opening: ProducerConfig,
        *,
        schema: Schema[T],
        router: Router,
        budget: MemoryLimit,
        closed: Callable[[Producer[T]], None] | None = None,
    ) -> None:
        self.topic = topic
        self._lookup = lookup
        self._runtime = lookup.pool.runtime
        self._opening = opening
        self._schema = schema
        self._encode = schema.encode
        self._router = router
        self._budget = budget
        self._on_closed = closed
        self._publishers: list[TopicPublisher] = []
        self._only: TopicPublisher | None = None  # set unless the topic is partitioned
        self._closed = False
        self._growth: asyncio.TimerHandle | None = None
        self._owner = Owner(f"producer {topic}", self._failed)

    def __repr__(self) -> str:
        return f"<magnetar.aio.Producer {self._described()}>"

    def _described(self) -> str:
        if self._closed:
            return f"of {self.topic}, closed"
        if not self._publishers:
            return f"of {self.topic}, not attached yet"
        state = "connected" if self.connected else "not connected"
        return f"{self.name!r} of {self.topic}, {state}, {self.pending} pending"

    @property
    def name(self) -> str:
        """The user's name, or the one that the broker assigned; of a partitioned topic, that of the first partition."""
        return self._publishers[0].name

    @property
    def partitions(self) -> int:
        """The number of partitions, 0 if the topic is not partitioned."""
        return 0 if self._only is not None else len(self._publishers)

    @property
    def connected(self) -> bool:
        return all(publisher.attached for publisher in self._publishers)

    @property
    def last_sequence_id(self) -> int:
        """The highest sequence id with a receipt, -1 if none."""
        return max(publisher.last_sequence for publisher in self._publishers)

    @property
    def pending(self) -> int:
        """Entries without a receipt, and messages that are not part of an entry yet."""
        return sum(publisher.pending for publisher in self._publishers)

    @property
    def counters(self) -> list[Counters]:
        """The counters, one object for each partition."""
        return [publisher.counters for publisher in self._publishers]

    # Sending

    async def send(self, value: T | None, **options: Unpack[MessageOptions]) -> MessageId:
        """Send and wait until the message is stored. None is a null value: a tombstone in a compacted topic."""
        payload, fields = self._prepared(value, options)
        if not self._budget.take(len(payload)):
            await self._room(len(payload))
        future: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
        self._publisher(fields).add(payload, fields, partial(_settle, future), awaited=True)
        return await future

    async def post(self, value: T | None, callback: Done | None = None, **options: Unpack[MessageOptions]) -> None:
        """Send, and wait only for room in the memory limit. `callback(message_id, error)` receives the result; without
        a callback, `flush` raises the first error.
        """
        payload, fields = self._prepared(value, options)
        if not self._budget.take(len(payload)):
            await self._room(len(payload))
        self._publisher(fields).add(payload, fields, callback)

    def send_nowait(self, value: T | None, callback: Done | None = None, **options: Unpack[MessageOptions]) -> None:
        """As `post`, without waiting: raises `Busy` if the memory limit is reached."""
        payload, fields = self._prepared(value, options)
        if not self._budget.take(len(payload)):
            raise Busy("client memory limit reached: wait for pending sends to complete", topic=self.topic)
        self._publisher(fields).add(payload, fields, callback)

    def submit(self, value: T | None, **options: Unpack[MessageOptions]) -> asyncio.Future[MessageId]:
        """As `send_nowait`, and returns a future of the message id."""
        future: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
        self.send_nowait(value, partial(_settle, future), **options)
        return future

    async def flush(self) -> None:
        """Wait until every earlier message is stored or has failed; raises the first error without a callback."""
        await _all([publisher.flush() for publisher in self._publishers])

    # Lifecycle

    async def _start(self) -> None:
        """Attach to every partition; the client calls it once."""
        timeout_s = self._opening.operation_timeout_s
        if self._opening.follow or topic_name(self.topic).is_scalable:
            await self._start_only(ScalablePublisher(self._lookup, self.topic, self._opening, self._budget))
            return
        count = await persist(
            self._runtime, timeout_s, lambda: self._lookup.partitions(self.topic), what=f"partitions of {self.topic}"
        )
        if count:
            await self._add_partitions(0, count)
            self._watch_growth()
        else:
            await self._start_only(self._new_publisher(self.topic, -1))

    async def _start_only(self, outlet: TopicPublisher) -> None:
        self._only = outlet
        self._publishers = [outlet]
        await outlet.start()

    async def close(self, *, flush: bool = True) -> None:
        """Wait until every sent message is stored, then detach. Without `flush`, pending messages are given up."""
        if self._closed:
            return
        self._closed = True
        if self._growth is not None:
            self._growth.cancel()
        try:
            await self._owner.close()
            await _all([publisher.close(flush=flush) for publisher in self._publishers])
        finally:
            if self._on_closed is not None:
                self._on_closed(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(flush=kind is None)

    # For the blocking client: preparing is safe in any thread, all other methods run on the loop

    def _prepared(self, value: T | None, options: MessageOptions) -> tuple[bytes, MessageFields | None]:
        if value is None:
            return b"", self._fields(options, null_value=True)
        if not options:
            return self._encode(value), None
        key = options.get("key")
        if len(options) == 1 and type(key) is str:  # the common case: a key only
            return self._encode(value), keyed(key)
        return self._encode(value), self._fields(options, null_value=False)

    def _admit(self, payload: bytes, fields: MessageFields | None, done: Done | None) -> bool:
        """Take a prepared message if there is room. Any other error goes to `done`, or is raised by `flush`."""
        if not self._budget.take(len(payload)):
            return False
        self._hand_over(payload, fields, done)
        return True

    async def _admit_later(self, payload: bytes, fields: MessageFields | None, done: Done | None) -> None:
        """As `_admit`, after waiting for room."""
        await self._room(len(payload))
        self._hand_over(payload, fields, done)

    def _cutting(self, *, numbered: bool = False) -> BatchingPlan | None:
        """How to split whole columns of messages for `_admit_sheaf`, or with `numbered` for `_admit_sheaves`. None: the
        caller passes messages one by one to `_admit`.
        """
        if self._only is None:
            return self._publishers[0].cutting(numbered=True) if numbered else None
        return self._only.cutting(numbered=numbered)

    async def _admit_sheaf(self, sheaf: PrebuiltBatch) -> None:
        """As `_admit_later`, for a prebuilt batch that was split as `_cutting` returned, in that order. A layout that
        changed since then is handled here."""
        if not self._budget.take(sheaf.value_bytes, sheaf.count):
            self._hurry(awaited=True)
            await self._budget.wait(sheaf.value_bytes, sheaf.count)
        if sheaf.count == 1 or self._only is None or not self._only.add_sheaf(sheaf):
            for payload, fields, _ in sheaf.singles():
                self._hand_over(payload, fields, None)

    async def _admit_sheaves(self, sheaves: Sequence[PrebuiltBatch]) -> None:
        """As `_admit_sheaf`, for messages with increasing numbers of their sender, split for several segments or
        partitions.
        """
        size, count = sum(one.value_bytes for one in sheaves), sum(one.count for one in sheaves)
        if not self._budget.take(size, count):
            self._hurry(awaited=True)
            await self._budget.wait(size, count)
        outlets: dict[int, list[PrebuiltBatch]] = {}
        for sheaf in sheaves:
            outlets.setdefault(sheaf.partition, []).append(sheaf)
        for partition, group in outlets.items():
            outlet = self._only if self._only is not None else self._publishers[partition]
            if not outlet.add_sheaves(group):
                for _, payload, fields in in_order(group):
                    _add(outlet, payload, fields, None)

    def _hurry(self, *, awaited: bool = False) -> None:
        """Write now, and not in the next turn of the loop. `awaited`: a thread waits for it."""
        for publisher in self._publishers:
            publisher.hurry(awaited=awaited)

    def _work(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that ends with this producer at the latest."""
        return self._runtime.spawn(self._owner, coroutine)

    # Internal

    def _hand_over(self, payload: bytes, fields: MessageFields | None, done: Done | None) -> None:
        _add(self._publisher(fields), payload, fields, done)

    async def _room(self, size: int) -> None:
        """Close the open batches first: no sender can add to them while all of them wait for room."""
        self._hurry(awaited=True)
        await self._budget.wait(size)

    def _fields(self, options: MessageOptions, *, null_value: bool) -> MessageFields:
        for name in options.keys() - MessageOptions.__annotations__.keys():
            raise unknown_option("a message", name, MessageOptions.__annotations__, _STOCK_OPTIONS.get(name, ""))
        deliver_at_ms = options.get("deliver_at_ms")
        deliver_after_s = options.get("deliver_after_s")
        if deliver_after_s is not None:
            if deliver_at_ms is not None:
                raise Misuse("only one of deliver_at_ms and deliver_after_s may be given")
            if not isinstance(deliver_after_s, int | float):
                raise Misuse(f"deliver_after_s must be a number of seconds, got {type(deliver_after_s).__name__}")
            deliver_at_ms = self._runtime.wall() + round(deliver_after_s * 1000)
        return fields_of(
            key=options.get("key"),
            ordering_key=options.get("ordering_key"),
            properties=options.get("properties"),
            event_time_ms=options.get("event_time_ms"),
            deliver_at_ms=deliver_at_ms,
            sequence_id=options.get("sequence_id"),
            replicate_to=options.get("replicate_to"),
            null_value=null_value,
        )

    def _publisher(self, fields: MessageFields | None) -> TopicPublisher:
        if self._only is not None:
            return self._only
        key = None if fields is None else fields.key
        return self._publishers[self._router.choose(key, len(self._publishers))]

    def _new_publisher(self, topic: str, partition: int) -> Publisher:
        return Publisher(
            self._lookup,
            topic,
            self._opening,
            self._budget,
            partition=partition,
            batch_closed=self._router.advance if partition >= 0 else None,
        )

    async def _add_partitions(self, first: int, count: int) -> None:
        """Attach all partitions before any is used; a failure closes all of them."""
        base = topic_name(self.topic)
        publishers = [self._new_publisher(str(base.partition(index)), index) for index in range(first, count)]
        try:
            await _all([publisher.start() for publisher in publishers])
        except BaseException:
            await _all([publisher.close(flush=False) for publisher in publishers])
            raise
        self._publishers = [*self._publishers, *publishers]

    def _watch_growth(self) -> None:
        loop = asyncio.get_running_loop()
        self._growth = loop.call_later(CLIENT_PARTITIONS_S, self._look_for_growth)

    def _look_for_growth(self) -> None:
        if not self._closed:
            self._runtime.spawn(self._owner, self._grow())

    async def _grow(self) -> None:
        """Look for added partitions; the producer repeats it every minute."""
        try:
            count = await self._lookup.partitions(self.topic)
            if count > len(self._publishers):
                log.info("partitions_added", topic=self.topic, had=len(self._publishers), has=count)
                await self._add_partitions(len(self._publishers), count)
        except MagnetarError as error:
            log.info("partition_lookup_failed", topic=self.topic, why=error)
        finally:
            if not self._closed:
                self._watch_growth()

    def _failed(self, name: str, error: BaseException) -> None:
        log.crashed("partition_growth_crashed", error, topic=self.topic)


def _add(outlet: TopicPublisher, payload: bytes, fields: MessageFields | None, done: Done | None) -> None:
    try:
        outlet.add(payload, fields, done)
    except MagnetarError as error:
        outlet.refused(done, error)


def _settle(future: asyncio.Future[MessageId], id: MessageId | None, error: MagnetarError | None) -> None:
    if future.done():
        return  # cancelled: no caller waits for the result
    if error is not None:
        future.set_exception(error)
    elif id is not None:
        future.set_result(id)


async def _all(calls: list[Coroutine[Any, Any, None]]) -> None:
    """Await every call to its end, then raise the first error."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
