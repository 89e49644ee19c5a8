"""Decides when a producer's gathered messages are written: immediately while no entry is in flight, in rounds under
load.

One segment fills its next entry with the messages that arrive while an entry is in flight. The same messages spread
over many segments would make that many small entries, and the cost of an entry for a broker hardly depends on its size.
So the segments of a producer are written together, in rounds. A round with more entries, of several segments or of the
buckets of one, delays the next round longer, so that entries stay large under load. A round of one entry causes no
delay, and an awaited message does not wait for the delay: it is written as soon as no entry is in flight. Full entries
never wait. Pure decisions; it trusts its owner to ring when asked, and to report writes, answers and losses.
"""

from __future__ import annotations

from enum import Enum, auto

from magnetar.base.ids import SegmentId
from magnetar.base.limits import CLIENT_ROUND_DELAYS_MAX, CLIENT_ROUND_ENTRIES_A_DELAY
from magnetar.client.producer.scalable.segment_queue import BatchLimits


class SendAction(Enum):
    NOW = auto()  # write this segment
    TURN = auto()  # call `turned` at the end of this turn of the loop
    RING = auto()  # call `rang` in `wait_s`
    LATER = auto()  # no action: a turn or a ring is already due


class SendSchedule:
    """Every waiting message has a turn or a ring in front of it."""

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
        self.wait_s = 0.0  # until the ring that was requested last
        self.cut = cut
        self._eager = eager
        self._delay_s = delay_s
        self._waiting: dict[SegmentId, int] = {}  # bytes gathered for a segment and not written
        self._awaited: dict[SegmentId, None] = {}  # segments with a message that a caller awaits
        self._flying: dict[SegmentId, None] = {}  # segments with entries in flight
        self._quiet_until = 0.0  # earliest time of the next round without awaited messages
        self._turning = False
        self._ringing = False

    @property
    def waiting(self) -> list[SegmentId]:
        return list(self._waiting)

    @property
    def watched(self) -> bool:
        """For tests: every waiting message will be written."""
        return self._turning or self._ringing or not self._waiting

    def gathered(
        self, segment: SegmentId, size: int, messages: int, now: float, *, awaited: bool = False, room: float = 1.0
    ) -> SendAction:
        """A segment queue took a message and now has `messages`. `room` is the number of entries that fill in parallel;
        with `linger`, the first full entry counts.
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
        """As `turned`, before the end of the turn. `awaited`: a caller waits for all gathered messages."""
        if awaited:
            self._awaited.update(dict.fromkeys(self._waiting))
        if self._eager and not self._flying and self._awaited:
            self._turning = True
        return self.turned(now)

    def turned(self, now: float) -> tuple[list[SegmentId], SendAction]:
        """The turn is over: returns the segments to write, and whether to ring for the rest."""
        if not self._turning:
            return [], SendAction.LATER  # `hurry` already ended the turn
        self._turning = False
        due = self._due(now)
        return due, self._ring(now) if len(due) < len(self._waiting) else SendAction.LATER

    def rang(self) -> list[SegmentId]:
        """The segments to write, regardless of entries in flight."""
        self._ringing = False
        return self.waiting

    def silenced(self) -> bool:
        """Whether a requested ring must be cancelled, because no message waits any more."""
        if self._waiting or not self._ringing:
            return False
        self._ringing = False
        return True

    def answered(self, segment: SegmentId, now: float) -> SendAction:
        """No entry of this segment is in flight any more. The next round waits for the end of the turn: senders that
        this receipt wakes join it. Without them, two groups of senders would alternate with half-filled entries.
        """
        self._flying.pop(segment, None)
        if not self._eager or self._flying or self._turning or not self._due(now):
            return SendAction.LATER
        self._turning = True
        return SendAction.TURN

    def lost(self, segment: SegmentId) -> None:
        """The entries in flight get no answer."""
        self._flying.pop(segment, None)

    def dropped(self, segment: SegmentId) -> None:
        self._taken(segment)
        self._flying.pop(segment, None)

    def wrote(self, segment: SegmentId, *, something: bool) -> None:
        """The segment queue wrote every released entry: the remaining messages wait for a connection or for parents."""
        self._taken(segment)
        if something:
            self._flying[segment] = None

    def went(self, entries: int, now: float) -> None:
        """A round wrote this many entries."""
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
