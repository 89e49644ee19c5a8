"""Locates the items of Avro's arrays and maps, so that the items of all rows are decoded together like rows.

Items of fixed width are located by arithmetic, and numbers by a search for their last bytes. Other items begin where
the previous one ends. While many rows have remaining items, the rows advance together; a short loop without allocations
scans the rest of a few long ones. If an item cannot be skipped, the reader gets it and reports the error. Counts are
untrusted: the number of items without bytes is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from magnetar.base.limits import SPARK_EMPTY_ITEMS_MAX
from magnetar.spark.read.batch_scanner import Ints
from magnetar.spark.values.avro_cursor import RowCursors
from magnetar.spark.values.avro_schema import ArrayType, EnumType, Fixed, MapType, Node, Record, Scalar, Union
from magnetar.spark.values.value_schema import Unreadable

Read = Callable[[RowCursors, Ints], Any]  # result for many rows; a list of columns if it reads items
# the position after the value; IndexError or a position beyond the end means a truncated value
Skip = Callable[[bytes, int], int]

# Thresholds measured on items of one number, of one text, and of three fields.
_MANY = 2000  # number of rows from which reading one item of each is faster than locating all items first
_FEW = 160  # number of rows below which a step over one item of each is slower than a loop over the items of one row
_SCANNED_BYTES = 64  # buffer bytes per searched number above which steps are faster
_SCANNED_ITEMS = 4  # numbers per row below which steps are faster, if the block has many rows
_MASK = (1 << 64) - 1
_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}


@dataclass(frozen=True, slots=True)
class ArrayBlock:
    """Consecutive items of some rows: the number per row, and the decoded items."""

    rows: Ints  # positions among the requested rows
    counts: Ints
    made: list[Any]


class ArrayReader:
    """Reads one array or map of a schema. `nodes` are the types of an item; `past` skips one item."""

    def __init__(self, nodes: Sequence[Node], past: Read, path: str) -> None:
        self._width = _total([_width(one) for one in nodes])
        self._numbers = _total([_numbers(one) for one in nodes])
        self._skip = _all([_skip(one) for one in nodes])
        self._past = past
        self._path = path

    def read(self, walk: RowCursors, rows: Ints, read: Read) -> list[ArrayBlock]:
        """The items of the first blocks of all rows, then of the second blocks, and so on."""
        blocks: list[ArrayBlock] = []
        going, empty_max = np.arange(len(rows)), SPARK_EMPTY_ITEMS_MAX
        while going.size:
            going, counts = self._counted(walk, rows, going, empty_max)
            empty_max -= int(counts.sum()) if self._width == 0 else 0
            left = going
            while self._side_by_side(walk, counts):
                blocks.append(ArrayBlock(left, np.ones_like(left), read(walk, rows[left])))
                left, counts = left[counts > 1], counts[counts > 1] - 1
            if left.size:
                blocks.append(ArrayBlock(left, counts, self._together(walk, rows[left], counts, read)))
        return blocks

    def passed(self, walk: RowCursors, rows: Ints) -> None:
        going = np.arange(len(rows))
        while going.size:
            going, counts = self._counted(walk, rows, going)
            left = rows[going]
            if self._width is not None:
                walk.at[left] += counts * self._width
                continue
            while self._side_by_side(walk, counts):
                self._past(walk, left)
                left, counts = left[counts > 1], counts[counts > 1] - 1
            if left.size:
                walk.at[left] = self._starts(walk, left, counts, self._past)[np.cumsum(counts) - 1]
                self._past(walk, left)

    def _side_by_side(self, walk: RowCursors, counts: Ints) -> bool:
        """Whether to read the next item of all rows from the current positions."""
        if not counts.size or (counts == 1).all():
            return bool(counts.size)
        if self._width is not None or counts.size < _MANY:
            return False
        return not self._scans(walk, counts) or int(counts.sum()) < _SCANNED_ITEMS * counts.size

    def _scans(self, walk: RowCursors, counts: Ints) -> bool:
        return bool(self._numbers) and len(walk.buffer) <= _SCANNED_BYTES * int(counts.sum() - len(counts))

    def _together(self, walk: RowCursors, rows: Ints, counts: Ints, read: Read) -> Any:
        """Decodes all items of a block together, as if each were a row."""
        starts, owners = self._starts(walk, rows, counts, read), np.repeat(rows, counts)
        inside = walk.inside(starts, walk.ends[owners])
        values = _told(inside, read, owners)
        last = np.cumsum(counts) - 1
        follow = np.append(inside.at[:-1] == starts[1:], True)
        follow[last] = True
        walk.check(owners, follow, "its items are not contiguous", self._path)
        walk.at[rows] = inside.at[last]
        return values

    def _counted(self, walk: RowCursors, rows: Ints, left: Ints, empty_max: int | None = None) -> tuple[Ints, Ints]:
        """The rows whose next block has items, and the number of items. `empty_max` limits items without bytes, if they
        are decoded.
        """
        block_counts = walk.int64(rows[left], self._path)
        sized = np.flatnonzero(block_counts < 0)
        if sized.size:  # a negative count is followed by the block's size in bytes, for readers that skip it
            walk.int64(rows[left[sized]], self._path)
        counts = np.abs(block_counts)  # the lowest number has no positive counterpart and stays negative
        fits, why = counts >= 0, "it has more items than bytes"
        if self._width != 0:
            room = walk.ends[rows[left]] - walk.at[rows[left]]
            fits &= counts <= room // (self._width or self._numbers or 1)
        elif empty_max is not None:
            fits &= counts <= SPARK_EMPTY_ITEMS_MAX
            fits &= np.cumsum(np.where(fits, counts, 0)) <= empty_max
            why = f"it has more than {SPARK_EMPTY_ITEMS_MAX} items without bytes in rows that are read together"
        walk.check(rows[left], fits, why, self._path, block_counts)
        return left[counts > 0], counts[counts > 0]

    def _starts(self, walk: RowCursors, rows: Ints, counts: Ints, read: Read) -> Ints:
        """The start of the items of a block, row by row."""
        if self._width is not None:
            return np.repeat(walk.at[rows], counts) + _within(counts) * self._width
        try:
            if self._numbers and self._scans(walk, counts):
                return _by_numbers(walk, rows, counts, self._numbers)
            return self._one_by_one(walk, rows, counts)
        except _Torn as torn:
            owner = rows[torn.place : torn.place + 1]
            _told(walk.inside(np.array([torn.start]), walk.ends[owner]), read, owner)
            raise Unreadable(int(owner[0]), "the boundaries of its items cannot be found", self._path) from None

    def _one_by_one(self, walk: RowCursors, rows: Ints, counts: Ints) -> Ints:
        """Steps over one item of every row until few rows have any left. Advances these rows."""
        first = np.cumsum(counts) - counts
        starts = np.empty(int(counts.sum()), np.int64)
        going, done = np.arange(len(rows)), 0
        while going.size >= _FEW:
            starts[first[going] + done] = walk.at[rows[going]]
            done += 1
            going = going[counts[going] > done]
            self._past(walk, rows[going])
        for place in going.tolist():
            starts[first[place] + done : first[place] + counts[place]] = _scanned(
                self._skip, walk, rows, place, int(counts[place]) - done
            )
        return starts


def gathered(blocks: Sequence[ArrayBlock], count: int, kinds: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Items in the order of their rows, and the first item of each of `count` rows."""
    totals = np.zeros(count + 1, np.int64)
    for block in blocks:
        totals[block.rows + 1] += block.counts
    offsets = np.cumsum(totals)
    if len(blocks) < 2:
        return _int32(offsets), blocks[0].made if blocks else [pa.array([], kind) for kind in kinds]
    order = np.empty(int(offsets[-1]), np.int64)
    free, done = offsets[:-1].copy(), 0  # position for the next item of each row
    for block in blocks:
        places = np.repeat(free[block.rows], block.counts) + _within(block.counts)
        order[places] = np.arange(done, done + len(places))
        free[block.rows] += block.counts
        done += len(places)
    columns = zip(*(block.made for block in blocks), strict=True)
    return _int32(offsets), [pa.concat_arrays(list(column)).take(pa.array(order)) for column in columns]


def _int32(offsets: Ints) -> Any:
    return pa.array(offsets.astype(np.int32))


class _Torn(Exception):
    """A row has a truncated item at this position."""

    def __init__(self, place: int, start: int) -> None:
        self.place = place
        self.start = start


def _told(inside: RowCursors, read: Read, owners: Ints) -> Any:
    """Decodes items; an error of an item becomes an error of its row."""
    try:
        return read(inside, inside.everything())
    except Unreadable as error:
        raise Unreadable(int(owners[error.row]), error.what, error.field) from None


def _within(counts: Ints) -> Ints:
    """0, 1, 2... for each."""
    offsets: Ints = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return offsets


def _by_numbers(walk: RowCursors, rows: Ints, counts: Ints, each: int) -> Ints:
    """For items of a fixed count of numbers: the last byte of a number is below 128."""
    at = walk.at[rows]
    first = walk.numbers_before[at]
    there = walk.numbers_before[walk.ends[rows]] - first
    short = np.flatnonzero(there < (counts - 1) * each)
    if short.size:
        place = int(short[0])
        whole = int(there[place]) // each * each
        raise _Torn(place, int(walk.number_ends[first[place] + whole - 1]) + 1 if whole else int(at[place]))
    starts: Ints = np.take(walk.number_ends, np.repeat(first, counts) + _within(counts) * each - 1, mode="clip") + 1
    starts[np.cumsum(counts) - counts] = at
    return starts


def _scanned(skip: Skip, walk: RowCursors, rows: Ints, place: int, count: int) -> Ints:
    """The start of the given number of items in one row."""
    begin = int(walk.at[rows[place]])
    data = walk.buffer[begin : int(walk.ends[rows[place]])].tobytes()
    starts = [0]
    at = 0
    try:
        for _ in range(count - 1):
            at = skip(data, at)
            starts.append(at)
    except IndexError:
        at = len(data) + 1
    if at > len(data):
        raise _Torn(place, begin + max(one for one in starts if one <= len(data)))
    return begin + np.array(starts, np.int64)


def _total(parts: Sequence[int | None]) -> int | None:
    return None if None in parts else sum(one for one in parts if one is not None)


def _width(node: Node) -> int | None:
    """The bytes of each value if all have the same width."""
    match node:
        case Scalar(kind=kind):
            return _WIDTHS.get(kind)
        case Fixed(size=size):
            return size
        case Record(fields=fields):
            return _total([_width(one.type) for one in fields])
    return None


def _numbers(node: Node) -> int | None:
    """The count of numbers in each value if it contains only numbers."""
    match node:
        case Scalar(kind="int" | "long") | EnumType():
            return 1
        case Record(fields=fields):
            return _total([_numbers(one.type) for one in fields])
    return 0 if _width(node) == 0 else None


def _skip(node: Node) -> Skip:
    width = _width(node)
    if width is not None:
        return lambda data, at: at + width
    match node:
        case Scalar(kind="int" | "long") | EnumType():
            return _past_number
        case Record(fields=fields):
            return _all([_skip(one.type) for one in fields])
        case ArrayType(items=items):
            return _past_blocks((items,))
        case MapType(values=values):
            return _past_blocks((Scalar("string"), values))
        case Union(branches=branches):
            ways = [_skip(one) for one in branches]

            def branch(data: bytes, at: int) -> int:
                number, at = _number(data, at)
                return ways[number](data, at)  # also skips a negative length; the reader rejects it

            return branch
    return _past_run


def _all(parts: Sequence[Skip]) -> Skip:
    if len(parts) == 1:
        return parts[0]

    def skip(data: bytes, at: int) -> int:
        for part in parts:
            at = part(data, at)
        return at

    return skip


def _past_blocks(nodes: Sequence[Node]) -> Skip:
    width, skip = _total([_width(one) for one in nodes]), _all([_skip(one) for one in nodes])

    def blocks(data: bytes, at: int) -> int:
        while True:
            count, at = _number(data, at)
            if count == 0:
                return at
            if count < 0:
                count, at = -count, _past_number(data, at)
            if width is not None:
                at += count * width
                continue
            for _ in range(count):  # each item takes at least one byte
                at = skip(data, at)

    return blocks


def _past_number(data: bytes, at: int) -> int:
    while data[at] >= 128:
        at += 1
    return at + 1


def _past_run(data: bytes, at: int) -> int:
    length = data[at]
    if length < 128 and not length & 1:
        return at + 1 + (length >> 1)
    length, at = _number(data, at)
    if length < 0:
        raise IndexError  # a backward step would never end
    return at + length


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            value &= _MASK
            return (value >> 1) ^ -(value & 1), at
    raise IndexError
