"""Replays: the number of segments follows the load, does not oscillate, and stays in its bounds."""

from __future__ import annotations

import math
from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import Misuse
from magnetar.layout.autoscale.decision import MERGE, SPLIT
from magnetar.layout.autoscale.load import HotKey, SegmentLoad
from magnetar.layout.autoscale.policy import AutoScalePolicy
from magnetar.layout.autoscale.replay import Replay, Step, TracePoint, TraceRange, read_trace, replayed

POLICY = AutoScalePolicy()
THRESHOLD = 10_000.0


def point(at_s: float, rate: float, *, cells: tuple[float, ...] = (1.0,), hot: tuple[HotKey, ...] = ()) -> TracePoint:
    load = SegmentLoad(measured_s=60, msg_rate_in=rate, bytes_rate_in=100 * rate, cells=cells, hot=hot, sampled=500)
    return TracePoint(atMs=int(1_000 * at_s) + 1, ranges=(TraceRange(0, 65_535, load),))


def directions(steps: list[Step]) -> list[str]:
    """The kinds of the reshapes, without repetitions."""
    kinds = [action.kind for step in steps for action in step.actions]
    return [kind for kind, _ in groupby(kinds)]


@settings(max_examples=25, deadline=None)
@given(
    period_s=st.integers(1_200, 14_400),
    phase=st.floats(0, 2 * math.pi),
    steep=st.booleans(),
    cells=st.lists(st.floats(0.1, 10), min_size=1, max_size=64).map(tuple),
)
def test_swing_causes_at_most_one_reversal_in_bounds(
    period_s: int, phase: float, steep: bool, cells: tuple[float, ...]
) -> None:
    """Between 1 and 20 times the threshold of a segment, as a sine or as a rectangle."""
    swings = 3
    points = []
    for at_s in range(0, swings * period_s, 10):
        wave = math.sin(2 * math.pi * at_s / period_s + phase)
        points.append(point(at_s, THRESHOLD * (10.5 + 9.5 * (math.copysign(1, wave) if steep else wave)), cells=cells))
    steps = list(replayed(points, POLICY))
    assert all(1 <= step.segments <= POLICY.max_segments for step in steps)
    reversals = len(directions(steps)) - 1
    assert reversals <= 2 * swings + 1  # one at the top and one at the bottom of each swing
    reshapes = [(step.at_ms, action.kind) for step in steps for action in step.actions]
    for before, after in pairwise(reshapes):
        if before[1] == SPLIT and after[1] == MERGE:
            assert after[0] - before[0] >= POLICY.merge_cooldown_s * 1_000
        elif before[0] != after[0]:
            assert after[0] - before[0] >= POLICY.split_cooldown_s * 1_000


@given(st.lists(st.floats(0.0, 3 * THRESHOLD), min_size=30, max_size=200), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_random_load_never_leaves_bounds(rates: list[float], seed: int) -> None:
    policy = AutoScalePolicy(min_segments=2, max_segments=5)
    points = [point(30 * index, rate) for index, rate in enumerate(rates)]
    for step in replayed(points, policy, segments=2 + seed % 4):
        assert 2 <= step.segments <= 5


def test_constant_load_reaches_balance_and_stays() -> None:
    steps = list(replayed([point(at_s, 12 * THRESHOLD) for at_s in range(0, 7_200, 10)], POLICY))
    assert all(step.segments == steps[-1].segments for step in steps[40:])
    assert 12 <= steps[-1].segments <= 24


def test_spike_is_followed_within_cooldown() -> None:
    quiet = [point(at_s, 500) for at_s in range(0, 600, 10)]
    spike = [point(at_s, 8 * THRESHOLD) for at_s in range(600, 900, 10)]
    steps = list(replayed(quiet + spike, POLICY))
    reached = next(step for step in steps if step.segments >= 8)
    assert reached.at_ms <= (600 + POLICY.split_cooldown_s) * 1_000 + 1


def test_load_that_ends_leaves_minimum() -> None:
    busy = [point(at_s, 20 * THRESHOLD) for at_s in range(0, 600, 10)]
    silent = [point(at_s, 0) for at_s in range(600, 7_200, 10)]
    assert list(replayed(busy + silent, POLICY))[-1].segments == 1


def test_single_hot_key_ends_in_segment_of_its_own() -> None:
    hot = (HotKey(0x7777, 0.95, "hot"),)
    replay = Replay(POLICY)
    for at_s in range(0, 3_600, 10):
        replay.step(point(at_s, 15 * THRESHOLD, cells=(1.0,) * 64, hot=hot))
    assert replay.layout is not None
    assert len(replay.layout.route(0x7777).range) == 1
    assert len(replay.layout.active) == 3
    last = replay.step(point(3_600, 15 * THRESHOLD, cells=(1.0,) * 64, hot=hot))
    assert [one.reason for one in last.decisions] == ["single-key"]


def test_skewed_keys_end_in_segments_of_equal_load() -> None:
    cells = tuple(1 / (1 + index) for index in range(64))
    replay = Replay(POLICY)
    for at_s in range(0, 1_800, 10):
        replay.step(point(at_s, 6 * THRESHOLD, cells=cells))
    assert replay.layout is not None
    assert len(replay.layout.route(0).range) < len(replay.layout.route(65_535).range) / 4


def test_trace_is_read_line_by_line() -> None:
    lines = ['{"atMs":1}', "", '{"atMs":5,"ranges":[{"start":0,"end":65535,"load":{"msg_rate_in":3}}]}']
    points = list(read_trace(lines))
    assert [one.atMs for one in points] == [1, 5]
    assert points[1].ranges[0].load.msg_rate_in == 3


@pytest.mark.parametrize("line", ["{", '{"atMs":"x"}', '{"atMs":0}'])
def test_invalid_line_of_trace_is_named(line: str) -> None:
    with pytest.raises(Misuse, match="line 2"):
        list(read_trace(['{"atMs":1}', line]))
