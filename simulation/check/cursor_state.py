"""Where a subscription may stand, line after line of its story: what its clients acknowledged, moved and deleted.

An acknowledgement counts from the moment it is begun: the broker may have heard it or not, so its message may come
again and need not. While a seek or an unsubscribe is under way, or when nobody knows how it ended, nothing can be said
(`loose`) until the next one that ended well, or the next subscribe. One that goes forward may pass over something even
later where nobody heard its end: then nothing can be said of order either (`adrift`), for good.

A seek forward, to a time or past everything, passes over what was sent before (`passes`). Publish times do not only
grow in a segment, and brokers look for a time by halving: what stands before something older is not owed either. After
a seek that leaves acknowledgements alone (of queues: whoever has taken a message may still acknowledge it) only those
that the broker had confirmed before count for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation import history as record
from simulation.history import FAIL, INVOKE, OK, Line, Place, Value

if TYPE_CHECKING:
    from simulation.check.history_index import Topic


class Standing:
    def __init__(self) -> None:
        self.born: int | None = None  # the line from which on it is there for sure
        self.moves = 0  # how often it began anew: by a seek, or deleted and made again
        self.floor: Place | None = None  # where the last seek put it: what is before counts as acknowledged
        self.skipped_to: Place | None = None  # the furthest place that any seek asked for
        self.cumulative: Place | None = None
        self.acked: dict[Place, Line] = {}  # by whom, one by one
        self._loose = False
        self._lost_sight = False  # a seek forward ended, and nobody heard how
        self._since: float | None = None  # what was sent before the last seek's time was passed over
        self._by_time = False  # ... and what stands before it
        self._forward = False  # a seek under way, or of which nobody heard the end, may pass over something
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
        """May a seek have jumped over it, whatever came later?"""
        return self.skipped_to is not None and place < self.skipped_to

    def passes(self, topic: Topic, value: Value) -> bool:
        """May the last seek have passed over it?"""
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
