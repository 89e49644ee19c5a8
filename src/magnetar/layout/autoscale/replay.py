"""Replays a recorded load through the evaluator: which splits and merges a policy would have caused.

A trace is a sequence of points. Each point has the loads of the hash ranges that existed when it was recorded. The
replay divides them by their key histograms among the segments that it has itself, and carries out every action
immediately. Outbound rates are those of the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.base.limits import SKETCH_CELLS_MAX
from magnetar.base.ranges import HashRange
from magnetar.layout.autoscale.cold_times import cold_times
from magnetar.layout.autoscale.decision import MERGE, SPLIT, Action, Decision
from magnetar.layout.autoscale.evaluator import Demand, LastReshapes, Situation, evaluate
from magnetar.layout.autoscale.key_density import KeyDensity
from magnetar.layout.autoscale.load import HotKey, SegmentLoad
from magnetar.layout.autoscale.policy import AutoScalePolicy
from magnetar.layout.layout import Layout, initial
from magnetar.layout.range_split import cut_at_all
from magnetar.layout.segment import Segment


class TraceRange(msgspec.Struct, frozen=True, omit_defaults=True):
    start: int
    end: int
    load: SegmentLoad


class TracePoint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The loads at one time. `consumers`: of each subscription with assigned segments."""

    atMs: int
    ranges: tuple[TraceRange, ...] = ()
    consumers: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Step:
    """The state after one point."""

    at_ms: int
    msg_rate_in: float
    segments: int
    actions: tuple[Action, ...]
    decisions: tuple[Decision, ...]


class Replay:
    """One topic under a policy. `layout` changes with every action."""

    def __init__(self, policy: AutoScalePolicy, *, segments: int = 1, interval_s: float = 60.0) -> None:
        self.policy = policy
        self.layout: Layout | None = None
        self.last = LastReshapes()
        self._segments = segments
        self._interval_ms = int(interval_s * 1000)
        self._cold: dict[SegmentId, int] = {}
        self._next_ms = 0
        self._since_ms = 0

    def step(self, point: TracePoint) -> Step:
        """Takes the next point; the evaluator runs if the interval has passed."""
        now_ms = point.atMs
        if self.layout is None:
            self.layout = initial(self._segments, now_ms=now_ms)
            self._next_ms, self._since_ms = now_ms, now_ms
        due = now_ms >= self._next_ms
        parts = [KeyDensity(HashRange(one.start, one.end), one.load) for one in point.ranges]
        loads = {one.id: segment_load(parts, one.range, self._measured_s(one, now_ms), keys=due) for one in self.active}
        self._cold = cold_times(self._cold, self.layout, loads, self.policy, now_ms)
        actions: tuple[Action, ...] = ()
        decisions: tuple[Decision, ...] = ()
        if due:
            self._next_ms = now_ms + self._interval_ms
            demands = tuple(Demand(name, count) for name, count in sorted(point.consumers.items()))
            evaluation = evaluate(Situation(self.layout, self.policy, now_ms, loads, self._cold, demands, self.last))
            actions, decisions = evaluation.actions, evaluation.decisions
            for action in actions:
                self.layout, self.last = applied(self.layout, self.last, action, now_ms)
        rate = sum(one.load.msg_rate_in for one in point.ranges)
        return Step(now_ms, rate, len(self.layout.active), actions, decisions)

    @property
    def active(self) -> tuple[Segment, ...]:
        return () if self.layout is None else self.layout.active

    def _measured_s(self, segment: Segment, now_ms: int) -> float:
        return (now_ms - max(segment.created_ms, self._since_ms)) / 1000


def replayed(
    points: Iterable[TracePoint], policy: AutoScalePolicy, *, segments: int = 1, interval_s: float = 60.0
) -> Iterator[Step]:
    """The steps of a whole trace."""
    replay = Replay(policy, segments=segments, interval_s=interval_s)
    for point in points:
        yield replay.step(point)


def read_trace(lines: Iterable[str]) -> Iterator[TracePoint]:
    """One JSON document in each line, in the order of time. Misuse: a line is invalid or goes back in time."""
    before = -1
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            point = msgspec.json.decode(line, type=TracePoint)
        except msgspec.DecodeError as error:
            raise Misuse(f"line {number} of the trace is invalid: {error}", line=number) from error
        if point.atMs < before:
            raise Misuse(f"line {number} of the trace is older than the line before it", line=number)
        before = point.atMs
        yield point


def applied(layout: Layout, last: LastReshapes, action: Action, now_ms: int) -> tuple[Layout, LastReshapes]:
    """The layout and the times after an action."""
    parents = list(action.parents)
    if action.kind == SPLIT:
        ranges = cut_at_all(layout.segment(parents[0]).range, action.cuts)
        last = replace(last, split_ms=now_ms)
    elif action.kind == MERGE:
        ranges = (layout.merge_range(parents),)
        last = replace(last, merge_ms=now_ms)
    else:
        ranges = (layout.rebucket_range(parents[0], action.buckets),)
        last = replace(last, rebucket_ms=now_ms)
    burned, children = layout.burned(ranges)
    return burned.reshaped(parents, children, now_ms=now_ms, buckets=action.buckets), last


def segment_load(parts: Iterable[KeyDensity], range: HashRange, measured_s: float, *, keys: bool) -> SegmentLoad:
    """The load of the parts of a trace that lie in a range; `keys`: with their histogram."""
    rates = [0.0] * 4
    cells = [0.0] * (min(SKETCH_CELLS_MAX, len(range)) if keys else 0)
    hot: list[tuple[float, HotKey]] = []
    age_s, backlogs = 0.0, set[str]()
    for part in parts:
        first, last = max(part.range.start, range.start), min(part.range.end, range.end)
        if first > last:
            continue
        load, share = part.load, part.below(last + 1) - part.below(first)
        rates = [rate + added * share for rate, added in zip(rates, load.rates, strict=True)]
        age_s = max(age_s, load.backlog_age_s)
        backlogs.update(load.backlogs)
        if keys:
            part.add_to(cells, range)
            hot += [(one.share * load.msg_rate_in, one) for one in load.hot if one.slot in range]
    msg_rate_in, bytes_rate_in, msg_rate_out, bytes_rate_out = rates
    named = [HotKey(one.slot, min(1.0, mass / msg_rate_in), one.key) for mass, one in hot if msg_rate_in > 0]
    return SegmentLoad(
        measured_s=measured_s,
        msg_rate_in=msg_rate_in,
        bytes_rate_in=bytes_rate_in,
        msg_rate_out=msg_rate_out,
        bytes_rate_out=bytes_rate_out,
        backlog_age_s=age_s,
        backlogs=tuple(sorted(backlogs)),
        cells=tuple(cells),
        hot=tuple(sorted(named, key=lambda one: (-one.share, one.slot))),
        sampled=int(msg_rate_in * measured_s),
    )
