"""A reader of runs: takes the counts off the stored entries, and counts by the totals that entries carry.

Two entries give the messages and bytes between them, so a count does not read the entries between. Places that were
read once stay in the index of the ledger. A ledger of another program has no counts: it is counted by reading it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from magnetar.base.errors import Misuse, NoSuchEntry
from magnetar.base.limits import (
    COUNT_PROBES_AT_ONCE_MAX,
    COUNT_PROBES_MAX,
    COUNT_READ_BYTES_MAX,
    PLAN_FINE_BYTES,
)
from magnetar.ledger.bookkeeper.engine.counted_entry import (
    BLOCK_BYTES_MAX,
    UNCOUNTED,
    CountOf,
    decode_entries,
    decode_entry,
)
from magnetar.ledger.bookkeeper.engine.shared_ledger import SharedLedger
from magnetar.ledger.bookkeeper.ledger_reader import LedgerReader
from magnetar.ledger.cut_points import CutPoints, CutRequest
from magnetar.ledger.run import Run

_SLACK_ENTRIES_MAX = 1_000  # entries with a block of counts for which a read asks for more bytes than its caller


class BookKeeperReader:
    __slots__ = ("_count_of", "_entries", "_shared", "ledger")

    def __init__(self, shared: SharedLedger, entries: Callable[[], LedgerReader], count_of: CountOf) -> None:
        """`entries`: the reader of the client, which follows a writer of this process."""
        self.ledger = shared.ledger
        self._shared = shared
        self._entries = entries
        self._count_of = count_of

    @property
    def last_entry(self) -> int:
        return self._shared.last_entry

    @property
    def sealed(self) -> bool:
        return self._shared.sealed

    async def read(self, first: int, last: int, bytes_max: int) -> Run:
        last = self._range(first, last)
        runs: list[Run] = []
        at, left = first, bytes_max
        while at <= last and (left > 0 or not runs):  # the client may return less than it may
            slack = min(last + 1 - at, _SLACK_ENTRIES_MAX) * BLOCK_BYTES_MAX
            entries = await self._entries().read(at, last, max(0, left) + slack)
            self._shared.check()
            stored = [entry.payload for entry in entries]
            run = decode_entries(stored, self.ledger, at, count_of=self._count_of, bytes_max=left)
            if runs and run.size > left:
                break
            runs.append(run)
            at, left = at + len(run), left - run.size
            if len(run) < len(stored):
                break
        return _joined(runs)

    async def count(self, first: int, last: int) -> tuple[int, int]:
        last = self._range(first, last)
        before, behind = await asyncio.gather(self._place(first), self._place(last + 1))
        self._shared.check()
        return behind[0] - before[0], behind[1] - before[1]

    async def cuts(self, first: int, last: int, want: CutRequest) -> CutPoints:
        if first > self._shared.last_entry:
            return CutPoints([], [], [])
        end = self._range(first, last) + 1
        await self._place(end)
        index = self._shared.index
        if want.messages is not None or want.bytes is not None:
            await self._narrow(first, end, want)
        stop = index.gap(first, end, want)[1]
        missing = index.missing(first, stop, min(want.cuts_max, COUNT_PROBES_MAX))
        for start in range(0, len(missing), COUNT_PROBES_AT_ONCE_MAX):
            await self._places(missing[start : start + COUNT_PROBES_AT_ONCE_MAX])
        self._shared.check()
        return index.cuts(first, end, want)

    def at_once(self, first: int, last: int, cuts_max: int) -> tuple[tuple[int, int], CutPoints] | None:
        shared, end = self._shared, last + 1
        if shared.deleted or not 0 <= first <= last <= shared.last_entry:
            return None
        before = shared.index.find(first)
        if before is None or shared.index.find(end) is None:
            return None
        if shared.index.missing(first, end, min(cuts_max, COUNT_PROBES_MAX)):
            return None
        return before, shared.index.cuts(first, end, CutRequest(None, None, cuts_max))

    # Places

    async def _narrow(self, first: int, end: int, want: CutRequest) -> None:
        """Reads entries around the limit until the known places about it are near each other."""
        for _ in range(COUNT_PROBES_MAX // COUNT_PROBES_AT_ONCE_MAX):
            low, high, size = self._shared.index.gap(first, end, want)
            if high - low < 2 or size <= PLAN_FINE_BYTES:
                return
            parts = COUNT_PROBES_AT_ONCE_MAX + 1
            places = {low + (high - low) * part // parts for part in range(1, parts)}
            await self._places(sorted(place for place in places if low < place < high))

    async def _places(self, places: list[int]) -> None:
        await asyncio.gather(*(self._place(place) for place in places))

    async def _place(self, place: int) -> tuple[int, int]:
        """The messages and bytes before this place: known, or from the entry before it."""
        counts = self._shared.index.find(place)
        if counts is not None:
            return counts
        (entry,) = await self._entries().read(place - 1, place - 1, 0)
        _, _, messages, size = decode_entry(entry.payload)
        if messages == UNCOUNTED:
            messages, size = await self._measured(place)
        self._shared.check()
        self._shared.index.learn(place, messages, size)
        return messages, size

    async def _measured(self, place: int) -> tuple[int, int]:
        """The same of a ledger without stored counts, from the nearest known place on."""
        at, messages, size = self._shared.index.below(place)
        while at < place:
            run = await self.read(at, place - 1, COUNT_READ_BYTES_MAX)
            at, messages, size = at + len(run), messages + run.messages, size + run.size
        return messages, size

    def _range(self, first: int, last: int) -> int:
        """The last entry to read."""
        self._shared.check()
        if not 0 <= first <= last:
            raise Misuse("the first entry must be 0 or greater, and the last must not be before the first", first=first)
        if first > self._shared.last_entry:
            raise NoSuchEntry("the entry is past the last one of the ledger", ledger=self.ledger, entry=first)
        return min(last, self._shared.last_entry)


def _joined(runs: list[Run]) -> Run:
    """Runs that follow each other as one."""
    if len(runs) == 1:
        return runs[0]
    offsets, counts = [0], [count for run in runs for count in run.counts]
    for run in runs:
        start = offsets[-1]
        offsets += [start + offset for offset in run.offsets[1:]]
    body = b"".join(run.body for run in runs)
    return Run(body, offsets, counts, sum(counts), runs[0].ledger, runs[0].first)
