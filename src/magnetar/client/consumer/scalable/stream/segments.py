"""The segments that a stream consumer has open: its share of the topic, as the controller assigns it.

The actor around `follow`: attaches a consumer to each segment, revokes, leaves, tells what came of it, and keeps the
time of back-offs and warnings. `positions` knows what the application was handed of each and has not acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import END_ASK_S, HELD_BACK_WARN_S, HELD_BACK_WARN_S_MIN
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.config import ConsumerConfig, InitialPosition, SegmentsChanged, by_buckets
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue, TopicQueue
from magnetar.client.consumer.receive.waiters import ReceiveWaiters
from magnetar.client.consumer.scalable.segment_consumers import SegmentConsumers, segment_fatal
from magnetar.client.consumer.scalable.segment_events import CloseSegment, EndConsumer, LayoutAdvanced, SegmentEnded
from magnetar.client.consumer.scalable.stream.ack_position import AckPosition
from magnetar.client.consumer.scalable.stream.assignment import (
    Assigned,
    AssignmentState,
    Effect,
    Event,
    OpenSegment,
    RevokeSegment,
    SegmentGrant,
    SegmentSettled,
    TimePassed,
    WarnHeldBack,
)
from magnetar.client.consumer.scalable.stream.positions import Positions
from magnetar.client.consumer.seek import last_message
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.counters import Counters
from magnetar.client.schema import Schema
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import ancestors, descendants
from magnetar.observe.log import get

log = get("client.share")


class StreamSegments(SegmentConsumers):
    """`ended` is told when none of it can go on."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        asked: ConsumerConfig,
        *,
        inbox: ReceiveQueue,
        receiver: ReceiveWaiters,
        counters: Counters,
        consumer: Any,
        schema: Schema[Any],
        stamps: Iterator[int],
        ended: Callable[[MagnetarError], None],
    ) -> None:
        super().__init__(lookup, f"share of {asked.subscription}")
        self.positions: Positions[AckPosition] = Positions(stamps, apart=lambda place: place.around is not None)
        self.id = lookup.pool.next_id()
        self._topic = topic
        self._asked = asked
        self._inbox = inbox
        self._receiver = receiver
        self._counters = counters
        self._consumer = consumer
        self._schema = schema
        self._ended = ended
        self._follow = AssignmentState()
        self._layout: Layout | None = None
        self._begun: Epoch | None = None  # segments that came later are read from their first message
        self._revoked: set[SegmentId] = set()
        self._moving = 0  # seeks of this consumer that are under way
        self._told: frozenset[SegmentId] = frozenset()  # the segments that the application knows of

    def shown(self, layout: Layout) -> None:
        self._layout = layout
        if self._begun is None:
            self._begun = layout.epoch
        self.handle(LayoutAdvanced(layout))

    def handle(self, event: Event) -> None:
        if self.closed:
            return
        effects = self._follow.handle(event, self._runtime.monotonic())
        if isinstance(event, Assigned):
            self._mark()
        self._apply(effects)
        self._tell_segments()
        self._rearm()

    async def close(self) -> None:
        await super().close()
        self._tell_segments()

    def _tell_segments(self) -> None:
        """The application's listener hears of every change, in order; its errors stay its own."""
        listener = self._asked.on_segments
        if listener is None:
            return
        before, now = self._told, frozenset(self.parts) - self._revoked
        if before == now:
            return
        self._told = now
        try:
            listener(SegmentsChanged(self._topic, tuple(sorted(now - before)), tuple(sorted(before - now))))
        except Exception as error:
            log.crashed("segment_listener_failed", error, topic=self._topic, subscription=self._asked.subscription)

    def _mark(self) -> None:
        """Which assignment is followed now."""
        follow, asked = self._follow, self._asked
        facts = {"subscription": asked.subscription, "consumer": asked.name, "share": self.id}
        self._runtime.mark(
            "share.followed", topic=self._topic, epoch=follow.epoch, generation=follow.generation, **facts
        )

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case OpenSegment(grant=grant):
                    self._open(grant)
                case RevokeSegment(segment=segment):
                    self._revoke(segment)
                case CloseSegment(segment=segment):
                    self._runtime.spawn(self._owner, self._leave(segment))
                case WarnHeldBack(segment=segment, children=children, unacked=unacked):
                    self._counters.held_back += 1
                    log.warning(
                        "segment_waiting",
                        why="messages of the sealed segment are not acknowledged, and its children wait for that: "
                        "acknowledge them",
                        topic=self._topic,
                        subscription=self._asked.subscription,
                        segment=segment,
                        children=list(children),
                        unacked=unacked,
                    )
                case EndConsumer(error=error):
                    self._ended(error)

    def _open(self, grant: SegmentGrant) -> None:
        segment = grant.segment
        asked = replace(self._asked, name=f"{self._asked.name}-seg-{segment}", initial_position=self._start_of(segment))
        part = TopicConsumer(
            self._lookup,
            grant.topic,
            asked if not grant.buckets else by_buckets(asked, grant.buckets),
            inbox=self._inbox,
            receiver=self._receiver,
            counters=self._counters,
            consumer=self._consumer,
            schema=self._schema,
            schema_info=self._schema.info(),
            queue_messages=self._asked.queue_messages,
            on_active=lambda part, is_active: None,
            on_end=lambda part: self.handle(SegmentEnded(segment)),
            on_failed=lambda part, error: self._refused(segment, part, error),
            fatal=segment_fatal,
            segment=segment,
            whole=self._topic,
        )
        self._put_in_order(segment, part.lane)
        part.on_moved = lambda: self.positions.moved(segment)
        part.on_closed = lambda: self._closed_by_broker(segment, part)
        self.positions.opened(segment, shared=bool(grant.buckets))
        self._add(segment, part)

    def _put_in_order(self, segment: SegmentId, lane: TopicQueue) -> None:
        """What waits of ancestors is taken first (H-F20)."""
        layout = self._layout
        if layout is None or segment not in layout or not self.parts:
            return
        before = ancestors(layout, segment)
        lane.behind = tuple(part.lane for id, part in sorted(self.parts.items()) if id in before)
        for id in sorted(descendants(layout, segment)):
            if (part := self.parts.get(id)) is not None:
                part.lane.behind = (*(one for one in part.lane.behind if not one.dropped), lane)

    def _start_of(self, segment: SegmentId) -> InitialPosition:
        """A segment made after this consumer came has nothing that is older than it."""
        layout, begun = self._layout, self._begun
        if layout is None or begun is None or segment not in layout:
            return self._asked.initial_position
        newer = layout.segment(segment).created_epoch > begun
        return InitialPosition.EARLIEST if newer else self._asked.initial_position

    @property
    def held_back(self) -> dict[SegmentId, int]:
        """Sealed segments whose children wait until the application acknowledges so many messages."""
        found = {segment: self.positions.unacked(segment) for segment in self._follow.held_back()}
        return {segment: count for segment, count in found.items() if count}

    @contextmanager
    def moving(self) -> Iterator[None]:
        """While this consumer moves its subscription: what it is to give away is given at once. The application, which
        waits for the seek, acknowledges nothing more of it."""
        self._moving += 1
        try:
            for segment in sorted(self._revoked):
                self.positions.moved(segment)
            self.settle()
            yield
        finally:
            self._moving -= 1

    def moved(self) -> None:
        """A seek of this consumer is over, and all that brokers had sent before has come: of what they took away from
        under it nothing is left to acknowledge."""
        for segment, part in self.parts.items():
            if part.connection is None:
                self.positions.moved(segment)
        self.settle()

    def _revoke(self, segment: SegmentId) -> None:
        """What waits is dropped and what still comes is skipped; the application may acknowledge what it has."""
        part = self.parts.get(segment)
        if part is not None:
            self._revoked.add(segment)
            part.skip(True)
            part.lane.clear()
            if self._moving or part.connection is None:
                self.positions.moved(segment)
        self.settle()

    def _closed_by_broker(self, segment: SegmentId, part: TopicConsumer) -> None:
        """Of a segment that was taken away nothing can be acknowledged any more: it is not attached again."""
        if segment in self._revoked and self.parts.get(segment) is part:
            self.positions.moved(segment)
            self.settle()

    def settle(self) -> None:
        """Tell of revoked segments of which the application has nothing left."""
        for segment in sorted(self._revoked):
            if segment in self._revoked and not self.positions.unacked(segment):
                self._revoked.discard(segment)
                self.handle(SegmentSettled(segment))

    def _gone(self, segment: SegmentId) -> None:
        super()._gone(segment)
        self._revoked.discard(segment)
        self.positions.closed(segment)
        self._receiver.notify(1)  # what came of it may have waited for its end
        self._tell_segments()

    # Time

    def _rearm(self) -> None:
        if self.closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        wait_s = END_ASK_S if self._sealed() else HELD_BACK_WARN_S
        if self._follow.held_back():
            wait_s = HELD_BACK_WARN_S_MIN
        if self._follow.due is not None:
            wait_s = min(max(self._follow.due - self._runtime.monotonic(), 0.0), wait_s)
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._time_passed)

    def _time_passed(self) -> None:
        held = {
            segment: self.positions.unacked(segment)
            for segment, part in self.parts.items()
            if part.intake.idle  # nothing more waits: only the application can go on
        }
        for segment in self._sealed():
            part = self.parts[segment]
            if part.intake.idle and not self.positions.unacked(segment):
                part.intake.settle()
                self._runtime.spawn(self._owner, self._ask_for_end(segment, part))
        self.handle(TimePassed(held))

    def _sealed(self) -> list[SegmentId]:
        """Open ones whose end is near, at brokers that may not tell it. Ours do, and take a close before as leaving."""
        layout = self._layout
        if layout is None:
            return []
        sealed = [id for id in sorted(self.parts) if id in layout and not layout.segment(id).is_active]
        return [id for id in sealed if (found := self.parts[id].connection) and not found.features.magnetar_extensions]

    async def _ask_for_end(self, segment: SegmentId, part: TopicConsumer) -> None:
        """Not every broker says the end of a segment to whoever comes to it after it was reached."""
        try:
            last, mark = await last_message(part, self._runtime, self._lookup.timeout_s)
        except MagnetarError as error:
            log.info("end not known", topic=part.topic, why=error)
            return
        acked = mark is not None and (mark.ledger, mark.entry) >= (last.ledger, last.entry)
        if (acked or last.entry < 0) and self.parts.get(segment) is part:
            self.handle(SegmentEnded(segment))

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("share failed", error, name=name)
