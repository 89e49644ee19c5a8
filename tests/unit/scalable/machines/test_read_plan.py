"""Which segments a reader's next batch can be of: where it stands first, older ones before younger ones, and no more
than its limits need.
"""

from __future__ import annotations

from dataclasses import replace

from magnetar.base.ids import Position, SegmentId
from magnetar.base.limits import CALLS_AT_ONCE_MAX, PLAN_MARKS_MAX, PLAN_SEGMENT_MARKS_MAX, PLAN_SEGMENT_MARKS_MIN
from magnetar.layout.layout import Layout, initial
from magnetar.layout.readable_range import DONE, START, ReadableRange, ReadPosition
from magnetar.layout.segment import Ending
from magnetar.scalable.machines.read_plan import MeasureRequest, agreed, asked, enough, missing, rounds
from magnetar.topic.measure import FROM_EARLIEST, FROM_LATEST, FROM_START

A, B, C = (SegmentId(id) for id in range(3))


def split_once() -> Layout:
    return initial(1, now_ms=1).split(A, now_ms=2)


def test_read_position_comes_first_without_asking_earlier_segments() -> None:
    layout = split_once().split(B, now_ms=3)
    assert list(rounds(layout, MeasureRequest({A: ReadPosition(1, 1)}))) == [[0], [1, 2, 3, 4]]
    assert list(rounds(layout, MeasureRequest({B: ReadPosition(1, 1), C: ReadPosition(2, 2)}))) == [[1, 2], [3, 4]]
    assert list(rounds(layout, MeasureRequest({B: DONE, C: ReadPosition(2, 2)}))) == [[2], [3, 4]]
    assert list(rounds(layout, MeasureRequest({SegmentId(99): ReadPosition(2, 2), A: DONE}))) == [[1, 2, 3, 4]]


def test_reader_that_begins_is_told_of_all_segments_at_once() -> None:
    layout = initial(CALLS_AT_ONCE_MAX * 2, now_ms=1)
    [whole] = rounds(layout, MeasureRequest(start=FROM_LATEST))
    assert len(whole) == CALLS_AT_ONCE_MAX * 2


def test_later_segments_are_asked_in_rounds_until_enough() -> None:
    layout = initial(CALLS_AT_ONCE_MAX * 2 + 2, now_ms=1)
    sizes = [len(one) for one in rounds(layout, MeasureRequest({A: ReadPosition(1, 1)}))]
    assert sizes == [1, CALLS_AT_ONCE_MAX, CALLS_AT_ONCE_MAX, 1]
    found = {A: ReadableRange(START, messages=10, bytes=100), B: ReadableRange(START, messages=5, bytes=50)}
    assert enough(MeasureRequest(messages_max=15), found)
    assert enough(MeasureRequest(bytes_max=150), found)
    assert not enough(MeasureRequest(messages_max=16, bytes_max=151), found)
    assert not enough(MeasureRequest(), found)


def test_marks_are_shared_by_segments_of_answer() -> None:
    question = MeasureRequest({A: ReadPosition(1, 1, 2)}, FROM_EARLIEST, 10, 20, {A: ReadPosition(3, 3)}, True)
    [one] = asked(question, [A])
    assert (one.start, one.target, one.messages_max, one.bytes_max, one.times) == (
        ReadPosition(1, 1, 2),
        ReadPosition(3, 3),
        10,
        20,
        True,
    )
    assert one.marks_max == PLAN_SEGMENT_MARKS_MAX
    many = asked(question, [B] * 1000)[-1]
    assert (many.start, many.target, many.marks_max) == (FROM_EARLIEST, None, PLAN_MARKS_MAX // 1000)
    assert asked(question, [B] * 5000)[0].marks_max == PLAN_SEGMENT_MARKS_MIN


def test_segment_sealed_since_layout_was_read_is_taken_for_active() -> None:
    sealed = ReadableRange(START, sealed=True, lost=True)
    assert agreed(sealed) == ReadableRange(START, lost=True)


def test_missing_segment_is_empty_if_active_and_loss_otherwise() -> None:
    layout = split_once()
    assert missing(layout.segment(B), MeasureRequest()) == ReadableRange(START)
    assert missing(layout.segment(A), MeasureRequest()) == ReadableRange(START, sealed=True)
    was = replace(layout.segment(A), ending=Ending(Position(4, 9), messages=10))
    gone = missing(was, MeasureRequest({A: ReadPosition(4, 2)}))
    assert (gone.start, gone.sealed, gone.lost) == (ReadPosition(4, 10), True, True)
    assert not missing(was, MeasureRequest({A: ReadPosition(4, 10)})).lost
    assert missing(was, MeasureRequest(start=FROM_START)).lost
    assert not missing(was, MeasureRequest(start=FROM_EARLIEST)).lost
