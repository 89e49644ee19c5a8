"""Counting entries on a server that does not plan: marks grow, keep within the ledger that is known, end at the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.layout.readable_range import START, ReadPosition
from magnetar.spark.source.batch_limits import UNLIMITED, Limits
from magnetar.spark.source.pulsar_topics import marks
from magnetar.spark.source.readable_range import ReadableRange

numbers = st.integers(0, 5000)
limits = st.builds(Limits, st.none() | st.integers(1, 10_000), st.none() | st.integers(1, 10**9), st.integers(0, 9))


def test_without_limits_there_is_one_mark_behind_last_entry():
    assert [mark.place for mark in marks(START, (7, 3), (7, 3), 0, UNLIMITED)] == [ReadPosition(7, 4)]


def test_in_one_ledger_entries_are_counted():
    found = marks(ReadPosition(7, 1), (7, 1), (7, 4), 10, Limits(messages=2))
    assert [(str(mark.place), mark.messages, mark.bytes) for mark in found] == [
        ("7:2", 1, 10),
        ("7:3", 2, 20),
        ("7:5", 4, 40),
    ]


def test_byte_limit_counts_entries_by_next_size():
    found = marks(ReadPosition(7, 0), (7, 0), (9, 4), 100, Limits(bytes=250))
    assert [str(mark.place) for mark in found] == ["7:1", "7:2", "7:3", "9:5"]


@given(numbers, numbers, numbers, st.integers(0, 2000), limits)
def test_marks_always_grow_and_end_at_end(first: int, ledgers: int, more: int, size: int, asked: Limits):
    last = (3 + ledgers % 3, first + more if ledgers % 3 == 0 else more)
    found = marks(ReadPosition(3, first), (3, first), last, size, asked)
    assert ReadableRange(ReadPosition(3, first), tuple(found)).end == ReadPosition(last[0], last[1] + 1)
    if asked.messages is not None:
        assert len(found) < 200
        assert any(mark.messages <= asked.messages for mark in found)
