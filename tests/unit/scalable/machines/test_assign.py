"""The plan is fair, moves what it must and nothing else, and never lets a child overtake an ancestor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.ids import Epoch, SegmentId, Term
from magnetar.layout.layout import Layout, initial
from magnetar.layout.lineage import ancestors
from magnetar.scalable.machines.assign import (
    Assign,
    InputsChanged,
    PushAssignment,
    SegmentReleased,
    StorePlan,
    assignment,
    planned,
    released,
    step,
)
from magnetar.scalable.record.subscription import Hold, StreamPlan

GRACE = 60_000
EIGHT = initial(8, now_ms=0)


def inputs(layout: Layout, *members: str, latched=(), now_ms: int = 0) -> InputsChanged:
    return InputsChanged(layout, frozenset(SegmentId(id) for id in latched), members, now_ms, GRACE)


def settled(plan: StreamPlan) -> StreamPlan:
    """Every consumer that is to let go has done so."""
    for hold in plan.holds:
        if hold.holder != hold.target:
            plan = released(plan, hold.segment, hold.holder)
    return plan


def loads(plan: StreamPlan, *members: str) -> list[int]:
    return [len(assignment(plan, name)) for name in members]


def test_one_consumer_gets_all_and_second_one_half():
    plan = planned(StreamPlan(), inputs(EIGHT, "a"))
    assert loads(plan, "a") == [8]
    plan = planned(plan, inputs(EIGHT, "a", "b"))
    assert loads(plan, "a", "b") == [4, 0]  # revoked, and granted only when let go
    assert loads(settled(plan), "a", "b") == [4, 4]


def test_segment_is_granted_after_release_by_old_holder():
    state = Assign(planned(StreamPlan(), inputs(initial(2, now_ms=0), "a")), Epoch(0), Term(1))
    state, effects = step(state, inputs(initial(2, now_ms=0), "a", "b"))
    store, push = effects
    assert isinstance(store, StorePlan)
    assert isinstance(push, PushAssignment)
    assert push.consumer == "a"
    (moving,) = [hold.segment for hold in state.plan.holds if hold.target == "b"]
    assert step(state, SegmentReleased(moving, "b")) == (state, ())  # not the one who has it
    state, effects = step(state, SegmentReleased(moving, "a"))
    assert [(one.consumer, one.segments) for one in effects[1:]] == [("b", (moving,))]
    assert step(state, SegmentReleased(moving, "a")) == (state, ())


def test_who_loses_is_told_before_who_gains():
    layout = initial(4, now_ms=0)
    state = Assign(settled(planned(StreamPlan(), inputs(layout, "a", "z"))), Epoch(0), Term(1))
    layout = layout.split(assignment(state.plan, "a")[0], now_ms=1)
    _, effects = step(state, inputs(layout, "z", "a", latched=[assignment(state.plan, "a")[0]]))
    pushed = [one.consumer for one in effects if isinstance(one, PushAssignment)]
    assert pushed[0] == "a"
    assert {(one.epoch, one.term) for one in effects[1:]} == {(Epoch(1), Term(1))}


def test_children_wait_for_ancestors_and_latched_segments_leave_h_f1_h_f14():
    layout = initial(1, now_ms=0).split(SegmentId(0), now_ms=1).split(SegmentId(1), now_ms=2)
    given_out = [
        [hold.segment for hold in planned(StreamPlan(), inputs(layout, "a", latched=latched)).holds]
        for latched in ([], [1], [0], [0, 1])
    ]
    assert given_out == [[0], [0], [1, 2], [2, 3, 4]]


def test_children_go_to_who_had_parent():
    layout = initial(2, now_ms=0)
    plan = planned(StreamPlan(), inputs(layout, "a", "b"))
    (mine,) = assignment(plan, "b")
    after = layout.split(mine, now_ms=1)
    third = initial(2, now_ms=0)
    assert third == layout
    plan = planned(plan, inputs(after, "a", "b", latched=[mine]))
    children = set(after.segment(mine).children)
    assert children & set(assignment(plan, "b"))


def test_consumer_returning_in_time_gets_own_segments_back():
    plan = settled(planned(StreamPlan(), inputs(EIGHT, "a", "b")))
    mine = assignment(plan, "b")
    plan = settled(planned(plan, inputs(EIGHT, "a", now_ms=10)))
    assert loads(plan, "a") == [8]
    back = settled(planned(plan, inputs(EIGHT, "a", "b", now_ms=20)))
    assert assignment(back, "b") == mine
    late = planned(plan, inputs(EIGHT, "a", "b", now_ms=10 + GRACE))
    assert late.left == ()


def test_without_consumers_nobody_holds_and_first_gets_all():
    plan = planned(planned(StreamPlan(), inputs(EIGHT, "a")), inputs(EIGHT))
    assert {(hold.holder, hold.target) for hold in plan.holds} == {("", "")}
    assert loads(planned(plan, inputs(EIGHT, "b")), "b") == [8]


def test_consumer_whose_session_is_over_is_not_waited_for():
    plan = planned(planned(StreamPlan(), inputs(EIGHT, "a")), inputs(EIGHT, "a", "b"))
    plan = planned(plan, inputs(EIGHT, "b"))
    assert loads(plan, "b") == [8]


def test_more_consumers_than_segments_leave_some_idle():
    plan = planned(StreamPlan(), inputs(initial(2, now_ms=0), "a", "b", "c"))
    assert sorted(loads(plan, "a", "b", "c")) == [0, 1, 1]


def test_same_inputs_change_nothing_and_no_generation_is_used_up():
    state = Assign(planned(StreamPlan(), inputs(EIGHT, "a", "b")), EIGHT.epoch, Term(1))
    assert step(state, inputs(EIGHT, "b", "a")) == (state, ())


def test_segments_that_are_going_are_given_to_nobody():
    layout = initial(1, now_ms=0).split(SegmentId(0), now_ms=1).pruning([SegmentId(0)])
    assert planned(StreamPlan(), inputs(layout, "a")).holds == ()


@given(st.data())
def test_any_history_keeps_loads_even_moves_few_and_order(data):
    layout = initial(data.draw(st.integers(1, 6)), now_ms=0)
    members: list[str] = ["a"]
    latched: set[SegmentId] = set()
    plan = StreamPlan()
    for now_ms in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["join", "leave", "split", "merge", "drain"])):
            case "join":
                members = sorted({*members, data.draw(st.sampled_from("abcdef"))})
            case "leave":
                members = members[1:]
            case "split":
                layout = layout.split(data.draw(st.sampled_from(layout.active)).id, now_ms=now_ms)
            case "merge" if len(layout.active) > 1:
                layout = layout.merge([one.id for one in layout.active[:2]], now_ms=now_ms)
            case "drain":
                sealed = [one.id for one in layout.segments if not one.is_active and one.id not in latched]
                latched |= set(sealed[:1])
        before = plan
        change = InputsChanged(layout, frozenset(latched), tuple(members), now_ms, GRACE)
        plan = planned(plan, change)
        assert planned(plan, change).holds == plan.holds
        if members:
            held = [sum(hold.target == name for hold in plan.holds) for name in members]
            assert max(held) - min(held) <= 1
            _few_moves(before, plan, members)
        for hold in plan.holds:
            assert ancestors(layout, hold.segment) <= latched
            assert hold.segment not in latched
        plan = settled(plan) if data.draw(st.booleans()) else plan


def _few_moves(before: StreamPlan, after: StreamPlan, members: list[str]) -> None:
    """Nobody who stays gives away more than it has above its fair share."""
    share = len(after.holds) // len(members)
    kept = {hold.segment for hold in after.holds}
    homes = {hold.segment: _home(hold, members) for hold in before.holds if hold.segment in kept}
    for name in members:
        had = [segment for segment, home in homes.items() if home == name]
        lost = [hold.segment for hold in after.holds if hold.segment in had and hold.target != name]
        assert len(lost) <= max(0, len(had) - share)


def _home(hold: Hold, members: list[str]) -> str:
    return next((name for name in (hold.target, hold.holder) if name in members), "")
