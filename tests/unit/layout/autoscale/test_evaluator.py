"""Every branch of one evaluation: which action, or why none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from magnetar.base.ids import SegmentId
from magnetar.base.ranges import HashRange
from magnetar.layout.autoscale.decision import MERGE, NONE, REBUCKET, SPLIT, Evaluation
from magnetar.layout.autoscale.evaluator import (
    Demand,
    LastReshapes,
    Situation,
    buddies,
    evaluate,
    wanted_consumers,
)
from magnetar.layout.autoscale.load import HotKey, SegmentLoad
from magnetar.layout.autoscale.policy import AutoScalePolicy, Thresholds
from magnetar.layout.layout import Layout, initial
from magnetar.layout.routing import Routing
from magnetar.layout.segment import Segment

NOW = 10_000_000
POLICY = AutoScalePolicy(max_segments=8)


def rate(msg_rate_in: float, **more: Any) -> SegmentLoad:
    return SegmentLoad(measured_s=60, msg_rate_in=msg_rate_in, **more)


def situation(*loads: SegmentLoad, policy: AutoScalePolicy = POLICY, **more: Any) -> Situation:
    """As many equal segments as loads; each is cold for an hour unless `cold_since_ms` says otherwise."""
    layout: Layout = more.pop("layout", None) or initial(len(loads), now_ms=0, buckets=more.pop("buckets", 1))
    by_id = {one.id: load for one, load in zip(layout.active, loads, strict=True)}
    cold = more.pop("cold_since_ms", dict.fromkeys(by_id, NOW - 3_600_000))
    return Situation(layout, policy, NOW, by_id, cold, **more)


def only(evaluation: Evaluation, kind: str) -> list[str]:
    return [one.reason for one in evaluation.decisions if one.kind == kind]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (replace(POLICY, enabled=False), "disabled"),
        (replace(POLICY, paused=True), "paused"),
        (replace(POLICY, min_segments=9), "invalid-policy"),
    ],
)
def test_policy_that_allows_nothing_is_reason(policy: AutoScalePolicy, reason: str) -> None:
    evaluation = evaluate(situation(rate(99_999), policy=policy))
    assert (evaluation.actions, only(evaluation, NONE)) == ((), [reason])


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("msg_rate_in", 10_001, "msgRateIn"),
        ("bytes_rate_in", 50_000_001, "bytesRateIn"),
        ("msg_rate_out", 50_001, "msgRateOut"),
        ("bytes_rate_out", 250_000_001, "bytesRateOut"),
    ],
)
def test_each_rate_above_its_threshold_splits(field: str, value: float, reason: str) -> None:
    evaluation = evaluate(situation(SegmentLoad(measured_s=60, **{field: value})))
    [action] = evaluation.actions
    assert (action.kind, action.parents, action.cuts) == (SPLIT, (0,), (32_768,))
    [decision] = evaluation.decisions
    assert (decision.taken, decision.reason, decision.at) == (True, reason, ("8000",))
    assert decision.inputs[reason] == value
    assert decision.thresholds[f"split {reason}"] < value


def test_load_at_threshold_splits_nothing() -> None:
    evaluation = evaluate(situation(rate(10_000)))
    assert (evaluation.actions, only(evaluation, NONE)) == ((), ["balanced"])


def test_spike_splits_into_several_children() -> None:
    [action] = evaluate(situation(rate(35_000))).actions
    assert len(action.cuts) == 3
    [action] = evaluate(situation(rate(990_000))).actions
    assert len(action.cuts) == 7


def test_all_segments_above_threshold_split_together() -> None:
    actions = evaluate(situation(rate(11_000), rate(5_000), rate(19_000))).actions
    assert [action.parents for action in actions] == [(2,), (0,)]


def test_maximum_limits_children_and_then_stops_splits() -> None:
    evaluation = evaluate(situation(*[rate(70_000)] + [rate(2_000)] * 4))
    [action] = evaluation.actions
    assert len(action.cuts) == 3
    evaluation = evaluate(situation(*[rate(70_000)] * 8))
    assert (evaluation.actions, set(only(evaluation, SPLIT))) == ((), {"max-segments"})


def test_cuts_follow_histogram() -> None:
    cells = (*[8.0] * 8, *[0.1] * 56)
    [action] = evaluate(situation(rate(15_000, cells=cells, sampled=500))).actions
    assert action.cuts[0] == pytest.approx(65_536 * 4 / 64, abs=600)


def test_hot_key_gets_segment_of_its_own() -> None:
    hot = (HotKey(0x4242, 0.6, "customer-7"),)
    evaluation = evaluate(situation(rate(15_000, cells=(1.0,) * 64, hot=hot, sampled=500)))
    [action] = evaluation.actions
    assert action.cuts == (0x4242, 0x4243)
    assert "'customer-7'" in evaluation.decisions[0].why
    assert evaluation.decisions[0].reason == "hot-key"


def test_segment_of_one_key_is_not_split_again() -> None:
    layout = initial(1, now_ms=0).split(SegmentId(0), now_ms=0, at=65_535)
    loads = rate(2_000), rate(99_000, hot=(HotKey(65_535, 1.0, "customer-7"),), sampled=500)
    evaluation = evaluate(situation(*loads, layout=layout))
    assert (evaluation.actions, only(evaluation, SPLIT)) == ((), ["single-key"])
    assert "'customer-7'" in evaluation.decisions[0].why


def test_narrow_range_is_not_split_by_load() -> None:
    layout = initial(1, now_ms=0).split(SegmentId(0), now_ms=0, at=31)
    evaluation = evaluate(situation(rate(50_000), rate(2_000), layout=layout))
    assert (evaluation.actions, only(evaluation, SPLIT)) == ((), ["width-floor"])


def test_young_sample_decides_nothing() -> None:
    """H-A13"""
    young = SegmentLoad(measured_s=4, msg_rate_in=99_000)
    evaluation = evaluate(situation(young))
    assert (evaluation.actions, only(evaluation, SPLIT)) == ((), ["young-sample"])


@pytest.mark.parametrize("last", [LastReshapes(split_ms=NOW - 59_999), LastReshapes(merge_ms=NOW - 59_999)])
def test_cooldown_suppresses_split_and_says_until_when(last: LastReshapes) -> None:
    evaluation = evaluate(situation(rate(99_000), last=last))
    [decision] = evaluation.decisions
    assert (evaluation.actions, decision.reason, decision.taken) == ((), "split-cooldown", False)
    assert decision.eligibleMs == NOW + 1
    assert evaluate(situation(rate(99_000), last=LastReshapes(split_ms=NOW - 60_000))).actions


def test_old_backlog_splits_only_where_policy_says() -> None:
    late = rate(10, backlog_age_s=900)
    assert evaluate(situation(late)).actions == ()
    evaluation = evaluate(situation(late, policy=replace(POLICY, backlog_age_s=600)))
    assert [one.reason for one in evaluation.decisions] == ["backlogAge"]
    silent = rate(0, backlog_age_s=900)
    assert evaluate(situation(silent, policy=replace(POLICY, backlog_age_s=600))).actions == ()


# Consumers


def test_consumers_of_fast_segment_get_segments() -> None:
    evaluation = evaluate(situation(rate(1_500), rate(1_000), demands=[Demand("a", 2), Demand("b", 3)]))
    [action] = evaluation.actions
    assert (action.kind, action.parents) == (SPLIT, (0,))
    assert only(evaluation, SPLIT) == ["consumer-count"]


def test_demands_of_subscriptions_are_not_added() -> None:
    evaluation = evaluate(situation(rate(5_000), rate(5_000), demands=[Demand("a", 2), Demand("b", 2)]))
    assert evaluation.actions == ()


@pytest.mark.parametrize(
    ("load", "policy", "reason"),
    [
        (rate(999), POLICY, "below-split-rate-floor"),
        (rate(5_000), replace(POLICY, max_segments=2), "at-max-segments"),
    ],
)
def test_consumers_get_entry_buckets_otherwise(load: SegmentLoad, policy: AutoScalePolicy, reason: str) -> None:
    """PIP-486"""
    evaluation = evaluate(situation(load, load, policy=policy, demands=[Demand("a", 5)]))
    assert [(one.kind, one.parents, one.buckets) for one in evaluation.actions] == [
        (REBUCKET, (0,), 4),
        (REBUCKET, (1,), 4),
    ]
    assert only(evaluation, REBUCKET) == [reason]


def test_enough_entry_buckets_change_nothing() -> None:
    assert evaluate(situation(rate(1), buckets=4, demands=[Demand("a", 4)])).actions == ()


def test_rebucketing_has_cooldown_and_maximum() -> None:
    last = LastReshapes(rebucket_ms=NOW - 59_999)
    evaluation = evaluate(situation(rate(1), demands=[Demand("a", 2)], last=last))
    [decision] = evaluation.decisions
    assert (evaluation.actions, decision.reason, decision.eligibleMs) == ((), "rebucket-cooldown", NOW + 1)
    full = evaluate(situation(rate(1), buckets=4, policy=replace(POLICY, buckets_max=4), demands=[Demand("a", 9)]))
    assert (full.actions, only(full, REBUCKET)) == ((), ["max-buckets"])


@pytest.mark.parametrize(
    "more",
    [{"demands": [Demand("group", 3, shares=False)]}, {"demands": [Demand("a", 3)], "routing": Routing.LOW16}],
)
def test_consumers_that_cannot_share_get_no_buckets(more: dict[str, Any]) -> None:
    evaluation = evaluate(situation(rate(1), rate(1), **more))
    assert (evaluation.actions, only(evaluation, SPLIT)) == ((), ["below-split-rate-floor"])


# Merges


def test_cold_buddies_merge() -> None:
    evaluation = evaluate(situation(*[rate(10)] * 4))
    assert [(one.kind, one.parents) for one in evaluation.actions] == [(MERGE, (0, 1)), (MERGE, (2, 3))]
    assert all(one.taken for one in evaluation.decisions if one.kind == MERGE)


def test_buddies_merge_before_colder_neighbours() -> None:
    evaluation = evaluate(situation(rate(900), rate(1), rate(1), rate(900), policy=replace(POLICY, min_segments=3)))
    assert [one.parents for one in evaluation.actions] == [(0, 1)]


def test_other_neighbours_merge_only_where_policy_allows() -> None:
    layout = initial(4, now_ms=0).merge([SegmentId(0), SegmentId(1)], now_ms=0)
    loads = rate(10), rate(10), rate(5_000)
    assert [one.parents for one in evaluate(situation(*loads, layout=layout)).actions] == [(4, 2)]
    strict = replace(POLICY, merge_any_adjacent=False)
    assert evaluate(situation(*loads, layout=layout, policy=strict)).actions == ()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"policy": replace(POLICY, min_segments=2)}, "min-segments"),
        ({"policy": replace(POLICY, max_dag_depth=0)}, "max-depth"),
        ({"last": LastReshapes(merge_ms=NOW - 299_999)}, "merge-cooldown"),
        ({"last": LastReshapes(split_ms=NOW - 299_999)}, "merge-cooldown"),
        ({"cold_since_ms": {}}, "merge-window"),
        ({"cold_since_ms": {SegmentId(0): 0, SegmentId(1): NOW - 299_999}}, "merge-window"),
        ({"demands": [Demand("a", 2)]}, "consumer-count"),
        ({"demands": [Demand("group", 2, shares=False)], "buckets": 4}, "consumer-count"),
    ],
)
def test_cold_pair_is_kept_with_reason(more: dict[str, Any], reason: str) -> None:
    more.setdefault("policy", POLICY)
    if reason == "consumer-count" and "buckets" not in more:
        more["policy"] = replace(more["policy"], buckets_max=1)
    evaluation = evaluate(situation(rate(10), rate(10), **more))
    assert (evaluation.actions, only(evaluation, MERGE)) == ((), [reason])


def test_merge_stays_out_of_dead_band() -> None:
    policy = replace(POLICY, merge=Thresholds(9_000, 5_000_000, 5_000, 25_000_000))
    evaluation = evaluate(situation(rate(2_600), rate(2_600), policy=policy))
    assert (evaluation.actions, only(evaluation, MERGE)) == ((), ["dead-band"])
    assert evaluate(situation(rate(2_500), rate(2_500), policy=policy)).actions


def test_segments_with_late_consumers_are_not_merged() -> None:
    policy = replace(POLICY, backlog_age_s=600)
    evaluation = evaluate(situation(rate(10), rate(0, backlog_age_s=900), policy=policy))
    assert only(evaluation, MERGE) == ["backlog-age"]


def test_zero_merge_thresholds_switch_merging_off() -> None:
    policy = replace(POLICY, merge=Thresholds(0, 0, 0, 0))
    assert evaluate(situation(rate(0), rate(0), policy=policy)).actions == ()


def test_split_is_decided_before_merge() -> None:
    actions = evaluate(situation(rate(1), rate(1), rate(1), rate(99_000))).actions
    assert {one.kind for one in actions} == {SPLIT}


def test_unloaded_segments_are_cold() -> None:
    layout = initial(2, now_ms=0)
    cold = dict.fromkeys([one.id for one in layout.active], 0)
    assert len(evaluate(Situation(layout, POLICY, NOW, {}, cold)).actions) == 1


def test_buddies_are_siblings_or_aligned_halves() -> None:
    def segment(start: int, end: int, *parents: int) -> Segment:
        return Segment(SegmentId(9), HashRange(start, end), parents=tuple(SegmentId(id) for id in parents))

    assert buddies(segment(0, 0x3FFF), segment(0x4000, 0x7FFF))
    assert not buddies(segment(0x4000, 0x7FFF), segment(0x8000, 0xBFFF))
    assert buddies(segment(5, 6, 1), segment(7, 90, 1))
    assert not buddies(segment(5, 6, 1), segment(7, 90, 2))


def test_wanted_consumers_count_segments_with_work() -> None:
    layout = initial(3, now_ms=0).split(SegmentId(0), now_ms=0)
    loads = {SegmentId(0): rate(0, backlogs=("a",)), SegmentId(1): rate(5), SegmentId(2): rate(5, backlogs=("b",))}
    assert wanted_consumers(layout, loads, "a") == 3
    assert wanted_consumers(layout, loads, "b") == 2
    assert wanted_consumers(layout, {}, "b") == 1
