"""Where to divide a hash range so that its parts have equal load, by the histogram of its keys.

A range without samples is divided into parts of equal width. Each function returns the first hash of every part but
the lowest.
"""

from __future__ import annotations

from magnetar.base.ranges import HashRange
from magnetar.layout import range_split
from magnetar.layout.autoscale.key_density import KeyDensity
from magnetar.layout.autoscale.load import SegmentLoad


def weighted_cuts(whole: HashRange, load: SegmentLoad, parts: int, *, width_min: int) -> tuple[int, ...]:
    """For `parts` of at least `width_min` hashes each: the caller checks that the range is wide enough."""
    if sum(load.cells) <= 0 or load.sampled < parts:
        return tuple(one.start for one in range_split.cut_into(whole, parts)[1:])
    density = KeyDensity(whole, load)
    cuts: list[int] = []
    lowest = whole.start
    for index in range(1, parts):
        at = _quantile(density, index / parts)
        highest = whole.end + 1 - (parts - index) * width_min
        lowest = min(max(at, lowest + width_min), highest)
        cuts.append(lowest)
    return tuple(cuts)


def isolation_cuts(whole: HashRange, slot: int) -> tuple[int, ...]:
    """Around one slot, which then has a segment of its own. Empty: it has one already."""
    return tuple(at for at in (slot, slot + 1) if whole.start < at <= whole.end)


def _quantile(density: KeyDensity, share: float) -> int:
    """The hash below which the load is closest to this share."""
    low, high = density.range.start, density.range.end + 1
    while low < high:
        middle = (low + high) // 2
        if density.below(middle) < share:
            low = middle + 1
        else:
            high = middle
    if low > density.range.start and share - density.below(low - 1) < density.below(low) - share:
        return low - 1
    return low
