"""The possible positions of a subscription, line after line: what its clients acknowledged, moved and deleted.

An acknowledgement counts from its start: the broker may have received it or not, so its message may come again and need
not. During a seek or an unsubscribe, or after one with an unknown end, the state is unknown (`loose`) until the next
one that succeeds, or the next subscribe. A seek forward with an unknown end may also skip messages later. Then the
order is unknown too (`adrift`), permanently.

A seek forward, to a time or to the end, skips what was sent before (`passes`). Publish times do not only grow in a
segment, and brokers find a time by bisection: a message in front of an older one may be skipped too. Some seeks leave
acknowledgements alone: a consumer of a queue may still acknowledge the messages that it has. After such a seek only the
acknowledgements that the broker had confirmed before are void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation import history as record
from simulation.history import FAIL, INVOKE, OK, Line, Place, Value

if TYPE_CHECKING:
    from simulation.check.history_index import Topic


class CursorState:
    def __init__(self) -> None:
        self.born: int | None = None  # the line from which on it certainly exists
        self.moves = 0  # its restarts: by a seek, or deleted and created again
        self.floor: Place | None = None  # where the last seek put it: what is before counts as acknowledged
        self.skipped_to: Place | None = None  # the furthest place that any seek asked for
        self.cumulative: Place | None = None
        self.acked: dict[Place, Line] = {}  # by whom, one by one
        self._loose = False
        self._lost_sight = False  # a seek forward with an unknown outcome
        self._since: float | None = None  # what was sent before the last seek's time was passed over
        self._by_time = False  # ... and what stands before it
        self._forward = False  # a seek in progress, or with an unknown outcome, may skip messages
        self._confirmed: dict[Place, None] = {}
        self._undone: dict[Place, None] = {}  # acknowledgements that the seek under way undoes for sure

    @property
    def loose(self) -> bool:
        return self._loose or self._lost_sight

    @property
    def adrift(self) -> bool:
        return self._forward or self._lost_sight

    def feed(self, line: Line) -> None:
        match line.operation:
            case record.SUBSCRIBE if line.phase == OK and self.born is None:
                self.born = line.number
                self._loose = False
            case record.ACK if line.phase == INVOKE and line.place is not None:
                self._ack(line, line.place)
            case record.ACK if line.phase == OK and line.place is not None:
                self._confirmed[line.place] = None
            case record.SEEK:
                self._seek(line)
            case record.UNSUBSCRIBE:
                self._unsubscribe(line)

    def is_acked(self, place: Place) -> bool:
        return (
            place in self.acked
            or (self.cumulative is not None and place <= self.cumulative)
            or (self.floor is not None and place < self.floor)
        )

    def is_skipped(self, place: Place) -> bool:
        """Whether a seek may have skipped it, in spite of everything later."""
        return self.skipped_to is not None and place < self.skipped_to

    def passes(self, topic: Topic, value: Value) -> bool:
        """Whether the last seek may have skipped it."""
        if self._since is None:
            return False
        if topic.sends[value].first.at < self._since:
            return True
        if not self._by_time:
            return False
        last = topic.last_sent_before(self._since)
        return any(place < last.get(topic.segment(place), place) for place in topic.copies.get(value, []))

    def _ack(self, line: Line, place: Place) -> None:
        self._confirmed.pop(place, None)
        self._undone.pop(place, None)
        if not line.facts.get("cumulative"):
            self.acked.setdefault(place, line)
        elif self.cumulative is None or place > self.cumulative:
            self.cumulative = place

    def _seek(self, line: Line) -> None:
        if line.phase == INVOKE:
            self._lost_sight = self.adrift
            self._loose = True
            self._forward = "since" in line.facts
            self._undone = dict(self._confirmed)
            if line.place is not None and (self.skipped_to is None or line.place > self.skipped_to):
                self.skipped_to = line.place
        elif line.phase == OK:
            kept = {} if not line.facts.get("acks_kept") else self._without_undone()
            self._anew()
            self.acked = kept
            self.floor = line.place
            self._forward, self._by_time = False, line.facts.get("by_time", False)
            self._since = line.facts.get("since")
        elif line.phase == FAIL:
            self._loose = self._forward = False

    def _unsubscribe(self, line: Line) -> None:
        if line.phase == INVOKE:
            self._loose = True
        elif line.phase == FAIL:
            self._loose = False
        else:
            self.born = None
            if line.phase == OK:
                self._anew()
                self.floor = self.skipped_to = self._since = None
                self._forward = self._lost_sight = False

    def _anew(self) -> None:
        self.moves += 1
        self._loose = False
        self.acked = {}
        self.cumulative = None

    def _without_undone(self) -> dict[Place, Line]:
        return {place: line for place, line in self.acked.items() if place not in self._undone}
