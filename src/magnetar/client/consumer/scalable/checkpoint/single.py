"""Reads a whole scalable topic with one consumer, alone: it watches the layout and chooses the next segments itself.

This is the actor around `layout.checkpoint`: it asks brokers for the start position, grants segments to
`checkpoint/segments` when every message before them was received, and reports deleted messages. It satisfies the
`ReaderProtocol` contract.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from magnetar.base.errors import Closed, DataLost, MagnetarError, NotReady
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.scalable.checkpoint.segments import SegmentReaders, place_of_message
from magnetar.client.consumer.scalable.checkpoint.start import places
from magnetar.client.consumer.scalable.stream.assignment import Assigned, SegmentGrant, SegmentSettled
from magnetar.client.counters import Counters
from magnetar.client.layout_watch import LayoutView, LayoutWatch
from magnetar.client.message import Message
from magnetar.layout.checkpoint import Checkpoint, Frontier, Loss, SegmentPosition
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner

log = get("client.checkpoint")

OnGap = Callable[[Loss], None]


class LossReporter:
    """Reports each loss: to the user's callback, or by ending the consumer."""

    def __init__(self, topic: str, counters: Counters, on_gap: OnGap | None) -> None:
        self._topic = topic
        self._counters = counters
        self._on_gap = on_gap

    def report(self, losses: Iterable[Loss], hold: str = "") -> None:
        """Raises `DataLost` without a callback. `hold`: that of a group whose position is before the gap."""
        for loss in losses:
            log.warning("messages_lost", topic=self._topic, segment=loss.segment, after=str(loss.place))
            self._counters.gaps += 1
            if self._on_gap is None:
                raise DataLost(
                    f"messages of segment {loss.segment} were deleted before they were read, by retention or with "
                    f"their segment or topic. {_advice(hold)} To keep messages for an absent reader, use "
                    "retention, a hold, or a group, which has a hold",
                    topic=self._topic,
                    after=str(loss.place),
                )
            self._on_gap(loss)


class SingleReader:
    """`make(reading)` creates the readers; `ended` is called when no segment can continue."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        config: ConsumerConfig,
        *,
        make: Callable[[SingleReader], SegmentReaders],
        losses: LossReporter,
        ended: Callable[[MagnetarError], None],
    ) -> None:
        self.group: str | None = None
        self.parts: SegmentReaders | None = None
        self.closed = False
        self._error: MagnetarError | None = None  # the error that ended reading
        self._lookup = lookup
        self._runtime = lookup.pool.runtime
        self._topic = topic
        self._asked = config
        self._make = make
        self._losses = losses
        self._ended = ended
        self._watch = LayoutWatch(lookup, topic, heard=self._shown, gone=self.failed)
        self._frontier: Frontier | None = None
        self._generation = 0
        self._turn = asyncio.Lock()  # one seek at a time
        self._owner = Owner(f"checkpoint consumer of {topic}", self._crashed)

    async def start(self, checkpoint: Checkpoint, since_ms: int | None) -> None:
        """Fetch the layout, find the start position, attach."""
        await self._watch.start(self._lookup.timeout_s)
        await self._moved(await self._begin(checkpoint, since_ms))

    async def seek(self, checkpoint: Checkpoint, since_ms: int | None) -> None:
        """A cancelled seek stays at the old position or continues at the new one; reading never stops."""
        if self._error is not None:
            raise self._error
        await self._moved(await self._begin(checkpoint, since_ms))

    async def close(self) -> None:
        self.closed = True
        await self._owner.close()
        try:
            if self.parts is not None:
                await self.parts.close()
        finally:
            await self._watch.close()

    async def checkpoint(self) -> Checkpoint:
        return self.frontier.checkpoint()

    @property
    def positions(self) -> dict[SegmentId, SegmentPosition]:
        return dict(self.frontier.places)

    @property
    def frontier(self) -> Frontier:
        if self._frontier is None:
            raise NotReady("the consumer has not started to read yet: retry", topic=self._topic)
        return self._frontier

    def handed(self, messages: Iterable[Message[Any]]) -> None:
        parts, frontier = self.parts, self._frontier
        for message in messages:
            segment = SegmentId(message._delivery.source.segment)
            if frontier is not None and parts is not None and parts.parts.get(segment) is message._delivery.source:
                frontier.taken(segment, place_of_message(message))
                parts.handed(message)

    # Start

    async def _begin(self, start: Checkpoint, since_ms: int | None) -> Frontier:
        """All steps that can fail, before any segment is read."""
        start.belongs(self._topic, self._watch.incarnation)
        layout = await self._watch.reached(start.epoch, self._lookup.timeout_s)
        frontier = Frontier(start, layout, topic=self._topic, incarnation=self._watch.incarnation)
        self._losses.report(frontier.losses)
        await resolve(frontier, self._lookup, self._asked, since_ms)
        return frontier

    async def _moved(self, frontier: Frontier) -> None:
        """Complete the move even if the caller stops waiting: half of it would leave no position."""
        moving = self._runtime.spawn(self._owner, self._move(frontier))
        try:
            await asyncio.shield(moving)
        except asyncio.CancelledError:
            if not (self.closed and moving.cancelled()):
                raise
        if self.closed or self.parts is None:
            raise Closed("the consumer is closed", topic=self._topic)
        await self.parts.begun()

    async def _move(self, frontier: Frontier) -> None:
        async with self._turn:
            before, self.parts = self.parts, None
            if before is not None:
                await before.close()
            if self.closed:
                return
            self._frontier = frontier
            self.parts = self._make(self)
            self.parts.shown(frontier.layout)
            if self._watch.seen is not None:
                self._shown(self._watch.seen)  # it may have arrived during the position requests
            self._grant()

    # Called by the readers (ReaderProtocol)

    def place(self, segment: SegmentId) -> SegmentPosition:
        return self.frontier.places[segment]

    def finished(self, segment: SegmentId) -> None:
        if self.frontier.ended(segment):
            self._done(segment)

    def missing(self, segment: SegmentId) -> None:
        loss = self.frontier.gone(segment)
        self._lost(() if loss is None else (loss,))
        self._grant()

    def trimmed(self, segment: SegmentId, start: SegmentPosition, floor: SegmentPosition) -> None:
        loss = self.frontier.trimmed(segment, start, floor)
        self._losses.report(() if loss is None else (loss,))

    def revoked(self, segment: SegmentId) -> None:
        """The segment left the layout: do not wait for its messages."""
        if self.parts is not None:
            self.parts.handle(SegmentSettled(segment))

    def failed(self, error: MagnetarError) -> None:
        """Hand out the waiting messages and stop: after a loss, reading must not continue silently."""
        log.warning("checkpoint_consumer_ended", topic=self._topic, why=error)
        self._error = self._error or error
        if self.parts is not None:
            self.parts.stop()
        self._ended(error)

    # Internal

    def _shown(self, seen: LayoutView) -> None:
        frontier, parts = self._frontier, self.parts
        if frontier is None or parts is None or seen.layout.epoch <= frontier.layout.epoch:
            return
        losses = frontier.follow(seen.layout, self._watch.incarnation)
        parts.shown(seen.layout)
        self._lost(losses)
        for segment in sorted(parts.parts):
            if segment in frontier.places and frontier.places[segment].is_done:
                parts.ended(segment)
        self._grant()

    def _done(self, segment: SegmentId) -> None:
        if self.parts is not None:
            self.parts.ended(segment)
            self._grant()

    def _grant(self) -> None:
        """Grant the segments that may be read now."""
        frontier, parts = self._frontier, self.parts
        if frontier is None or parts is None or self._error is not None:
            return
        self._generation += 1
        parent, layout = topic_name(self._topic).scalable, frontier.layout
        grants = tuple(SegmentGrant(id, str(layout.segment(id).topic(parent))) for id in frontier.readable())
        parts.handle(Assigned(layout.epoch, grants, self._generation))

    def _lost(self, losses: Iterable[Loss]) -> None:
        try:
            self._losses.report(losses)
        except DataLost as error:
            self.failed(error)

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("checkpoint_consumer_crashed", error, topic=self._topic)


def _advice(hold: str) -> str:
    elsewhere = f"release the group's hold ({hold}) and start elsewhere" if hold else "start elsewhere"
    return f"Pass on_gap to continue after the gap, or {elsewhere}."


async def resolve(frontier: Frontier, lookup: Lookup, config: ConsumerConfig, since_ms: int | None) -> None:
    """Request the unknown parts of the start position."""
    if since_ms is not None:
        frontier.unknown()
    parent = topic_name(frontier.topic).scalable
    topics = {id: str(frontier.layout.segment(id).topic(parent)) for id in sorted(frontier.unresolved)}
    for id, place in (await places(lookup, config, topics, since_ms)).items():
        frontier.resolved(id, place)
