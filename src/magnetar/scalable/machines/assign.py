"""Assigns the segments of a stream subscription to its consumers: a pure, sticky function of the stored state.

The stored state includes the present plan. A segment is assigned only when EVERY ancestor is latched (H-F1), or early,
to the one consumer that has received everything in the ancestors (`read_ahead`, H-F20). A latched segment leaves the
plan (H-F14). Loads differ by one at most, and a segment moves only if balance requires it. A consumer that returns in
time gets its own segments back. Consumers beyond the number of segments share one (`buckets`). A segment that changes
its holder, or changes between shared and exclusive use, is revoked first. It is granted when the old holders have
released it or have left (H-F21); consumers that share it do not wait for each other. After a failover the same inputs
give the same plan (H-F11).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from magnetar.base import validation
from magnetar.base.ids import Epoch, SegmentId, Term
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import descends, open_segments
from magnetar.layout.segment import Segment, State
from magnetar.scalable.machines import buckets, read_ahead
from magnetar.scalable.record.subscription import DepartedMember, Early, Hold, StreamPlan

# Events


@dataclass(frozen=True, slots=True)
class InputsChanged:
    """Layout, latches or members are other ones than before."""

    layout: Layout
    latched: frozenset[SegmentId]
    members: tuple[str, ...]
    now_ms: int
    grace_ms: int
    sharing: frozenset[str] = frozenset()  # members that know entry buckets
    received: Mapping[SegmentId, str] = field(default_factory=dict)  # all of a sealed segment, by its only holder


@dataclass(frozen=True, slots=True)
class SegmentReleased:
    """The owner reports that no consumer is attached to the segment. `consumer`: its last holder (`Hold.held_by`)."""

    segment: SegmentId
    consumer: str


@dataclass(frozen=True, slots=True)
class EarlyConfirmed:
    """Since the proposal was stored, the owners of all ancestors said that the holder has received everything."""

    segment: SegmentId
    consumer: str


@dataclass(frozen=True, slots=True)
class EarlyRefused:
    """Since the proposal was stored, an owner of an ancestor did not say that the holder has received everything."""

    segment: SegmentId
    consumer: str


@dataclass(frozen=True, slots=True)
class AncestorLost:
    """The consumer that reads ahead left this segment, and has not acknowledged all of it."""

    segment: SegmentId
    layout: Layout


@dataclass(frozen=True, slots=True)
class AcksApplied:
    """The owner of a segment that was read early has applied the acknowledgements: its ancestors are done."""

    segment: SegmentId
    consumer: str


# Effects


@dataclass(frozen=True, slots=True)
class StorePlan:
    """What follows is done only when this is durable."""

    plan: StreamPlan


@dataclass(frozen=True, slots=True)
class PushAssignment:
    """All segments that one consumer has now. A consumer that loses a segment is informed before one that gains it."""

    consumer: str
    segments: tuple[SegmentId, ...]
    generation: int
    epoch: Epoch
    term: Term


Event = InputsChanged | SegmentReleased | EarlyConfirmed | EarlyRefused | AncestorLost | AcksApplied
Effect = StorePlan | PushAssignment


@dataclass(frozen=True, slots=True)
class Assign:
    plan: StreamPlan
    epoch: Epoch
    term: Term


Step = tuple[Assign, tuple[Effect, ...]]


def step(state: Assign, event: Event) -> Step:
    match event:
        case InputsChanged(layout=layout):
            after = replace(state, plan=planned(state.plan, event), epoch=layout.epoch)
        case SegmentReleased(segment=segment, consumer=consumer):
            after = replace(state, plan=released(state.plan, segment, consumer))
        case EarlyConfirmed(segment=segment, consumer=consumer):
            after = replace(state, plan=_early(state.plan, segment, consumer, Early.PROPOSED, Early.GRANTED))
        case EarlyRefused(segment=segment, consumer=consumer):
            after = replace(state, plan=_refused(state.plan, segment, consumer))
        case AcksApplied(segment=segment, consumer=consumer):
            after = replace(state, plan=_early(state.plan, segment, consumer, Early.GRANTED, Early.NO))
        case AncestorLost(segment=segment, layout=layout):
            after = replace(state, plan=_ended(state.plan, segment, layout))
    if after == state:
        return state, ()
    if validation.enabled:
        validate(after.plan)
    pushes = _pushes(state, after)
    stored = (StorePlan(after.plan),) if after.plan != state.plan else ()
    return after, (*stored, *pushes)


def validate(plan: StreamPlan) -> None:
    segments = [hold.segment for hold in plan.holds]
    assert segments == sorted(set(segments)), "each segment has one hold, in the order of the segments"
    for hold in plan.holds:
        assert not (hold.holder and hold.sharers), f"segment {hold.segment} is read alone and together"
        assert not (hold.target and hold.joint), f"segment {hold.segment} is to be read alone and together"
        assert len(set(hold.joint)) == len(hold.joint) != 1, f"segment {hold.segment} is to be shared by two or more"
        if hold.early in (Early.PROPOSED, Early.GRANTED):
            assert hold.holder == hold.target != "", f"segment {hold.segment} is read early by one consumer that stays"
        if hold.early is not Early.NO:
            assert not hold.sharers, f"segment {hold.segment} is read early by several"


def assignment(plan: StreamPlan, consumer: str) -> tuple[SegmentId, ...]:
    """What a consumer may read, alone or with others: held, and not being revoked."""
    together = shared(plan, consumer)
    return tuple(
        hold.segment
        for hold in plan.holds
        if hold.segment in together
        or (hold.holder == consumer == hold.target and hold.early in (Early.NO, Early.GRANTED))
    )


def shared(plan: StreamPlan, consumer: str) -> frozenset[SegmentId]:
    """Of that, what it has with others."""
    return frozenset(hold.segment for hold in plan.holds if consumer in hold.sharers and consumer in hold.joint)


def released(plan: StreamPlan, segment: SegmentId, consumer: str) -> StreamPlan:
    holds = tuple(
        replace(hold, holder=hold.target, sharers=hold.joint, early=Early.NO)
        if hold.segment == segment and hold.moving and hold.held_by == consumer
        else hold
        for hold in plan.holds
    )
    return _with(plan, holds)


def _early(plan: StreamPlan, segment: SegmentId, consumer: str, before: Early, after: Early) -> StreamPlan:
    def changed(hold: Hold) -> Hold:
        same = hold.segment == segment and hold.holder == consumer == hold.target and hold.early is before
        return replace(hold, early=after) if same else hold

    return _with(plan, tuple(changed(hold) for hold in plan.holds))


def _refused(plan: StreamPlan, segment: SegmentId, consumer: str) -> StreamPlan:
    """Takes back this proposal alone. Other segments behind the ancestor stay: the consumer may have left it and have
    acknowledged all of it, which is decided when it is found to have left."""

    def changed(hold: Hold) -> Hold:
        same = hold.segment == segment and hold.holder == consumer and hold.early is Early.PROPOSED
        return replace(hold, target="", early=Early.ENDING) if same else hold

    return _with(plan, tuple(changed(hold) for hold in plan.holds))


def _ended(plan: StreamPlan, ancestor: SegmentId, layout: Layout) -> StreamPlan:
    """Takes back every segment that a consumer reads early behind this one."""

    def changed(hold: Hold) -> Hold:
        if hold.early not in (Early.PROPOSED, Early.GRANTED) or hold.segment not in layout:
            return hold
        behind = descends(layout, hold.segment, ancestor)
        return replace(hold, target="", early=Early.ENDING) if behind else hold

    return _with(plan, tuple(changed(hold) for hold in plan.holds))


def _with(plan: StreamPlan, holds: tuple[Hold, ...]) -> StreamPlan:
    return plan if holds == plan.holds else replace(plan, holds=holds, generation=plan.generation + 1)


def planned(plan: StreamPlan, inputs: InputsChanged) -> StreamPlan:
    """The plan that these inputs make of the present one."""
    before = {hold.segment: hold for hold in plan.holds}
    members = sorted(set(inputs.members))
    open_ = assignable(inputs.layout, inputs.latched)
    ancestry = read_ahead.unfinished_ancestors(inputs.layout, inputs.latched, before)
    early = read_ahead.planned(inputs.layout, ancestry, before, members, inputs.received)
    fixed = {
        **{id: before[id] for id in read_ahead.pinned(early, ancestry) if id in before},
        **{one.id: hold for one in open_ if (hold := _settling(before.get(one.id), members)) is not None},
        **early,
    }
    remembered = _remembered(plan, inputs)
    free = [one for one in open_ if one.id not in fixed]
    reading = [hold.holder for hold in fixed.values() if hold.early is not Early.ENDING]
    targets = _targets(free, members, before, {left.segment: left.name for left in remembered}, reading)
    joint = buckets.shared(free, targets, inputs.sharing.intersection(members), before) if members else {}
    by_segment = {
        one.id: _hold(one.id, before.get(one.id), targets[one.id], joint.get(one.id, ()), members) for one in free
    }
    holds = tuple(hold for _, hold in sorted({**by_segment, **fixed}.items()))
    if (holds, remembered) == (plan.holds, plan.left):
        return plan
    raised = plan.generation + (holds != plan.holds)
    return StreamPlan(raised, holds, remembered)


def _settling(before: Hold | None, members: Sequence[str]) -> Hold | None:
    """A hold that was early and whose ancestors are done now: its owner applies the acknowledgements before it moves,
    also those of a consumer that has left since."""
    if before is None or before.early in (Early.NO, Early.PROPOSED):
        return None
    if before.early is Early.ENDING and before.holder not in members:
        return None
    return Hold(before.segment, before.holder, before.holder, early=Early.GRANTED)


def assignable(layout: Layout, latched: Collection[SegmentId]) -> list[Segment]:
    """By range: what is open and not done."""
    done = frozenset(latched)
    segments = [one for one in open_segments(layout, done) if one.id not in done and one.state is not State.PRUNING]
    return sorted(segments, key=lambda one: (one.range, one.id))


def _hold(id: SegmentId, before: Hold | None, target: str, joint: tuple[str, ...], members: Sequence[str]) -> Hold:
    """The plan does not wait for a missing holder or for one whose session has ended, unless it read early (H-F20)."""
    if before is not None and before.early is Early.ENDING:
        return Hold(id, before.holder, "" if joint else target, (), joint, Early.ENDING)
    if before is not None and before.early is Early.PROPOSED:
        before = None  # it was never assigned
    holder = before.holder if before is not None and before.holder in members else ""
    sharers = () if before is None else tuple(name for name in before.sharers if name in members)
    if joint:
        return Hold(id, holder, "", () if holder else joint, joint)  # the owner keeps the order among sharers
    if sharers:
        return Hold(id, "", target, sharers)
    return Hold(id, holder or target, target)


def _remembered(plan: StreamPlan, inputs: InputsChanged) -> tuple[DepartedMember, ...]:
    """Who had what when it left, as long as its grace lasts."""
    kept = {
        left.segment: left
        for left in plan.left
        if left.until_ms > inputs.now_ms and left.segment in inputs.layout and left.segment not in inputs.latched
    }
    for hold in plan.holds:
        if hold.target and hold.target not in inputs.members and hold.segment in inputs.layout:
            kept[hold.segment] = DepartedMember(hold.segment, hold.target, inputs.now_ms + inputs.grace_ms)
    home = {hold.segment: hold.target for hold in plan.holds}
    return tuple(
        kept[id] for id in sorted(kept) if home.get(id) != kept[id].name or kept[id].name not in inputs.members
    )


def _targets(
    segments: Sequence[Segment],
    members: Sequence[str],
    before: dict[SegmentId, Hold],
    remembered: dict[SegmentId, str],
    reading: Sequence[str],
) -> dict[SegmentId, str]:
    """`reading`: who has a segment that does not move now, for each of them."""
    if not members:
        return {one.id: "" for one in segments}
    sticky = {one.id: _sticky(before.get(one.id), members) for one in segments}
    owners = [*sticky.values(), *reading]
    loads = {name: owners.count(name) for name in members}
    least, more = divmod(len(segments) + sum(name in loads for name in reading), len(members))
    ranked = sorted(members, key=lambda name: (-loads[name], name))
    room = {name: least + (index < more) for index, name in enumerate(ranked)}
    for segment in sorted(segments, key=lambda one: _wanted_back(one, remembered, loads, room), reverse=True):
        owner = sticky[segment.id]
        if owner and loads[owner] > room[owner]:
            sticky[segment.id] = ""
            loads[owner] -= 1
    for segment in segments:
        if not sticky[segment.id]:
            owner = _taker(segment, before, remembered, loads, room)
            sticky[segment.id] = owner
            loads[owner] += 1
    return sticky


def _sticky(hold: Hold | None, members: Sequence[str]) -> str:
    """Who is to have it stays: of those that are to share it, the one that has it now comes first."""
    if hold is None:
        return ""
    stays = (hold.holder,) if not hold.joint or hold.holder in hold.joint else ()
    names = (hold.target, *stays, *hold.joint, hold.holder, *hold.sharers)
    return next((name for name in names if name in members), "")


def _wanted_back(
    segment: Segment, remembered: dict[SegmentId, str], loads: dict[str, int], room: dict[str, int]
) -> tuple[bool, int]:
    """When a consumer must give up segments, it first gives up those that a returning consumer held before."""
    name = remembered.get(segment.id, "")
    return name in room and loads[name] < room[name], segment.range.start


def _taker(
    segment: Segment,
    before: dict[SegmentId, Hold],
    remembered: dict[SegmentId, str],
    loads: dict[str, int],
    room: dict[str, int],
) -> str:
    """Prefers the last holder, then the holder of the parent (it has the state), then the least loaded consumer."""
    had = [remembered.get(segment.id, "")]
    for hold in (before[parent] for parent in segment.parents if parent in before):
        had += [hold.holder, *hold.sharers]
    for name in had:
        if name in room and loads[name] < room[name]:
            return name
    return min((name for name in room if loads[name] < room[name]), key=lambda name: (loads[name], name))


def _pushes(before: Assign, after: Assign) -> tuple[PushAssignment, ...]:
    holds = [hold for plan in (before.plan, after.plan) for hold in plan.holds]
    names = sorted({name for hold in holds for name in (hold.holder, *hold.sharers)} - {""})
    losing: list[PushAssignment] = []
    gaining: list[PushAssignment] = []
    for name in names:
        old, new = assignment(before.plan, name), assignment(after.plan, name)
        if old != new or shared(before.plan, name) != shared(after.plan, name):
            push = PushAssignment(name, new, after.plan.generation, after.epoch, after.term)
            (losing if set(old) - set(new) else gaining).append(push)
    return (*losing, *gaining)
