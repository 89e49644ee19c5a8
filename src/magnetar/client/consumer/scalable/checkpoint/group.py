"""One member of a checkpoint group: several consumers share the segments of a scalable topic, and have one checkpoint.

The topic's controller assigns segments to each member. The broker stores the group's position in a hold with the
group's name: `checkpoint()` of a member submits its own position and returns that of the group. The next reader of a
segment continues from there (H-G5). So a segment moves after a checkpoint of its reader, or after a delay without one;
then messages received since the last checkpoint are delivered again. Children are assigned when the checkpoint shows
that their parents are done. It satisfies the `ReaderProtocol` contract.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from magnetar.base.errors import Closed, MagnetarError, Misuse, NotReady, SubscriptionNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import CLIENT_BACKOFF_S_MAX, CLIENT_BACKOFF_S_MIN, GROUP_ALIVE_S_MAX, GROUP_ALIVE_S_MIN
from magnetar.client.batch_read.hold import Hold, HoldRequest, hold
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.config import ConsumerConfig, InitialPosition
from magnetar.client.consumer.scalable.checkpoint.segments import SegmentReaders, place_of_message
from magnetar.client.consumer.scalable.checkpoint.single import LossReporter, resolve
from magnetar.client.consumer.scalable.stream.assignment import Assigned, SegmentSettled
from magnetar.client.consumer.scalable.stream.registration import Registration
from magnetar.client.layout_watch import LayoutView, LayoutWatch
from magnetar.client.message import Message
from magnetar.layout import readable_range
from magnetar.layout.checkpoint import DONE, START, Checkpoint, Frontier, Kind, Loss, SegmentPosition
from magnetar.layout.layout import Layout
from magnetar.layout.readable_range import ReadPosition, stands
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.wire.proto import pb

log = get("client.checkpoint")


class GroupMember:
    """`make(reading)` creates the readers; `ended` is called when no segment can continue. The group has the name of
    the requested subscription."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        config: ConsumerConfig,
        *,
        make: Callable[[GroupMember], SegmentReaders],
        losses: LossReporter,
        ended: Callable[[MagnetarError], None],
    ) -> None:
        self.group: str | None = config.subscription
        self.parts: SegmentReaders | None = None
        self.closed = False
        self._lookup = lookup
        self._topic = topic
        self._asked = config
        self._make = make
        self._losses = losses
        self._ended = ended
        self._watch = LayoutWatch(lookup, topic, heard=self._shown, gone=self.failed)
        self._registration = Registration(
            lookup,
            topic,
            replace(config, initial_position=InitialPosition.EARLIEST),
            assigned=self._assigned,
            ended=self.failed,
            kind=pb.CHECKPOINT,
        )
        self._group: dict[SegmentId, SegmentPosition] = {}  # the last known positions of the group
        self._mine: dict[SegmentId, SegmentPosition] = {}  # received here, of segments that are open here
        self._floors: dict[SegmentId, SegmentPosition] = {}  # no messages exist up to here
        self._earliest: set[SegmentId] = set()  # segments that start at their earliest message
        self._heard: set[Loss] = set()
        self._revoked: set[SegmentId] = set()
        self._over: set[SegmentId] = set()  # received to the end
        self._finishing = False
        self._renew_s = GROUP_ALIVE_S_MAX
        self._told: list[Assigned] = []  # assignments not passed on yet
        self._turn = asyncio.Lock()  # one hold request at a time: an older one must not overwrite later places
        self._owner = Owner(f"member of {config.subscription}", self._crashed)

    async def start(self, checkpoint: Checkpoint, since_ms: int | None) -> None:
        """An existing group continues at its position; `checkpoint` is the start of a new one, whose readers report
        messages deleted after it (H-G11). No broker knows whether a group without a position in a segment began with
        the messages that still existed; this member's own start decides."""
        await self._watch.start(self._lookup.timeout_s)
        checkpoint.belongs(self._topic, self._watch.incarnation)
        layout = await self._watch.reached(checkpoint.epoch, self._lookup.timeout_s)
        frontier = Frontier(checkpoint, layout, topic=self._topic, incarnation=self._watch.incarnation)
        if frontier.losses and not await self._is_there():
            self._tell(frontier.losses, hold="")
        if checkpoint.kind is Kind.EARLIEST:
            self._earliest = {one.id for one in layout.segments}
        await resolve(frontier, self._lookup, self._asked, since_ms)
        answer = await self._hold(frontier.places, begins=True)
        if answer.expired or checkpoint.kind is Kind.PLACES:  # the broker kept no messages until now
            self._tell(Loss(id, self._group.get(id, START)) for id in answer.lost)
        self.parts = self._make(self)
        self.parts.shown(self._layout)
        await self._registration.start(self._lookup.timeout_s)
        await self.parts.begun(self._lookup.timeout_s)
        self._lookup.pool.runtime.spawn(self._owner, self._stay())

    async def seek(self, checkpoint: Checkpoint, since_ms: int | None) -> None:
        raise Misuse(
            "a member cannot seek its group: close all members, release the group's hold, and reopen it with a start",
            group=self._asked.subscription,
        )

    async def close(self) -> None:
        self.closed = True
        await self._owner.close()
        try:
            if self.parts is not None:
                await self.parts.close()
            await self._registration.close()
        finally:
            await self._watch.close()

    async def checkpoint(self) -> Checkpoint:
        """Submit the messages that this member has received; returns the position of the whole group."""
        done = self._sealed()
        positions = {**self._mine, **dict.fromkeys(done, DONE)}
        answer = await self._hold(positions)
        if answer.expired:  # the hold had expired for a while, so messages may be deleted
            self._tell(Loss(id, self._group.get(id, START)) for id in answer.lost)
        self._left(done)
        for segment in sorted(self._revoked):
            if self._mine.get(segment) == positions.get(segment):
                self._settled(segment)
        self._finish()  # segments that ended during the request
        layout = self._layout
        places = {one.id: self._group.get(one.id, START) for one in layout.segments}
        return Checkpoint(places, layout.epoch, self._topic, self._watch.incarnation)

    @property
    def positions(self) -> dict[SegmentId, SegmentPosition]:
        return dict(self._mine)

    def handed(self, messages: Iterable[Message[Any]]) -> None:
        parts = self.parts
        for message in messages:
            segment = SegmentId(message._delivery.source.segment)
            if parts is not None and parts.parts.get(segment) is message._delivery.source:
                self._mine[segment] = max(self._mine.get(segment, START), place_of_message(message))
                parts.handed(message)

    # Called by the readers (ReaderProtocol)

    def place(self, segment: SegmentId) -> SegmentPosition:
        if segment not in self._mine:
            self._mine[segment] = self._group.get(segment, START)
        return self._mine[segment]

    def finished(self, segment: SegmentId) -> None:
        self._over.add(segment)
        self._finish()

    def missing(self, segment: SegmentId) -> None:
        self._lost(Loss(segment, self.place(segment)))
        self._over.add(segment)

    def trimmed(self, segment: SegmentId, start: SegmentPosition, floor: SegmentPosition) -> None:
        if not start.is_behind(floor):
            return
        if start != START or segment not in self._earliest:
            self._tell((Loss(segment, start),))
        self._floors[segment] = floor
        self._mine[segment] = max(self.place(segment).without(floor), floor)

    def revoked(self, segment: SegmentId) -> None:
        self._revoked.add(segment)
        if self._is_said(segment):
            self._settled(segment)

    def failed(self, error: MagnetarError) -> None:
        log.warning("checkpoint_consumer_ended", topic=self._topic, why=error)
        self._registration.hurry()
        if self.parts is not None:
            self.parts.stop()
        self._ended(error)

    # Internal

    @property
    def _layout(self) -> Layout:
        if self._watch.seen is None:
            raise NotReady("the consumer has not started to read yet: retry", topic=self._topic)
        return self._watch.seen.layout

    def _shown(self, seen: LayoutView) -> None:
        self._registration.led_by(seen.controller)
        if self.parts is not None:
            self.parts.shown(seen.layout)
            self._finish()

    def _sealed(self) -> list[SegmentId]:
        """Segments received to the end whose children are in the layout."""
        layout = self._layout
        return [id for id in sorted(self._over) if id in layout and not layout.segment(id).is_active]

    def _is_said(self, segment: SegmentId) -> bool:
        """Whether the group's hold includes every message received of the segment."""
        reported = max(self._group.get(segment, START), self._floors.get(segment, START))
        return self._mine.get(segment, START) <= reported

    def _finish(self) -> None:
        """Finish segments whose end arrived after the checkpoint that covers all their messages."""
        done = [id for id in self._sealed() if self._is_said(id)]
        if done and not self._finishing and not self.closed:
            self._finishing = True
            self._lookup.pool.runtime.spawn(self._owner, self._say_done(done))

    async def _say_done(self, done: list[SegmentId]) -> None:
        try:
            await self._hold(dict.fromkeys(done, DONE))
        except SubscriptionNotFound as error:
            self.failed(error)
            return
        except MagnetarError as error:
            log.info("group_leave_failed", topic=self._topic, why=error)
            await asyncio.sleep(CLIENT_BACKOFF_S_MIN)
        else:
            self._left(done)
        finally:
            self._finishing = False
        self._finish()

    def _left(self, done: list[SegmentId]) -> None:
        for segment in done:
            self._forget(segment)
            if self.parts is not None:
                self.parts.ended(segment)

    def _settled(self, segment: SegmentId) -> None:
        self._revoked.discard(segment)
        self._forget(segment)
        if self.parts is not None:
            self.parts.handle(SegmentSettled(segment))

    def _forget(self, segment: SegmentId) -> None:
        self._mine.pop(segment, None)
        self._floors.pop(segment, None)
        self._over.discard(segment)

    def _assigned(self, assigned: Assigned) -> None:
        """Before a segment is opened, the position of its previous reader must be known. Every assignment is passed on
        in order of arrival; `stream/assignment` decides which one is valid."""
        self._told.append(assigned)
        if len(self._told) == 1 and not self.closed:
            self._lookup.pool.runtime.spawn(self._owner, self._take_up())

    async def _take_up(self) -> None:
        wait_s = CLIENT_BACKOFF_S_MIN
        while self._told and not self.closed:
            assignments = list(self._told)
            try:
                await self._hold({})
            except SubscriptionNotFound as error:
                self.failed(error)
                return
            except MagnetarError as error:
                log.info("group_position_request_failed", topic=self._topic, why=error)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, CLIENT_BACKOFF_S_MAX)
                continue
            for segment in [id for id in self._mine if self.parts is None or id not in self.parts.parts]:
                del self._mine[segment]  # another member may have read it in between
            for assigned in assignments:
                if self.parts is not None:
                    self.parts.handle(assigned)
            del self._told[: len(assignments)]

    async def _stay(self) -> None:
        """Renew the hold of an active group, also if no member takes a checkpoint for a long time."""
        while not self.closed:
            await asyncio.sleep(self._renew_s)
            try:
                await self._hold({})
            except SubscriptionNotFound as error:
                self.failed(error)
                return
            except MagnetarError as error:
                log.info("group_hold_renewal_failed", topic=self._topic, why=error)

    async def _is_there(self) -> bool:
        """Whether the group exists. The request does not create it."""
        try:
            await self._hold({}, begins=True)
        except SubscriptionNotFound:
            return False
        return True

    async def _hold(self, places: dict[SegmentId, SegmentPosition], *, begins: bool = False) -> Hold:
        request = HoldRequest(
            self._topic,
            self._asked.subscription,
            {id: next_of(place) for id, place in places.items()} or None,
            owner=self._asked.name,
            incarnation=self._watch.incarnation,
            begins=begins,
            resumes=not begins,  # a hold that is ended under its members ends them (H-D9)
            around={id: place.around for id, place in places.items() if place.around is not None},
        )
        async with self._turn:
            if self.closed:
                raise Closed("the consumer is closed", topic=self._topic)
            answer = await hold(self._lookup, request, self._lookup.timeout_s)
            self._renew_s = renewed_after_s(answer.until_ms - self._lookup.pool.runtime.wall())
            everywhere = stands(self._layout, {id: at for id, at in answer.places.items() if id in self._layout})
            self._group = {id: replace(last_of(at), around=answer.around.get(id)) for id, at in everywhere.items()}
            return answer

    def _tell(self, losses: Iterable[Loss], hold: str | None = None) -> None:
        """Report each loss once, found by the creation of the hold or by the reader of the segment."""
        for loss in losses:
            if loss not in self._heard:
                self._heard.add(loss)
                self._losses.report((loss,), self._asked.subscription if hold is None else hold)

    def _lost(self, loss: Loss) -> None:
        try:
            self._tell((loss,))
        except MagnetarError as error:
            self.failed(error)

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("checkpoint_consumer_crashed", error, name=name)
        self.failed(MagnetarError(f"the consumer failed with an unexpected error: {error!r}", topic=self._topic))


def renewed_after_s(left_ms: int) -> float:
    """The time until the next renewal of a hold. Clocks differ: the remaining time may look negative."""
    return min(max(left_ms / 3000, GROUP_ALIVE_S_MIN), GROUP_ALIVE_S_MAX)


def next_of(place: SegmentPosition) -> ReadPosition:
    """Converts a position: holds store the next message to read; checkpoints store the last one read."""
    if place.is_done:
        return readable_range.DONE
    if place == START:
        return readable_range.START
    return (
        ReadPosition(place.ledger, place.entry + 1)
        if place.index < 0
        else ReadPosition(place.ledger, place.entry, place.index + 1)
    )


def last_of(place: ReadPosition) -> SegmentPosition:
    if place == readable_range.DONE:
        return DONE
    if place == readable_range.START:
        return START
    if place.row == 0:
        return SegmentPosition(place.ledger, place.entry - 1)
    return SegmentPosition(place.ledger, place.entry, place.row - 1, place.row + 1)
