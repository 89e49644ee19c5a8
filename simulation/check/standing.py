"""Where a subscription may stand, line after line of its story: what its clients acknowledged, moved and deleted.

An acknowledgement counts from the moment it is begun: the broker may have heard it or not, so its message may come
again and need not. While a seek or an unsubscribe is under way, or when nobody knows how it ended, nothing can be said
(`loose`) until the next one that ended well, or the next subscribe.
"""

from __future__ import annotations

from simulation import history as record
from simulation.history import FAIL, INVOKE, OK, Line, Place


class Standing:
    def __init__(self) -> None:
        self.born: int | None = None  # the line from which on it is there for sure
        self.loose = False
        self.moves = 0  # how often it began anew: by a seek, or deleted and made again
        self.floor: Place | None = None  # where the last seek put it: what is before counts as acknowledged
        self.skipped_to: Place | None = None  # the furthest place that any seek asked for
        self.cumulative: Place | None = None
        self.acked: dict[Place, Line] = {}  # by whom, one by one

    def feed(self, line: Line) -> None:
        match line.operation:
            case record.SUBSCRIBE if line.phase == OK and self.born is None:
                self.born = line.number
                self.loose = False
            case record.ACK if line.phase == INVOKE and line.place is not None:
                self._ack(line, line.place)
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

    def _ack(self, line: Line, place: Place) -> None:
        if not line.facts.get("cumulative"):
            self.acked.setdefault(place, line)
        elif self.cumulative is None or place > self.cumulative:
            self.cumulative = place

    def _seek(self, line: Line) -> None:
        if line.phase == INVOKE:
            self.loose = True
            if line.place is not None and (self.skipped_to is None or line.place > self.skipped_to):
                self.skipped_to = line.place
        elif line.phase == OK:
            self._anew()
            self.floor = line.place
        elif line.phase == FAIL:
            self.loose = False

    def _unsubscribe(self, line: Line) -> None:
        if line.phase == INVOKE:
            self.loose = True
        elif line.phase == FAIL:
            self.loose = False
        else:
            self.born = None
            if line.phase == OK:
                self._anew()
                self.floor = self.skipped_to = None

    def _anew(self) -> None:
        self.moves += 1
        self.loose = False
        self.acked.clear()
        self.cumulative = None
