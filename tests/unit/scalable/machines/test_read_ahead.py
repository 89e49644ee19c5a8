"""Which segments are assigned before their ancestors are acknowledged, to whom, and when that is taken back (H-F20)."""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.base.ids import Epoch, SegmentId, Term
from magnetar.layout.layout import Layout, initial
from magnetar.layout.lineage import descends
from magnetar.scalable.machines import read_ahead
from magnetar.scalable.machines.assign import (
    AcksApplied,
    AncestorLost,
    Assign,
    EarlyConfirmed,
    EarlyRefused,
    InputsChanged,
    PushAssignment,
    SegmentReleased,
    assignment,
    planned,
    step,
)
from magnetar.scalable.record.subscription import Early, Hold, StreamPlan, Subscription, Type, decode, encode

SPLIT = initial(1, now_ms=0).split(SegmentId(0), now_ms=1)  # 0 became 1 and 2
MERGED = initial(2, now_ms=0).merge([SegmentId(0), SegmentId(1)], now_ms=1)  # 0 and 1 became 2


def inputs(
    layout: Layout, *members: str, latched: tuple[int, ...] = (), received: Mapping[int, str] | None = None
) -> InputsChanged:
    done = frozenset(SegmentId(id) for id in latched)
    heard = {SegmentId(id): name for id, name in (received or {}).items()}
    return InputsChanged(layout, done, members, 0, 60_000, received=heard)


def states(plan: StreamPlan) -> dict[int, tuple[str, str, str]]:
    return {hold.segment: (hold.holder, hold.target, hold.early.value) for hold in plan.holds}


def proposed(layout: Layout = SPLIT, *members: str) -> StreamPlan:
    held = planned(StreamPlan(), inputs(layout, *(members or ("a",))))
    return planned(held, inputs(layout, *(members or ("a",)), received={0: "a"}))


def granted() -> StreamPlan:
    state = Assign(proposed(), Epoch(1), Term(1))
    for id in (1, 2):
        state, _ = step(state, EarlyConfirmed(SegmentId(id), "a"))
    return state.plan


def test_children_are_proposed_when_their_parent_is_received():
    assert states(planned(StreamPlan(), inputs(SPLIT, "a"))) == {0: ("a", "a", "")}
    assert states(proposed()) == {0: ("a", "a", ""), 1: ("a", "a", "PROPOSED"), 2: ("a", "a", "PROPOSED")}


def test_proposed_segment_is_assigned_only_when_confirmed():
    state = Assign(proposed(), Epoch(1), Term(1))
    assert assignment(state.plan, "a") == (0,)
    state, effects = step(state, EarlyConfirmed(SegmentId(1), "a"))
    assert [(one.consumer, one.segments) for one in effects if isinstance(one, PushAssignment)] == [("a", (0, 1))]
    assert step(state, EarlyConfirmed(SegmentId(1), "a")) == (state, ())
    assert step(state, EarlyConfirmed(SegmentId(2), "b")) == (state, ())


def test_child_of_merge_waits_where_two_hold_its_parents():
    plan = planned(StreamPlan(), inputs(MERGED, "a", "b"))
    both = {hold.segment: hold.holder for hold in plan.holds}
    assert set(both.values()) == {"a", "b"}
    assert states(planned(plan, inputs(MERGED, "a", "b", received=both))) == states(plan)


def test_child_of_merge_is_proposed_to_holder_of_both():
    plan = planned(StreamPlan(), inputs(MERGED, "a"))
    half = planned(plan, inputs(MERGED, "a", received={0: "a"}))
    assert states(half) == states(plan)
    assert states(planned(plan, inputs(MERGED, "a", received={0: "a", 1: "a"})))[2] == ("a", "a", "PROPOSED")


def test_grandchildren_are_proposed_behind_granted_children():
    deep = SPLIT.split(SegmentId(1), now_ms=2)
    plan = planned(granted(), inputs(deep, "a", received={0: "a"}))
    assert set(states(plan)) == {0, 1, 2}
    plan = planned(plan, inputs(deep, "a", received={0: "a", 1: "a"}))
    assert states(plan)[3] == states(plan)[4] == ("a", "a", "PROPOSED")


def test_joining_consumer_gets_nothing_of_what_is_read_ahead():
    plan = planned(granted(), inputs(SPLIT, "a", "b", received={0: "a"}))
    assert assignment(plan, "a") == (0, 1, 2)
    assert assignment(plan, "b") == ()


def test_drained_ancestors_make_holds_ordinary_after_acks_are_applied():
    plan = planned(granted(), inputs(SPLIT, "a", "b", latched=(0,)))
    assert states(plan) == {1: ("a", "a", "GRANTED"), 2: ("a", "a", "GRANTED")}
    state, _ = step(Assign(plan, Epoch(1), Term(1)), AcksApplied(SegmentId(1), "a"))
    assert states(state.plan)[1] == ("a", "a", "")
    assert states(planned(state.plan, inputs(SPLIT, "a", "b", latched=(0,))))[1] == ("a", "b", "")


def test_lost_ancestor_takes_back_all_that_is_behind_it():
    state, effects = step(Assign(granted(), Epoch(1), Term(1)), AncestorLost(SegmentId(0), SPLIT))
    assert states(state.plan) == {0: ("a", "a", ""), 1: ("a", "", "ENDING"), 2: ("a", "", "ENDING")}
    assert [one.segments for one in effects if isinstance(one, PushAssignment)] == [(0,)]
    again = planned(state.plan, inputs(SPLIT, "a", received={0: "a"}))
    assert states(again) == states(state.plan), "not proposed again before it is released"
    for id in (1, 2):
        state, _ = step(state, SegmentReleased(SegmentId(id), "a"))
    assert states(planned(state.plan, inputs(SPLIT, "a"))) == {0: ("a", "a", "")}


def test_refused_proposal_ends_alone():
    """Its reader may have left behind a segment that it has acknowledged completely: what it read early stays."""
    state, _ = step(Assign(proposed(), Epoch(1), Term(1)), EarlyConfirmed(SegmentId(1), "a"))
    for id, consumer in ((1, "a"), (2, "b")):
        assert step(state, EarlyRefused(SegmentId(id), consumer)) == (state, ())
    state, effects = step(state, EarlyRefused(SegmentId(2), "a"))
    assert states(state.plan) == {0: ("a", "a", ""), 1: ("a", "a", "GRANTED"), 2: ("a", "", "ENDING")}
    assert not [one for one in effects if isinstance(one, PushAssignment)]
    state, _ = step(state, SegmentReleased(SegmentId(2), "a"))
    assert states(planned(state.plan, inputs(SPLIT, "a"))) == {0: ("a", "a", ""), 1: ("a", "a", "GRANTED")}


def test_reader_that_left_keeps_its_holds_until_ancestors_are_judged():
    plan = planned(granted(), inputs(SPLIT, "b"))
    assert states(plan) == states(granted())
    drained = planned(plan, inputs(SPLIT, "b", latched=(0,)))
    assert states(drained)[1] == ("a", "a", "GRANTED"), "its acknowledgements are applied first"
    lost, _ = step(Assign(plan, Epoch(1), Term(1)), AncestorLost(SegmentId(0), SPLIT))
    for id in (1, 2):
        lost, _ = step(lost, SegmentReleased(SegmentId(id), "a"))
    assert states(planned(lost.plan, inputs(SPLIT, "b"))) == {0: ("b", "b", "")}


def test_proposal_of_reader_that_left_ends():
    assert states(planned(proposed(), inputs(SPLIT, "b")))[1] == ("a", "", "ENDING")


def test_segment_ending_early_hold_goes_to_one_or_several():
    layout = initial(1, now_ms=0, buckets=4).split(SegmentId(0), now_ms=1)
    ending = tuple(Hold(SegmentId(id), "a", "", early=Early.ENDING) for id in (1, 2))
    members = ("b", "c", "d", "e")
    event = InputsChanged(layout, frozenset({SegmentId(0)}), members, 0, 60_000, sharing=frozenset(members))
    state, _ = step(Assign(StreamPlan(1, ending), Epoch(1), Term(1)), event)
    assert {hold.joint for hold in state.plan.holds} == {("b", "d"), ("c", "e")}
    state, _ = step(state, SegmentReleased(SegmentId(1), "a"))
    assert state.plan.holds[0] == Hold(SegmentId(1), "", "", ("b", "d"), ("b", "d"))


def test_shared_segment_is_not_read_ahead_of():
    shared = StreamPlan(1, (Hold(SegmentId(0), "", "", ("a", "b"), ("a", "b")),))
    ancestry = read_ahead.unfinished_ancestors(SPLIT, (), {SegmentId(0): shared.holds[0]})
    found = read_ahead.planned(SPLIT, ancestry, {SegmentId(0): shared.holds[0]}, ("a", "b"), {SegmentId(0): "a"})
    assert found == {}


def test_moved_subscription_ends_early_holds_with_their_ancestors():
    """After a seek nothing is latched any more: what was read behind a drained segment is early no longer."""
    deep = SPLIT.split(SegmentId(1), now_ms=2)
    held = planned(StreamPlan(), inputs(deep, "a", latched=(0, 1)))
    assert set(states(held)) == {2, 3, 4}
    assert set(states(planned(held, inputs(deep, "a")))) == {0}


def test_history_that_is_done_is_not_walked():
    layout = initial(1, now_ms=0)
    for now_ms in range(1, 200):
        layout = (
            layout.split(layout.active[0].id, now_ms=now_ms)
            if now_ms % 2
            else layout.merge([one.id for one in layout.active], now_ms=now_ms)
        )
    done = {one.id for one in layout.segments if not one.is_active}
    assert read_ahead.unfinished_ancestors(layout, done, {}) == {}
    last = layout.active[0].parents[0]
    holds = {last: Hold(last, "a", "a")}
    assert set(read_ahead.unfinished_ancestors(layout, done - {last}, holds)) == {one.id for one in layout.active}


def test_record_keeps_early_holds():
    one = Subscription("s", Type.STREAM, 1, 1, plan=granted())
    assert decode("s", encode(one)).plan == one.plan
    assert b"early" not in encode(Subscription("s", Type.STREAM, 1, 1, plan=planned(StreamPlan(), inputs(SPLIT, "a"))))


def test_descent_is_told_through_generations():
    deep = SPLIT.split(SegmentId(1), now_ms=2)
    assert descends(deep, SegmentId(3), SegmentId(0))
    assert not descends(deep, SegmentId(3), SegmentId(2))
    assert not descends(deep, SegmentId(0), SegmentId(3))
    assert read_ahead.blocking(deep, SegmentId(4), {SegmentId(1)}) == {SegmentId(0)}
