"""Where the entries of one ledger lie: five columns with one item for each record, searched by bisection.

The columns hold what came before a record (entries, messages, bytes), so that any range of whole records is counted by
two subtractions. It decides nothing about durability: what is added here is taken for durable. Entries that the journal
lost to damage stand as a record in segment 0, which is no segment: reading there is Corrupt, not "no such entry".
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from magnetar.ledger.cuts import Cuts, chosen

LOST = 0  # the segment of entries whose record was destroyed


class LedgerIndex:
    __slots__ = (
        "bytes_before",
        "bytes_total",
        "entries_total",
        "firsts",
        "messages_before",
        "messages_total",
        "offsets",
        "segments",
    )

    def __init__(self) -> None:
        self.firsts = array("Q")
        self.segments = array("Q")
        self.offsets = array("I")
        self.messages_before = array("Q")
        self.bytes_before = array("Q")
        self.entries_total = 0
        self.messages_total = 0
        self.bytes_total = 0

    def __len__(self) -> int:
        return len(self.firsts)

    def add(self, entries: int, messages: int, body: int, segment: int, offset: int) -> None:
        """The record that follows all others."""
        self.firsts.append(self.entries_total)
        self.segments.append(segment)
        self.offsets.append(offset)
        self.messages_before.append(self.messages_total)
        self.bytes_before.append(self.bytes_total)
        self.entries_total += entries
        self.messages_total += messages
        self.bytes_total += body

    def find(self, entry: int) -> int:
        """The item whose record holds this entry, which must be there."""
        return bisect_right(self.firsts, entry) - 1

    def entries(self, item: int) -> int:
        after = self.firsts[item + 1] if item + 1 < len(self.firsts) else self.entries_total
        return after - self.firsts[item]

    def messages(self, item: int) -> int:
        after = self.messages_before[item + 1] if item + 1 < len(self.firsts) else self.messages_total
        return after - self.messages_before[item]

    def body(self, item: int) -> int:
        after = self.bytes_before[item + 1] if item + 1 < len(self.firsts) else self.bytes_total
        return after - self.bytes_before[item]

    def whole(self, start: int, stop: int) -> tuple[int, int]:
        """(messages, bytes) of the records in items [start, stop)."""
        if start >= stop:
            return 0, 0
        last = stop == len(self.firsts)
        messages = self.messages_total if last else self.messages_before[stop]
        size = self.bytes_total if last else self.bytes_before[stop]
        return messages - self.messages_before[start], size - self.bytes_before[start]

    def reaching(self, start: int, stop: int, messages: int | None, size: int | None) -> int:
        """The first item behind `start` that has at least so many messages or bytes before it; `stop` + 1: none has up
        to there."""
        found = stop + 1
        if messages is not None:
            found = min(found, bisect_left(self.messages_before, messages, start + 1, stop + 1))
        if size is not None:
            found = min(found, bisect_left(self.bytes_before, size, start + 1, stop + 1))
        return found

    def cuts(self, items: list[int]) -> Cuts:
        """Between records: before each of these items."""
        firsts, messages, sizes = self.firsts, self.messages_before, self.bytes_before
        return Cuts(
            [firsts[item] for item in items], [messages[item] for item in items], [sizes[item] for item in items]
        )

    def between(self, first: int, last: int, cuts_max: int) -> tuple[tuple[int, int], Cuts] | None:
        """What came before entry `first`, and cuts up to behind `last`. None: one of them is not there, or lies within
        a record, which would have to be read. A plan asks a thousand ledgers in one breath: no call that can be
        spared."""
        firsts, messages, sizes = self.firsts, self.messages_before, self.bytes_before
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
            cuts = Cuts(firsts[low:stop].tolist(), messages[low:stop].tolist(), sizes[low:stop].tolist())
        else:
            cuts = self.cuts([start + place for place in chosen(stop - low, cuts_max)])
        cuts[0].append(end)
        cuts[1].append(behind)
        cuts[2].append(size)
        return (messages[start], sizes[start]), cuts

    def move(self, item: int, segment: int, offset: int) -> None:
        self.segments[item] = segment
        self.offsets[item] = offset
