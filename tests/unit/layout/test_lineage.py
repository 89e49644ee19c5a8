"""Order rests on every ancestor, however far back and however empty."""

from __future__ import annotations

from magnetar.base.ids import SegmentId
from magnetar.layout.layout import Layout, initial
from magnetar.layout.lineage import (
    ancestors,
    ancestors_of_any,
    blockers,
    descendants,
    descendants_of_any,
    merge_depths,
    open_segments,
    removable,
)

ROOT, LEFT, RIGHT, LEFT_LOWER, LEFT_UPPER = (SegmentId(id) for id in range(5))


def three_generations() -> Layout:
    """0 -> 1, 2; 1 -> 3, 4."""
    return initial(1, now_ms=0).split(ROOT, now_ms=1).split(LEFT, now_ms=2)


def open_ids(layout: Layout, *done: SegmentId) -> list[SegmentId]:
    return [one.id for one in open_segments(layout, done)]


def test_only_root_is_open_at_first():
    assert open_ids(three_generations()) == [ROOT]


def test_empty_middle_generation_does_not_open_grandchildren_h_f1():
    assert open_ids(three_generations(), LEFT) == [ROOT]


def test_children_open_one_generation_after_other():
    layout = three_generations()
    assert open_ids(layout, ROOT) == [ROOT, LEFT, RIGHT]
    assert open_ids(layout, ROOT, LEFT) == [ROOT, LEFT, RIGHT, LEFT_LOWER, LEFT_UPPER]


def test_merge_waits_for_both_sides():
    layout = three_generations().merge([LEFT_UPPER, RIGHT], now_ms=3)
    merged = SegmentId(5)
    assert merged not in open_ids(layout, ROOT, LEFT, LEFT_UPPER)
    assert merged in open_ids(layout, ROOT, LEFT, LEFT_UPPER, RIGHT)
    assert blockers(layout, merged, {ROOT}) == [LEFT, RIGHT, LEFT_UPPER]


def test_ancestors_and_descendants_mirror_each_other():
    layout = three_generations()
    assert ancestors(layout, LEFT_LOWER) == {ROOT, LEFT}
    assert descendants(layout, ROOT) == {LEFT, RIGHT, LEFT_LOWER, LEFT_UPPER}
    for one in layout.segments:
        assert all(one.id in ancestors(layout, other) for other in descendants(layout, one.id))


def test_segments_are_removed_from_oldest_on():
    layout = three_generations()
    assert removable(layout) == [ROOT]
    assert removable(layout.removed(ROOT)) == [LEFT]


def test_lineage_of_many_is_union_of_each():
    layout = three_generations().merge([LEFT_UPPER, RIGHT], now_ms=3)
    ids = [one.id for one in layout.segments]
    for chosen in (ids, ids[:2], ids[3:], [ids[-1]], []):
        assert ancestors_of_any(layout, chosen) == set().union(*(ancestors(layout, id) for id in chosen))
        assert descendants_of_any(layout, chosen) == set().union(*(descendants(layout, id) for id in chosen))


def test_merge_depth_is_longest_path_of_merges() -> None:
    layout = (
        initial(4, now_ms=0).merge([SegmentId(0), SegmentId(1)], now_ms=0).merge([SegmentId(2), SegmentId(3)], now_ms=0)
    )
    layout = layout.merge([SegmentId(4), SegmentId(5)], now_ms=0).split(SegmentId(6), now_ms=0)
    depths = merge_depths(layout)
    assert [depths[SegmentId(id)] for id in range(9)] == [0, 0, 0, 0, 1, 1, 2, 2, 2]
