"""How long writes of a topic took and how large its entries were: two histograms, recorded once for each run.

All entries of a run became durable together, so they have one latency. Their size is recorded as the mean of the run:
looking at each entry would cost the data path more than the figure is worth.
"""

from __future__ import annotations

from bisect import bisect_left

from magnetar.observe.metrics import ENTRY_BYTES, LATENCY_MS, Histogram

_LATENCIES, _SIZES = LATENCY_MS[0], ENTRY_BYTES[0]


class Writes:
    __slots__ = ("latency", "sizes")

    def __init__(self) -> None:
        self.latency = Histogram(LATENCY_MS)
        self.sizes = Histogram(ENTRY_BYTES)

    def record(self, entries: int, size: int, seconds: float) -> None:
        """Once for each run: written out, two calls and an addition are spared."""
        latency, sizes, ms = self.latency, self.sizes, seconds * 1000
        latency.counts[bisect_left(_LATENCIES, ms)] += entries
        latency.sum += ms * entries
        sizes.counts[bisect_left(_SIZES, size / entries)] += entries
        sizes.sum += size

    def add(self, other: Writes) -> None:
        self.latency.add(other.latency)
        self.sizes.add(other.sizes)

    def copy(self) -> Writes:
        copy = Writes()
        copy.add(self)
        return copy

    def since(self, before: Writes) -> Writes:
        difference = Writes()
        difference.latency, difference.sizes = self.latency.since(before.latency), self.sizes.since(before.sizes)
        return difference
