"""When what a producer gathered for its lanes is written: at once while nothing is on its way, in rounds under load.

One lane fills its entries with whatever comes while one is on its way. The same messages spread over many lanes would
make as many entries, each a fraction of the size, and an entry costs a broker about the same whatever is in it. So the
lanes of a producer go together, in rounds, and a round keeps the next one away the longer the more entries it had, of
several lanes or of the buckets of one: entries stay large under load. A round of one entry keeps nothing away, and so
does a message that somebody waits for: it goes as soon as nothing is on its way. Full entries never wait. Decides only;
it trusts its owner to ring when asked, and to say what was written, answered and lost.
"""

from __future__ import annotations

from enum import Enum, auto

from magnetar.base.ids import SegmentId
from magnetar.base.limits import CLIENT_ROUND_DELAYS_MAX, CLIENT_ROUND_ENTRIES_A_DELAY
from magnetar.client.producer.scalable.segment_queue import BatchLimits


class SendAction(Enum):
    NOW = auto()  # write this lane
    TURN = auto()  # call `turned` at the end of this turn of the loop
    RING = auto()  # call `rang` in `wait_s`
    LATER = auto()  # nothing: a turn or a ring comes already


class SendSchedule:
    """Whatever waits has a turn or a ring before it."""

    __slots__ = (
        "_awaited",
        "_delay_s",
        "_eager",
        "_flying",
        "_quiet_until",
        "_ringing",
        "_turning",
        "_waiting",
        "cut",
        "wait_s",
    )

    def __init__(self, cut: BatchLimits, *, eager: bool, delay_s: float) -> None:
        self.wait_s = 0.0  # until the ring that was asked for last
        self.cut = cut
        self._eager = eager
        self._delay_s = delay_s
        self._waiting: dict[SegmentId, int] = {}  # bytes that were gathered for a lane and not written
        self._awaited: dict[SegmentId, None] = {}  # those of them with a message that somebody waits for
        self._flying: dict[SegmentId, None] = {}  # lanes with entries on their way
        self._quiet_until = 0.0  # no round of messages that nobody waits for before
        self._turning = False
        self._ringing = False

    @property
    def waiting(self) -> list[SegmentId]:
        return list(self._waiting)

    @property
    def watched(self) -> bool:
        """For tests: whatever waits will be written."""
        return self._turning or self._ringing or not self._waiting

    def gathered(
        self, segment: SegmentId, size: int, messages: int, now: float, *, awaited: bool = False, room: float = 1.0
    ) -> SendAction:
        """A message came into a lane, which has so many now. `room`: the entries that it fills side by side; who
        lingers until an entry is full counts on the first.
        """
        waiting = self._waiting[segment] = self._waiting.get(segment, 0) + size
        if not self._eager:
            room = 1.0
        if waiting >= self.cut.bytes_max * room or messages >= self.cut.messages_max * room:
            return SendAction.NOW
        if awaited:
            self._awaited[segment] = None
        if self._turning:
            return SendAction.LATER
        if self._eager and not self._flying and (awaited or now >= self._quiet_until):
            self._turning = True
            return SendAction.TURN
        return self._ring(now)

    def hurry(self, now: float, *, awaited: bool) -> tuple[list[SegmentId], SendAction]:
        """As `turned`, before the end of the turn. `awaited`: somebody waits for all that was gathered."""
        if awaited:
            self._awaited.update(dict.fromkeys(self._waiting))
        if self._eager and not self._flying and self._awaited:
            self._turning = True
        return self.turned(now)

    def turned(self, now: float) -> tuple[list[SegmentId], SendAction]:
        """The turn is over: what to write, and whether to ring for the rest."""
        if not self._turning:
            return [], SendAction.LATER  # it was over before its end: somebody was in a hurry
        self._turning = False
        due = self._due(now)
        return due, self._ring(now) if len(due) < len(self._waiting) else SendAction.LATER

    def rang(self) -> list[SegmentId]:
        """What to write, whatever is on its way."""
        self._ringing = False
        return self.waiting

    def silenced(self) -> bool:
        """Nothing waits any more: is there a ring to be called off?"""
        if self._waiting or not self._ringing:
            return False
        self._ringing = False
        return True

    def answered(self, segment: SegmentId, now: float) -> list[SegmentId]:
        """Nothing of this lane is on its way any more. What to write now."""
        self._flying.pop(segment, None)
        return self._due(now) if self._eager and not self._flying and self._waiting else []

    def lost(self, segment: SegmentId) -> None:
        """What was on its way gets no answer."""
        self._flying.pop(segment, None)

    def dropped(self, segment: SegmentId) -> None:
        self._taken(segment)
        self._flying.pop(segment, None)

    def wrote(self, segment: SegmentId, *, something: bool) -> None:
        """Everything that may be written of this lane was: what is left waits for its connection or its parents."""
        self._taken(segment)
        if something:
            self._flying[segment] = None

    def went(self, entries: int, now: float) -> None:
        """So many were written in a round."""
        if entries > 1:
            delays = min(entries / CLIENT_ROUND_ENTRIES_A_DELAY, CLIENT_ROUND_DELAYS_MAX)
            self._quiet_until = now + delays * self._delay_s

    def _due(self, now: float) -> list[SegmentId]:
        return self.waiting if now >= self._quiet_until else list(self._awaited)

    def _ring(self, now: float) -> SendAction:
        if self._ringing:
            return SendAction.LATER
        self._ringing = True
        grows = self._delay_s if self._flying or not self._eager else 0.0
        self.wait_s = max(grows, self._quiet_until - now, 0.0)
        return SendAction.RING

    def _taken(self, segment: SegmentId) -> None:
        self._waiting.pop(segment, None)
        self._awaited.pop(segment, None)
