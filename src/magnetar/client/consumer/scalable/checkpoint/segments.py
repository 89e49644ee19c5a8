"""The readers that a checkpoint consumer has on segments: opened on request, read to the end, closed.

This is the actor around `stream/assignment`, like `stream/segments` for stream consumers. It uses readers and not
subscriptions, so brokers store nothing; a reader that loses its connection continues after the last message taken. A
segment has ended when its broker reports it and every message was handed out. Its user decides which segments are read,
and from which position.
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
from magnetar.base.names import topic_name
from magnetar.client.connection.connection import Connection
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.context import ConsumerContext, ScalableSegment
from magnetar.client.consumer.scalable.segment_consumers import SegmentConsumers
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
from magnetar.client.message import Message, MessageId
from magnetar.layout.checkpoint import START, SegmentPosition
from magnetar.layout.layout import Layout
from magnetar.observe.log import get
from magnetar.wire.ids import from_data
from magnetar.wire.proto import pb
from magnetar.wire.scalable.checkpoint import message_id, place_of

log = get("client.checkpoint")


class ReaderProtocol(Protocol):
    """Decides which segments are read."""

    def place(self, segment: SegmentId) -> SegmentPosition:
        """The position after which a segment is opened."""
        ...

    def finished(self, segment: SegmentId) -> None:
        """Every message of a sealed segment was handed out."""
        ...

    def missing(self, segment: SegmentId) -> None:
        """The topic of a sealed segment no longer exists."""
        ...

    def trimmed(self, segment: SegmentId, start: SegmentPosition, floor: SegmentPosition) -> None:
        """Messages up to `floor` are deleted, and reading would continue after `start`. Raises if it must not."""
        ...

    def revoked(self, segment: SegmentId) -> None:
        """The segment is assigned to another reader: `handle` SegmentSettled when it may be closed."""
        ...

    def failed(self, error: MagnetarError) -> None: ...


class SegmentReaders(SegmentConsumers):
    def __init__(
        self,
        context: ConsumerContext,
        topic: str,
        config: ConsumerConfig,
        reading: ReaderProtocol,
    ) -> None:
        super().__init__(context, f"checkpoint reader of {topic}")
        self._topic = topic
        self._asked = config
        self._reading = reading
        self._follow = AssignmentState()
        self._layout: Layout | None = None
        self._handed: dict[SegmentId, Message[Any]] = {}  # the last one of each
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def begun(self, patience_s: float | None = None) -> None:
        """Wait until the first segments are open, at most `patience_s`: segments of other readers follow later."""
        try:
            async with asyncio.timeout(patience_s):
                await asyncio.shield(self._begun)
        except TimeoutError:
            if not self._begun.done():
                self._begun.set_result(None)

    async def close(self) -> None:
        self.closed = True
        if not self._begun.done():
            self._begun.set_exception(Closed("the consumer was closed or moved during the attach", topic=self._topic))
            self._begun.exception()  # `begun` raises it
        await super().close()

    def stop(self) -> None:
        """Stop adding messages to the receive queue."""
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
        assigned = self._follow.epoch is not None  # an assignment has arrived
        if (
            assigned
            and not self._begun.done()
            and all(one.state not in coming for one in self._follow.segments.values())
        ):
            self._begun.set_result(None)
        self._rearm()

    def handed(self, message: Message[Any]) -> None:
        """The application took the message. The broker gets an acknowledgement per entry, and so detects the end."""
        delivery = message._delivery
        segment = SegmentId(delivery.source.segment)
        part = self.parts.get(segment)
        if part is not delivery.source or part is None:
            return
        before = self._handed.get(segment)
        if before is None or place_of_message(before) < place_of_message(message):
            self._handed[segment] = message  # threads may report messages in another order than they took them
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
                case WarnHeldBack():  # readers have no acknowledgements to wait for
                    pass

    def _open(self, grant: SegmentGrant) -> None:
        segment = grant.segment
        place = self._reading.place(segment)
        if is_finished(place):
            self._reading.finished(segment)
            return
        part = TopicConsumer(
            self._context,
            grant.topic,
            replace(self._asked, name=f"{self._asked.name}-seg-{segment}", start=_start(place)),
            queue_messages=self._asked.queue_of(len(self._follow.segments)),
            callbacks=self._callbacks(segment, partial(self._end, segment)),
            segment=ScalableSegment(segment, self._topic),
            creates=False,
        )
        if place.around is not None:
            part.start = StartPosition(message_id(place), around=place.around)
        part.checked = partial(self._check, segment, part)
        self._add(segment, part)

    async def _check(self, segment: SegmentId, part: TopicConsumer, connection: Connection) -> None:
        """Runs at every attach, before the first message: brokers start at the earliest message without a report."""
        if not connection.features.magnetar_extensions:
            return
        command = pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID)
        command.getLastMessageId.consumer_id = part.id
        command.getLastMessageId.request_id = connection.next_request_id()
        reply = await connection.request(command, command.getLastMessageId.request_id, timeout_s=self._lookup.timeout_s)
        response = reply.getLastMessageIdResponse
        if part.start is None:
            return
        place = replace(place_of(part.start.id), around=part.start.around)
        if response.HasField("deleted_to"):
            floor = place_of(from_data(response.deleted_to))
            self._reading.trimmed(segment, place, floor)
            if part.start.id == MessageId.EARLIEST:
                part.start = StartPosition(message_id(floor))
            else:
                part.start = replace(part.start, around=place.without(floor).around)
        elif response.HasField("consumer_mark_delete_position"):
            mark = place_of(from_data(response.consumer_mark_delete_position))
            if _of_another_life(place, mark):
                self._reading.trimmed(segment, place, max(mark, SegmentPosition(place.ledger, place.entry + 1)))

    def _judged(self, segment: SegmentId, error: MagnetarError) -> None:
        if isinstance(error, TopicNotFound):
            if self._sealed(segment):
                self.handle(SegmentRefused(segment, error))
                self._reading.missing(segment)
                return
            held = self._follow.segments.get(segment)
            if held is not None and not self._begun.done() and not topic_name(held.grant.topic).is_segment:
                self._fail(error)  # a plain topic without messages: brokers give it a layout before it exists
                return
            error = NotReady(str(error))  # listed, and not created yet
        self.handle(SegmentRefused(segment, error))

    def _end(self, segment: SegmentId, part: TopicConsumer) -> None:
        """The broker reported the end. Wait until the application took all messages, also those taken for threads."""
        if self.parts.get(segment) is not part or not part.intake.idle or part.skipping:
            return
        if part.queue.last is self._handed.get(segment):
            self._reading.finished(segment)

    def ended(self, segment: SegmentId) -> None:
        """No message of the segment is left, permanently."""
        self.handle(SegmentEnded(segment))

    def _revoke(self, segment: SegmentId) -> None:
        part = self.parts.get(segment)
        if part is not None:
            part.skip(True)
            part.queue.clear()
            part.put_away()  # messages that threads hold keep the segment until a checkpoint covers them
        self._reading.revoked(segment)

    def _gone(self, segment: SegmentId) -> None:
        super()._gone(segment)
        self._handed.pop(segment, None)

    def _fail(self, error: MagnetarError) -> None:
        """Before the first segments are open, the error goes to the caller of `begun`."""
        if self._begun.done():
            self._reading.failed(error)
        else:
            self._begun.set_exception(error)
            self._begun.exception()  # the caller may have stopped waiting

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
        """Sealed segments at brokers that may not report the end to a late reader. Magnetar brokers do."""
        sealed = [id for id in sorted(self.parts) if self._sealed(id)]
        return [id for id in sealed if (at := self.parts[id].connection) and not at.features.magnetar_extensions]

    async def _ask_for_end(self, segment: SegmentId, part: TopicConsumer) -> None:
        try:
            last, _ = await last_message(part, self._runtime, self._lookup.timeout_s)
        except MagnetarError as error:
            log.info("segment_end_request_failed", topic=part.topic, why=error)
            return
        place = self._reading.place(segment)
        if (last.entry < 0 or (place.ledger, place.entry) >= (last.ledger, last.entry)) and not _inside(place):
            self._end(segment, part)

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("checkpoint_reader_crashed", error, name=name)
        self._fail(MagnetarError(f"the reader failed with an unexpected error: {error!r}", topic=self._topic))


def place_of_message(message: Message[Any]) -> SegmentPosition:
    """The position of a message. The last message of a batch represents its whole entry."""
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
    """Whether the position is of a deleted topic of the same name. No message was ever deleted here, and reading would
    start at the first message although the position is in an older ledger (H-G12: no other fact shows it)."""
    return place.entry >= 0 and mark.entry < 0 and not 0 <= mark.ledger <= place.ledger


def _inside(place: SegmentPosition) -> bool:
    """Whether there are more messages in its batch."""
    return 0 <= place.index < place.size - 1
