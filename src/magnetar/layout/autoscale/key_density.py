"""The load of a hash range as a function of the hash: how much of it lies below each one.

Built from a histogram of equal parts and from the heavy slots: inside a part the rest of the load is even. Without a
histogram the whole load is even.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from magnetar.base.ranges import HashRange
from magnetar.layout.autoscale.load import SegmentLoad


class KeyDensity:
    def __init__(self, range: HashRange, load: SegmentLoad) -> None:
        self.range = range
        self.load = load
        heavy = sorted((one for one in load.hot if one.slot in range), key=lambda one: one.slot)
        count, total = len(load.cells), sum(load.cells)
        rest = [value / total for value in load.cells] if total > 0 else [1.0]
        if total > 0:
            for hot_key in heavy:
                index = (hot_key.slot - range.start) * count // len(range)
                rest[index] = max(0.0, rest[index] - hot_key.share)
        left, hot = sum(rest), min(1.0, sum(one.share for one in heavy))
        scale = (1 - hot) / left if left > 0 else 0.0
        if left <= 0:
            rest, scale = [1.0], 1 - hot
        self._even = [0.0, *accumulate(value * scale for value in rest)]
        self._slots = [one.slot for one in heavy]
        self._heavy = [0.0, *accumulate(one.share for one in heavy)]

    def below(self, slot: int) -> float:
        """The share of the load at lower hashes."""
        count = len(self._even) - 1
        place = (slot - self.range.start) * count / len(self.range)
        index = min(int(place), count - 1)
        even = self._even[index] + (self._even[index + 1] - self._even[index]) * (place - index)
        return even + self._heavy[bisect_left(self._slots, slot)]

    def add_to(self, cells: list[float], whole: HashRange) -> None:
        """Adds the messages per second of the common hashes to the histogram of another range."""
        first, last = max(self.range.start, whole.start), min(self.range.end, whole.end)
        rate, width = self.load.msg_rate_in, len(whole)
        index = (first - whole.start) * len(cells) // width
        lower = self.below(first)
        while index < len(cells) and first <= last:
            edge = min(last + 1, whole.start + -(-(index + 1) * width // len(cells)))
            upper = self.below(edge)
            cells[index] += (upper - lower) * rate
            lower, first, index = upper, edge, index + 1
