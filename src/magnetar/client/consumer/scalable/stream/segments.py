"""The open segments of a stream consumer: its share of the topic, as the controller assigns it.

This is the actor around `assignment`: it attaches a consumer to each segment, revokes and closes it, reports events,
and runs the timers of back-offs and warnings. `positions` stores the unacknowledged messages of each segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import END_ASK_S, HELD_BACK_WARN_S, HELD_BACK_WARN_S_MIN
from magnetar.client.consumer.config import ConsumerConfig, InitialPosition, SegmentsChanged, by_buckets
from magnetar.client.consumer.context import ConsumerContext, ScalableSegment
from magnetar.client.consumer.receive.receive_queue import TopicQueue
from magnetar.client.consumer.scalable.segment_consumers import SegmentConsumers
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
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import ancestors, descendants
from magnetar.observe.log import get

log = get("client.stream")


class StreamSegments(SegmentConsumers):
    """`ended` is called when no segment can continue."""

    def __init__(
        self,
        context: ConsumerContext,
        topic: str,
        config: ConsumerConfig,
        *,
        stamps: Iterator[int],
        ended: Callable[[MagnetarError], None],
    ) -> None:
        super().__init__(context, f"share of {config.subscription}")
        self.positions: Positions[AckPosition] = Positions(stamps, apart=lambda place: place.around is not None)
        self.id = context.lookup.pool.next_id()
        self._topic = topic
        self._asked = config
        self._ended = ended
        self._follow = AssignmentState()
        self._layout: Layout | None = None
        self._begun: Epoch | None = None  # segments of later layouts are read from their first message
        self._revoked: set[SegmentId] = set()
        self._moving = 0  # seeks of this consumer in progress
        self._told: frozenset[SegmentId] = frozenset()  # the segments last reported to the application

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
        """Report every change to the application's listener, in order; its errors are logged."""
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
        """Record the present assignment."""
        follow, config = self._follow, self._asked
        facts = {"subscription": config.subscription, "consumer": config.name, "share": self.id}
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
                    self._context.counters.held_back += 1
                    log.warning(
                        "child_segments_postponed",
                        why="messages of the sealed segment are unacknowledged, so its children wait: acknowledge them",
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
        config = replace(
            self._asked, name=f"{self._asked.name}-seg-{segment}", initial_position=self._start_of(segment)
        )
        part = TopicConsumer(
            self._context,
            grant.topic,
            config if not grant.buckets else by_buckets(config, grant.buckets),
            queue_messages=self._asked.queue_messages,
            callbacks=self._callbacks(segment, lambda part: self.handle(SegmentEnded(segment))),
            segment=ScalableSegment(segment, self._topic),
        )
        self._put_in_order(segment, part.queue)
        part.on_moved = lambda: self.positions.moved(segment)
        part.on_closed = lambda: self._closed_by_broker(segment, part)
        self.positions.opened(segment, shared=bool(grant.buckets))
        self._add(segment, part)

    def _put_in_order(self, segment: SegmentId, queue: TopicQueue) -> None:
        """Waiting messages of ancestors are taken first (H-F20)."""
        layout = self._layout
        if layout is None or segment not in layout or not self.parts:
            return
        before = ancestors(layout, segment)
        queue.behind = tuple(part.queue for id, part in sorted(self.parts.items()) if id in before)
        for id in sorted(descendants(layout, segment)):
            if (part := self.parts.get(id)) is not None:
                part.queue.behind = (*(one for one in part.queue.behind if not one.dropped), queue)

    def _start_of(self, segment: SegmentId) -> InitialPosition:
        """A segment created after this consumer has no messages older than the consumer."""
        layout, begun = self._layout, self._begun
        if layout is None or begun is None or segment not in layout:
            return self._asked.initial_position
        newer = layout.segment(segment).created_epoch > begun
        return InitialPosition.EARLIEST if newer else self._asked.initial_position

    @property
    def held_back(self) -> dict[SegmentId, int]:
        """Sealed segments whose children wait, with the number of messages that the application must acknowledge."""
        unacked = {segment: self.positions.unacked(segment) for segment in self._follow.held_back()}
        return {segment: count for segment, count in unacked.items() if count}

    @contextmanager
    def moving(self) -> Iterator[None]:
        """While this consumer moves its subscription, it releases revoked segments immediately. The application waits
        for the seek and acknowledges nothing more of them."""
        self._moving += 1
        try:
            for segment in sorted(self._revoked):
                self.positions.moved(segment)
            self.settle()
            yield
        finally:
            self._moving -= 1

    def moved(self) -> None:
        """A seek of this consumer has ended, and every earlier message has arrived: nothing of the segments that
        brokers closed during it is left to acknowledge."""
        for segment, part in self.parts.items():
            if part.connection is None:
                self.positions.moved(segment)
        self.settle()

    def _revoke(self, segment: SegmentId) -> None:
        """Drop waiting messages and skip arriving ones; the application may acknowledge the messages that it has."""
        part = self.parts.get(segment)
        if part is not None:
            self._revoked.add(segment)
            part.skip(True)
            part.queue.clear()
            if self._moving or part.connection is None:
                self.positions.moved(segment)
        self.settle()

    def _closed_by_broker(self, segment: SegmentId, part: TopicConsumer) -> None:
        """A revoked segment accepts no acknowledgements any more, so it is not reattached."""
        if segment in self._revoked and self.parts.get(segment) is part:
            self.positions.moved(segment)
            self.settle()

    def settle(self) -> None:
        """Report revoked segments without unacknowledged messages."""
        for segment in sorted(self._revoked):
            if segment in self._revoked and not self.positions.unacked(segment):
                self._revoked.discard(segment)
                self.handle(SegmentSettled(segment))

    def _gone(self, segment: SegmentId) -> None:
        super()._gone(segment)
        self._revoked.discard(segment)
        self.positions.closed(segment)
        self._context.receiver.notify(1)  # messages of its children may have waited for its end
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
            if part.intake.idle  # no message waits: only the application can continue
        }
        for segment in self._sealed():
            part = self.parts[segment]
            if part.intake.idle and not self.positions.unacked(segment):
                part.intake.settle()
                self._runtime.spawn(self._owner, self._ask_for_end(segment, part))
        self.handle(TimePassed(held))

    def _sealed(self) -> list[SegmentId]:
        """Open segments near their end, at brokers that may not report it. Magnetar brokers report it, and treat an
        earlier close as a release."""
        layout = self._layout
        if layout is None:
            return []
        sealed = [id for id in sorted(self.parts) if id in layout and not layout.segment(id).is_active]
        return [
            id
            for id in sealed
            if (connection := self.parts[id].connection) and not connection.features.magnetar_extensions
        ]

    async def _ask_for_end(self, segment: SegmentId, part: TopicConsumer) -> None:
        """Not every broker reports the end of a segment to a consumer that attaches after the end was reached."""
        try:
            last, mark = await last_message(part, self._runtime, self._lookup.timeout_s)
        except MagnetarError as error:
            log.info("segment_end_request_failed", topic=part.topic, why=error)
            return
        acked = mark is not None and (mark.ledger, mark.entry) >= (last.ledger, last.entry)
        if (acked or last.entry < 0) and self.parts.get(segment) is part:
            self.handle(SegmentEnded(segment))

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("segment_share_crashed", error, name=name)
