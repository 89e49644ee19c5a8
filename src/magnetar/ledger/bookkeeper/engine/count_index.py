"""The messages and bytes before some places of one ledger, in memory: exact, and thin where the ledger is long.

A place is a number of entries: the next entry, and the messages and bytes before it. A writer adds the end of each run
and a reader adds the places that it has read. Beyond a bound every second place is dropped. Pure.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from magnetar.base.limits import COUNT_PLACES_MAX
from magnetar.ledger.cut_points import CutPoints, CutRequest, chosen


class CountIndex:
    __slots__ = ("_bytes", "_messages", "_places", "_stride")

    def __init__(self) -> None:
        self._places = array("q", (0,))
        self._messages = array("q", (0,))
        self._bytes = array("q", (0,))
        self._stride = 1  # the distance of places that `append` keeps

    def __len__(self) -> int:
        return len(self._places)

    def append(self, place: int, messages: int, size: int) -> None:
        """The end of the newest run. The last place always stays exact; of those before it some are dropped."""
        if len(self._places) > 1 and self._places[-1] - self._places[-2] < self._stride:
            self._places[-1], self._messages[-1], self._bytes[-1] = place, messages, size
            return
        self._places.append(place)
        self._messages.append(messages)
        self._bytes.append(size)
        self._thin()

    def learn(self, place: int, messages: int, size: int) -> None:
        """A place that a stored entry gave, anywhere."""
        at = bisect_left(self._places, place)
        if at < len(self._places) and self._places[at] == place:
            assert (self._messages[at], self._bytes[at]) == (messages, size), "a ledger counts in one way"
            return
        self._places.insert(at, place)
        self._messages.insert(at, messages)
        self._bytes.insert(at, size)
        self._thin()

    def find(self, place: int) -> tuple[int, int] | None:
        """The messages and bytes before this place, if it is known."""
        at = bisect_left(self._places, place)
        if at == len(self._places) or self._places[at] != place:
            return None
        return self._messages[at], self._bytes[at]

    def below(self, place: int) -> tuple[int, int, int]:
        """The nearest known place that is not behind this one, with its counts."""
        at = bisect_right(self._places, place) - 1
        return self._places[at], self._messages[at], self._bytes[at]

    def missing(self, first: int, end: int, cuts_max: int) -> list[int]:
        """Places to read so that about `cuts_max` are known behind `first` up to and with `end`; none if enough are."""
        low, high = bisect_right(self._places, first), bisect_right(self._places, end)
        if high - low >= cuts_max:
            return []
        spread = [first + place for place in chosen(end - first, cuts_max)]
        return [place for place in spread if self.find(place) is None]

    def gap(self, first: int, end: int, want: CutRequest) -> tuple[int, int, int]:
        """The known places around the limit: the last one below it, the first that reaches it, and the bytes between
        them. `end` is known; where no limit is reached, both are `end`."""
        low, high = bisect_right(self._places, first), bisect_right(self._places, end)
        at = next((at for at in range(low, high) if self._reaches(at, want)), high)
        if at == high:
            return end, end, 0
        return max(first, self._places[at - 1]), self._places[at], self._bytes[at] - self._bytes[at - 1]

    def cuts(self, first: int, end: int, want: CutRequest) -> CutPoints:
        """Known places behind `first`, up to and with `end` or the first that reaches a limit."""
        low, high = bisect_right(self._places, first), bisect_right(self._places, end)
        stop = next((at + 1 for at in range(low, high) if self._reaches(at, want)), high)
        picked = [low + place - 1 for place in chosen(stop - low, want.cuts_max)] if stop > low else []
        return CutPoints(
            [self._places[at] for at in picked],
            [self._messages[at] for at in picked],
            [self._bytes[at] for at in picked],
        )

    def _reaches(self, at: int, want: CutRequest) -> bool:
        return (want.messages is not None and self._messages[at] >= want.messages) or (
            want.bytes is not None and self._bytes[at] >= want.bytes
        )

    def _thin(self) -> None:
        """Drops every second place, but neither the first nor the last."""
        if len(self._places) <= COUNT_PLACES_MAX:
            return
        for column in (self._places, self._messages, self._bytes):
            last = column[-1]
            if len(column) % 2:
                del column[1::2]
            else:
                del column[1:-1:2]
            assert column[-1] == last
        self._stride = self._places[-1] // len(self._places)
