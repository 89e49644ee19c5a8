"""Decides which segment consumers a stream consumer has open, following the assignments of the topic's controller.

An assignment replaces the previous one unless it is older. A removed segment is revoked first: its waiting messages are
dropped, and messages at the application can be acknowledged until the consumer is closed. A segment is opened when it
is assigned, any earlier consumer of it here is closed, the layout that names its ancestors has arrived, and no ancestor
of it is still read here (H-F1: not every controller ensures that). Magnetar's controllers also assign a segment to the
consumer that has received everything before it (H-F20): that one is opened beside its ancestors. A segment that another
consumer still holds is retried, without limit, with back-off. Pure decisions: events and the time in, effects out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from magnetar.base import validation
from magnetar.base.errors import Fenced, MagnetarError, Retry, TopicNotFound, Unknown
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import (
    CLIENT_BACKOFF_S_MIN,
    FOLLOW_BACKOFF_S_MAX,
    HELD_BACK_WARN_S,
    HELD_BACK_WARN_S_MIN,
    REVOKED_DRAIN_S,
)
from magnetar.client.consumer.scalable.segment_events import (
    CloseSegment,
    EndConsumer,
    LayoutAdvanced,
    SegmentClosed,
    SegmentEnded,
    SegmentOpened,
    SegmentRefused,
)
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import ancestors, descends


@dataclass(frozen=True, slots=True)
class SegmentGrant:
    """One assigned segment, as on the wire. `buckets` are its boundaries if it is shared; empty: the whole segment."""

    segment: SegmentId
    topic: str
    buckets: tuple[tuple[int, int], ...] = ()


# Events


@dataclass(frozen=True, slots=True)
class Assigned:
    """From command 74 or 75, in any order. Only Magnetar brokers send `generation`. `ordered`: the controller assigns a
    segment beside its ancestors only after everything in them was received (H-F20)."""

    epoch: Epoch
    grants: tuple[SegmentGrant, ...]
    generation: int | None = None
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class SegmentSettled:
    """The application has no unacknowledged messages of the segment any more."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class TimePassed:
    """`unacked`: for each open segment without waiting messages, the number of messages at the application."""

    unacked: Mapping[SegmentId, int]


Event: TypeAlias = (
    Assigned
    | LayoutAdvanced
    | SegmentOpened
    | SegmentRefused
    | SegmentEnded
    | SegmentSettled
    | SegmentClosed
    | TimePassed
)

# Effects


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """Subscribe. Answer: SegmentOpened or SegmentRefused. A connection that is lost later is reattached without a new
    effect; only a refusal of that is an event here.
    """

    grant: SegmentGrant


@dataclass(frozen=True, slots=True)
class RevokeSegment:
    """Drop waiting messages, request no more, keep sending acknowledgements; SegmentSettled when all are
    acknowledged."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class WarnHeldBack:
    """The application holds unacknowledged messages of a sealed segment: its children wait."""

    segment: SegmentId
    children: tuple[SegmentId, ...]
    unacked: int


Effect: TypeAlias = OpenSegment | RevokeSegment | CloseSegment | WarnHeldBack | EndConsumer


class State(Enum):
    WAITING = auto()  # for an earlier consumer of it, for ancestors, or for its retry
    OPENING = auto()
    OPEN = auto()
    REVOKED = auto()  # the application still has messages of it
    CLOSING = auto()


@dataclass(slots=True)
class _TrackedSegment:
    grant: SegmentGrant
    state: State = State.WAITING
    at: float = 0.0  # WAITING: earliest time; REVOKED: latest time
    backoff_s: float = CLIENT_BACKOFF_S_MIN
    next: SegmentGrant | None = None  # granted again; opened once this one is closed
    ended: bool = False


class AssignmentState:
    """`segments` are all known ones, in any state."""

    def __init__(self) -> None:
        self.epoch: Epoch | None = None
        self.generation: int | None = None
        self.error: MagnetarError | None = None
        self.segments: dict[SegmentId, _TrackedSegment] = {}
        self._ordered = False
        self._layout: Layout | None = None
        self._done: set[SegmentId] = set()  # ended under the present epoch and generation
        self._warned: dict[SegmentId, float] = {}  # the time of the next warning

    @property
    def due(self) -> float | None:
        """The time of the next TimePassed, for timers and warnings. A segment that waits for another one has no time:
        an event opens it."""
        times = [one.at for one in self.segments.values() if one.state is State.REVOKED]
        times += self._warned.values()
        retried = [id for id, one in self.segments.items() if one.state is State.WAITING and one.at > 0]
        times += [self.segments[id].at for id in retried if not self._blocked(id)]
        return min(times, default=None)

    def handle(self, event: Event, now: float) -> list[Effect]:
        effects = self._handle(event, now)
        if validation.enabled:
            self.validate()
        return effects

    def validate(self) -> None:
        assert not self._done & self.segments.keys(), "a segment that is done is not open"
        for segment, held in self.segments.items():
            assert held.grant.segment == segment
            assert not held.ended or held.state is State.CLOSING, f"segment {segment} has ended, so it is closed"
            if held.next is not None:
                assert held.state in (State.REVOKED, State.CLOSING), f"segment {segment} is granted twice"
            if self.error is not None:
                assert held.state is State.CLOSING, f"segment {segment} goes on after the consumer's end"

    def _handle(self, event: Event, now: float) -> list[Effect]:
        if self.error is not None and not isinstance(event, SegmentClosed):
            return []
        match event:
            case Assigned():
                return self._assign(event, now)
            case LayoutAdvanced(layout=layout):
                if self._layout is None or layout.epoch > self._layout.epoch:
                    self._layout = layout
                return self._open(now)
            case SegmentRefused(segment=segment, error=error):
                return self._refuse(segment, error, now)
            case TimePassed(unacked=unacked):
                return self._late(now) + self._open(now) + self._held_back(unacked, now)
            case SegmentOpened(segment=segment):
                return self._opened(segment) + self._open(now)
            case SegmentEnded(segment=segment):
                return self._end(segment)
            case SegmentSettled(segment=segment):
                return self._settle(segment)
            case SegmentClosed(segment=segment):
                return self._closed(segment, now)

    def _assign(self, assigned: Assigned, now: float) -> list[Effect]:
        if self._older(assigned):
            return []
        if (assigned.epoch, assigned.generation) != (self.epoch, self.generation):
            self._done.clear()  # a segment that is granted again is read again: after a seek it has messages
            for held in self.segments.values():
                held.ended = False
        self.epoch, self.generation, self._ordered = assigned.epoch, assigned.generation, assigned.ordered
        grants = {grant.segment: grant for grant in assigned.grants}
        effects: list[Effect] = []
        for segment in sorted(self.segments):
            if self.segments[segment].grant != grants.get(segment):
                effects += self._take_away(segment, now)
        for segment in sorted(grants):
            self._grant(grants[segment])
        return effects + self._open(now)

    def _older(self, assigned: Assigned) -> bool:
        """The controller's generation orders all its assignments. Without it the epoch does, and of equal epochs the
        later one is valid.
        """
        if assigned.generation is not None and self.generation is not None:
            return assigned.generation < self.generation
        return self.epoch is not None and assigned.epoch < self.epoch

    def _grant(self, grant: SegmentGrant) -> None:
        held = self.segments.get(grant.segment)
        if held is None:
            if grant.segment not in self._done:
                self.segments[grant.segment] = _TrackedSegment(grant)
        elif held.state in (State.REVOKED, State.CLOSING) and not held.ended:
            held.next = grant

    def _take_away(self, segment: SegmentId, now: float) -> list[Effect]:
        held = self.segments[segment]
        held.next = None
        match held.state:
            case State.WAITING:
                del self.segments[segment]
            case State.OPENING:  # it may still attach: close it and await the answer
                held.state = State.CLOSING
                return [CloseSegment(segment)]
            case State.OPEN:
                held.state = State.REVOKED
                held.at = now + REVOKED_DRAIN_S
                return [RevokeSegment(segment)]
        return []

    def _open(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for segment in sorted(self.segments):
            held = self.segments[segment]
            if held.state is State.WAITING and held.at <= now and not self._blocked(segment):
                held.state = State.OPENING
                held.at = 0.0
                effects.append(OpenSegment(held.grant))
        return effects

    def _blocked(self, segment: SegmentId) -> bool:
        if self._layout is None:
            return False
        if segment not in self._layout:
            # The assignment may arrive before the layout that names the segment's parents. A segment that the layout of
            # the same epoch does not have was pruned: its broker says so.
            return self.epoch is not None and self.epoch > self._layout.epoch
        before = ancestors(self._layout, segment)
        reading = (other for other in self.segments if other in before)
        return any(not self._ordered or self.segments[other].state is not State.OPEN for other in reading)

    def _opened(self, segment: SegmentId) -> list[Effect]:
        held = self.segments.get(segment)
        if held is not None and held.state is State.OPENING:
            held.state = State.OPEN
            held.backoff_s = CLIENT_BACKOFF_S_MIN
        return []

    def _refuse(self, segment: SegmentId, error: MagnetarError, now: float) -> list[Effect]:
        held = self.segments.get(segment)
        if held is None or held.state in (State.WAITING, State.CLOSING):
            return []  # the answer to its close follows
        if held.state is State.REVOKED:
            return self._closed(segment, now)
        if isinstance(error, TopicNotFound):  # pruned: every subscription was done with it
            del self.segments[segment]
            self._done.add(segment)
            return self._open(now)
        if isinstance(error, Fenced) or (error.retry is Retry.NEVER and not isinstance(error, Unknown)):
            return self._stop(segment, error)
        held.state = State.WAITING  # H-F22: retried without limit
        held.at = now + held.backoff_s
        held.backoff_s = min(held.backoff_s * 2, FOLLOW_BACKOFF_S_MAX)
        return []

    def _stop(self, refused: SegmentId, error: MagnetarError) -> list[Effect]:
        """Another consumer has this name, or permission is missing: retries would alternate without end (H-F9)."""
        self.error = error
        del self.segments[refused]
        effects: list[Effect] = []
        for segment in sorted(self.segments):
            held = self.segments[segment]
            if held.state is State.WAITING:
                del self.segments[segment]
            elif held.state is not State.CLOSING:
                held.state = State.CLOSING
                effects.append(CloseSegment(segment))
        return [*effects, EndConsumer(error)]

    def _end(self, segment: SegmentId) -> list[Effect]:
        held = self.segments.get(segment)
        if held is None or held.state not in (State.OPENING, State.OPEN, State.REVOKED):
            return []
        held.state = State.CLOSING
        held.ended = True
        held.next = None
        return [CloseSegment(segment)]

    def _settle(self, segment: SegmentId) -> list[Effect]:
        held = self.segments.get(segment)
        if held is None or held.state is not State.REVOKED:
            return []
        held.state = State.CLOSING
        return [CloseSegment(segment)]

    def _closed(self, segment: SegmentId, now: float) -> list[Effect]:
        held = self.segments.get(segment)
        if held is None or held.state not in (State.CLOSING, State.REVOKED):
            return []
        del self.segments[segment]
        self._warned.pop(segment, None)
        if held.ended:
            self._done.add(segment)
        elif held.next is not None and self.error is None:
            self.segments[segment] = _TrackedSegment(held.next)
        return [] if self.error is not None else self._open(now)

    def _late(self, now: float) -> list[Effect]:
        """The application holds messages of a revoked segment too long: close it, so that others receive them."""
        late = [
            segment
            for segment in sorted(self.segments)
            if self.segments[segment].state is State.REVOKED and self.segments[segment].at <= now
        ]
        return [effect for segment in late for effect in self._settle(segment)]

    def _held_back(self, unacked: Mapping[SegmentId, int], now: float) -> list[Effect]:
        effects: list[Effect] = []
        held_back = [segment for segment in self.held_back() if unacked.get(segment)]
        self._warned = {segment: self._warned.get(segment, now + HELD_BACK_WARN_S_MIN) for segment in held_back}
        for segment in held_back:
            if now >= self._warned[segment]:
                self._warned[segment] = now + HELD_BACK_WARN_S
                effects.append(WarnHeldBack(segment, self._waiting(segment), unacked[segment]))
        return effects

    def _waiting(self, segment: SegmentId) -> tuple[SegmentId, ...]:
        """The children that are not read here yet. Children of a segment that other consumers read are not counted, nor
        is a finished child: one of its own children is read here."""
        layout = self._layout
        assert layout is not None
        reading = [id for id in self.segments if id in layout]

        def waits(child: SegmentId) -> bool:
            return child not in self.segments and not any(descends(layout, id, child) for id in reading if id > child)

        return tuple(id for id in layout.segment(segment).children if waits(id))

    def held_back(self) -> tuple[SegmentId, ...]:
        """The sealed segments that are open here and whose children wait."""
        if self._layout is None:
            return ()
        reading = [id for id, held in self.segments.items() if held.state is State.OPEN and id in self._layout]
        return tuple(id for id in sorted(reading) if self._waiting(id))
