"""A ledger store in memory for several brokers in one process: one handle for each broker, in the broker's thread.

Entries are stored when `append` is called, and acknowledged in a later turn of the writer's loop. A recovery by another
handle seals the ledger under the same lock. The writer then refuses every run that it has not acknowledged; the
recovered ledger may contain such a run, as the contract allows. Data ends with the process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from magnetar.base.errors import Closed, Fenced, MagnetarError, Misuse, NoSuchEntry, NoSuchLedger
from magnetar.base.limits import RUN_BYTES_MAX
from magnetar.ledger.cut_points import CutPoints, CutRequest, within
from magnetar.ledger.run import Run
from magnetar.ledger.store import Done, LedgerInfo, Quorum


@dataclass(slots=True)
class StoredLedger:
    ledger: int
    custom: dict[str, str]
    entries: list[bytes] = field(default_factory=list, repr=False)
    counts: list[int] = field(default_factory=list)
    acknowledged: int = 0  # entries; all of them once it is sealed
    sealed: bool = False
    deleted: bool = False

    @property
    def last_entry(self) -> int:
        return (len(self.entries) if self.sealed else self.acknowledged) - 1

    def seal(self, entries: int) -> None:
        del self.entries[entries:]
        del self.counts[entries:]
        self.sealed = True


class SharedLedgers:
    """The stored ledgers. `lock`, a lock of threads, is held for every access."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self.lock = lock
        self.ledgers: dict[int, StoredLedger] = {}
        self.created = 0

    def find(self, ledger: int) -> StoredLedger:
        stored = self.ledgers.get(ledger)
        if stored is None:
            raise NoSuchLedger("the ledger does not exist", ledger=ledger)
        return stored


class MemoryLedgerStore:
    def __init__(self, shared: SharedLedgers) -> None:
        self._shared = shared
        self._writers: list[MemoryLedgerWriter] = []
        self._closed = False

    @property
    def entry_bytes_max(self) -> int:
        return RUN_BYTES_MAX

    @property
    def copies_max(self) -> int:
        return 1

    async def create(self, custom: dict[str, str], quorum: Quorum | None = None) -> MemoryLedgerWriter:
        await self._turn()
        with self._shared.lock:
            self._shared.created += 1
            stored = StoredLedger(self._shared.created, dict(custom))
            self._shared.ledgers[stored.ledger] = stored
        self._writers = [writer for writer in self._writers if writer.dead is None]
        self._writers.append(MemoryLedgerWriter(self._shared, stored))
        return self._writers[-1]

    async def open(self, ledger: int, *, recover: bool) -> MemoryLedgerReader:
        await self._turn()
        with self._shared.lock:
            stored = self._shared.find(ledger)
            if recover and not stored.sealed:
                stored.seal(len(stored.entries))
        return MemoryLedgerReader(self._shared, stored)

    async def delete(self, ledger: int) -> None:
        await self._turn()
        with self._shared.lock:
            stored = self._shared.ledgers.pop(ledger, None)
            if stored is not None:
                stored.deleted = True

    async def info(self, ledger: int) -> LedgerInfo:
        await self._turn()
        with self._shared.lock:
            stored = self._shared.find(ledger)
            return LedgerInfo(ledger, stored.sealed, stored.last_entry, dict(stored.custom))

    async def list(self, custom: dict[str, str], *, after: int = -1, limit: int | None = None) -> list[int]:
        await self._turn()
        pairs = custom.items()
        with self._shared.lock:
            numbers = [number for number, each in self._shared.ledgers.items() if pairs <= each.custom.items()]
        return sorted(number for number in numbers if number > after)[:limit]

    async def close(self) -> None:
        for writer in self._writers:
            if writer.dead is None:
                try:
                    await writer.close()
                except (Fenced, NoSuchLedger):
                    pass  # the ledger belongs to another broker, or does not exist any more
        self._closed = True

    async def _turn(self) -> None:
        await asyncio.sleep(0)  # lets others run first, as a store behind a socket does
        if self._closed:
            raise Closed("the ledger store is closed")


class MemoryLedgerWriter:
    def __init__(self, shared: SharedLedgers, stored: StoredLedger) -> None:
        self.ledger = stored.ledger
        self.dead: MagnetarError | None = None
        self._shared = shared
        self._stored = stored
        self._loop = asyncio.get_running_loop()
        self._pending: deque[tuple[Run, Done]] = deque()
        self._next = 0
        self._lac = -1
        self._length = 0

    @property
    def lac(self) -> int:
        return self._lac

    @property
    def length(self) -> int:
        return self._length

    def append(self, run: Run, done: Done) -> None:
        if not len(run):
            raise Misuse("a run must have at least one entry", ledger=self.ledger)
        run.ledger, run.first = self.ledger, self._next
        self._next += len(run)
        with self._shared.lock:
            if self.dead is None and self._refusal() is None:
                self._stored.entries += [bytes(run.entry(index)) for index in range(len(run))]
                self._stored.counts += run.counts
        self._pending.append((run, done))
        self._loop.call_soon(self._complete)

    async def close(self) -> None:
        await asyncio.sleep(0)
        if self.dead is not None:
            if isinstance(self.dead, Closed):
                return
            raise self.dead
        with self._shared.lock:
            refusal = self._refusal()
            if refusal is None:
                self._stored.seal(self._lac + 1)
        self.dead = refusal or Closed("the writer is closed", ledger=self.ledger)
        if refusal is not None:
            raise refusal

    def _complete(self) -> None:
        """Acknowledges the oldest run, or refuses it."""
        run, done = self._pending.popleft()
        if self.dead is None:
            with self._shared.lock:
                self.dead = self._refusal()
                if self.dead is None:
                    self._stored.acknowledged += len(run)
        if self.dead is not None:
            done(-1, self.dead)
            return
        self._lac += len(run)
        self._length += run.size
        done(run.first, None)

    def _refusal(self) -> MagnetarError | None:
        if self._stored.deleted:
            return NoSuchLedger("the ledger was deleted", ledger=self.ledger)
        if self._stored.sealed:
            return Fenced("another broker recovered this ledger", ledger=self.ledger)
        return None


class MemoryLedgerReader:
    def __init__(self, shared: SharedLedgers, stored: StoredLedger) -> None:
        self.ledger = stored.ledger
        self._shared = shared
        self._stored = stored

    @property
    def last_entry(self) -> int:
        return self._stored.last_entry

    @property
    def sealed(self) -> bool:
        return self._stored.sealed

    async def read(self, first: int, last: int, bytes_max: int) -> Run:
        stop = await self._stop(first, last)
        entries: list[bytes] = []
        size = 0
        for entry in self._stored.entries[first:stop]:
            size += len(entry)
            if size > bytes_max and entries:
                break
            entries.append(entry)
        counts = self._stored.counts[first : first + len(entries)]
        offsets = [0]
        for entry in entries:
            offsets.append(offsets[-1] + len(entry))
        return Run(b"".join(entries), offsets, counts, sum(counts), self.ledger, first)

    async def count(self, first: int, last: int) -> tuple[int, int]:
        stop = await self._stop(first, last)
        return sum(self._stored.counts[first:stop]), sum(map(len, self._stored.entries[first:stop]))

    async def cuts(self, first: int, last: int, want: CutRequest) -> CutPoints:
        stop = await self._stop(0, last)
        stored = self._stored
        before = sum(stored.counts[:first]), sum(map(len, stored.entries[:first]))
        return within(stored.counts[first:stop], [*map(len, stored.entries[first:stop])], first, before, want)

    def at_once(self, first: int, last: int, cuts_max: int) -> tuple[tuple[int, int], CutPoints] | None:
        stored = self._stored
        if stored.deleted or not 0 <= first <= last <= stored.last_entry:
            return None
        counts, sizes = stored.counts, [*map(len, stored.entries[: last + 1])]
        before = sum(counts[:first]), sum(sizes[:first])
        return before, within(counts[first : last + 1], sizes[first:], first, before, CutRequest(None, None, cuts_max))

    async def _stop(self, first: int, last: int) -> int:
        """The end of the range, exclusive: entries below it never change."""
        if not 0 <= first <= last:
            raise Misuse("a read goes from an entry to one that is not before it", first=first, last=last)
        await asyncio.sleep(0)
        with self._shared.lock:
            if self._stored.deleted:
                raise NoSuchLedger("the ledger was deleted", ledger=self.ledger)
            end = self._stored.last_entry
        if first > end:
            raise NoSuchEntry("the ledger ends before this entry", ledger=self.ledger, entry=first)
        return min(last, end) + 1
