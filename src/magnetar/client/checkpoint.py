"""A checkpoint consumer: a scalable topic read from a place that its user keeps, every key in order through all splits
and merges.

What users hold. Brokers remember nothing of it: `checkpoint()` says how far the application has received, over all
segments, and a consumer that starts there goes on with the next message of each. A segment is read when everything
before it was received (`layout.checkpoint` decides, `checkpoint_parts` reads). Messages that are gone before they were
read end it, unless `on_gap` is there to be told of each gap. Every call belongs to one loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from magnetar.base.errors import Closed, MagnetarError, Misuse, NotReady, Refused
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.names import topic_name
from magnetar.client.checkpoint_parts import Parts, place_of_message
from magnetar.client.checkpoint_start import StartAt, places, said
from magnetar.client.consumer import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, BATCH_WAIT_S
from magnetar.client.counters import Counters
from magnetar.client.follow import Assigned, Grant, SegmentSettled
from magnetar.client.inbox import Inbox
from magnetar.client.lookup import Lookup
from magnetar.client.message import Message, MessageId
from magnetar.client.receive import Receiver
from magnetar.client.schemas import Schema
from magnetar.client.subscribing import Subscribing
from magnetar.client.watch import Seen, Watch
from magnetar.layout.checkpoint import Frontier, Loss, Reached
from magnetar.layout.layout import Layout
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.wire.checkpoint import Checkpoint

log = get("client.checkpoint")

T = TypeVar("T")
OnGap = Callable[[Loss], None]


class DataLost(Refused):
    """Messages between the checkpoint and now were deleted before they were read."""


class CheckpointConsumer(Generic[T]):
    """Made by `Client.checkpoint_consumer`. `async for message in consumer` ends when the consumer is closed."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        asked: Subscribing,
        *,
        start: StartAt,
        schema: Schema[T],
        on_gap: OnGap | None = None,
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        self._runtime = lookup.pool.runtime
        if not asked.name:
            asked = replace(asked, name=asked.subscription)
        self.topic = topic
        self.asked = asked
        self.counters = Counters()
        self.closed = False
        self._lookup = lookup
        self._start = said(start)
        self._schema = schema
        self._on_gap = on_gap
        self._on_closed = closed
        self._inbox = Inbox(asked.queue_bytes)
        self.receiver = Receiver(self._inbox)
        self._watch = Watch(lookup, topic, heard=self._shown, gone=self.failed)
        self._frontier: Frontier | None = None
        self._parts: Parts | None = None
        self._generation = 0
        self._waiting: list[asyncio.Future[None]] = []  # for a newer layout
        self._turn = asyncio.Lock()  # one seek at a time
        self._last = Owner(f"checkpoint consumer of {topic}, closing", self._crashed)
        self._closing: asyncio.Task[None] | None = None

    # Receiving

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message. `NoMessage` if none came in time."""
        message = self._inbox.take()
        if message is None:
            message = await self.receiver.next(timeout_s)
        self.handed((message,))
        return message

    async def receive_batch(
        self,
        messages_max: int = BATCH_MESSAGES_MAX,
        *,
        bytes_max: int = BATCH_BYTES_MAX,
        timeout_s: float = BATCH_WAIT_S,
    ) -> list[Message[T]]:
        """As many messages as come until one of the bounds is reached; none at all if the time is over first."""
        if messages_max < 1 or bytes_max < 1:
            raise Misuse("a batch holds at least one message", messages_max=messages_max, bytes_max=bytes_max)
        batch = await self.receiver.batch(messages_max, bytes_max, timeout_s)
        self.handed(batch)
        return batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None

    # Checkpoints

    async def checkpoint(self) -> Checkpoint:
        """How far the application has received, at this moment. Keep it, as `to_bytes()`, with what was made of the
        messages: a consumer that starts there receives all that came after, nothing twice.
        """
        return Checkpoint.of(self._reading.checkpoint())

    async def seek(self, to: StartAt) -> None:
        """Go on elsewhere: what was received and not taken is dropped. If it fails nothing has changed."""
        checkpoint, since_ms = said(to)
        async with self._turn:
            self._check()
            begun = await self._begin(checkpoint, since_ms)
            before, self._parts = self._parts, None
            if before is not None:
                await before.close()
            await self._read(begun)

    @property
    def positions(self) -> dict[int, Reached]:
        """The last message received of each segment: `START` where nothing was yet, `DONE` where nothing is left."""
        return {int(id): place for id, place in self._reading.places.items()}

    # What it is

    @property
    def name(self) -> str:
        return self.asked.name

    @property
    def segments(self) -> list[int]:
        """The segments it reads at this moment."""
        return [] if self._parts is None else sorted(self._parts.parts)

    @property
    def connected(self) -> bool:
        """Is every segment attached to its broker at this moment?"""
        return self._parts is not None and all(part.connection is not None for part in self._parts.parts.values())

    @property
    def queued(self) -> int:
        """Messages received and not taken yet."""
        return self._inbox.count

    # Life

    async def start(self) -> None:
        """Learn the layout, find out where to start, attach; called once, by whoever made it."""
        try:
            await self._watch.start(self._lookup.timeout_s)
            async with self._turn:
                await self._read(await self._begin(*self._start))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Leave every segment. A close that is cancelled goes on by itself; another one waits for the same end."""
        if self._closing is None:
            self.receiver.end(Closed("the consumer is closed", topic=self.topic))
            self.closed = True
            self._closing = self._runtime.spawn(self._last, self._close())
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _close(self) -> None:
        try:
            if self._parts is not None:
                await self._parts.close()
        finally:
            await self._watch.close()
            if self._on_closed is not None:
                self._on_closed(self)

    # Beginning

    async def _begin(self, start: Checkpoint, since_ms: int | None) -> Frontier:
        """All that can fail before anything is read."""
        start.belongs(self.topic, self._watch.incarnation)
        layout = await self._layout(start.epoch)
        frontier = Frontier(start, layout, topic=self.topic, incarnation=self._watch.incarnation)
        self._told(frontier.losses)
        if since_ms is not None:
            frontier.unknown()
        parent = topic_name(self.topic)
        asked = {id: str(layout.segment(id).topic(parent)) for id in sorted(frontier.unresolved)}
        for id, place in (await places(self._lookup, self.asked, asked, since_ms)).items():
            frontier.resolved(id, place)
        return frontier

    async def _layout(self, epoch: Epoch) -> Layout:
        """One that knows the segments of a checkpoint: brokers may be behind, and what they do not list yet is not
        lost.
        """
        try:
            async with asyncio.timeout(self._lookup.timeout_s):
                while (seen := self._watch.seen) is None or seen.layout.epoch < epoch:
                    self._watch.seek(Epoch(epoch - 1))
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting.append(waiter)
                    await waiter
        except TimeoutError:
            raise NotReady("the broker shows an older layout than that of the checkpoint", epoch=epoch) from None
        return seen.layout

    async def _read(self, frontier: Frontier) -> None:
        self._check()
        self._frontier = frontier
        self._parts = Parts(
            self._lookup,
            self.topic,
            self.asked,
            self,
            inbox=self._inbox,
            receiver=self.receiver,
            counters=self.counters,
            consumer=self,
            schema=self._schema,
        )
        self._parts.shown(frontier.layout)
        if self._watch.seen is not None:
            self._shown(self._watch.seen)  # it may have come while places were asked for
        self._grant()
        await self._parts.begun()

    # What the parts ask (Reading)

    def place(self, segment: SegmentId) -> Reached:
        return self._reading.places[segment]

    def finished(self, segment: SegmentId) -> None:
        if self._reading.ended(segment):
            self._done(segment)

    def missing(self, segment: SegmentId) -> None:
        loss = self._reading.gone(segment)
        self._lost(() if loss is None else (loss,))
        self._grant()

    def trimmed(self, segment: SegmentId, start: Reached, floor: Reached) -> None:
        loss = self._reading.trimmed(segment, start, floor)
        self._told(() if loss is None else (loss,))

    def revoked(self, segment: SegmentId) -> None:
        """It is not in the layout any more: nothing of it is waited for."""
        if self._parts is not None:
            self._parts.handle(SegmentSettled(segment))

    def failed(self, error: MagnetarError) -> None:
        log.warning("checkpoint consumer ended", topic=self.topic, why=error)
        self.receiver.end(error)
        self._wake()

    # What messages and the blocking consumer ask of it

    def stream_id(self, message: Message[Any], plain: MessageId) -> MessageId:
        return plain

    def handed(self, messages: Iterable[Message[Any]]) -> None:
        """The application has these, in this order: from here on a checkpoint covers them."""
        parts, frontier = self._parts, self._frontier
        for message in messages:
            segment = SegmentId(message._delivery.source.segment)
            if frontier is not None and parts is not None and parts.parts.get(segment) is message._delivery.source:
                frontier.taken(segment, place_of_message(message))
                parts.handed(message)

    # Inside

    @property
    def _reading(self) -> Frontier:
        if self._frontier is None:
            raise NotReady("the consumer has not begun to read", topic=self.topic)
        return self._frontier

    def _shown(self, seen: Seen) -> None:
        self._wake()
        frontier, parts = self._frontier, self._parts
        if frontier is None or parts is None or seen.layout.epoch <= frontier.layout.epoch:
            return
        losses = frontier.follow(seen.layout)
        parts.shown(seen.layout)
        self._lost(losses)
        for segment in sorted(parts.parts):
            if segment in frontier.places and frontier.places[segment].is_done:
                parts.ended(segment)
        self._grant()

    def _done(self, segment: SegmentId) -> None:
        if self._parts is not None:
            self._parts.ended(segment)
            self._grant()

    def _grant(self) -> None:
        """What may be read now."""
        frontier, parts = self._frontier, self._parts
        if frontier is None or parts is None:
            return
        self._generation += 1
        parent, layout = topic_name(self.topic), frontier.layout
        grants = tuple(Grant(id, str(layout.segment(id).topic(parent))) for id in frontier.readable())
        parts.handle(Assigned(layout.epoch, grants, self._generation))

    def _lost(self, losses: Iterable[Loss]) -> None:
        try:
            self._told(losses)
        except DataLost as error:
            self.failed(error)

    def _told(self, losses: Iterable[Loss]) -> None:
        for loss in losses:
            log.warning("messages lost", topic=self.topic, segment=loss.segment, after=str(loss.place))
            self.counters.gaps += 1
            if self._on_gap is None:
                raise DataLost(
                    f"messages of segment {loss.segment} were deleted before they were read: start elsewhere, or give "
                    "on_gap to go on behind the gap",
                    topic=self.topic,
                    after=str(loss.place),
                )
            self._on_gap(loss)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _check(self) -> None:
        if self.closed:
            raise Closed("the consumer is closed", topic=self.topic)

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("checkpoint consumer failed", error, name=name)
