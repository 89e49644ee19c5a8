"""Latencies in a bounded number of buckets. Each bucket is one percent wider than the previous one, which bounds the
error of percentiles.
"""

from __future__ import annotations

import math

_GROWTH = math.log(1.01)
_LEAST_S = 1e-6  # shorter durations count as this
_BUCKETS_MAX = 3_000  # reaches a few hours


class Histogram:
    def __init__(self) -> None:
        self.count = 0
        self.max_s = 0.0
        self._total_s = 0.0
        self._buckets = [0] * _BUCKETS_MAX

    def add(self, seconds: float) -> None:
        self.count += 1
        self._total_s += seconds
        self.max_s = max(self.max_s, seconds)
        place = int(math.log(max(seconds, _LEAST_S) / _LEAST_S) / _GROWTH)
        self._buckets[min(place, _BUCKETS_MAX - 1)] += 1

    @property
    def mean_s(self) -> float:
        return self._total_s / self.count if self.count else 0.0

    def percentile_s(self, percent: float) -> float:
        """The latency that this percentage of samples did not exceed."""
        rank, seen = math.ceil(self.count * percent / 100), 0
        for index, count in enumerate(self._buckets):
            seen += count
            if count and seen >= rank:
                return min(self.max_s, _LEAST_S * math.exp(_GROWTH * (index + 1)))
        return self.max_s

    def document(self) -> dict[str, float]:
        """In milliseconds."""
        points = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}
        seconds = {name: self.percentile_s(percent) for name, percent in points.items()}
        return {
            name: round(value * 1000, 3) for name, value in {"mean": self.mean_s, **seconds, "max": self.max_s}.items()
        }
