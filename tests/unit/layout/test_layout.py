"""Layouts change as the released Java code changes them, and cannot be made wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magnetar.base.errors import Corrupt, InvalidRange, NotFound
from magnetar.base.ids import Epoch, Position, SegmentId
from magnetar.base.names import topic_name
from magnetar.base.ranges import FULL, SLOT_MAX, HashRange
from magnetar.layout.layout import Child, Diff, Layout, diff, initial
from magnetar.layout.lineage import ancestors, descendants, open_segments
from magnetar.layout.plain_layout import migrated, synthetic
from magnetar.layout.routing import Routing
from magnetar.layout.segment import Ending, Segment, State
from tests.support.golden_vectors import load
from tests.support.search_effort import examples

VECTORS = load("layouts.json")
INITIAL = [case for case in VECTORS["initial"] if "ranges" in case]
TOPIC = topic_name("topic://public/default/x")


def shown(layout: Layout) -> dict:
    return {
        "epoch": layout.epoch,
        "next_segment_id": layout.next_segment_id,
        "segments": [
            {
                "id": one.id,
                "start": one.range.start,
                "end": one.range.end,
                "state": str(one.state),
                "parents": list(one.parents),
                "children": list(one.children),
                "created_at_epoch": one.created_epoch,
                "sealed_at_epoch": one.sealed_epoch,
                "created_at_ms": one.created_ms,
                "sealed_at_ms": one.sealed_ms,
            }
            for one in layout.segments
        ],
        "active": sorted(one.id for one in layout.active),
        "merge_depth": {str(one.id): merges(layout, one.id) for one in layout.segments},
        "lineage": {str(one.id): lineage(layout, one.id) for one in layout.segments},
        "active_segment_of_hash": [[hash, layout.route(hash).id] for hash in PROBES],
    }


def lineage(layout: Layout, id: SegmentId) -> list[SegmentId]:
    return sorted(ancestors(layout, id) | {id} | descendants(layout, id))


def merges(layout: Layout, id: SegmentId) -> int:
    return sum(len(layout.segment(one).parents) > 1 for one in ancestors(layout, id) | {id})


PROBES = [hash for hash, _ in VECTORS["sequences"][0]["start"]["active_segment_of_hash"]]


def changed(layout: Layout, op: str, ids: list[SegmentId], *, now_ms: int) -> Layout:
    match op:
        case "split":
            return layout.split(ids[0], now_ms=now_ms)
        case "merge":
            return layout.merge(ids, now_ms=now_ms)
        case _:
            return layout.removed(ids[0])


def expected(layout: dict) -> dict:
    return {
        **layout,
        "active": sorted(layout["active"]),
        "lineage": {key: sorted(set(ids)) for key, ids in layout["lineage"].items()},  # Java repeats some
    }


@pytest.mark.parametrize("case", INITIAL, ids=lambda case: str(case["num_initial_segments"]))
def test_new_topic_is_cut_as_pulsar_cuts_it(case):
    layout = initial(case["num_initial_segments"], now_ms=0)
    assert [[one.id, one.range.start, one.range.end] for one in layout.segments] == case["ranges"]
    assert (layout.epoch, layout.next_segment_id) == (case["epoch"], case["next_segment_id"])


@pytest.mark.parametrize("case", VECTORS["sequences"], ids=lambda case: case["name"])
def test_every_step_of_recorded_sequence_gives_recorded_layout(case):
    layout = initial(case["num_initial_segments"], now_ms=1000)
    assert shown(layout) == expected(case["start"])
    for step in case["steps"]:
        layout = changed(layout, step["op"], [SegmentId(id) for id in step["segments"]], now_ms=step["now_ms"])
        assert shown(layout) == expected(step["layout"]), step


@pytest.mark.parametrize(
    "case", VECTORS["errors"], ids=lambda case: f"{case['op']} {case['segments']} {case['layout']}"
)
def test_what_pulsar_refuses_is_refused_with_its_own_error(case):
    layout = initial(4, now_ms=0)
    if "0 split" in case["layout"]:
        layout = layout.split(SegmentId(0), now_ms=1)
    if "[0,0]" in case["layout"]:
        first, second = HashRange(0, 0), HashRange(1, SLOT_MAX)
        layout = Layout(Epoch(0), SegmentId(2), (Segment(SegmentId(0), first), Segment(SegmentId(1), second)))
    ids = [SegmentId(id) for id in case["segments"]]
    missing = any(id not in layout for id in ids)
    with pytest.raises(NotFound if missing else InvalidRange) as refused:
        changed(layout, case["op"], ids, now_ms=2)
    assert refused.value.http_status in (404, 412)


@pytest.mark.parametrize("case", VECTORS["migrated"], ids=lambda case: str(case["partitions"]))
def test_migrated_topic_has_recorded_layout(case):
    count = case["partitions"]
    topics = [f"{case['source']}-partition-{index}" for index in range(count)] or [case["source"]]
    layout = migrated(topics, now_ms=5)
    assert (layout.epoch, layout.next_segment_id) == (case["epoch"], case["next_segment_id"])
    assert [
        {
            "id": one.id,
            "start": one.range.start,
            "end": one.range.end,
            "state": str(one.state),
            "parents": list(one.parents),
            "children": list(one.children),
            "created_at_epoch": one.created_epoch,
            "sealed_at_epoch": one.sealed_epoch,
            "legacy_topic": one.legacy_topic or None,
        }
        for one in layout.segments
    ] == case["segments"]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 16, 17])
def test_keys_go_where_released_client_sends_them(count):
    layout, plain = initial(count, now_ms=0), synthetic([f"persistent://a/b/c-partition-{i}" for i in range(count)])
    for case in VECTORS["key_routing"]:
        assert layout.route_key(case["key"], Routing.LOW16).id == case[f"m1_segment_of_{count}"]
        assert plain.route_key(case["key"], Routing.LOW16).id == case[f"legacy_segment_of_{count}"]


def test_split_at_hash_gives_hash_to_upper_child():
    layout = initial(1, now_ms=0).split(SegmentId(0), now_ms=1, at=0x1234)
    assert [one.range.hex for one in layout.active] == ["0000-1233", "1234-ffff"]


def test_split_and_merge_of_many_are_one_epoch_each():
    layout = initial(1, now_ms=0, buckets=4).split(SegmentId(0), now_ms=1, into=3)
    assert [one.id for one in layout.active] == [1, 2, 3]
    assert {one.buckets for one in layout.active} == {1}
    layout = layout.merge([SegmentId(3), SegmentId(1), SegmentId(2)], now_ms=2)
    assert layout.epoch == 2
    assert [one.range for one in layout.active] == [FULL]
    assert layout.active[0].buckets == 3
    assert layout.segment(SegmentId(1)).children == (4,)


def test_seal_is_kept_with_its_operation_and_its_end():
    layout, children = initial(1, now_ms=0).burned([HashRange(0, 1), HashRange(2, SLOT_MAX)])
    ending = Ending(Position(3, 4), messages=9, bytes=90, first_publish_ms=5, last_publish_ms=6)
    after = layout.reshaped([SegmentId(0)], children, now_ms=7, op="op-1", endings={SegmentId(0): ending})
    assert (after.segment(SegmentId(0)).ending, after.segment(SegmentId(0)).sealed_by) == (ending, "op-1")
    assert diff(layout, after) == Diff(added=(1, 2), sealed=(0,), removed=())
    assert diff(after, after.removed(SegmentId(0))) == Diff((), (), (0,))


def test_names_are_descriptors_that_clients_compute():
    layout = initial(1, now_ms=0).split(SegmentId(0), now_ms=1)
    names = [one.topic(TOPIC).text for one in layout.active]
    assert names == ["segment://public/default/x/0000-7fff-1", "segment://public/default/x/8000-ffff-2"]
    assert synthetic(["persistent://a/b/c"]).active[0].topic(TOPIC).text == "persistent://a/b/c"


def test_ids_of_aborted_plan_are_not_reused_h_c2():
    layout, first = initial(1, now_ms=0).burned([FULL])
    _, second = layout.burned([FULL])
    assert [first[0].id, second[0].id] == [1, 2]


def test_segment_being_pruned_stays_listed_until_removed_h_h1():
    layout = initial(1, now_ms=0).split(SegmentId(0), now_ms=1)
    pruning = layout.pruning([SegmentId(0)])
    assert pruning.segment(SegmentId(0)).state is State.PRUNING
    assert pruning.segment(SegmentId(1)).parents == (SegmentId(0),)
    gone = pruning.removed(SegmentId(0))
    assert SegmentId(0) not in gone
    assert gone.segment(SegmentId(1)).parents == ()


A, B = Segment(SegmentId(0), HashRange(0, 99)), Segment(SegmentId(1), HashRange(100, SLOT_MAX))


@pytest.mark.parametrize(
    "segments",
    [
        (A,),
        (B,),
        (A, A, B),
        (B, A),
        (A, replace(B, range=HashRange(101, SLOT_MAX))),
        (A, replace(B, range=HashRange(99, SLOT_MAX))),
        (A, replace(B, id=SegmentId(5))),
        (A, replace(B, parents=(SegmentId(0),))),
        (replace(A, children=(SegmentId(1),)), B),
        (A, replace(B, parents=(SegmentId(9),))),
        (replace(A, state=State.SEALED, children=(SegmentId(0),), parents=(SegmentId(0),)), replace(B, range=FULL)),
    ],
)
def test_layout_that_contradicts_itself_cannot_be_made(segments):
    with pytest.raises(Corrupt):
        Layout(Epoch(0), SegmentId(2), segments)


def test_history_of_thousand_segments_routes_and_opens():
    layout = initial(1, now_ms=0)
    for step in range(250):
        layout = layout.split(layout.route(0x8000).id, now_ms=step)
        layout = layout.merge([one.id for one in layout.active][:2], now_ms=step)
        layout = layout.split(layout.active[-1].id, now_ms=step) if step < 10 else layout
    assert len(layout) > 750
    assert layout.route(0x8000).is_active
    assert len(open_segments(layout, {one.id for one in layout.segments})) == len(layout)
    assert [one.id for one in open_segments(layout, set())] == [0]


class Reshaping(RuleBasedStateMachine):
    """Random splits, merges and prunings: whatever is done, every hash has one place and order can be told."""

    def __init__(self) -> None:
        super().__init__()
        self.layout = initial(2, now_ms=0)
        self.ids_seen = {0, 1}
        self.epochs = 0

    @rule(hash=st.integers(0, SLOT_MAX), into=st.integers(2, 5))
    def split(self, hash: int, into: int) -> None:
        parent = self.layout.route(hash)
        if len(parent.range) >= into:
            self.layout = self.layout.split(parent.id, now_ms=1, into=into)
            self.epochs += 1

    @rule(hash=st.integers(1, SLOT_MAX))
    def split_at(self, hash: int) -> None:
        parent = self.layout.route(hash)
        if parent.range.start < hash:
            self.layout = self.layout.split(parent.id, now_ms=1, at=hash)
            self.epochs += 1
            assert self.layout.route(hash).range.start == hash

    @precondition(lambda self: len(self.layout.active) > 1)
    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(2, len(self.layout.active)))
        first = data.draw(st.integers(0, len(self.layout.active) - count))
        chosen = data.draw(st.permutations(self.layout.active[first : first + count]))
        self.layout = self.layout.merge([one.id for one in chosen], now_ms=1)
        self.epochs += 1

    @precondition(lambda self: len(self.layout.segments) > len(self.layout.active))
    @rule(data=st.data())
    def prune(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from([one.id for one in self.layout.segments if not one.is_active]))
        self.layout = self.layout.pruning([chosen]).removed(chosen)
        self.epochs += 2

    @rule()
    def give_up_a_plan(self) -> None:
        self.layout, children = self.layout.burned([FULL])
        assert children[0].id not in self.layout

    @invariant()
    def ids_are_never_used_twice(self) -> None:
        new = {one.id for one in self.layout.segments} - self.ids_seen
        assert all(id > max(self.ids_seen) for id in new)
        self.ids_seen |= new
        assert self.layout.next_segment_id > max(self.ids_seen)

    @invariant()
    def every_hash_has_one_place(self) -> None:
        assert sum(len(one.range) for one in self.layout.active) == SLOT_MAX + 1
        for one in self.layout.active:
            assert self.layout.route(one.range.start) is one
            assert self.layout.route(one.range.end) is one
        assert self.layout.epoch == self.epochs

    @invariant()
    def parents_cover_their_children(self) -> None:
        for one in self.layout.segments:
            for parent in one.parents:
                assert self.layout.segment(parent).range.overlaps(one.range)


TestReshaping = Reshaping.TestCase
TestReshaping.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


def test_child_is_value():
    assert Child(SegmentId(1), FULL) == Child(SegmentId(1), FULL)


def test_buckets_are_divided_added_or_set_by_rebucket():
    layout = initial(1, now_ms=0, buckets=5).split(SegmentId(0), now_ms=1)
    assert [one.buckets for one in layout.active] == [2, 2]
    assert layout.merge([SegmentId(1), SegmentId(2)], now_ms=2).active[0].buckets == 4
    assert layout.rebucket_range(SegmentId(1), 8) == layout.segment(SegmentId(1)).range
    for id, buckets, error in ((1, 2, InvalidRange), (1, 1025, InvalidRange), (0, 8, InvalidRange), (9, 8, NotFound)):
        with pytest.raises(error):
            layout.rebucket_range(SegmentId(id), buckets)
