"""What can be read of a segment, cut at a place that a query wants to stop at."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.layout.readable_range import DONE, START, CutPoint, ReadPosition
from magnetar.spark.source.readable_range import ReadableRange


def at(entry: int, row: int = 0) -> ReadPosition:
    return ReadPosition(7, entry, row)


WHOLE = ReadableRange(at(0), (CutPoint(at(2), 2, 20, 5), CutPoint(at(4), 4, 40, 9)), sealed=True)


@pytest.mark.parametrize(
    ("target", "marks"),
    [
        (START, ()),
        (at(0), ()),
        (at(1), (CutPoint(at(1), 2, 20, 5),)),  # between marks: counted as the next one
        (at(2), WHOLE.marks[:1]),
        (at(2, 1), (WHOLE.marks[0], CutPoint(at(2, 1), 4, 40, 9))),
        (at(4), WHOLE.marks),
        (at(9), WHOLE.marks),
    ],
)
def test_messages_behind_target_are_no_end(target, marks):
    assert WHOLE.until(target) == ReadableRange(at(0), marks)


def test_segment_wanted_to_its_end_stays_whole():
    assert WHOLE.until(DONE) == WHOLE
    assert WHOLE.end == at(4)
    assert ReadableRange(at(3)).end == at(3)


def test_what_was_lost_is_not_forgotten():
    assert ReadableRange(at(5), lost=True).until(at(9)).lost


@pytest.mark.parametrize(
    "marks", [(CutPoint(at(0), 1, 1),), (CutPoint(at(3), 2, 1), CutPoint(at(4), 1, 1)), WHOLE.marks[::-1]]
)
def test_marks_that_do_not_grow_are_refused(marks):
    with pytest.raises(Misuse):
        ReadableRange(at(0), marks)
