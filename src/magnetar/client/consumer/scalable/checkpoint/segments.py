"""The readers that a checkpoint consumer has on segments: opened where it is told, read to the end, left.

The actor around `stream/assignment`, as `stream/segments` is for stream consumers: readers instead of subscriptions, so
nothing is kept by brokers; a reader that loses its connection goes on behind the message taken last. A segment has
ended when its broker says so and everything of it was handed out. Which segments are read, and from where, is its
user's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from magnetar.base.errors import Closed, MagnetarError, NotReady, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import END_ASK_S
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue
from magnetar.client.consumer.receive.waiters import ReceiveWaiters
from magnetar.client.consumer.scalable.segment_consumers import SegmentConsumers, segment_fatal
from magnetar.client.consumer.scalable.segment_events import (
    CloseSegment,
    EndConsumer,
    LayoutAdvanced,
    SegmentEnded,
    SegmentRefused,
)
from magnetar.client.consumer.scalable.stream.ack_position import completes, entry_of
from magnetar.client.consumer.scalable.stream.assignment import (
    AssignmentState,
    Effect,
    Event,
    OpenSegment,
    RevokeSegment,
    SegmentGrant,
    State,
    TimePassed,
    WarnHeldBack,
)
from magnetar.client.consumer.seek import last_message
from magnetar.client.consumer.start_position import StartPosition
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.counters import Counters
from magnetar.client.message import Message, MessageId
from magnetar.client.schema import Schema
from magnetar.layout.checkpoint import START, SegmentPosition
from magnetar.layout.layout import Layout
from magnetar.observe.log import get
from magnetar.wire.ids import from_data
from magnetar.wire.proto import pb
from magnetar.wire.scalable.checkpoint import message_id, place_of

log = get("client.checkpoint")


class ReaderProtocol(Protocol):
    """Who decides what is read."""

    def place(self, segment: SegmentId) -> SegmentPosition:
        """Behind which message a segment is opened."""
        ...

    def finished(self, segment: SegmentId) -> None:
        """Everything of a sealed segment was handed out."""
        ...

    def missing(self, segment: SegmentId) -> None:
        """A sealed segment has no topic any more."""
        ...

    def trimmed(self, segment: SegmentId, start: SegmentPosition, floor: SegmentPosition) -> None:
        """What is up to `floor` is deleted, and reading would go on behind `start`. Raises where that may not be."""
        ...

    def revoked(self, segment: SegmentId) -> None:
        """It is another's from now on: `handle` SegmentSettled when it may be closed."""
        ...

    def failed(self, error: MagnetarError) -> None: ...


class SegmentReaders(SegmentConsumers):
    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        asked: ConsumerConfig,
        reading: ReaderProtocol,
        *,
        inbox: ReceiveQueue,
        receiver: ReceiveWaiters,
        counters: Counters,
        consumer: Any,
        schema: Schema[Any],
    ) -> None:
        super().__init__(lookup, f"checkpoint reader of {topic}")
        self._topic = topic
        self._asked = asked
        self._reading = reading
        self._inbox = inbox
        self._receiver = receiver
        self._counters = counters
        self._consumer = consumer
        self._schema = schema
        self._follow = AssignmentState()
        self._layout: Layout | None = None
        self._handed: dict[SegmentId, Message[Any]] = {}  # the last one of each
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def begun(self, patience_s: float | None = None) -> None:
        """Until everything that was to be opened first is open, or for so long: what others still have comes later."""
        try:
            async with asyncio.timeout(patience_s):
                await asyncio.shield(self._begun)
        except TimeoutError:
            if not self._begun.done():
                self._begun.set_result(None)

    async def close(self) -> None:
        self.closed = True
        if not self._begun.done():
            self._begun.set_exception(Closed("the consumer was closed or moved elsewhere", topic=self._topic))
            self._begun.exception()  # whoever waits hears it
        await super().close()

    def stop(self) -> None:
        """Nothing more is put into the inbox."""
        for part in self.parts.values():
            part.skip(True)

    def shown(self, layout: Layout) -> None:
        self._layout = layout
        self.handle(LayoutAdvanced(layout))

    def handle(self, event: Event) -> None:
        if self.closed:
            return
        self._apply(self._follow.handle(event, self._runtime.monotonic()))
        coming = (State.WAITING, State.OPENING)
        told = self._follow.epoch is not None  # what to read
        if told and not self._begun.done() and all(one.state not in coming for one in self._follow.segments.values()):
            self._begun.set_result(None)
        self._rearm()

    def handed(self, message: Message[Any]) -> None:
        """It left for the application. The broker is told at the end of each entry, and so knows the segment's end."""
        delivery = message._delivery
        segment = SegmentId(delivery.source.segment)
        part = self.parts.get(segment)
        if part is not delivery.source or part is None:
            return
        before = self._handed.get(segment)
        if before is None or place_of_message(before) < place_of_message(message):
            self._handed[segment] = message  # threads may say it in another order than they took them
        if completes(message):
            part.ack_until(entry_of(message))
            part.acker.added()
        if part.at_end:
            self._end(segment, part)

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case OpenSegment(grant=grant):
                    self._open(grant)
                case RevokeSegment(segment=segment):
                    self._revoke(segment)
                case CloseSegment(segment=segment):
                    self._runtime.spawn(self._owner, self._leave(segment))
                case EndConsumer(error=error):
                    self._fail(error)
                case WarnHeldBack():  # nobody acknowledges here
                    pass

    def _open(self, grant: SegmentGrant) -> None:
        segment = grant.segment
        place = self._reading.place(segment)
        if is_finished(place):
            self._reading.finished(segment)
            return
        part = TopicConsumer(
            self._lookup,
            grant.topic,
            replace(self._asked, name=f"{self._asked.name}-seg-{segment}", start=_start(place)),
            inbox=self._inbox,
            receiver=self._receiver,
            counters=self._counters,
            consumer=self._consumer,
            schema=self._schema,
            schema_info=self._schema.info(),
            queue_messages=self._asked.queue_of(len(self._follow.segments)),
            on_active=lambda part, is_active: None,
            on_end=lambda part: self._end(segment, part),
            on_failed=lambda part, error: self._refused(segment, part, error),
            fatal=segment_fatal,
            segment=segment,
            creates=False,
            whole=self._topic,
        )
        if place.around is not None:
            part.start = StartPosition(message_id(place), around=place.around)
        part.checked = partial(self._check, segment, part)
        self._add(segment, part)

    async def _check(self, segment: SegmentId, part: TopicConsumer, connection: Connection) -> None:
        """At every attach, before the first message: brokers begin with what is left, and say nothing of the rest."""
        if not connection.features.magnetar_extensions:
            return
        command = pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID)
        command.getLastMessageId.consumer_id = part.id
        command.getLastMessageId.request_id = connection.next_request_id()
        reply = await connection.request(command, command.getLastMessageId.request_id, timeout_s=self._lookup.timeout_s)
        told = reply.getLastMessageIdResponse
        if part.start is None:
            return
        place = replace(place_of(part.start.id), around=part.start.around)
        if told.HasField("deleted_to"):
            floor = place_of(from_data(told.deleted_to))
            self._reading.trimmed(segment, place, floor)
            if part.start.id == MessageId.EARLIEST:
                part.start = StartPosition(message_id(floor))
            else:
                part.start = replace(part.start, around=place.without(floor).around)
        elif told.HasField("consumer_mark_delete_position"):
            mark = place_of(from_data(told.consumer_mark_delete_position))
            if _of_another_life(place, mark):
                self._reading.trimmed(segment, place, max(mark, SegmentPosition(place.ledger, place.entry + 1)))

    def _judged(self, segment: SegmentId, error: MagnetarError) -> None:
        if isinstance(error, TopicNotFound):
            if self._sealed(segment):
                self.handle(SegmentRefused(segment, error))
                self._reading.missing(segment)
                return
            error = NotReady(str(error))  # listed, and not there yet
        self.handle(SegmentRefused(segment, error))

    def _end(self, segment: SegmentId, part: TopicConsumer) -> None:
        """The broker has told it all, and the application has it all: what was taken for it may still wait for it."""
        if self.parts.get(segment) is not part or not part.intake.idle or part.skipping:
            return
        if part.lane.last is self._handed.get(segment):
            self._reading.finished(segment)

    def ended(self, segment: SegmentId) -> None:
        """Nothing is left to read there, for good."""
        self.handle(SegmentEnded(segment))

    def _revoke(self, segment: SegmentId) -> None:
        part = self.parts.get(segment)
        if part is not None:
            part.skip(True)
            part.lane.clear()
            part.put_away()  # what threads have of it keeps it until a checkpoint covers that
        self._reading.revoked(segment)

    def _gone(self, segment: SegmentId) -> None:
        super()._gone(segment)
        self._handed.pop(segment, None)

    def _fail(self, error: MagnetarError) -> None:
        """Before it has begun this is for whoever waits for that."""
        if self._begun.done():
            self._reading.failed(error)
        else:
            self._begun.set_exception(error)
            self._begun.exception()  # nobody may wait for it any more

    # Time

    def _rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._follow.due
        waits = [] if due is None else [max(due - self._runtime.monotonic(), 0.0)]
        if self._silent():
            waits.append(END_ASK_S)
        if waits and not self.closed:
            self._timer = asyncio.get_running_loop().call_later(min(waits), self._time_passed)

    def _time_passed(self) -> None:
        for segment in self._silent():
            part = self.parts[segment]
            if part.intake.idle:
                self._runtime.spawn(self._owner, self._ask_for_end(segment, part))
        self.handle(TimePassed({}))

    def _sealed(self, segment: SegmentId) -> bool:
        layout = self._layout
        return layout is not None and (segment not in layout or not layout.segment(segment).is_active)

    def _silent(self) -> list[SegmentId]:
        """Sealed ones at brokers that may not tell the end to whoever comes late. Ours do."""
        found = [id for id in sorted(self.parts) if self._sealed(id)]
        return [id for id in found if (at := self.parts[id].connection) and not at.features.magnetar_extensions]

    async def _ask_for_end(self, segment: SegmentId, part: TopicConsumer) -> None:
        try:
            last, _ = await last_message(part, self._runtime, self._lookup.timeout_s)
        except MagnetarError as error:
            log.info("end not known", topic=part.topic, why=error)
            return
        place = self._reading.place(segment)
        if (last.entry < 0 or (place.ledger, place.entry) >= (last.ledger, last.entry)) and not _inside(place):
            self._end(segment, part)

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("checkpoint reader failed", error, name=name)
        self._fail(MagnetarError(f"the reader failed: {error!r}", topic=self._topic))


def place_of_message(message: Message[Any]) -> SegmentPosition:
    """The last of a batch stands for its whole entry."""
    delivery = message._delivery
    if completes(message):
        return SegmentPosition(delivery.ledger, delivery.entry, around=delivery.around)
    return SegmentPosition(delivery.ledger, delivery.entry, message.batch_index, delivery.size, delivery.around)


def is_finished(place: SegmentPosition) -> bool:
    """A group may finish a segment after the controller assigned it: a reader behind the end sees a loss (H-R4)."""
    return place.is_done


def _start(place: SegmentPosition) -> MessageId:
    return MessageId.EARLIEST if place == START else message_id(place)


def _of_another_life(place: SegmentPosition, mark: SegmentPosition) -> bool:
    """Nothing was ever deleted here, and reading would go on at the very first message although some was read of an
    older ledger: that one was of a topic of this name that was deleted (H-G12: nothing else tells its life)."""
    return place.entry >= 0 and mark.entry < 0 and not 0 <= mark.ledger <= place.ledger


def _inside(place: SegmentPosition) -> bool:
    """Of its batch there is more to read."""
    return 0 <= place.index < place.size - 1
