"""Decides from loads, policy and history which segments of a topic to split, merge or divide into entry buckets.

Splits by load come first, then splits and entry buckets for consumers, then merges; an evaluation does only one of the
three. Three rules prevent oscillation. A merge needs a load below the merge thresholds for a whole window. The merged
segment must stay below half of the split thresholds. After any reshape, the cool-down of the next kind must pass
(H-A13). Every candidate yields a decision, also if it is suppressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.base.limits import LOAD_INTERVAL_S_MIN, SPLIT_PARTS_MAX, SPLIT_WIDTH_MIN
from magnetar.layout.autoscale.decision import MERGE, NONE, REBUCKET, SPLIT, Action, Decision, Evaluation
from magnetar.layout.autoscale.load import UNLOADED, HotKey, SegmentLoad
from magnetar.layout.autoscale.policy import RATES, AutoScalePolicy, check
from magnetar.layout.autoscale.weighted_split import isolation_cuts, weighted_cuts
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import merge_depths
from magnetar.layout.routing import Routing
from magnetar.layout.segment import Segment

HOT_SHARE = 0.5  # from this share of its segment on, a key is the load
MERGED_SCORE_MAX = 0.5  # of the split thresholds: the dead band between a merge and the next split
Numbers = dict[str, float | str]


@dataclass(frozen=True, slots=True)
class Demand:
    """A subscription with assigned segments. `shares`: its consumers can share a segment by entry buckets."""

    subscription: str
    consumers: int
    shares: bool = True


@dataclass(frozen=True, slots=True)
class LastReshapes:
    """When the last reshape of each kind was committed; 0: never."""

    split_ms: int = 0
    merge_ms: int = 0
    rebucket_ms: int = 0

    @property
    def any_ms(self) -> int:
        return max(self.split_ms, self.merge_ms, self.rebucket_ms)


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that a decision depends on. `cold_since_ms`: since when all samples of a segment were below the merge
    thresholds; a segment that is missing was not observed as cold."""

    layout: Layout
    policy: AutoScalePolicy
    now_ms: int
    loads: Mapping[SegmentId, SegmentLoad] = field(default_factory=dict)
    cold_since_ms: Mapping[SegmentId, int] = field(default_factory=dict)
    demands: Sequence[Demand] = ()
    last: LastReshapes = field(default_factory=LastReshapes)
    routing: Routing | None = None

    def load(self, id: SegmentId) -> SegmentLoad:
        return self.loads.get(id, UNLOADED)


def evaluate(situation: Situation) -> Evaluation:
    refused = _switched_off(situation)
    if refused is not None:
        return Evaluation((), (refused,))
    evaluator = _Evaluator(situation)
    evaluator.split_by_load()
    evaluator.serve_consumers()
    evaluator.merge()
    if not evaluator.decisions:
        evaluator.decisions.append(_decision(situation, NONE, "balanced", "every segment is within its thresholds"))
    return Evaluation(tuple(evaluator.actions), tuple(evaluator.decisions))


def _switched_off(situation: Situation) -> Decision | None:
    policy = situation.policy
    if not policy.enabled:
        return _decision(situation, NONE, "disabled", "automatic scaling is disabled by the policy")
    if policy.paused:
        return _decision(situation, NONE, "paused", "automatic scaling of this topic is paused")
    try:
        check(policy)
    except Misuse as error:
        return _decision(situation, NONE, "invalid-policy", f"automatic scaling is off: {error.what}")
    return None


class _Evaluator:
    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.policy = situation.policy.at(situation.now_ms)
        alone = situation.routing is Routing.LOW16  # its buckets and segments would use the same half of the hash
        self.demands = [replace(one, shares=False) if alone else one for one in situation.demands]
        self.active = situation.layout.active
        self.depths = merge_depths(situation.layout)
        self.count = len(self.active)  # with the actions so far
        self.actions: list[Action] = []
        self.decisions: list[Decision] = []

    # Splits by load

    def split_by_load(self) -> None:
        """The segments above a threshold, the heaviest first."""
        scored = [(self._score(one), one) for one in self.active]
        above = [(score, cause, one) for (score, cause), one in scored if score > 1]
        for score, cause, segment in sorted(above, key=lambda each: (-each[0], each[2].id)):
            self._split(segment, cause, score)

    def _score(self, segment: Segment) -> tuple[float, str]:
        load = self.situation.load(segment.id)
        score, cause = load.score(self.policy.split)
        limit = self.policy.backlog_age_s
        if limit and load.msg_rate_in > 0 and load.backlog_age_s > limit and score <= 1:
            return min(2.0, load.backlog_age_s / limit), "backlogAge"
        return score, cause

    def _split(self, segment: Segment, cause: str, score: float) -> None:
        load, why = self.situation.load(segment.id), _cause(segment, cause, score)
        inputs = self._numbers(segment, load) | {"score": round(score, 3)}
        if load.measured_s < LOAD_INTERVAL_S_MIN:
            text = f"{why}, but its load is measured for {load.measured_s:.0f} s only"
            return self._suppress(SPLIT, (segment,), "young-sample", text, inputs)
        hot = load.hot[0] if load.hot and load.hot[0].share >= HOT_SHARE else None
        if hot is not None:
            cuts = isolation_cuts(segment.range, hot.slot)
            if not cuts:
                text = f"{_hot(hot)} is the load of segment {segment.id}: a split cannot divide one key"
                return self._suppress(SPLIT, (segment,), "single-key", text, inputs)
            text = f"{_hot(hot)} is the load of segment {segment.id} ({why}): it gets a segment of its own"
            return self._take_split(segment, cuts, "hot-key", text, inputs)
        parts = min(SPLIT_PARTS_MAX, max(2, ceil(score)), len(segment.range) // SPLIT_WIDTH_MIN)
        if parts < 2:
            text = f"{why}, but its range of {len(segment.range)} hashes is too narrow to split by load"
            return self._suppress(SPLIT, (segment,), "width-floor", text, inputs)
        parts = min(parts, max(2, self.policy.max_segments - self.count + 1))
        cuts = weighted_cuts(segment.range, load, parts, width_min=SPLIT_WIDTH_MIN)
        return self._take_split(segment, cuts, cause, why, inputs)

    def _take_split(self, segment: Segment, cuts: tuple[int, ...], reason: str, why: str, inputs: Numbers) -> None:
        policy, situation = self.policy, self.situation
        if self.count + len(cuts) > policy.max_segments:
            text = f"{why}, but the topic has {self.count} of at most {policy.max_segments} segments"
            return self._suppress(SPLIT, (segment,), "max-segments", text, inputs)
        eligible_ms = situation.last.any_ms + int(policy.split_cooldown_s * 1000)
        if situation.last.any_ms and situation.now_ms < eligible_ms:
            text = f"{why}, but the last reshape was {_ago(situation)} ago"
            return self._suppress(SPLIT, (segment,), "split-cooldown", text, inputs, eligible_ms)
        self.count += len(cuts)
        self.actions.append(Action(SPLIT, (segment.id,), f"{reason}: {why}", cuts=cuts))
        self.decisions.append(
            _decision(
                situation, SPLIT, reason, why, (segment,), inputs, self._limits(), taken=True, at=_hexadecimal(cuts)
            )
        )
        return None

    # Consumers

    def serve_consumers(self) -> None:
        """Segments for the consumers of the largest subscription, or entry buckets if the load does not justify
        segments (PIP-486)."""
        demand = max(self.demands, key=lambda one: (one.consumers, not one.shares), default=None)
        if self.actions or demand is None or demand.consumers <= len(self.active):
            return None
        busiest = min(self.active, key=lambda one: (-self.situation.load(one.id).msg_rate_in, one.id))
        load = self.situation.load(busiest.id)
        why = f"{demand.subscription} has {demand.consumers} consumers for {len(self.active)} segments"
        inputs = self._numbers(busiest, load) | {"consumers": demand.consumers, "segments": len(self.active)}
        splittable = len(busiest.range) >= 2 * SPLIT_WIDTH_MIN
        full = self.count >= self.policy.max_segments
        slow = load.msg_rate_in < self.policy.split_vs_rebucket_msg_rate_in
        if not full and not slow and splittable:
            cuts = weighted_cuts(busiest.range, load, 2, width_min=SPLIT_WIDTH_MIN)
            return self._take_split(busiest, cuts, "consumer-count", why, inputs)
        reason = "at-max-segments" if full else "below-split-rate-floor" if slow else "width-floor"
        sharing = max((one for one in self.demands if one.shares), key=lambda one: one.consumers, default=None)
        if sharing is None:
            text = f"{why}, and they cannot share a segment by entry buckets"
            return self._suppress(SPLIT, (busiest,), reason, text, inputs)
        return self._rebucket(sharing, reason, inputs)

    def _rebucket(self, demand: Demand, reason: str, inputs: Numbers) -> None:
        policy, situation = self.policy, self.situation
        buckets = sum(one.buckets for one in self.active)
        why = f"{demand.subscription} has {demand.consumers} consumers for {buckets} entry buckets"
        inputs = inputs | {"consumers": demand.consumers, "buckets": buckets}
        if demand.consumers <= buckets:
            return None
        target = min(_power_of_two(ceil(demand.consumers / len(self.active))), policy.buckets_max)
        chosen = tuple(one for one in self.active if one.buckets < target)
        if not chosen:
            text = f"{why}, but each segment has the maximum of {policy.buckets_max} entry buckets"
            return self._suppress(REBUCKET, (), "max-buckets", text, inputs)
        eligible_ms = situation.last.rebucket_ms + int(policy.rebucket_cooldown_s * 1000)
        if situation.last.rebucket_ms and situation.now_ms < eligible_ms:
            text = f"{why}, but the last rebucketing was less than {policy.rebucket_cooldown_s:.0f} s ago"
            return self._suppress(REBUCKET, chosen, "rebucket-cooldown", text, inputs, eligible_ms)
        for segment in chosen:
            self.actions.append(Action(REBUCKET, (segment.id,), f"{reason}: {why}", buckets=target))
        inputs = inputs | {"target": target}
        self.decisions.append(_decision(situation, REBUCKET, reason, why, chosen, inputs, self._limits(), taken=True))
        return None

    # Merges

    def merge(self) -> None:
        """Disjoint pairs of cold neighbours, buddies first, then those with the lowest load."""
        if self.actions:
            return
        merged: set[SegmentId] = set()
        for pair in sorted(self._cold_pairs(), key=self._merge_order):
            if merged.isdisjoint((pair[0].id, pair[1].id)) and self._merge_pair(pair):
                merged |= {pair[0].id, pair[1].id}

    def _cold_pairs(self) -> Iterator[tuple[Segment, Segment]]:
        for pair in pairwise(self.active):
            cold = all(self.situation.load(one.id).is_cold(self.policy.merge) for one in pair)
            if cold and (self.policy.merge_any_adjacent or buddies(*pair)):
                yield pair

    def _merge_order(self, pair: tuple[Segment, Segment]) -> tuple[bool, float, int]:
        return not buddies(*pair), self._joined(pair)[0], pair[0].range.start

    def _joined(self, pair: tuple[Segment, Segment]) -> tuple[float, str]:
        """The score of the merged segment."""
        loads = [self.situation.load(one.id) for one in pair]
        sums = [sum(rates) for rates in zip(*(load.rates for load in loads), strict=True)]
        names = ("msg_rate_in", "bytes_rate_in", "msg_rate_out", "bytes_rate_out")
        joined = SegmentLoad(measured_s=LOAD_INTERVAL_S_MIN, **dict(zip(names, sums, strict=True)))
        return joined.score(self.policy.split)

    def _merge_pair(self, pair: tuple[Segment, Segment]) -> bool:
        situation = self.situation
        score, cause = self._joined(pair)
        why = f"segments {pair[0].id} and {pair[1].id} are cold"
        inputs: Numbers = {"mergedScore": round(score, 3), "segments": self.count}
        for segment in pair:
            inputs[f"msgRateIn of {segment.id}"] = round(situation.load(segment.id).msg_rate_in, 1)
        suppressed = self._no_merge(pair, why, score, cause)
        if suppressed is not None:
            reason, text, eligible_ms = suppressed
            self._suppress(MERGE, pair, reason, text, inputs, eligible_ms)
            return False
        self.count -= 1
        self.actions.append(Action(MERGE, tuple(one.id for one in pair), f"cold: {why}"))
        inputs["coldForSeconds"] = round(min(self._cold_s(one) for one in pair))
        self.decisions.append(_decision(situation, MERGE, "cold", why, pair, inputs, self._limits(), taken=True))
        return True

    def _no_merge(
        self, pair: tuple[Segment, Segment], why: str, score: float, cause: str
    ) -> tuple[str, str, int] | None:
        """Why not: a word, a sentence, and the time from which it may happen."""
        policy, situation = self.policy, self.situation
        if self.count <= policy.min_segments:
            return "min-segments", f"{why}, but the topic keeps at least {policy.min_segments} segments", 0
        if any(self.depths[one.id] >= policy.max_dag_depth for one in pair):
            return "max-depth", f"{why}, but a path to them has {policy.max_dag_depth} merges already", 0
        if score > MERGED_SCORE_MAX:
            return "dead-band", f"{why}, but together they have {score:.0%} of the split threshold of {cause}", 0
        if any(situation.load(one.id).backlog_age_s > policy.backlog_age_s > 0 for one in pair):
            return "backlog-age", f"{why}, but their subscriptions are behind", 0
        waiting = self._needs_capacity(pair)
        if waiting:
            return "consumer-count", f"{why}, but {waiting}", 0
        eligible_ms = situation.last.any_ms + int(policy.merge_cooldown_s * 1000)
        if situation.last.any_ms and situation.now_ms < eligible_ms:
            return "merge-cooldown", f"{why}, but the last reshape was {_ago(situation)} ago", eligible_ms
        cold_s = min(self._cold_s(one) for one in pair)
        if cold_s < policy.merge_window_s:
            eligible_ms = situation.now_ms + int((policy.merge_window_s - cold_s) * 1000)
            text = f"{why} for {cold_s:.0f} s, but not for the merge window of {policy.merge_window_s:.0f} s"
            return "merge-window", text, eligible_ms
        return None

    def _needs_capacity(self, pair: tuple[Segment, Segment]) -> str:
        """Why consumers would lose a place; "" if they do not."""
        before = sum(one.buckets for one in self.active)
        joined = min(pair[0].buckets + pair[1].buckets, self.policy.buckets_max)
        after = before - pair[0].buckets - pair[1].buckets + joined
        for demand in self.demands:
            have, left = (before, after) if demand.shares else (self.count, self.count - 1)
            if left < min(demand.consumers, have):
                return f"the {demand.consumers} consumers of {demand.subscription} need their places"
        return ""

    def _cold_s(self, segment: Segment) -> float:
        since = self.situation.cold_since_ms.get(segment.id)
        return 0.0 if since is None else max(0.0, (self.situation.now_ms - since) / 1000)

    # Values

    def _suppress(
        self,
        kind: str,
        segments: tuple[Segment, ...],
        reason: str,
        why: str,
        inputs: Numbers,
        eligible_ms: int = 0,
    ) -> None:
        self.decisions.append(
            _decision(self.situation, kind, reason, why, segments, inputs, self._limits(), eligible_ms=eligible_ms)
        )

    def _limits(self) -> dict[str, float]:
        policy = self.policy
        limits: dict[str, float] = {"minSegments": policy.min_segments, "maxSegments": policy.max_segments}
        for name, split, merge in zip(RATES, policy.split.values, policy.merge.values, strict=True):
            limits[f"split {name}"], limits[f"merge {name}"] = split, merge
        return limits

    def _numbers(self, segment: Segment, load: SegmentLoad) -> Numbers:
        numbers: Numbers = {name: round(rate, 1) for name, rate in zip(RATES, load.rates, strict=True)}
        numbers["range"] = segment.range.hex
        if load.backlog_age_s:
            numbers["backlogAgeSeconds"] = round(load.backlog_age_s, 1)
        if load.hot:
            numbers["hottestKey"], numbers["hottestKeyShare"] = _name(load.hot[0]), load.hot[0].share
        return numbers


def buddies(lower: Segment, upper: Segment) -> bool:
    """Whether one split made both, or they are the two halves of an aligned range, as halving makes them."""
    if lower.parents and lower.parents == upper.parents:
        return True
    width = len(lower.range)
    return width == len(upper.range) and width & (width - 1) == 0 and lower.range.start % (2 * width) == 0


def wanted_consumers(layout: Layout, loads: Mapping[SegmentId, SegmentLoad], subscription: str) -> int:
    """How many consumers of a subscription would have work: the active segments with messages, and all segments with a
    backlog of it; at least one."""
    behind = {id for id, load in loads.items() if subscription in load.backlogs}
    busy = {one.id for one in layout.active if loads.get(one.id, UNLOADED).msg_rate_in > 0}
    return max(1, len(behind | busy))


def _cause(segment: Segment, cause: str, score: float) -> str:
    return f"segment {segment.id} has {score:.1f} times the split threshold of {cause}"


def _hot(hot: HotKey) -> str:
    return f"the key {_name(hot)} (hash {hot.slot:04x}, {hot.share:.0%} of the messages)"


def _name(hot: HotKey) -> str:
    return repr(hot.key) if hot.key else f"of hash {hot.slot:04x}"


def _ago(situation: Situation) -> str:
    return f"{max(0, situation.now_ms - situation.last.any_ms) // 1000} s"


def _hexadecimal(cuts: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"{at:04x}" for at in cuts)


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


def _decision(
    situation: Situation,
    kind: str,
    reason: str,
    why: str,
    segments: tuple[Segment, ...] = (),
    inputs: Numbers | None = None,
    thresholds: dict[str, float] | None = None,
    *,
    taken: bool = False,
    eligible_ms: int = 0,
    at: tuple[str, ...] = (),
) -> Decision:
    return Decision(
        kind=kind,
        taken=taken,
        reason=reason,
        why=why,
        atMs=situation.now_ms,
        segmentIds=tuple(one.id for one in segments),
        at=at,
        inputs=inputs or {},
        thresholds=thresholds or {},
        eligibleMs=eligible_ms,
    )
