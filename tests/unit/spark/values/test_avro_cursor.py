"""Many values side by side: each row moves by itself, and none leaves its own bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.spark.values.avro_cursor import RowCursors
from magnetar.spark.values.value_schema import Unreadable
from tests.support.avro_definitions import encoded

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_numbers_of_all_lengths_are_read_side_by_side(numbers):
    walk = RowCursors(pa.array([encoded("long", one) for one in numbers], pa.binary()))
    assert walk.int64(walk.everything(), "f").tolist() == numbers
    walk.ended()


def test_part_of_array_is_walked_as_if_it_were_whole():
    values = pa.array([b"\x02", b"\x04\x06", b"\x08", b"\x0a"], pa.binary()).slice(1, 2)
    walk = RowCursors(values)
    assert walk.int64(walk.everything(), "f").tolist() == [2, 4]
    assert walk.int64(np.array([0]), "f").tolist() == [3]
    walk.ended()


def test_rows_that_do_not_move_stay_where_they_are():
    walk = RowCursors(pa.array([b"\x02\x04", b"\x06\x08"], pa.binary()))
    assert walk.int64(np.array([1]), "f").tolist() == [3]
    assert walk.int64(walk.everything(), "f").tolist() == [1, 4]
    with pytest.raises(Unreadable, match="longer than its schema allows") as told:
        walk.ended()
    assert told.value.row == 0


def test_number_that_would_go_on_in_next_row_is_unreadable():
    walk = RowCursors(pa.array([b"\x02", b"\x80", b"\x02"], pa.binary()))
    with pytest.raises(Unreadable, match="ends too early") as told:
        walk.int64(walk.everything(), "f")
    assert (told.value.row, told.value.field) == (1, "f")


def test_bytes_beyond_end_of_row_are_unreadable():
    walk = RowCursors(pa.array([b"\x04ab", b"\x06ab"], pa.binary()))
    with pytest.raises(Unreadable, match="its length exceeds the value") as told:
        walk.run(walk.everything(), "f")
    assert told.value.row == 1
    again = RowCursors(pa.array([b"1234", b"123"], pa.binary()))
    with pytest.raises(Unreadable, match="ends too early"):
        again.width(again.everything(), 4, "f")


def test_nothing_at_all_is_walked_too():
    walk = RowCursors(pa.array([], pa.binary()))
    assert walk.int64(walk.everything(), "f").tolist() == []
    walk.ended()
