"""Which segment consumers a stream consumer has open: it follows the assignments of the topic's controller.

An assignment replaces the one before unless it is older. A segment taken away is revoked first: what waits of it is
dropped, what the application has can be acknowledged until the consumer is closed. A segment is opened when it is
assigned, any earlier consumer of it here is closed, the layout that names its ancestors has arrived, and no ancestor of
it is still read here (H-F1: not every controller sees to that). Our own controllers also assign a segment to the
consumer that has received everything before it (H-F20): that one is opened beside its ancestors. A segment that another
consumer still holds is tried again, without limit, with back-off. Decides only: events and the time in, effects out.
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
    """One assigned segment, as the wire names it. `buckets` are its boundaries where it is shared; empty: all of it."""

    segment: SegmentId
    topic: str
    buckets: tuple[tuple[int, int], ...] = ()


# Events


@dataclass(frozen=True, slots=True)
class Assigned:
    """By 74 or 75, whichever comes first. `generation` is told by our own brokers only. `ordered`: its controller
    assigns a segment beside its ancestors only where everything in them was received (H-F20)."""

    epoch: Epoch
    grants: tuple[SegmentGrant, ...]
    generation: int | None = None
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class SegmentSettled:
    """The application has nothing unacknowledged of it any more."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class TimePassed:
    """`unacked`: of each open segment, how many messages the application has and nothing more waits."""

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
    """Subscribe. Answer: SegmentOpened or SegmentRefused. A connection that is lost later is attached anew without
    asking; only a refusal of that comes here.
    """

    grant: SegmentGrant


@dataclass(frozen=True, slots=True)
class RevokeSegment:
    """Drop what waits, ask for no more, go on sending acknowledgements; SegmentSettled when there is nothing left."""

    segment: SegmentId


@dataclass(frozen=True, slots=True)
class WarnHeldBack:
    """The application keeps messages of a sealed segment: its children wait."""

    segment: SegmentId
    children: tuple[SegmentId, ...]
    unacked: int


Effect: TypeAlias = OpenSegment | RevokeSegment | CloseSegment | WarnHeldBack | EndConsumer


class State(Enum):
    WAITING = auto()  # for an earlier consumer of it, for ancestors, or for its turn to be tried again
    OPENING = auto()
    OPEN = auto()
    REVOKED = auto()  # the application still has messages of it
    CLOSING = auto()


@dataclass(slots=True)
class _Held:
    grant: SegmentGrant
    state: State = State.WAITING
    at: float = 0.0  # WAITING: not before; REVOKED: no longer than
    backoff_s: float = CLIENT_BACKOFF_S_MIN
    next: SegmentGrant | None = None  # granted again, to be opened once this is closed
    ended: bool = False


class AssignmentState:
    """`segments` are those that exist here, in whatever state."""

    def __init__(self) -> None:
        self.epoch: Epoch | None = None
        self.generation: int | None = None
        self.error: MagnetarError | None = None
        self.segments: dict[SegmentId, _Held] = {}
        self._ordered = False
        self._layout: Layout | None = None
        self._done: set[SegmentId] = set()  # ended under the present epoch and generation
        self._warned: dict[SegmentId, float] = {}  # when the next warning is due

    @property
    def due(self) -> float | None:
        """When TimePassed is wanted next, for what waits for a time, and for warnings. A segment that waits for another
        one has no time: an event opens it."""
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

    def _assign(self, told: Assigned, now: float) -> list[Effect]:
        if self._older(told):
            return []
        if (told.epoch, told.generation) != (self.epoch, self.generation):
            self._done.clear()  # what is granted anew is read anew: after a seek it has messages again
            for held in self.segments.values():
                held.ended = False
        self.epoch, self.generation, self._ordered = told.epoch, told.generation, told.ordered
        grants = {grant.segment: grant for grant in told.grants}
        effects: list[Effect] = []
        for segment in sorted(self.segments):
            if self.segments[segment].grant != grants.get(segment):
                effects += self._take_away(segment, now)
        for segment in sorted(grants):
            self._grant(grants[segment])
        return effects + self._open(now)

    def _older(self, told: Assigned) -> bool:
        """The controller's generation orders all its assignments; without it the epoch does, and of equal epochs the
        one that comes later holds.
        """
        if told.generation is not None and self.generation is not None:
            return told.generation < self.generation
        return self.epoch is not None and told.epoch < self.epoch

    def _grant(self, grant: SegmentGrant) -> None:
        held = self.segments.get(grant.segment)
        if held is None:
            if grant.segment not in self._done:
                self.segments[grant.segment] = _Held(grant)
        elif held.state in (State.REVOKED, State.CLOSING) and not held.ended:
            held.next = grant

    def _take_away(self, segment: SegmentId, now: float) -> list[Effect]:
        held = self.segments[segment]
        held.next = None
        match held.state:
            case State.WAITING:
                del self.segments[segment]
            case State.OPENING:  # it may come to be: closed all the same, and waited for
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
            return []  # the answer to its close comes all the same
        if held.state is State.REVOKED:
            return self._closed(segment, now)
        if isinstance(error, TopicNotFound):  # pruned: everybody was done with it
            del self.segments[segment]
            self._done.add(segment)
            return self._open(now)
        if isinstance(error, Fenced) or (error.retry is Retry.NEVER and not isinstance(error, Unknown)):
            return self._stop(segment, error)
        held.state = State.WAITING  # H-F22: tried again, however often
        held.at = now + held.backoff_s
        held.backoff_s = min(held.backoff_s * 2, FOLLOW_BACKOFF_S_MAX)
        return []

    def _stop(self, refused: SegmentId, error: MagnetarError) -> list[Effect]:
        """Another consumer of this name, or no right to go on: coming back would take turns for ever (H-F9)."""
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
            self.segments[segment] = _Held(held.next)
        return [] if self.error is not None else self._open(now)

    def _late(self, now: float) -> list[Effect]:
        """The application keeps messages of a revoked segment too long: others get them again."""
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
        """Children that are not read here yet. Those of a segment that is read by others are theirs to wait for. One
        that is done does not wait: a segment that came of it is read here."""
        layout = self._layout
        assert layout is not None
        reading = [id for id in self.segments if id in layout]

        def waits(child: SegmentId) -> bool:
            return child not in self.segments and not any(descends(layout, id, child) for id in reading if id > child)

        return tuple(id for id in layout.segment(segment).children if waits(id))

    def held_back(self) -> tuple[SegmentId, ...]:
        """Sealed segments that are open here and whose children wait."""
        if self._layout is None:
            return ()
        reading = [id for id, held in self.segments.items() if held.state is State.OPEN and id in self._layout]
        return tuple(id for id in sorted(reading) if self._waiting(id))
