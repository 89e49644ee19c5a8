"""Single plans by hand: what one batch does with a split, a merge, a limit, a loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import Misuse, NotReady
from magnetar.layout import layout as layouts
from magnetar.layout import plain_layout
from magnetar.layout.readable_range import DONE, START, CutPoint, ReadPosition
from magnetar.spark.source.batch_limits import Limits
from magnetar.spark.source.offset import SourceOffset, parse
from magnetar.spark.source.planner import Balance, DataLost, KeyOrder, Rules, initial, plan
from magnetar.spark.source.readable_range import ReadableRange

ONE = layouts.initial(1, now_ms=0)
TWO = layouts.initial(2, now_ms=0)
SPLIT = ONE.split(0, now_ms=0)  # 0 -> 1, 2
MERGED = TWO.merge([0, 1], now_ms=0)  # 0, 1 -> 2


def at(entry: int, row: int = 0) -> ReadPosition:
    return ReadPosition(7, entry, row)


def stretch(first: int, last: int, *, weight: int = 1, ms: int = 100, **facts) -> ReadableRange:
    """Entries of `weight` messages, each of ten bytes."""
    marks = (
        CutPoint(at(entry + 1), (entry + 1 - first) * weight, (entry + 1 - first) * weight * 10, ms + entry)
        for entry in range(first, last)
    )
    return ReadableRange(at(first), tuple(marks), **facts)


def standing(places: dict, epoch: int = 0) -> SourceOffset:
    return SourceOffset(epoch, places)


def test_where_nothing_can_be_read_answer_is_start_itself():
    start = replace(standing({0: at(4)}), origin={0: START}, gaps={0: (at(1), at(2))})
    assert plan(start, ONE, {0: stretch(4, 4)}) is start
    assert plan(start, ONE, {}) is start


def test_epoch_that_rose_and_split_without_messages_make_no_batch():
    start = standing({0: at(4)})
    assert plan(start, SPLIT.raised(), {0: stretch(4, 4, sealed=True), 1: stretch(0, 0), 2: stretch(0, 0)}) is start


def test_messages_behind_empty_generations_are_found():
    deep = SPLIT.split(1, now_ms=0)  # 0 -> 1, 2; 1 -> 3, 4
    over = {0: stretch(4, 4, sealed=True), 1: ReadableRange(START, sealed=True)}
    for order in KeyOrder:
        end = plan(standing({0: at(4)}), deep, {**over, 4: stretch(0, 2)}, rules=Rules(order))
        assert end == SourceOffset(2, {2: START, 3: START, 4: at(2)})


def test_first_batch_records_its_start_even_if_empty():
    begun = initial(ONE, {0: at(4)}, topic="topic://a/b/c", life=3)
    assert begun.initial
    first = plan(begun, ONE, {0: stretch(4, 4)})
    assert first == SourceOffset(0, {0: at(4)}, origin={0: at(4)}, life=3, topic="topic://a/b/c")
    assert plan(first, ONE, {0: stretch(4, 4)}) is first
    more = plan(begun, ONE, {0: stretch(4, 6)})
    assert (more.origin, more.places, more.initial) == ({0: at(4)}, {0: at(6)}, False)
    assert plan(more, ONE, {0: stretch(6, 7)}) == SourceOffset(0, {0: at(7)}, life=3, topic="topic://a/b/c")


@pytest.mark.parametrize(
    ("layout", "found", "places"),
    [
        (MERGED, {}, {0: START, 1: START}),  # earliest
        (MERGED, {0: DONE, 1: DONE, 2: at(9)}, {2: at(9)}),  # latest
        (MERGED, {0: DONE, 1: at(5), 2: START}, {0: DONE, 1: at(5)}),  # a time
        (SPLIT, {0: DONE, 1: at(1), 2: START}, {1: at(1), 2: START}),
        (plain_layout.migrated(["a", "b"], now_ms=0), {0: at(3), 1: DONE}, {0: at(3), 1: DONE}),
    ],
)
def test_start_opens_nothing_behind_what_is_not_done(layout, found, places):
    assert initial(layout, found) == SourceOffset(layout.epoch, places, initial=True)


def test_start_behind_end_of_active_segment_is_refused():
    with pytest.raises(Misuse, match="must not be its end"):
        initial(ONE, {0: DONE})


def test_merge_waits_for_its_other_parent():
    read = {0: stretch(4, 6, sealed=True), 1: stretch(0, 9), 2: stretch(0, 3)}
    waits = plan(standing({0: at(4), 1: at(0)}), MERGED, read, Limits(7))
    assert waits.places[0] == DONE
    assert 2 not in waits.places
    through = plan(standing({0: DONE, 1: at(0)}), MERGED, {**read, 1: stretch(0, 9, sealed=True)})
    assert through.places == {2: at(3)}


def test_shares_go_by_backlog():
    end = plan(standing({0: at(0), 1: at(0)}), TWO, {0: stretch(0, 90), 1: stretch(0, 10)}, Limits(50))
    assert end.places == {0: at(45), 1: at(5)}
    end = plan(standing({0: at(0), 1: at(0)}), TWO, {0: stretch(0, 90), 1: stretch(0, 10)}, Limits(None, 500))
    assert end.places == {0: at(45), 1: at(5)}


def test_entry_heavier_than_limit_moves_all_same():
    heavy = {0: stretch(0, 3, weight=1000)}
    for limit in (Limits(10), Limits(None, 10), Limits(1, 1)):
        for balance in Balance:
            end = plan(standing({0: at(0)}), ONE, heavy, limit, rules=Rules(balance=balance))
            assert end.places == {0: at(1)}


def test_small_backlog_of_heavy_entries_does_not_starve():
    read = {0: stretch(0, 1, weight=50, ms=1), 1: stretch(0, 2_000)}
    assert plan(standing({0: at(0), 1: at(0)}), TWO, read, Limits(60)).places == {0: at(1), 1: at(10)}


def test_entries_without_messages_do_not_hold_rest_up():
    empty = ReadableRange(at(0), tuple(CutPoint(at(entry + 1), 0, 0, 1) for entry in range(5)), sealed=True)
    end = plan(standing({0: at(0)}), SPLIT, {0: empty, 1: stretch(0, 2, weight=9)}, Limits(5))
    assert end.places == {1: at(1), 2: START}


def test_with_too_few_messages_there_is_no_batch_yet():
    start = standing({0: at(0)})
    assert plan(start, ONE, {0: stretch(0, 9)}, Limits(messages_min=10)) is start
    assert plan(start, ONE, {0: stretch(0, 10)}, Limits(messages_min=10)).places == {0: at(10)}


def test_layout_older_than_offset_is_not_planned_on():
    with pytest.raises(NotReady, match="older than the offset"):
        plan(standing({1: at(0), 2: at(0)}, epoch=1), ONE, {0: stretch(0, 9)})


def test_offset_that_does_not_fit_topic_is_refused():
    with pytest.raises(Misuse, match="does not fit"):
        plan(standing({0: at(0)}), TWO, {})


def test_lost_messages_stop_query_and_error_says_what_to_do():
    for start, layout, read in (
        (standing({0: at(2)}), ONE, {0: stretch(5, 9, lost=True)}),
        (standing({0: at(2)}), SPLIT.removed(0), {1: stretch(0, 1)}),
        (standing({0: at(4)}), SPLIT, {0: stretch(4, 4, sealed=True), 1: stretch(5, 9, lost=True)}),
        (standing({0: at(4)}), SPLIT.pruning([0]), {0: stretch(4, 9)}),
    ):
        with pytest.raises(DataLost, match="failOnDataLoss"):
            plan(start, layout, read)


GO_ON = Rules(fail_on_data_loss=False)


def test_gap_is_written_into_offset_without_readable_messages():
    gap = plan(standing({0: at(2)}), ONE, {0: stretch(5, 5, lost=True)}, rules=GO_ON)
    assert gap == SourceOffset(0, {0: at(5)}, gaps={0: (at(2), at(5))})
    assert parse(gap.text) == gap
    assert plan(gap, ONE, {0: stretch(5, 5)}, rules=GO_ON) is gap
    assert plan(gap, ONE, {0: stretch(5, 6)}, rules=GO_ON) == SourceOffset(0, {0: at(6)})


def test_children_of_missing_segment_are_read_from_start():
    gone = SPLIT.removed(0)
    end = plan(standing({0: at(2)}), gone, {1: stretch(0, 3), 2: stretch(0, 1)}, rules=GO_ON)
    assert end == SourceOffset(2, {1: at(3), 2: at(1)}, gaps={0: (at(2), DONE)})


def test_parent_that_is_done_and_gone_is_no_loss():
    removed = MERGED.removed(0)
    waits = standing({0: DONE, 1: at(0)}, epoch=1)
    end = plan(waits, removed, {1: stretch(0, 3)}, Limits(2))
    assert end == SourceOffset(2, {0: DONE, 1: at(2)})
    end = plan(end, removed, {1: stretch(2, 3, sealed=True), 2: stretch(0, 1)})
    assert end == SourceOffset(2, {2: at(1)})


def test_behind_barrier_children_wait_for_next_batch():
    read = {0: stretch(4, 6, sealed=True), 1: stretch(0, 3)}
    held = plan(standing({0: at(4)}), SPLIT, read, rules=Rules(KeyOrder.BARRIER))
    assert held == SourceOffset(1, {0: DONE})
    assert plan(held, SPLIT, read, rules=Rules(KeyOrder.BARRIER)) == SourceOffset(1, {1: at(3), 2: START})


def test_seal_newer_than_layout_is_kept_until_children_appear():
    ended = plan(standing({0: at(4)}), ONE, {0: stretch(4, 6, sealed=True)})
    assert ended == SourceOffset(0, {0: DONE})
    assert plan(ended, SPLIT, {1: stretch(0, 3)}) == SourceOffset(1, {1: at(3), 2: START})


def test_segment_of_empty_entries_does_not_delay_heavy_one():
    empty = ReadableRange(at(0), tuple(CutPoint(at(entry + 1), 0, 0, 1) for entry in range(5)))
    end = plan(standing({0: at(0), 1: at(0)}), TWO, {0: empty, 1: stretch(0, 2, weight=9)}, Limits(5))
    assert end.places == {0: at(5), 1: at(1)}
