"""A packed stretch of a ledger's index: a fixed number of records, each column as narrow as its values allow.

Messages that arrive one by one are one record each, so an index of plain columns costs 36 bytes a message. A block
stores differences instead: a column whose values are all equal is one number, any other one an array of the narrowest
type. A message of constant size that shares the journal with no other ledger costs nothing, most others 2 to 6 bytes.
A block answers without being unpacked, by sums over its columns. Pure; `index` decides what is packed and when.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple, TypeAlias

from magnetar.ledger.local.records import size_of

ITEMS = (
    256  # in each block: sums over 256 items take a microsecond or two, and 350 bytes of objects are little for them
)

_UNSIGNED = (("B", 0xFF), ("H", 0xFFFF), ("I", 0xFFFFFFFF))
_SIGNED = (("b", 0x7F), ("h", 0x7FFF), ("i", 0x7FFFFFFF))

Column: TypeAlias = "int | array[int]"  # one number: that of every item


class Item(NamedTuple):
    """A record of the journal: its first entry, how many entries and bytes, and where it lies."""

    first: int
    entries: int
    body: int
    segment: int
    offset: int


class IndexBlock:
    """`first`, `messages` and `bytes` are those before the first item, from the beginning of the ledger; `steps` the
    entries, messages and bytes of each."""

    __slots__ = (
        "_bodies",
        "_counts",
        "_entries",
        "_gaps",
        "_offset",
        "_segment",
        "_segments",
        "bytes",
        "first",
        "messages",
    )

    def __init__(
        self,
        before: tuple[int, int, int],
        steps: Sequence[Sequence[int]],
        segments: Sequence[int],
        offsets: Sequence[int],
    ) -> None:
        assert len(segments) == len(offsets) == ITEMS, "a block is full"
        self.first, self.messages, self.bytes = before
        entries, counts, bodies = steps
        self._entries = _packed(entries, _UNSIGNED, "Q")
        self._counts = _packed(counts, _UNSIGNED, "Q")
        self._bodies = _packed(bodies, _UNSIGNED, "Q")
        self.move(segments, offsets)

    def move(self, segments: Sequence[int], offsets: Sequence[int]) -> None:
        """Record where the items lie now."""
        self._segment, self._offset = min(segments), offsets[0]
        self._segments = _packed([segment - self._segment for segment in segments], _UNSIGNED, "Q")
        sizes = map(size_of, _values(self._entries), _values(self._bodies))
        gaps = [after - before - size for (before, after), size in zip(pairwise(offsets), sizes, strict=False)]
        self._gaps = _packed(gaps, _SIGNED, "q")

    # One item

    def find(self, entry: int) -> int:
        """The item whose record holds this entry, which must be in the block."""
        distance = entry - self.first
        if isinstance(self._entries, int):
            return distance // self._entries
        return bisect_right(list(accumulate(self._entries)), distance)

    def first_of(self, item: int) -> int:
        return self.first + _sum(self._entries, item)

    def before(self, item: int) -> tuple[int, int, int]:
        """Entries, messages and bytes before an item, from the beginning of the ledger."""
        return (
            self.first + _sum(self._entries, item),
            self.messages + _sum(self._counts, item),
            self.bytes + _sum(self._bodies, item),
        )

    def sizes(self, item: int) -> tuple[int, int, int]:
        """Entries, messages and bytes of an item."""
        return _at(self._entries, item), _at(self._counts, item), _at(self._bodies, item)

    def place(self, item: int) -> tuple[int, int]:
        """The journal segment of an item, and the offset in it."""
        headers = size_of(0, 0) * (item - 1)  # of the records before it, but for the one counted below
        written = size_of(_sum(self._entries, item), _sum(self._bodies, item)) + headers
        return self._segment + _at(self._segments, item), self._offset + written + _sum(self._gaps, item)

    # Many items

    def places(self) -> tuple[list[int], list[int]]:
        """Segments and offsets of all items."""
        sizes = map(size_of, _values(self._entries), _values(self._bodies))
        steps = [size + gap for size, gap in zip(sizes, _values(self._gaps), strict=False)]
        offsets = list(accumulate(steps[: ITEMS - 1], initial=self._offset))
        return [self._segment + segment for segment in _values(self._segments)], offsets

    def items(self, start: int) -> Iterator[Item]:
        """From `start` on."""
        segments, offsets = self.places()
        first = self.first_of(start)
        entries, bodies = _values(self._entries), _values(self._bodies)
        for item in range(start, ITEMS):
            yield Item(first, entries[item], bodies[item], segments[item], offsets[item])
            first += entries[item]

    def reaching_messages(self, messages: int) -> int:
        """The first item with at least this many messages before it; ITEMS if no item has."""
        return bisect_left(list(accumulate(_values(self._counts)[:-1], initial=self.messages)), messages)

    def reaching_bytes(self, size: int) -> int:
        return bisect_left(list(accumulate(_values(self._bodies)[:-1], initial=self.bytes)), size)


def _packed(values: Sequence[int], codes: Sequence[tuple[str, int]], widest: str) -> Column:
    low, high = min(values), max(values)
    if low == high:
        return low
    most = max(high, -low - 1)
    return array(next((code for code, limit in codes if most <= limit), widest), values)


def _values(column: Column) -> Sequence[int]:
    return list(repeat(column, ITEMS)) if isinstance(column, int) else column


def _sum(column: Column, count: int) -> int:
    return column * count if isinstance(column, int) else sum(column[:count])


def _at(column: Column, item: int) -> int:
    return column if isinstance(column, int) else column[item]
