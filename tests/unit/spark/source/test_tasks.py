"""What tasks read: every slot of a segment once, oldest first, and nothing that two offsets do not say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import Misuse, NotReady
from magnetar.base.ranges import FULL, HashRange
from magnetar.layout import layout as layouts
from magnetar.layout import plain_layout
from magnetar.layout.readable_range import DONE, START, ReadPosition
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.planner import DataLost, KeyOrder, Rules
from magnetar.spark.source.tasks import SegmentSlice, Task, tasks

ONE = layouts.initial(1, now_ms=0)
SPLIT = ONE.split(0, now_ms=0)  # 0 -> 1, 2
LOW, HIGH = HashRange(0, 0x7FFF), HashRange(0x8000, 0xFFFF)
RELAXED = Rules(KeyOrder.RELAXED)


def at(entry: int) -> ReadPosition:
    return ReadPosition(7, entry)


def standing(places: dict, epoch: int = 0) -> SourceOffset:
    return SourceOffset(epoch, places)


def test_batch_through_split_reads_parent_once_per_half():
    planned = tasks(standing({0: at(4)}), standing({1: at(2), 2: at(3)}, epoch=1), SPLIT)
    assert planned == (
        Task((SegmentSlice(0, FULL, at(4), DONE, keys=(LOW,)), SegmentSlice(1, LOW, START, at(2)))),
        Task((SegmentSlice(0, FULL, at(4), DONE, keys=(HIGH,), strays=False), SegmentSlice(2, HIGH, START, at(3)))),
    )


def test_unread_child_leaves_parent_half_to_own_task():
    planned = tasks(standing({0: at(4)}), standing({1: START, 2: at(3)}, epoch=1), SPLIT)
    assert planned == (
        Task((SegmentSlice(0, FULL, at(4), DONE, keys=(LOW,)),)),
        Task((SegmentSlice(0, FULL, at(4), DONE, keys=(HIGH,), strays=False), SegmentSlice(2, HIGH, START, at(3)))),
    )
    alone = tasks(standing({0: at(4)}), standing({1: START, 2: START}, epoch=1), SPLIT)
    assert alone == (Task((SegmentSlice(0, FULL, at(4), DONE),)),)


def test_batch_that_goes_through_merge_is_one_task():
    merged = layouts.initial(2, now_ms=0).merge([0, 1], now_ms=0)
    (task,) = tasks(standing({0: at(4), 1: DONE}), standing({2: at(3)}, epoch=1), merged)
    assert task.pieces == (SegmentSlice(0, LOW, at(4), DONE), SegmentSlice(2, FULL, START, at(3)))


def test_segments_opened_and_ended_inside_batch_are_found():
    deep = SPLIT.split(1, now_ms=0).merge([3, 4], now_ms=0)  # 1 -> 3, 4 -> 5
    planned = tasks(standing({0: at(4)}), standing({5: at(1), 2: START}, epoch=3), deep)
    assert [[piece.segment for piece in task.pieces] for task in planned] == [[0], [0, 1, 3, 4, 5]]


def test_what_was_reshaped_since_plan_changes_nothing():
    start, end = standing({0: at(4)}), standing({1: at(2), 2: at(3)}, epoch=1)
    later = SPLIT.split(1, now_ms=0).split(2, now_ms=0).merge([4, 5], now_ms=0)
    assert tasks(start, end, later) == tasks(start, end, SPLIT)


def test_same_offset_twice_is_no_work():
    first = replace(standing({0: at(4)}), origin={0: START})
    assert tasks(first, first, ONE) == ()


def test_first_batch_uses_its_recorded_start():
    end = replace(standing({0: at(9)}), origin={0: at(4)})
    for found in (START, at(2), at(4), at(20)):  # "latest" is elsewhere at every restart
        begun = replace(standing({0: found}), initial=True)
        assert tasks(begun, end, ONE) == (Task((SegmentSlice(0, FULL, at(4), at(9)),)),)


def test_gap_is_not_asked_for_again():
    end = replace(standing({0: at(9)}), gaps={0: (at(4), at(6))})
    assert tasks(standing({0: at(4)}), end, ONE) == (Task((SegmentSlice(0, FULL, at(6), at(9)),)),)
    gone = replace(standing({1: at(1), 2: START}, epoch=2), gaps={0: (at(4), DONE)})
    assert tasks(standing({0: at(4)}), gone, SPLIT.removed(0)) == (Task((SegmentSlice(1, LOW, START, at(1)),)),)


def test_missing_planned_segment_is_error_unless_loss_is_allowed():
    start, end = standing({0: at(4)}), standing({1: at(2), 2: START}, epoch=1)
    with pytest.raises(DataLost, match="subscription"):
        tasks(start, end, SPLIT.removed(0))
    left = tasks(start, end, SPLIT.removed(0), rules=Rules(fail_on_data_loss=False))
    assert left == (Task((SegmentSlice(1, LOW, START, at(2)),)),)


def test_missing_segment_opened_by_batch_is_not_skipped_silently():
    start, end = standing({0: DONE}), standing({1: at(2), 2: START}, epoch=1)
    pruned = SPLIT.split(1, now_ms=0).removed(0).removed(1)
    with pytest.raises(DataLost):
        tasks(start, end, pruned)
    assert tasks(start, standing({1: START, 2: START}, epoch=1), pruned) == ()


def test_layout_older_than_batch_is_read_again():
    with pytest.raises(NotReady):
        tasks(standing({0: at(4)}), standing({1: at(2), 2: START}, epoch=1), ONE)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (standing({0: at(4)}), standing({0: at(3)})),
        (standing({0: DONE}), standing({0: at(3)})),
        (standing({0: at(4)}, epoch=1), standing({0: at(5)})),
        (standing({1: at(2), 2: START}, epoch=1), standing({0: at(9)}, epoch=1)),
        (standing({0: at(9)}), replace(standing({0: at(3)}), origin={0: at(4)})),
    ],
)
def test_batch_that_goes_backwards_is_refused(start, end):
    with pytest.raises(Misuse):
        tasks(start, end, SPLIT)


def test_relaxed_is_task_for_each_segment():
    planned = tasks(standing({0: at(4)}), standing({1: at(2), 2: at(3)}, epoch=1), SPLIT, rules=RELAXED)
    assert [task.pieces for task in planned] == [
        (SegmentSlice(0, FULL, at(4), DONE),),
        (SegmentSlice(1, LOW, START, at(2)),),
        (SegmentSlice(2, HIGH, START, at(3)),),
    ]


def test_partitions_are_read_whole_whatever_key_hashes():
    plain = plain_layout.synthetic(["a", "b"])
    planned = tasks(standing({0: at(0), 1: at(0)}), standing({0: at(4), 1: at(5)}), plain)
    assert [[piece.takes(hash) for hash in (None, 0, 0xFFFF)] for task in planned for piece in task.pieces] == [
        [True, True, True]
    ] * 2


def test_migrated_partitions_are_read_by_ranges_of_children():
    moved = plain_layout.migrated(["a", "b"], now_ms=0)  # 0, 1 -> 2, 3
    planned = tasks(standing({0: at(0), 1: at(0)}), standing({2: at(4), 3: at(5)}), moved)
    assert [[(piece.segment, piece.keys) for piece in task.pieces] for task in planned] == [
        [(0, (LOW,)), (1, (LOW,)), (2, None)],
        [(0, (HIGH,)), (1, (HIGH,)), (3, None)],
    ]
    apart = tasks(standing({0: at(0), 1: at(0)}), standing({0: at(4), 1: at(5)}), moved)
    assert [[(piece.segment, piece.keys) for piece in task.pieces] for task in apart] == [[(0, None)], [(1, None)]]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 99)), max_size=12), st.integers(1, 3))
@settings(max_examples=40)
def test_every_row_belongs_to_exactly_one_task(reshapes, segments):
    first = layout = layouts.initial(segments, now_ms=0)
    for is_split, number in reshapes:
        active = layout.active
        if is_split:
            layout = layout.split(active[number % len(active)].id, now_ms=0, into=2 + number % 2)
        elif len(active) > 1:
            place = number % (len(active) - 1)
            layout = layout.merge([active[place].id, active[place + 1].id], now_ms=0)
    start = standing({one.id: at(0) for one in first.segments})
    end = standing({one.id: at(9) for one in layout.active}, epoch=layout.epoch)
    planned = tasks(start, end, layout)
    edges = {slot for one in layout.segments for slot in (one.range.start, one.range.end)}
    for one in layout.segments:
        pieces = [piece for task in planned for piece in task.pieces if piece.segment == one.id]
        assert [sum(piece.takes(hash) for piece in pieces) for hash in [None, *edges]] == [1] * (1 + len(edges))
    for task in planned:
        ids = [piece.segment for piece in task.pieces]
        assert ids == sorted(ids)
