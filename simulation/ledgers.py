"""A ledger engine in memory: keeps the contract, and fails, stalls, crashes and forgets where a test says.

`crash()` is what a process finds afterwards: the same ledgers without their handles, and of the runs still in flight
as many as the test lets land. `fail_append` kills the writer at its next run, `hold` keeps completions back until
`release`, `peer()` is another process on the same ledgers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from magnetar.base.errors import Closed, Fenced, MagnetarError, Misuse, NoSuchEntry, NoSuchLedger
from magnetar.ledger.run import Run
from magnetar.ledger.store import Done, LedgerInfo
from simulation.power import Power


@dataclass(slots=True)
class Stored:
    """What is on the disk, so to speak, of one ledger."""

    ledger: int
    custom: dict[str, str]
    entries: list[bytes] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    sealed: bool = False
    writer: MemoryWriter | None = None

    def land(self, run: Run) -> None:
        self.entries += [bytes(run.entry(index)) for index in range(len(run))]
        self.counts += run.counts

    def seal(self, last_entry: int | None = None) -> None:
        if last_entry is not None:
            del self.entries[last_entry + 1 :]
            del self.counts[last_entry + 1 :]
        self.sealed = True

    @property
    def last_entry(self) -> int:
        """The last one acknowledged, as far as anybody knows."""
        return len(self.entries) - 1 if self.sealed or self.writer is None else self.writer.lac

    @property
    def bytes(self) -> int:
        return sum(map(len, self.entries))


@dataclass(slots=True)
class Shelf:
    """Outlives every handle."""

    ledgers: dict[int, Stored] = field(default_factory=dict)
    created: int = 0


class MemoryLedgers:
    def __init__(self, shelf: Shelf | None = None, power: Power | None = None) -> None:
        self.shelf: Final = shelf if shelf is not None else Shelf()
        self.power = power if power is not None else Power()
        self.create_faults: deque[MagnetarError] = deque()
        self.append_faults: deque[tuple[MagnetarError, bool]] = deque()
        self.recovery_keeps = (
            0  # of the runs in flight, how many a recovery finds: they were not acknowledged, any number is right
        )
        self.readers_lag = False  # a reader knows the end as it was when it was opened: less than the contract promises
        self.held = False
        self.reads = 0
        self._writers: list[MemoryWriter] = []
        self._dead = False

    def peer(self) -> MemoryLedgers:
        return MemoryLedgers(self.shelf)

    def crash(self, *, landed: int = 0, power: Power | None = None) -> MemoryLedgers:
        """This process is gone. Of each writer's runs in flight the first `landed` reached the disk."""
        self._dead = True
        for writer in self._writers:
            for run, _ in list(writer.pending)[:landed]:
                writer.stored.land(run)
            writer.pending.clear()
            writer.dead = Closed("the process is gone")
            writer.stored.writer = None
        return MemoryLedgers(self.shelf, power)

    def fail_append(self, error: MagnetarError, *, landed: bool = False) -> None:
        """The next run fails and its writer dies; `landed`: the entries are on the disk all the same."""
        self.append_faults.append((error, landed))

    def fail_create(self, error: MagnetarError) -> None:
        self.create_faults.append(error)

    def hold(self) -> None:
        self.held = True

    def release(self, runs: int | None = None) -> None:
        """Complete so many of the runs kept back, oldest first of each ledger; all of them ends the holding."""
        if runs is None:
            self.held = False
        for writer in self._writers:
            for _ in range(len(writer.pending) if runs is None else min(runs, len(writer.pending))):
                asyncio.get_running_loop().call_soon(writer.complete)

    @property
    def in_flight(self) -> int:
        return sum(len(writer.pending) for writer in self._writers)

    def forget(self, ledger: int) -> None:
        """The disk lost this ledger: what nobody promised and a test may ask for."""
        del self.shelf.ledgers[ledger]

    async def create(self, custom: dict[str, str]) -> MemoryWriter:
        await self._turn()
        await self.power.gate()
        if self.create_faults:
            raise self.create_faults.popleft()
        self.shelf.created += 1
        stored = Stored(self.shelf.created, dict(custom))
        self.shelf.ledgers[stored.ledger] = stored
        writer = stored.writer = MemoryWriter(self, stored)
        self._writers.append(writer)
        await self.power.gate()
        return writer

    async def open(self, ledger: int, *, recover: bool) -> MemoryReader:
        await self._turn()
        stored = self._find(ledger)
        if recover and not stored.sealed:
            writer = stored.writer
            if writer is not None:
                for run, _ in list(writer.pending)[: self.recovery_keeps]:
                    stored.land(run)
                writer.die(Fenced("another owner recovered this ledger", ledger=ledger))
            stored.seal()
        return MemoryReader(self, stored)

    async def delete(self, ledger: int) -> None:
        await self._turn()
        await self.power.gate()
        stored = self.shelf.ledgers.pop(ledger, None)
        if stored is not None and stored.writer is not None:
            stored.writer.die(NoSuchLedger("the ledger was deleted", ledger=ledger))
        await self.power.gate()

    async def info(self, ledger: int) -> LedgerInfo:
        await self._turn()
        stored = self._find(ledger)
        return LedgerInfo(ledger, stored.sealed, stored.last_entry, stored.bytes, dict(stored.custom))

    async def list(self, custom: dict[str, str]) -> list[int]:
        await self._turn()
        wanted = custom.items()
        return sorted(stored.ledger for stored in self.shelf.ledgers.values() if wanted <= stored.custom.items())

    async def close(self) -> None:
        for writer in self._writers:
            if not writer.stored.sealed:
                await writer.close()
        self._dead = True

    def _find(self, ledger: int) -> Stored:
        stored = self.shelf.ledgers.get(ledger)
        if stored is None:
            raise NoSuchLedger("there is no such ledger", ledger=ledger)
        return stored

    async def _turn(self) -> None:
        if self._dead:
            raise Closed("the ledger store is closed")
        await asyncio.sleep(0)


class MemoryWriter:
    def __init__(self, store: MemoryLedgers, stored: Stored) -> None:
        self.store = store
        self.stored = stored
        self.ledger = stored.ledger
        self.pending: deque[tuple[Run, Done]] = deque()
        self.dead: MagnetarError | None = None
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
            raise Misuse("a run holds at least one entry", ledger=self.ledger)
        if self.store.power.spent():
            return
        loop = asyncio.get_running_loop()
        run.ledger, run.first = self.ledger, self._next
        self._next += len(run)
        if self.dead is not None:
            loop.call_soon(done, -1, self.dead)
            return
        self.pending.append((run, done))
        if not self.store.held:
            loop.call_soon(self.complete)

    def complete(self) -> None:
        if self.dead is not None or not self.pending:
            return
        if self.store.append_faults:
            error, landed = self.store.append_faults.popleft()
            if landed:
                self.stored.land(self.pending[0][0])
            self.die(error)
            return
        run, done = self.pending.popleft()
        self.stored.land(run)
        self._lac += len(run)
        self._length += run.offsets[-1] - run.offsets[0]
        if not self.store.power.spent():
            done(run.first, None)

    def die(self, error: MagnetarError) -> None:
        if self.dead is None:
            self.dead = error
        failed, self.pending = self.pending, deque()
        for _, done in failed:
            asyncio.get_running_loop().call_soon(done, -1, error)

    async def close(self) -> None:
        await asyncio.sleep(0)
        if isinstance(self.dead, Fenced):
            raise self.dead
        if not self.stored.sealed:
            self.stored.seal(self._lac)
        self.die(Closed("the writer is closed", ledger=self.ledger))


class MemoryReader:
    def __init__(self, store: MemoryLedgers, stored: Stored) -> None:
        self.ledger = stored.ledger
        self._store = store
        self._stored = stored
        self._known = stored.last_entry if store.readers_lag else None

    @property
    def last_entry(self) -> int:
        return self._stored.last_entry if self._known is None else self._known

    @property
    def length(self) -> int:
        return sum(map(len, self._stored.entries[: self.last_entry + 1]))

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

    async def _check(self, first: int, last: int) -> None:
        if not 0 <= first <= last:
            raise Misuse("a read goes from an entry to one that is not before it", first=first, last=last)
        await asyncio.sleep(0)
        if self.ledger not in self._store.shelf.ledgers:
            raise NoSuchLedger("the ledger was deleted", ledger=self.ledger)
        if first > self.last_entry:
            raise NoSuchEntry("the ledger ends before this entry", ledger=self.ledger, entry=first)
