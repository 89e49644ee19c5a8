"""Percentiles from buckets are right to one percent, and memory does not grow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.cli.traffic.histogram import Histogram


@given(st.lists(st.floats(1e-6, 1000.0), min_size=1, max_size=200), st.sampled_from([50.0, 95.0, 99.0, 100.0]))
def test_percentile_is_right_to_one_percent(values: list[float], percent: float) -> None:
    found = Histogram()
    for value in values:
        found.add(value)
    rank = max(1, -int(-len(values) * percent // 100))
    exact = sorted(values)[rank - 1]
    assert exact * 0.98 <= found.percentile_s(percent) <= exact * 1.021
    assert found.max_s == max(values)


def test_what_is_out_of_all_bounds_is_still_counted() -> None:
    found = Histogram()
    for value in (0.0, 1e-12, 1e12):
        found.add(value)
    assert found.count == 3
    assert found.percentile_s(100) <= 1e12


def test_nothing_measured_is_zero() -> None:
    assert Histogram().document() == {"mean": 0, "p50": 0, "p95": 0, "p99": 0, "p99_9": 0, "max": 0}
