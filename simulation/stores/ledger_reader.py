"""Readers of the ledger engine in memory: they see acknowledged or sealed entries, which never change.

If a ledger is deleted, its readers end with NoSuchLedger. They trust `LedgerMemory` and change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import Misuse, NoSuchEntry, NoSuchLedger
from magnetar.ledger.cut_points import CutPoints, CutRequest, within
from magnetar.ledger.run import Run
from simulation.stores.ledger_memory import StoredLedger

if TYPE_CHECKING:
    from simulation.stores.ledgers import MemoryLedgers


class MemoryReader:
    def __init__(self, store: MemoryLedgers, stored: StoredLedger) -> None:
        self.ledger = stored.ledger
        self._store = store
        self._stored = stored
        self._known = stored.last_entry if store.readers_lag else None

    @property
    def last_entry(self) -> int:
        return self._stored.last_entry if self._known is None else self._known

    @property
    def sealed(self) -> bool:
        return self._stored.sealed

    async def read(self, first: int, last: int, bytes_max: int) -> Run:
        await self._check(first, last)
        self._store.reads += 1
        stop, size = first, 0
        while stop <= min(last, self.last_entry):
            size += len(self._stored.entries[stop])
            if size > bytes_max and stop > first:
                break
            stop += 1
        body = self._stored.entries[first:stop]
        counts = self._stored.counts[first:stop]
        offsets = [0]
        for entry in body:
            offsets.append(offsets[-1] + len(entry))
        return Run(b"".join(body), offsets, counts, sum(counts), self.ledger, first)

    async def count(self, first: int, last: int) -> tuple[int, int]:
        await self._check(first, last)
        stored = self._stored
        return sum(stored.counts[first : last + 1]), sum(map(len, stored.entries[first : last + 1]))

    async def cuts(self, first: int, last: int, want: CutRequest) -> CutPoints:
        await self._check(0, last)
        stored, stop = self._stored, min(last, self.last_entry) + 1
        before = sum(stored.counts[:first]), sum(map(len, stored.entries[:first]))
        return within(stored.counts[first:stop], [*map(len, stored.entries[first:stop])], first, before, want)

    def at_once(self, first: int, last: int, cuts_max: int) -> tuple[tuple[int, int], CutPoints] | None:
        if self.ledger not in self._store.memory.ledgers or not 0 <= first <= last <= self.last_entry:
            return None
        counts, sizes = self._stored.counts, [*map(len, self._stored.entries[: last + 1])]
        before = sum(counts[:first]), sum(sizes[:first])
        return before, within(counts[first : last + 1], sizes[first:], first, before, CutRequest(None, None, cuts_max))

    async def _check(self, first: int, last: int) -> None:
        if not 0 <= first <= last:
            raise Misuse("a read goes from an entry to one that is not before it", first=first, last=last)
        await self._store.travel()
        if self.ledger not in self._store.memory.ledgers:
            raise NoSuchLedger("the ledger was deleted", ledger=self.ledger)
        if first > self.last_entry:
            raise NoSuchEntry("the ledger ends before this entry", ledger=self.ledger, entry=first)
