"""A histogram of the sampled keys of one segment, and a heavy-hitter sketch, in bounded memory.

The histogram has a fixed number of equal parts of the hash range. The sketch is the "space saving" algorithm over
slots of the hash range, because a segment cannot be split inside a slot. `decay` halves both, so that they follow the
load. The owner of the segment adds samples; this module does not choose them.
"""

from __future__ import annotations

from magnetar.base.limits import SKETCH_CELLS_MAX, SKETCH_KEY_CHARS_MAX, SKETCH_SLOTS_MAX
from magnetar.base.ranges import HashRange
from magnetar.layout.autoscale.load import HotKey

_HOT_SHARE_MIN = 0.02  # a slot with a lower share is not reported
_WEIGHT_MIN = 0.5  # what decayed below half a message is forgotten


class KeySketch:
    """`sampled` counts the samples, and `total` is their decayed weight."""

    __slots__ = ("_counts", "_errors", "_even", "_keys", "cells", "range", "sampled", "total")

    def __init__(self, range: HashRange) -> None:
        self.range = range
        self.cells = [0.0] * min(SKETCH_CELLS_MAX, len(range))
        self.sampled = 0
        self.total = 0.0
        self._counts: dict[int, float] = {}
        self._errors: dict[int, float] = {}  # by how much a count may be too high
        self._keys: dict[int, bytes] = {}
        self._even = 0.0  # the weight of messages without keys: producers spread them evenly

    def add(self, slot: int, weight: float, key: bytes) -> None:
        """Slots outside of the range are ignored: a client may send any key."""
        start = self.range.start
        if not start <= slot <= self.range.end:
            return
        self.cells[(slot - start) * len(self.cells) // len(self.range)] += weight
        self.total += weight
        self.sampled += 1
        counts = self._counts
        if slot in counts:
            counts[slot] += weight
        elif len(counts) < SKETCH_SLOTS_MAX:
            counts[slot], self._errors[slot] = weight, 0.0
        else:
            lowest = min(counts, key=lambda one: (counts[one], one))
            floor = counts.pop(lowest)
            del self._errors[lowest], self._keys[lowest]
            counts[slot], self._errors[slot] = floor + weight, floor
        self._keys[slot] = key

    def add_keyless(self, weight: float) -> None:
        self._even += weight
        self.total += weight
        self.sampled += 1

    def histogram(self) -> list[float]:
        """The weight of each of the equal parts of the range."""
        even = self._even / len(self.cells)
        return [cell + even for cell in self.cells]

    def decay(self) -> None:
        """Called once per interval."""
        self.cells = [value / 2 for value in self.cells]
        self.total /= 2
        self._even /= 2
        for slot in list(self._counts):
            self._counts[slot] /= 2
            self._errors[slot] /= 2
            if self._counts[slot] < _WEIGHT_MIN:
                del self._counts[slot], self._errors[slot], self._keys[slot]

    def hot(self) -> tuple[HotKey, ...]:
        """The slots that certainly have a large share, the largest first."""
        if self.total <= 0:
            return ()
        shares = sorted(
            ((min(1.0, (count - self._errors[slot]) / self.total), slot) for slot, count in self._counts.items()),
            key=lambda pair: (-pair[0], pair[1]),
        )
        return tuple(
            HotKey(slot, round(share, 4), self._keys[slot].decode("utf-8", "replace")[:SKETCH_KEY_CHARS_MAX])
            for share, slot in shares
            if share >= _HOT_SHARE_MIN
        )
