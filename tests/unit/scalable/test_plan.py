"""Which segments a reader's next batch can be of: where it stands first, older ones before younger ones, and no more
than its limits need.
"""

from __future__ import annotations

from dataclasses import replace

from magnetar.base.ids import Position, SegmentId
from magnetar.base.limits import CALLS_AT_ONCE_MAX, PLAN_MARKS_MAX, PLAN_SEGMENT_MARKS_MAX, PLAN_SEGMENT_MARKS_MIN
from magnetar.layout.layout import Layout, initial
from magnetar.layout.segment import Ending
from magnetar.layout.stretch import DONE, START, Place, Stretch
from magnetar.scalable.plan import Question, agreed, asked, enough, missing, rounds
from magnetar.topic.measure import FROM_EARLIEST, FROM_LATEST, FROM_START

A, B, C = (SegmentId(id) for id in range(3))


def split_once() -> Layout:
    return initial(1, now_ms=1).split(A, now_ms=2)


def test_where_the_reader_stands_comes_first_and_what_it_has_read_is_not_asked() -> None:
    layout = split_once().split(B, now_ms=3)
    assert list(rounds(layout, Question({A: Place(1, 1)}))) == [[0], [1, 2, 3, 4]]
    assert list(rounds(layout, Question({B: Place(1, 1), C: Place(2, 2)}))) == [[1, 2], [3, 4]]
    assert list(rounds(layout, Question({B: DONE, C: Place(2, 2)}))) == [[2], [3, 4]]
    assert list(rounds(layout, Question({SegmentId(99): Place(2, 2), A: DONE}))) == [[1, 2, 3, 4]]


def test_a_reader_that_begins_is_told_of_all_segments_at_once() -> None:
    layout = initial(CALLS_AT_ONCE_MAX * 2, now_ms=1)
    [whole] = rounds(layout, Question(start=FROM_LATEST))
    assert len(whole) == CALLS_AT_ONCE_MAX * 2


def test_what_comes_later_is_asked_in_bounded_rounds_until_there_is_enough() -> None:
    layout = initial(CALLS_AT_ONCE_MAX * 2 + 2, now_ms=1)
    sizes = [len(one) for one in rounds(layout, Question({A: Place(1, 1)}))]
    assert sizes == [1, CALLS_AT_ONCE_MAX, CALLS_AT_ONCE_MAX, 1]
    found = {A: Stretch(START, messages=10, bytes=100), B: Stretch(START, messages=5, bytes=50)}
    assert enough(Question(messages_max=15), found)
    assert enough(Question(bytes_max=150), found)
    assert not enough(Question(messages_max=16, bytes_max=151), found)
    assert not enough(Question(), found)


def test_marks_are_shared_by_the_segments_of_an_answer() -> None:
    question = Question({A: Place(1, 1, 2)}, FROM_EARLIEST, 10, 20, {A: Place(3, 3)}, True)
    [one] = asked(question, [A])
    assert (one.start, one.target, one.messages_max, one.bytes_max, one.times) == (
        Place(1, 1, 2),
        Place(3, 3),
        10,
        20,
        True,
    )
    assert one.marks_max == PLAN_SEGMENT_MARKS_MAX
    many = asked(question, [B] * 1000)[-1]
    assert (many.start, many.target, many.marks_max) == (FROM_EARLIEST, None, PLAN_MARKS_MAX // 1000)
    assert asked(question, [B] * 5000)[0].marks_max == PLAN_SEGMENT_MARKS_MIN


def test_a_segment_sealed_since_the_layout_was_read_is_taken_for_active() -> None:
    sealed = Stretch(START, sealed=True, lost=True)
    assert agreed(sealed) == Stretch(START, lost=True)


def test_a_segment_that_nobody_has_is_empty_where_it_is_active_and_a_loss_where_it_had_messages() -> None:
    layout = split_once()
    assert missing(layout.segment(B), Question()) == Stretch(START)
    assert missing(layout.segment(A), Question()) == Stretch(START, sealed=True)
    was = replace(layout.segment(A), ending=Ending(Position(4, 9), messages=10))
    gone = missing(was, Question({A: Place(4, 2)}))
    assert (gone.start, gone.sealed, gone.lost) == (Place(4, 10), True, True)
    assert not missing(was, Question({A: Place(4, 10)})).lost
    assert missing(was, Question(start=FROM_START)).lost
    assert not missing(was, Question(start=FROM_EARLIEST)).lost
