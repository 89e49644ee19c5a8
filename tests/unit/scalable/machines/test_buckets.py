"""Consumers beyond the number of segments share one by its entry buckets, and nobody reads in two ways at once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.ids import Epoch, SegmentId, Term
from magnetar.layout.layout import Layout, initial
from magnetar.layout.routing import Routing
from magnetar.layout.segment import bucket_splits
from magnetar.scalable.machines.assign import (
    Assign,
    InputsChanged,
    PushAssignment,
    SegmentReleased,
    assignment,
    planned,
    released,
    shared,
    step,
)
from magnetar.scalable.machines.buckets import shared_out
from magnetar.scalable.record.subscription import Hold, StreamPlan

ONE = initial(1, now_ms=0, buckets=4)
ZERO = SegmentId(0)


def inputs(layout: Layout, *members: str, sharing: str | None = None) -> InputsChanged:
    knows = frozenset(members if sharing is None else sharing)
    return InputsChanged(layout, frozenset(), members, 0, 60_000, knows)


def settled(plan: StreamPlan) -> StreamPlan:
    for hold in plan.holds:
        plan = released(plan, hold.segment, hold.held_by)
    return plan


def together(plan: StreamPlan, *members: str) -> list[str]:
    return [name for name in members if ZERO in shared(plan, name)]


def test_second_consumer_waits_until_first_reads_shared() -> None:
    state = Assign(planned(StreamPlan(), inputs(ONE, "a")), Epoch(0), Term(1))
    state, effects = step(state, inputs(ONE, "a", "b"))
    assert [(one.consumer, one.segments) for one in effects if isinstance(one, PushAssignment)] == [("a", ())]
    assert together(state.plan, "a", "b") == []
    state, effects = step(state, SegmentReleased(ZERO, "a"))
    assert [one.consumer for one in effects if isinstance(one, PushAssignment)] == ["a", "b"]
    assert together(state.plan, "a", "b") == ["a", "b"]
    assert assignment(state.plan, "b") == (ZERO,)


def test_among_sharers_nobody_waits_and_nobody_else_is_told() -> None:
    state = Assign(settled(planned(StreamPlan(), inputs(ONE, "a", "b"))), Epoch(0), Term(1))
    state, effects = step(state, inputs(ONE, "a", "b", "c"))
    assert [one.consumer for one in effects if isinstance(one, PushAssignment)] == ["c"]
    state, effects = step(state, inputs(ONE, "a", "c"))
    assert [one.consumer for one in effects if isinstance(one, PushAssignment)] == ["b"]
    assert together(state.plan, "a", "b", "c") == ["a", "c"]


def test_last_sharer_reads_alone_after_all_released() -> None:
    plan = settled(planned(StreamPlan(), inputs(ONE, "a", "b")))
    plan = planned(plan, inputs(ONE, "a"))
    assert plan.holds == (Hold(ZERO, "", "a", ("a",)),)
    assert assignment(plan, "a") == ()
    assert released(plan, ZERO, "b") == plan  # of those that had it before b left: not the present ones
    plan = released(plan, ZERO, "a")
    assert plan.holds == (Hold(ZERO, "a", "a"),)
    plan = settled(planned(plan, inputs(ONE, "a", "b")))
    assert together(plan, "a", "b") == ["a", "b"]


def test_mode_change_cancelled_before_release_has_no_effect() -> None:
    plan = planned(StreamPlan(), inputs(ONE, "a"))
    back = planned(planned(plan, inputs(ONE, "a", "b")), inputs(ONE, "a"))
    assert back.holds == plan.holds
    assert back.generation > plan.generation


def test_client_without_buckets_does_not_share() -> None:
    plan = settled(planned(StreamPlan(), inputs(ONE, "a", "b", sharing="b")))
    assert plan.holds == (Hold(ZERO, "a", "a"),)
    plan = settled(planned(StreamPlan(), inputs(ONE, "a", "b", "c", sharing="ac")))
    assert together(plan, "a", "b", "c") == ["a", "c"]


def test_no_more_share_segment_than_it_has_buckets() -> None:
    plan = settled(planned(StreamPlan(), inputs(ONE, *"abcdef")))
    assert together(plan, *"abcdef") == list("abcd")
    alone = initial(1, now_ms=0)
    assert planned(StreamPlan(), inputs(alone, *"abc")).holds == (Hold(ZERO, "a", "a"),)


def test_low_half_routing_has_one_bucket_per_segment() -> None:
    assert shared_out(64, 4, None) == shared_out(64, 4, Routing.HIGH16) == 16
    assert shared_out(64, 4, Routing.LOW16) == shared_out(4, 8, None) == 1


def test_segment_moving_to_two_sharers_keeps_moving() -> None:
    """Planned again, it went back to the one that gives it away, and the other segment moved in its place."""
    two = initial(2, now_ms=0, buckets=4)
    plan = planned(StreamPlan(), InputsChanged(two, frozenset(), ("a",), 0, 1000))
    plan = planned(plan, InputsChanged(two, frozenset(), ("a", "c"), 1, 1000, frozenset("c")))
    change = InputsChanged(two, frozenset(), ("a", "c", "d"), 2, 1000, frozenset("cd"))
    plan = planned(plan, change)
    assert [hold.joint for hold in plan.holds if hold.moving] == [("c", "d")]
    assert planned(plan, change) == plan


@settings(max_examples=60)
@given(st.data())
def test_any_history_gives_work_evenly_and_exclusively(data: st.DataObject) -> None:
    layout = initial(data.draw(st.integers(1, 4)), now_ms=0, buckets=data.draw(st.sampled_from([1, 2, 8])))
    members: set[str] = set()
    knows: set[str] = set()
    latched: set[SegmentId] = set()
    plan = StreamPlan()
    for now_ms in range(data.draw(st.integers(1, 14))):
        match data.draw(st.sampled_from(["join", "join", "leave", "split", "drain", "rebucket"])):
            case "join":
                name = data.draw(st.sampled_from("abcdefghijkl"))
                members.add(name)
                if data.draw(st.integers(0, 4)):
                    knows.add(name)
            case "leave" if members:
                members.discard(data.draw(st.sampled_from(sorted(members))))
            case "split" if len(layout.active) < 6:
                layout = layout.split(data.draw(st.sampled_from(layout.active)).id, now_ms=now_ms)
            case "rebucket":
                changed = [replace(one, bucket_splits=bucket_splits(4)) for one in layout.segments]
                layout = replace(layout, segments=tuple(changed))
            case "drain":
                latched |= {one.id for one in layout.segments if not one.is_active}
        names = tuple(sorted(members))
        change = InputsChanged(layout, frozenset(latched), names, now_ms, 1000, frozenset(knows & members))
        before, plan = plan, planned(plan, change)
        assert planned(plan, change).holds == plan.holds
        _checked(before, plan)
        if data.draw(st.booleans()):
            plan = settled(plan)
            assert not any(hold.moving for hold in plan.holds)
            _even(plan, layout, names, knows)


def _checked(before: StreamPlan, after: StreamPlan) -> None:
    """A segment never goes from one way of reading to the other, or from one to another alone, without a release."""
    had = {hold.segment: hold for hold in before.holds}
    for hold in after.holds:
        assert not (hold.holder and hold.sharers)
        assert not (hold.target and hold.joint)
        assert len(hold.joint) != 1
        old = had.get(hold.segment)
        names = {name for one in after.holds for name in (one.holder, one.target, *one.sharers, *one.joint)}
        if old is not None and old.holder in names - {""}:
            assert hold.holder == old.holder
        if old is not None and hold.holder:
            assert not set(old.sharers) & names


def _even(plan: StreamPlan, layout: Layout, names: tuple[str, ...], knows: set[str]) -> None:
    holds = {hold.segment: hold for hold in plan.holds}
    idle = [name for name in names if not assignment(plan, name)]
    room = [id for id, hold in holds.items() if len(hold.joint or (hold.target,)) < layout.segment(id).buckets]
    room = [id for id in room if set(holds[id].joint or (holds[id].target,)) <= knows]
    if set(idle) & knows:
        assert not room  # nobody who could share is idle
    sizes = [len(hold.joint or (hold.target,)) for id, hold in holds.items() if id in room]
    assert not sizes or max(sizes) - min(sizes) <= 1
    for name in names:
        mine = assignment(plan, name)
        assert len(mine) <= 1 or not any(id in shared(plan, name) for id in mine)
