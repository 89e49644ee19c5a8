"""Entries of one ledger as disjoint intervals in two sorted lists: cheap at the end, cheap at the front, logarithmic
between.

Pure. Neighbouring intervals are always joined, so the number of intervals is the number of gaps. The front is
consumed by moving `_head` and cut off in bulk, because removing the first item of a long list, once per
acknowledgement, would be quadratic.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import sub

from magnetar.base.errors import Corrupt

_HEAD_MAX = 512  # consumed intervals that may stay in the lists


class Ranges:
    __slots__ = ("_ends", "_head", "_starts", "entries")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []  # inclusive
        self._head = 0
        self.entries = 0

    @classmethod
    def of(cls, starts: list[int], ends: list[int]) -> Ranges:
        """From lists that were read back; Corrupt unless they are sorted, disjoint and not touching."""
        if starts and (min(map(sub, ends, starts)) < 0 or min(map(sub, starts[1:], ends), default=2) < 2):
            raise Corrupt("a snapshot has intervals that overlap or touch")
        ranges = cls()
        ranges._starts, ranges._ends = starts, ends
        ranges.entries = sum(ends) - sum(starts) + len(starts)
        return ranges

    def __len__(self) -> int:
        return len(self._starts) - self._head

    @property
    def starts(self) -> list[int]:
        return self._starts[self._head :]

    @property
    def ends(self) -> list[int]:
        return self._ends[self._head :]

    @property
    def first(self) -> int:
        """The lowest entry held; there must be one."""
        return self._starts[self._head]

    def touches(self, start: int, end: int) -> bool:
        """Does an interval overlap start..end, or end right beside it? Then adding it makes no new interval."""
        low = bisect_left(self._ends, start - 1, self._head)
        return low < len(self._ends) and self._starts[low] <= end + 1

    def add(self, start: int, end: int) -> int:
        """Hold start..end too; returns how many of them are new."""
        starts, ends, head = self._starts, self._ends, self._head
        if len(starts) == head or start > ends[-1] + 1:
            starts.append(start)
            ends.append(end)
            self.entries += end - start + 1
            return end - start + 1
        if start == ends[-1] + 1:
            ends[-1] = end
            self.entries += end - start + 1
            return end - start + 1
        low = bisect_left(ends, start - 1, head)  # the first interval that touches or overlaps
        high = bisect_right(starts, end + 1, low)  # past the last one that does
        if low == high:
            starts.insert(low, start)
            ends.insert(low, end)
            self.entries += end - start + 1
            return end - start + 1
        held = sum(ends[low:high]) - sum(starts[low:high]) + high - low
        start, end = min(start, starts[low]), max(end, ends[high - 1])
        starts[low], ends[low] = start, end
        if high > low + 1:
            del starts[low + 1 : high]
            del ends[low + 1 : high]
        self.entries += end - start + 1 - held
        return end - start + 1 - held

    def end_of(self, entry: int) -> int:
        """The end of the interval that holds this entry, or -1."""
        at = bisect_right(self._starts, entry, self._head) - 1
        return self._ends[at] if at >= self._head and self._ends[at] >= entry else -1

    def pop_first(self) -> tuple[int, int]:
        head = self._head
        start, end = self._starts[head], self._ends[head]
        self._head += 1
        self.entries -= end - start + 1
        self._compact()
        return start, end

    def drop_to(self, entry: int) -> None:
        """Forget everything at or below."""
        at = bisect_left(self._ends, entry + 1, self._head)
        gone = sum(self._ends[self._head : at]) - sum(self._starts[self._head : at]) + at - self._head
        self._head = at
        self._compact()
        if len(self) and self.first <= entry:
            gone += entry + 1 - self.first
            self._starts[self._head] = entry + 1
        self.entries -= gone

    def cut(self, entry: int) -> None:
        """Forget everything at or above."""
        at = bisect_left(self._starts, entry, self._head)
        self.entries -= sum(self._ends[at:]) - sum(self._starts[at:]) + len(self._ends) - at
        del self._starts[at:]
        del self._ends[at:]
        if len(self) and self._ends[-1] >= entry:
            self.entries -= self._ends[-1] - entry + 1
            self._ends[-1] = entry - 1

    def _compact(self) -> None:
        if self._head > _HEAD_MAX and self._head * 2 > len(self._starts):
            del self._starts[: self._head]
            del self._ends[: self._head]
            self._head = 0
