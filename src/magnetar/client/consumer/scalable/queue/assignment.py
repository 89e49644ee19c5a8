"""Decides which segments a queue consumer has open: all that the topic lists, active and sealed, until they are
drained.

Every segment of the newest layout is opened, a few at a time, in any order, because a queue has no order. A segment is
closed finally when its broker reports that the subscription is drained there, not before (H-F13), or when the topic no
longer lists it; a seek reopens drained segments (H-D7). Temporary errors are retried with back-off, without limit. The
consumer has begun once every segment of one layout was open. From then on the subscription is known to exist: later
segments inherit it and are read from their first message (H-D3), and no subscription is created any more (H-D9). Pure
decisions: events and the time in, effects out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from magnetar.base import validation
from magnetar.base.errors import ConsumerBusy, MagnetarError, Retry, TopicNotFound, Unknown
from magnetar.base.ids import SegmentId
from magnetar.base.limits import CLIENT_BACKOFF_S_MIN, FOLLOW_BACKOFF_S_MAX, SUBSCRIBES_AT_ONCE_MAX
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

# Events


@dataclass(frozen=True, slots=True)
class SubscriptionMoved:
    """A seek moved the subscription: drained segments may have messages again."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    pass


Event: TypeAlias = (
    LayoutAdvanced | SegmentOpened | SegmentRefused | SegmentEnded | SegmentClosed | SubscriptionMoved | TimePassed
)

# Effects


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """Subscribe. Answer: SegmentOpened or SegmentRefused. `inherits`: the subscription exists, with all messages of
    this segment; otherwise the consumer's initial position applies. A connection that is lost later is reattached
    without a new effect.
    """

    segment: SegmentId
    inherits: bool


Effect: TypeAlias = OpenSegment | CloseSegment | EndConsumer


class State(Enum):
    WAITING = auto()  # for its turn or its retry
    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()


@dataclass(slots=True)
class _TrackedSegment:
    state: State = State.WAITING
    at: float = 0.0  # WAITING: earliest time
    backoff_s: float = CLIENT_BACKOFF_S_MIN


class QueueAssignment:
    """`segments` are all known ones, in any state; `done` are the drained ones that are still listed."""

    def __init__(self, opening_max: int = SUBSCRIBES_AT_ONCE_MAX) -> None:
        self.segments: dict[SegmentId, _TrackedSegment] = {}
        self.done: set[SegmentId] = set()
        self.begun = False
        self.error: MagnetarError | None = None
        self._layout: Layout | None = None
        self._opening_max = opening_max

    @property
    def due(self) -> float | None:
        """The time of the next TimePassed; None while no more segments may be opened."""
        if sum(one.state is State.OPENING for one in self.segments.values()) >= self._opening_max:
            return None
        return min((one.at for one in self.segments.values() if one.state is State.WAITING and one.at), default=None)

    def comes_again(self, segment: SegmentId) -> bool:
        """Whether the segment is neither drained nor deleted, so that its unacknowledged messages are redelivered."""
        listed = self._layout is not None and segment in self._layout
        return listed and segment in self.segments and segment not in self.done

    def handle(self, event: Event, now: float) -> list[Effect]:
        effects = self._handle(event, now)
        if validation.enabled:
            self.validate()
        return effects

    def validate(self) -> None:
        opening = sum(held.state is State.OPENING for held in self.segments.values())
        assert opening <= self._opening_max, f"{opening} segments are opened side by side"
        for segment, held in self.segments.items():
            if segment in self.done or self.error is not None:
                assert held.state is State.CLOSING, f"segment {segment} goes on after its end or the consumer's"
            assert not held.at or held.state is State.WAITING, f"segment {segment} is open and waits for a time"

    def _handle(self, event: Event, now: float) -> list[Effect]:
        if self.error is not None and not isinstance(event, SegmentClosed):
            return []
        match event:
            case LayoutAdvanced(layout=layout):
                effects = self._advance(layout)
            case SegmentOpened(segment=segment):
                effects = self._opened(segment)
            case SegmentRefused(segment=segment, error=error):
                effects = self._refuse(segment, error, now)
            case SegmentEnded(segment=segment):
                effects = self._end(segment)
            case SegmentClosed(segment=segment):
                effects = self._closed(segment)
            case SubscriptionMoved():
                effects = self._moved()
            case TimePassed():
                effects = []
        if self.error is not None:
            return effects
        effects += self._open(now)
        coming = (State.WAITING, State.OPENING)
        if self._layout is not None and all(one.state not in coming for one in self.segments.values()):
            self.begun = True
        return effects

    def _advance(self, layout: Layout) -> list[Effect]:
        if self._layout is not None and layout.epoch <= self._layout.epoch:
            return []
        self._layout = layout
        self.done = {segment for segment in self.done if segment in layout}
        gone = [segment for segment in sorted(self.segments) if segment not in layout]
        for listed in layout.segments:
            if listed.id not in self.done and listed.id not in self.segments:
                self.segments[listed.id] = _TrackedSegment()
        return [effect for segment in gone for effect in self._leave(segment)]

    def _moved(self) -> list[Effect]:
        """Reopen every listed segment; a drained one reports that again immediately."""
        self.done.clear()
        for segment in self._layout.segments if self._layout is not None else ():
            if segment.id not in self.segments:
                self.segments[segment.id] = _TrackedSegment()
        return []

    def _leave(self, segment: SegmentId) -> list[Effect]:
        held = self.segments[segment]
        match held.state:
            case State.WAITING:
                del self.segments[segment]
            case State.OPENING | State.OPEN:  # an opening one may still attach: close it and await the answer
                held.state = State.CLOSING
                return [CloseSegment(segment)]
        return []

    def _open(self, now: float) -> list[Effect]:
        room = self._opening_max - sum(one.state is State.OPENING for one in self.segments.values())
        effects: list[Effect] = []
        for segment in sorted(self.segments):
            held = self.segments[segment]
            if len(effects) < room and held.state is State.WAITING and held.at <= now:
                held.state = State.OPENING
                held.at = 0.0
                effects.append(OpenSegment(segment, self.begun))
        return effects

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
        if isinstance(error, TopicNotFound):
            if self._sealed(segment):  # pruned: every subscription was done with it
                del self.segments[segment]
                self.done.add(segment)
                return []
        elif error.retry is Retry.NEVER and not isinstance(error, Unknown):
            return self._stop(segment, error)
        elif isinstance(error, ConsumerBusy) and not self.begun:
            return self._stop(segment, error)  # the creator of the consumer gets the error
        held.state = State.WAITING
        held.at = now + held.backoff_s
        held.backoff_s = min(held.backoff_s * 2, FOLLOW_BACKOFF_S_MAX)
        return []

    def _sealed(self, segment: SegmentId) -> bool:
        layout = self._layout
        return layout is None or segment not in layout or not layout.segment(segment).is_active

    def _stop(self, refused: SegmentId, error: MagnetarError) -> list[Effect]:
        """The consumer may not or cannot continue: close every segment."""
        self.error = error
        del self.segments[refused]
        effects: list[Effect] = [effect for segment in sorted(self.segments) for effect in self._leave(segment)]
        return [*effects, EndConsumer(error)]

    def _end(self, segment: SegmentId) -> list[Effect]:
        held = self.segments.get(segment)
        if held is None or held.state not in (State.OPENING, State.OPEN):
            return []
        self.done.add(segment)
        return self._leave(segment)

    def _closed(self, segment: SegmentId) -> list[Effect]:
        held = self.segments.get(segment)
        if held is not None and held.state is State.CLOSING:
            del self.segments[segment]
            listed = self._layout is not None and segment in self._layout
            if listed and segment not in self.done and self.error is None:  # moved back during its close
                self.segments[segment] = _TrackedSegment()
        return []
