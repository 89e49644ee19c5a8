"""Where a reader stands in a graph, and that it never moves back."""

from __future__ import annotations

import random

import pytest

from magnetar.base.errors import Corrupt
from magnetar.base.ids import SegmentId
from magnetar.layout.layout import Layout, initial
from magnetar.layout.readable_range import (
    DONE,
    START,
    CutColumns,
    CutPoint,
    ReadableRange,
    ReadPosition,
    ahead,
    released,
    shortened,
    stands,
    unread,
)

A, B, C, D, E = (SegmentId(id) for id in range(5))


def a_graph() -> Layout:
    """0 was split into 1 and 2, 1 and 2 were merged into 3; 3 was split into 4 and 5."""
    layout = initial(1, now_ms=1).split(A, now_ms=2)
    return layout.merge([B, C], now_ms=3).split(D, now_ms=4)


def test_earlier_messages_are_behind_reader_and_later_ones_ahead() -> None:
    layout = a_graph()
    assert released(layout, {D: ReadPosition(3, 1)}) == {A, B, C}
    assert unread(layout, {D: ReadPosition(3, 1)}) == [E, SegmentId(5)]
    assert unread(layout, {}) == [0, 1, 2, 3, 4, 5]
    assert stands(layout, {B: ReadPosition(1, 7), C: DONE}) == {
        0: DONE,
        1: ReadPosition(1, 7),
        2: DONE,
        3: START,
        4: START,
        5: START,
    }


def test_place_in_segment_that_is_gone_says_nothing_of_others() -> None:
    assert released(initial(2, now_ms=1), {SegmentId(77): DONE}) == set()


def test_of_two_readers_later_one_counts_in_every_segment_alone() -> None:
    layout = a_graph()
    first, second = {B: ReadPosition(1, 7), C: ReadPosition(2, 2)}, {B: ReadPosition(1, 3), C: DONE}
    both = ahead(layout, first, second)
    assert both == ahead(layout, second, first)
    assert (both[B], both[C], both[D]) == (ReadPosition(1, 7), DONE, START)
    assert ahead(layout, both, {}) == both


def test_few_words_say_same_wherever_reader_stands() -> None:
    chance = random.Random(5)
    layout = a_graph()
    for _ in range(30):
        active = [one.id for one in layout.active]
        layout = (
            layout.split(chance.choice(active), now_ms=5) if len(active) < 6 else layout.merge(active[:2], now_ms=5)
        )
    for _ in range(300):
        everywhere: dict[SegmentId, ReadPosition] = {}
        for one in layout.segments:
            clear = all(everywhere[parent] == DONE for parent in one.parents)
            ends = [DONE] * (3 if not one.is_active else 0)
            everywhere[one.id] = chance.choice([START, ReadPosition(one.id, 4), *ends]) if clear else START
        few = shortened(layout, everywhere)
        assert stands(layout, few) == everywhere
        assert len(few) < len(everywhere)


def test_reader_that_left_its_parents_behind_unread_is_written_out() -> None:
    layout = a_graph()
    everywhere = {**stands(layout, {}), E: ReadPosition(4, 1)}
    assert stands(layout, shortened(layout, everywhere)) == everywhere


def test_marks_that_do_not_grow_are_refused() -> None:
    good = CutColumns.of([CutPoint(ReadPosition(1, 1), 1, 10), CutPoint(ReadPosition(1, 2), 1, 10)])
    good.check(ReadPosition(1, 0))
    with pytest.raises(Corrupt):
        good._replace(bytes=[1]).check(ReadPosition(1, 0))
    for mark in (
        CutPoint(ReadPosition(1, 0), 1, 10),
        CutPoint(ReadPosition(1, 2), -1, 10),
        CutPoint(ReadPosition(1, 1), 1, 10),
    ):
        with pytest.raises(Corrupt):
            CutColumns.of([CutPoint(ReadPosition(1, 1), 1, 10), mark]).check(ReadPosition(1, 0))


def test_marks_are_restored_from_columns_with_unknown_times_zero() -> None:
    marks = (CutPoint(ReadPosition(1, 1), 1, 10, 5), CutPoint(ReadPosition(1, 2), 1, 10))
    assert ReadableRange(ReadPosition(1, 0), CutColumns.of(marks)).marks == marks
    assert ReadableRange(ReadPosition(1, 0), CutColumns.of(marks)._replace(times=[5])).marks == marks
    assert ReadableRange(START).marks == ()


def test_places_are_written_as_people_write_them() -> None:
    assert [str(one) for one in (START, DONE, ReadPosition(3, 4), ReadPosition(3, 4, 5))] == [
        "-1:-1",
        "DONE",
        "3:4",
        "3:4:5",
    ]
    assert START < ReadPosition(0, 0) < ReadPosition(0, 0, 1) < DONE
