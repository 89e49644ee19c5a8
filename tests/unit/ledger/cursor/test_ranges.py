"""Intervals against a set that holds every entry by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Corrupt
from magnetar.ledger.cursor.ranges import Ranges

SPAN = st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda pair: ("add", pair[0], pair[0] + pair[1]))
STEP = st.one_of(SPAN, SPAN, st.tuples(st.sampled_from(["drop", "cut"]), st.integers(0, 70)), st.just(("pop",)))


@given(st.lists(STEP, max_size=40))
def test_intervals_hold_what_set_would(steps):
    ranges, held = Ranges(), set()
    for step in steps:
        match step:
            case ("add", start, end):
                assert ranges.add(start, end) == len(set(range(start, end + 1)) - held)
                held |= set(range(start, end + 1))
            case ("drop", entry):
                ranges.drop_to(entry)
                held = {one for one in held if one > entry}
            case ("cut", entry):
                ranges.cut(entry)
                held = {one for one in held if one < entry}
            case ("pop",) if held:
                start, end = ranges.pop_first()
                assert start == min(held)
                assert end + 1 not in held
                held -= set(range(start, end + 1))
        assert {one for one in range(80) if ranges.end_of(one) >= 0} == held
        assert ranges.entries == len(held)
        assert len(ranges) == sum(one - 1 not in held for one in held)
        assert ranges.starts == sorted(one for one in held if one - 1 not in held)
        assert ranges.ends == sorted(one for one in held if one + 1 not in held)


def test_long_front_is_consumed_without_losing_its_place():
    ranges = Ranges()
    for entry in range(0, 8000, 2):
        ranges.add(entry, entry)
    for entry in range(0, 6000, 2):
        assert ranges.pop_first() == (entry, entry)
    assert ranges.first == 6000
    assert ranges.add(6001, 6001) == 1
    assert (len(ranges), ranges.entries) == (999, 1001)


@pytest.mark.parametrize(("starts", "ends"), [([0, 2], [1, 3]), ([0, 1], [4, 9]), ([5], [4]), ([0, 9, 7], [1, 9, 7])])
def test_intervals_that_overlap_or_touch_are_not_believed(starts, ends):
    with pytest.raises(Corrupt):
        Ranges.of(starts, ends)
