"""The places of the entries of one ledger: one item for each record, searched by bisection.

The newest items are five plain columns with the totals before a record (entries, messages, bytes), so that two
subtractions count any range of whole records. Older ones are packed into blocks, which cost a few bytes an item. The
index decides nothing about durability: it takes every added record for durable. Entries that the journal lost to damage
are listed as a record in segment 0, which does not exist: reading them is Corrupt, not "no such entry".
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from magnetar.base.limits import INDEX_PLAIN_ITEMS_MAX
from magnetar.ledger.cut_points import CutPoints, chosen
from magnetar.ledger.local.blocks import ITEMS, IndexBlock, Item

LOST = 0  # the segment of entries whose record was destroyed


class LedgerIndex:
    __slots__ = (
        "_blocks",
        "_bytes_before",
        "_firsts",
        "_messages_before",
        "_moving",
        "_offsets",
        "_packed",
        "_segments",
        "bytes_total",
        "entries_total",
        "messages_total",
    )

    def __init__(self) -> None:
        self._blocks: list[IndexBlock] = []
        self._packed = 0  # items in blocks: the plain columns hold those behind them
        self._moving: dict[int, _Moving] = {}  # blocks of which some items are moved
        self._firsts = array("Q")
        self._segments = array("Q")
        self._offsets = array("I")
        self._messages_before = array("Q")
        self._bytes_before = array("Q")
        self.entries_total = 0
        self.messages_total = 0
        self.bytes_total = 0

    def __len__(self) -> int:
        return self._packed + len(self._firsts)

    def add(self, entries: int, messages: int, body: int, segment: int, offset: int) -> None:
        """The record that follows all others."""
        self._firsts.append(self.entries_total)
        self._segments.append(segment)
        self._offsets.append(offset)
        self._messages_before.append(self.messages_total)
        self._bytes_before.append(self.bytes_total)
        self.entries_total += entries
        self.messages_total += messages
        self.bytes_total += body
        if len(self._firsts) > INDEX_PLAIN_ITEMS_MAX:
            self.pack(INDEX_PLAIN_ITEMS_MAX // 2)

    def pack(self, keep: int = 0) -> None:
        """Pack the oldest plain items, as whole blocks, until about `keep` are left; all of them when it is sealed."""
        stop = max(0, len(self._firsts) - keep) // ITEMS * ITEMS
        for start in range(0, stop, ITEMS):
            self._blocks.append(self._block(start))
        for column in self._columns():
            del column[:stop]
        self._packed += stop

    def _block(self, start: int) -> IndexBlock:
        stop = start + ITEMS
        last = stop == len(self._firsts)
        columns = (self._firsts, self._messages_before, self._bytes_before)
        totals = (self.entries_total, self.messages_total, self.bytes_total)
        steps = []
        for column, total in zip(columns, totals, strict=True):
            edges = [*column[start:stop], total if last else column[stop]]
            steps.append([after - before for before, after in pairwise(edges)])
        before = (columns[0][start], columns[1][start], columns[2][start])
        return IndexBlock(before, steps, self._segments[start:stop], self._offsets[start:stop])

    def _columns(self) -> tuple[array[int], ...]:
        return self._firsts, self._segments, self._offsets, self._messages_before, self._bytes_before

    # One item

    def find(self, entry: int) -> int:
        """The item whose record holds this entry, which must be there."""
        if self._packed and (not self._firsts or entry < self._firsts[0]):
            number = bisect_right(self._blocks, entry, key=_first) - 1
            return number * ITEMS + self._blocks[number].find(entry)
        return self._packed + bisect_right(self._firsts, entry) - 1

    def first(self, item: int) -> int:
        """The first entry of an item; behind the last item, the entry to come."""
        if item < self._packed:
            return self._blocks[item // ITEMS].first_of(item % ITEMS)
        item -= self._packed
        return self._firsts[item] if item < len(self._firsts) else self.entries_total

    def before(self, item: int) -> tuple[int, int, int]:
        """Entries, messages and bytes before an item, or before the end."""
        if item < self._packed:
            return self._blocks[item // ITEMS].before(item % ITEMS)
        item -= self._packed
        if item == len(self._firsts):
            return self.entries_total, self.messages_total, self.bytes_total
        return self._firsts[item], self._messages_before[item], self._bytes_before[item]

    def place(self, item: int) -> tuple[int, int]:
        """The journal segment of an item, and the offset in it."""
        if item < self._packed:
            number, item = divmod(item, ITEMS)
            moving = self._moving.get(number)
            return self._blocks[number].place(item) if moving is None else (moving.segments[item], moving.offsets[item])
        item -= self._packed
        return self._segments[item], self._offsets[item]

    def entries(self, item: int) -> int:
        return self._sizes(item)[0]

    def messages(self, item: int) -> int:
        return self._sizes(item)[1]

    def body(self, item: int) -> int:
        return self._sizes(item)[2]

    def _sizes(self, item: int) -> tuple[int, int, int]:
        if item < self._packed:
            return self._blocks[item // ITEMS].sizes(item % ITEMS)
        (first, messages, size), (first_after, messages_after, size_after) = self.before(item), self.before(item + 1)
        return first_after - first, messages_after - messages, size_after - size

    # Ranges of items

    def items(self, start: int = 0) -> Iterator[Item]:
        """From `start` on. Nothing may be added or moved while it is walked."""
        while start < self._packed:
            number = start // ITEMS
            moving = self._moving.get(number)
            for at, item in enumerate(self._blocks[number].items(start % ITEMS), start % ITEMS):
                yield item if moving is None else item._replace(segment=moving.segments[at], offset=moving.offsets[at])
            start = (number + 1) * ITEMS
        firsts, sizes = self._firsts, self._bytes_before
        last = len(firsts) - 1
        for at in range(start - self._packed, last + 1):
            end, size = (self.entries_total, self.bytes_total) if at == last else (firsts[at + 1], sizes[at + 1])
            yield Item(firsts[at], end - firsts[at], size - sizes[at], self._segments[at], self._offsets[at])

    def whole(self, start: int, stop: int) -> tuple[int, int]:
        """(messages, bytes) of the records in items [start, stop)."""
        if start >= stop:
            return 0, 0
        (_, messages, size), (_, messages_after, size_after) = self.before(start), self.before(stop)
        return messages_after - messages, size_after - size

    def reaching(self, start: int, stop: int, messages: int | None, size: int | None) -> int:
        """The first item behind `start` with at least this many messages or bytes before it; `stop` + 1 if no item up
        to there has."""
        end = stop + 1
        if messages is not None:
            end = min(end, max(start + 1, self._reaching_messages(messages)))
        if size is not None:
            end = min(end, max(start + 1, self._reaching_bytes(size)))
        return end

    def _reaching_messages(self, messages: int) -> int:
        if self._packed and (not self._firsts or messages <= self._messages_before[0]):
            number = max(0, bisect_left(self._blocks, messages, key=_messages) - 1)
            return number * ITEMS + self._blocks[number].reaching_messages(messages)
        return self._packed + bisect_left(self._messages_before, messages)

    def _reaching_bytes(self, size: int) -> int:
        if self._packed and (not self._firsts or size <= self._bytes_before[0]):
            number = max(0, bisect_left(self._blocks, size, key=_bytes) - 1)
            return number * ITEMS + self._blocks[number].reaching_bytes(size)
        return self._packed + bisect_left(self._bytes_before, size)

    def cuts(self, items: list[int]) -> CutPoints:
        """Between records: before each of these items."""
        if not self._packed:
            return self._plain_cuts(items)
        befores = [self.before(item) for item in items]
        return CutPoints(*([before[column] for before in befores] for column in range(3)))

    def between(self, first: int, last: int, cuts_max: int) -> tuple[tuple[int, int], CutPoints] | None:
        """The totals before entry `first`, and cuts up to behind `last`. None: an entry is missing or lies within a
        record, which would have to be read. A plan asks a thousand ledgers in one call, so this code avoids every
        function call that it can."""
        firsts, messages, sizes = self._firsts, self._messages_before, self._bytes_before
        if self._packed and (not firsts or first < firsts[0]):
            return self._between_packed(first, last, cuts_max)
        end = last + 1
        if end == self.entries_total:
            stop, behind, size = len(firsts), self.messages_total, self.bytes_total
        else:
            stop = bisect_left(firsts, end)
            if stop == len(firsts) or firsts[stop] != end:
                return None
            behind, size = messages[stop], sizes[stop]
        start = bisect_left(firsts, first, 0, stop)
        if start == stop or firsts[start] != first:
            return None
        low = start + 1
        if stop - low <= cuts_max:
            cuts = CutPoints(firsts[low:stop].tolist(), messages[low:stop].tolist(), sizes[low:stop].tolist())
        else:
            cuts = self._plain_cuts([start + place for place in chosen(stop - low, cuts_max)])
        cuts[0].append(end)
        cuts[1].append(behind)
        cuts[2].append(size)
        return (messages[start], sizes[start]), cuts

    def _plain_cuts(self, places: list[int]) -> CutPoints:
        firsts, messages, sizes = self._firsts, self._messages_before, self._bytes_before
        return CutPoints(
            [firsts[place] for place in places],
            [messages[place] for place in places],
            [sizes[place] for place in places],
        )

    def _between_packed(self, first: int, last: int, cuts_max: int) -> tuple[tuple[int, int], CutPoints] | None:
        if first < 0 or last >= self.entries_total or first > last:
            return None
        start = self.find(first)
        at, messages, size = self.before(start)
        stop = self.find(last) + 1
        end = self.before(stop)
        if at != first or end[0] != last + 1:
            return None
        cuts = self.cuts([start + place for place in chosen(stop - start - 1, cuts_max)])
        for column, value in zip(cuts, end, strict=True):
            column.append(value)
        return (messages, size), cuts

    def move(self, item: int, segment: int, offset: int) -> None:
        """The record was copied to another place."""
        if item >= self._packed:
            self._segments[item - self._packed] = segment
            self._offsets[item - self._packed] = offset
            return
        number, item = divmod(item, ITEMS)
        moving = self._moving.get(number)
        if moving is None:
            moving = self._moving[number] = _Moving(*self._blocks[number].places())
        moving.segments[item] = segment
        moving.offsets[item] = offset
        moving.moves += 1
        if moving.moves >= ITEMS:
            self._blocks[number].move(moving.segments, moving.offsets)
            del self._moving[number]


class _Moving:
    """The places of a block's items while compaction moves them one by one."""

    __slots__ = ("moves", "offsets", "segments")

    def __init__(self, segments: list[int], offsets: list[int]) -> None:
        self.segments = array("Q", segments)
        self.offsets = array("I", offsets)
        self.moves = 0


def _first(block: IndexBlock) -> int:
    return block.first


def _messages(block: IndexBlock) -> int:
    return block.messages


def _bytes(block: IndexBlock) -> int:
    return block.bytes
