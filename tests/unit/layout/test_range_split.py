"""Ranges are cut without loss and joined without gaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import InvalidRange
from magnetar.base.ranges import FULL, SLOT_MAX, HashRange
from magnetar.layout.range_split import cut_at, cut_at_all, cut_into, initial, joined


@given(st.integers(0, SLOT_MAX - 1), st.integers(2, 40), st.integers(1, SLOT_MAX))
def test_parts_join_to_whole_and_differ_by_one_at_most(start, parts, size):
    whole = HashRange(start, min(SLOT_MAX, start + size))
    if parts > len(whole):
        with pytest.raises(InvalidRange):
            cut_into(whole, parts)
        return
    cut = cut_into(whole, parts)
    assert joined(reversed(cut)) == whole
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


@given(st.integers(0, SLOT_MAX - 1), st.integers(1, SLOT_MAX))
def test_two_parts_are_halves_that_pulsar_makes(start, size):
    whole = HashRange(start, min(SLOT_MAX, start + size))
    assert cut_into(whole, 2) == whole.split()


@pytest.mark.parametrize("at", [0, -1, 0x10000])
def test_cut_leaves_something_on_both_sides(at):
    with pytest.raises(InvalidRange):
        cut_at(FULL, at)
    assert joined(cut_at(FULL, SLOT_MAX)) == FULL


@pytest.mark.parametrize("parts", [[], [FULL], [HashRange(0, 1), HashRange(3, 4)], [HashRange(0, 1), HashRange(0, 1)]])
def test_only_neighbours_are_joined(parts):
    with pytest.raises(InvalidRange):
        joined(parts)


@pytest.mark.parametrize("count", [0, 65537])
def test_topic_starts_with_some_segments(count):
    with pytest.raises(InvalidRange):
        initial(count)


def test_range_is_cut_at_several_places():
    assert [part.hex for part in cut_at_all(HashRange(10, 19), (12, 13))] == ["000a-000b", "000c-000c", "000d-0013"]


@pytest.mark.parametrize("cuts", [(), (10,), (20,), (13, 12), (12, 12)])
def test_places_outside_or_out_of_order_are_refused(cuts):
    with pytest.raises(InvalidRange):
        cut_at_all(HashRange(10, 19), cuts)
