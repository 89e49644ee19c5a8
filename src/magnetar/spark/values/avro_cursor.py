"""Reads many values together: a position in each row, and steps that advance some of the positions.

numpy decodes Avro's encodings for all rows together: numbers of any length, byte strings, fixed widths. No step passes
the end of its row: such a row raises `Unreadable`. Positions are indices of one buffer, so that texts are copied out of
it without an object per value.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from magnetar.spark.read.batch_scanner import PADDING, Bools, Bytes, Ints
from magnetar.spark.read.columns import cut
from magnetar.spark.values.value_schema import Unreadable

_NUMBER_BYTES_MAX = 10
_MORE = 128  # the continuation bit of a varint byte
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


class RowCursors:
    """Over a binary array without nulls. `rows` of every step are ascending indices into it."""

    def __init__(self, values: Any) -> None:
        _, places, data = values.buffers()
        offsets = np.frombuffer(places, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
        raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        self.buffer: Bytes = np.concatenate([raw[: offsets[-1]], np.zeros(PADDING, np.uint8)])
        self.at: Ints = offsets[:-1].copy()
        self.ends: Ints = offsets[1:].copy()

    def everything(self) -> Ints:
        return np.arange(len(self.at))

    def inside(self, starts: Ints, ends: Ints) -> RowCursors:
        """A cursor over parts of the same bytes, which become its rows."""
        parts = copy(self)
        parts.at, parts.ends = starts.copy(), ends
        return parts

    @cached_property
    def number_ends(self) -> Ints:
        """All positions where a number may end."""
        return np.flatnonzero(self.buffer < _MORE)

    @cached_property
    def numbers_before(self) -> Ints:
        """The number of such ends before each position."""
        ended = self.buffer < _MORE
        return np.cumsum(ended, dtype=np.int64) - ended

    def ended(self) -> None:
        """Checks that every row was read to its end."""
        left = np.flatnonzero(self.at != self.ends)
        if left.size:
            raise Unreadable(int(left[0]), "the value is longer than its schema allows")

    def int64(self, rows: Ints, field: str) -> Ints:
        """Zigzag numbers of up to 64 bits."""
        at = self.at[rows]
        byte = self.buffer[at]
        at += 1
        values = (byte & 127).astype(np.uint64)
        left = np.flatnonzero(byte >= _MORE)
        shift = 7
        while left.size and shift < 7 * _NUMBER_BYTES_MAX:
            # checked before the read: a row may end at the end of the buffer
            self._within(rows[left], at[left] + 1, field)
            byte = self.buffer[at[left]]
            values[left] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
            at[left] += 1
            left = left[byte >= _MORE]
            shift += 7
        if left.size:
            raise Unreadable(int(rows[left[0]]), "a number does not end", field)
        self._move(rows, at, field)
        numbers: Ints = ((values >> np.uint64(1)) ^ (np.uint64(0) - (values & np.uint64(1)))).view(np.int64)
        return numbers

    def int32(self, rows: Ints, field: str) -> Ints:
        numbers = self.int64(rows, field)
        self.check(
            rows, (numbers >= _INT_MIN) & (numbers <= _INT_MAX), "a number does not fit into 32 bits", field, numbers
        )
        return numbers

    def width(self, rows: Ints, size: int, field: str) -> tuple[Ints, Ints]:
        """A fixed number of bytes of each row: start and end."""
        starts = self.at[rows]
        ends = starts + size
        self._move(rows, ends, field)
        return starts, ends

    def run(self, rows: Ints, field: str) -> tuple[Ints, Ints]:
        """A length-prefixed run of bytes of each row."""
        lengths = self.int64(rows, field)
        starts = self.at[rows]
        room = self.ends[rows] - starts
        self.check(rows, (lengths >= 0) & (lengths <= room), "its length exceeds the value", field, lengths)
        ends = starts + lengths
        self.at[rows] = ends
        return starts, ends

    def numbers(self, starts: Ints, form: str) -> Any:
        """The bytes as numbers of fixed width."""
        kind = np.dtype(form)
        lying = self.buffer[starts[:, None] + np.arange(kind.itemsize)]
        return np.ascontiguousarray(lying).view(kind)[:, 0]

    def pieces(self, starts: Ints, ends: Ints) -> Any:
        """The bytes as a binary array; positions increase."""
        return cut(self.buffer, starts, ends, np.ones(len(starts), np.bool_))

    def check(self, rows: Ints, good: Bools, why: str, field: str, actual: Ints | Bytes | None = None) -> None:
        """`actual`: values for the error of the first bad row."""
        if not good.all():
            first = int(np.argmin(good))
            raise Unreadable(int(rows[first]), why if actual is None else f"{why}: {int(actual[first])}", field)

    def _within(self, rows: Ints, at: Ints, field: str) -> None:
        self.check(rows, at <= self.ends[rows], "the value ends too early", field)

    def _move(self, rows: Ints, at: Ints, field: str) -> None:
        self._within(rows, at, field)
        self.at[rows] = at
