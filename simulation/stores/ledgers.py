"""A ledger engine in memory: it keeps the contract, and fails, stalls, crashes and loses data as a test demands.

`crash()` gives the engine that the next process finds: the same ledgers without their handles, with as many of the runs
in flight as the test lets land. `fail_append` kills the writer at its next run. `hold` delays completions until
`release`. `peer()` is another process on the same ledgers. `fault_rates` sets random faults. `outage` takes the bookies
away from all handles, `cut_off` from this one. `memory.counts` has how often each fault happened.

As on a quorum of bookies, a run first lands and is then acknowledged, in the order of the ledger, independently of
other processes. A recovery keeps all landed entries and a random part of those in flight; nothing lands after it. With
`half_run` it may also keep the first entries of a run whose other entries are lost.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable
from operator import sub
from typing import Final

from magnetar.base.errors import (
    Closed,
    Fenced,
    LimitExceeded,
    MagnetarError,
    Misuse,
    NoSuchLedger,
    NotEnoughNodes,
    TimedOut,
)
from magnetar.base.limits import RUN_BYTES_MAX
from magnetar.ledger.run import Run
from magnetar.ledger.store import Done, LedgerInfo, Quorum
from simulation.environment.power import PowerSwitch
from simulation.stores.ledger_memory import LedgerFaultRates, LedgerMemory, StoredLedger
from simulation.stores.ledger_reader import MemoryReader


class MemoryLedgers:
    def __init__(
        self,
        memory: LedgerMemory | None = None,
        power: PowerSwitch | None = None,
        *,
        fault_rates: LedgerFaultRates | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`rng` belongs to the memory and serves all handles: pass it with the first."""
        self.memory: Final = memory if memory is not None else LedgerMemory()
        if rng is not None:
            self.memory.rng = rng
        self.fault_rates = fault_rates if fault_rates is not None else LedgerFaultRates()
        self.context = contextvars.copy_context()  # of the host whose handle this is
        self.cut_until_s = 0.0
        self.power = power if power is not None else PowerSwitch()
        self.create_faults: deque[MagnetarError] = deque()
        self.append_faults: deque[tuple[MagnetarError, bool]] = deque()
        self.recovery_keeps = (
            0  # of the runs in flight, how many a recovery finds: they were not acknowledged, any number is right
        )
        self.entry_bytes_max = RUN_BYTES_MAX
        self.copies_max = 1
        self.readers_lag = False  # a reader knows the end as it was when it was opened: less than the contract promises
        self.held = False
        self.reads = 0
        self._writers: list[MemoryWriter] = []
        self._dead = False

    def peer(self, *, fault_rates: LedgerFaultRates | None = None) -> MemoryLedgers:
        """Another process on the same ledgers, with the same fault rates by default."""
        return MemoryLedgers(self.memory, fault_rates=self.fault_rates if fault_rates is None else fault_rates)

    def crash(self, *, landed: int | None = 0, power: PowerSwitch | None = None) -> MemoryLedgers:
        """This process ends. Of each writer's runs in flight the first `landed` reached the disk; None: drawn."""
        self._dead = True
        for writer in self._writers:
            writer.abandon(self.memory.rng.randint(0, len(writer.pending)) if landed is None else landed)
        return MemoryLedgers(self.memory, power, fault_rates=self.fault_rates)

    def outage(self, seconds: float) -> None:
        """For this time no handle reaches enough bookies: operations fail, or wait for the end of the outage."""
        self.memory.outage(seconds)

    def cut_off(self, seconds: float) -> None:
        """The same for this handle alone: others may recover its ledgers during that time."""
        self.memory.counts["handles cut off"] += 1
        self.cut_until_s = max(self.cut_until_s, asyncio.get_running_loop().time() + seconds)

    @property
    def away_s(self) -> float:
        """The time until requests get through again."""
        until_s = max(self.memory.down_until_s, self.cut_until_s)
        return max(0.0, until_s - asyncio.get_running_loop().time()) if until_s else 0.0

    def fail_append(self, error: MagnetarError, *, landed: bool = False) -> None:
        """The next run fails and its writer dies; `landed`: its entries are stored nevertheless."""
        self.append_faults.append((error, landed))

    def fail_create(self, error: MagnetarError) -> None:
        self.create_faults.append(error)

    def hold(self) -> None:
        self.held = True

    def release(self, runs: int | None = None) -> None:
        """Completes this number of delayed runs, the oldest of each ledger first; without a number it ends the hold."""
        if runs is None:
            self.held = False
        for writer in self._writers:
            for _ in range(len(writer.pending) if runs is None else min(runs, len(writer.pending))):
                asyncio.get_running_loop().call_soon(writer.complete)

    @property
    def in_flight(self) -> int:
        return sum(len(writer.pending) for writer in self._writers)

    def forget(self, ledger: int) -> None:
        """The disk lost this ledger: no contract promises it, and a test may demand it."""
        del self.memory.ledgers[ledger]

    async def create(self, custom: dict[str, str], quorum: Quorum | None = None) -> MemoryWriter:
        await self._turn()
        await self.power.gate()
        if self.create_faults:
            raise self.create_faults.popleft()
        if quorum is not None and self.copies_max > 1 and quorum.ensemble > self.copies_max:
            raise NotEnoughNodes("fewer bookies can be written to than the ensemble has", ensemble=quorum.ensemble)
        self.memory.created += 1
        stored = StoredLedger(self.memory.created, dict(custom), quorum=quorum)
        self.memory.ledgers[stored.ledger] = stored
        writer = stored.writer = MemoryWriter(self, stored)
        self._writers.append(writer)
        await self.power.gate()
        return writer

    async def open(self, ledger: int, *, recover: bool) -> MemoryReader:
        await self._turn()
        stored = self._find(ledger)
        if recover and not stored.sealed:
            if stored.writer is not None:
                stored.writer.fence(self)
            stored.seal()
            self.memory.counts["ledgers recovered"] += 1
        if self.fault_rates.delay_s:
            await asyncio.sleep(self.memory.drawn(self.fault_rates.delay_s))
        return MemoryReader(self, stored)

    async def delete(self, ledger: int) -> None:
        await self._turn()
        await self.power.gate()
        stored = self.memory.ledgers.pop(ledger, None)
        if stored is not None and stored.writer is not None:
            stored.writer.die(NoSuchLedger("the ledger was deleted", ledger=ledger))
        await self.power.gate()

    async def info(self, ledger: int) -> LedgerInfo:
        await self._turn()
        stored = self._find(ledger)
        return LedgerInfo(ledger, stored.sealed, stored.last_entry, dict(stored.custom))

    async def list(self, custom: dict[str, str], *, after: int = -1, limit: int | None = None) -> list[int]:
        await self._turn()
        required = custom.items()
        later = [stored for stored in self.memory.ledgers.values() if stored.ledger > after]
        return sorted(stored.ledger for stored in later if required <= stored.custom.items())[:limit]

    async def close(self) -> None:
        for writer in self._writers:
            if not writer.stored.sealed:
                await writer.close()
        self._dead = True

    def _find(self, ledger: int) -> StoredLedger:
        stored = self.memory.ledgers.get(ledger)
        if stored is None:
            raise NoSuchLedger("there is no such ledger", ledger=ledger)
        return stored

    async def _turn(self) -> None:
        if self._dead:
            raise Closed("the ledger store is closed")
        await self.travel()
        if self._dead:
            raise Closed("the ledger store is closed")

    async def travel(self) -> None:
        """To the bookies: immediately, after a while, or not at all for now (then nothing has happened)."""
        await asyncio.sleep(self.memory.drawn(self.fault_rates.delay_s))
        while self.away_s:
            if not self.memory.chance(self.fault_rates.outage_hangs, "operations hung in an outage"):
                self.memory.counts["operations failed in an outage"] += 1
                raise NotEnoughNodes("too few bookies can be reached")
            await asyncio.sleep(self.away_s)


class MemoryWriter:
    def __init__(self, store: MemoryLedgers, stored: StoredLedger) -> None:
        self.store = store
        self.stored = stored
        self.ledger = stored.ledger
        self.pending: deque[tuple[Run, Done]] = deque()
        self.dead: MagnetarError | None = None
        self._next = 0
        self._landed = 0  # of the pending runs, from the oldest on
        self._travelling = 0
        self._lands_s = self._tells_s = 0.0
        self._out: deque[tuple[Done, int, MagnetarError | None]] = deque()
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
        if max(map(sub, run.offsets[1:], run.offsets)) > self.store.entry_bytes_max:
            raise LimitExceeded("an entry is too large for the store", bytes_max=self.store.entry_bytes_max)
        if self.store.power.spent():
            return
        run.ledger, run.first = self.ledger, self._next
        self._next += len(run)
        if self.dead is not None:
            self._say(done, -1, self.dead)
            return
        self.pending.append((run, done))
        if self.store.held:
            return
        if self.store.fault_rates.is_perfect and not self.store.away_s and not self._travelling:
            asyncio.get_running_loop().call_soon(self.complete)
        else:
            self._send()

    # A run in flight: it lands, then it is acknowledged; each in order

    def _send(self) -> None:
        memory, fault_rates = self.store.memory, self.store.fault_rates
        now = asyncio.get_running_loop().time()
        slow = memory.chance(fault_rates.slow, "runs slow")
        self._lands_s = max(self._lands_s, now + memory.drawn(fault_rates.slow_s if slow else fault_rates.append_s))
        self._travelling += 1
        memory.later(self._lands_s - now, self._land)

    def _land(self) -> None:
        if self.dead is not None:
            return
        memory, fault_rates = self.store.memory, self.store.fault_rates
        away_s = self.store.away_s
        if away_s:
            if memory.chance(fault_rates.outage_hangs, "runs hung in an outage"):
                self._lands_s = max(self._lands_s, asyncio.get_running_loop().time() + away_s)
                memory.later(away_s, self._land)
                return
            memory.counts["runs failed in an outage"] += 1
            self.die(TimedOut("too few bookies answered", ledger=self.ledger))
            return
        self._travelling -= 1
        if memory.chance(fault_rates.fail, "runs refused"):
            self.die(NotEnoughNodes("too few bookies can be written to", ledger=self.ledger))
            return
        if memory.chance(fault_rates.lost_dropped, "runs lost"):
            self._land_part(self._landed, memory)
            self.die(TimedOut("too few bookies answered", ledger=self.ledger))
            return
        self.stored.land(self.pending[self._landed][0])
        self._landed += 1
        if memory.chance(fault_rates.lost_landed, "runs landed, answers lost"):
            self.die(TimedOut("too few bookies answered", ledger=self.ledger))
            return
        self._tell_after(memory.drawn(fault_rates.append_s), self.complete)

    def complete(self) -> None:
        """Acknowledges the oldest run; without travel times it lands now."""
        if self.dead is not None or not self.pending or (not self._landed and len(self.pending) <= self._travelling):
            return
        if self.store.append_faults:
            error, landed = self.store.append_faults.popleft()
            if landed and not self._landed:
                self.stored.land(self.pending[0][0])
            self.die(error)
            return
        run, done = self._acknowledge()
        if not self.store.power.spent():
            done(run.first, None)

    def _acknowledge(self) -> tuple[Run, Done]:
        run, done = self.pending.popleft()
        if self._landed:
            self._landed -= 1
        else:
            self.stored.land(run)
        self._lac += len(run)
        self._length += run.offsets[-1] - run.offsets[0]
        return run, done

    # The end

    def fence(self, by: MemoryLedgers) -> None:
        """`by` recovers: landed entries stay, and those in flight that the recovery finds; nothing lands after it. The
        writer may still get acknowledgements of the entries that stay; everything else is refused."""
        memory, fault_rates = by.memory, self.store.fault_rates
        if self.dead is None:
            on_its_way = list(self.pending)[self._landed :]
            keeps = by.recovery_keeps if fault_rates.is_perfect else memory.rng.randint(0, len(on_its_way))
            for run, _ in on_its_way[:keeps]:
                self.stored.land(run)
                self._landed += 1
            self._land_part(self._landed, memory)
            memory.counts["runs kept by a recovery"] += self._landed
            heard = 0 if fault_rates.is_perfect or self.store.away_s else memory.rng.randint(0, self._landed)
            for _ in range(heard):
                run, done = self._acknowledge()
                if memory.chance(fault_rates.late_ack, "runs acknowledged after a recovery"):
                    self._say(done, run.first, None)
                else:
                    self._say_now(done, run.first)
        if self.store.away_s and not memory.chance(fault_rates.outage_hangs, "writers fenced while cut off"):
            self.die(TimedOut("too few bookies answered", ledger=self.ledger))  # it can learn nothing more
        else:
            self.die(Fenced("another owner recovered this ledger", ledger=self.ledger))

    def abandon(self, landed: int) -> None:
        """The process ends: this number of its runs is stored, and no caller gets an answer."""
        if not self.stored.sealed and self.dead is None:
            for run, _ in list(self.pending)[self._landed : landed]:
                self.stored.land(run)
            self._land_part(max(landed, self._landed), self.store.memory)
        self.pending.clear()
        self._out.clear()
        self.dead = Closed("the process is gone")
        self.stored.writer = None

    def _land_part(self, index: int, memory: LedgerMemory) -> None:
        """Perhaps the first entries of this pending run land. The writer ends now: nothing lands behind them."""
        if index < len(self.pending) and memory.chance(self.store.fault_rates.half_run, "runs cut"):
            self.stored.land_part(self.pending[index][0], memory.rng)

    def die(self, error: MagnetarError) -> None:
        if self.dead is None:
            self.dead = error
        failed, self.pending = self.pending, deque()
        self._landed = self._travelling = 0
        for _, done in failed:
            self._say(done, -1, error)

    async def close(self) -> None:
        await self.store.travel()
        if isinstance(self.dead, Fenced):
            raise self.dead
        if not self.stored.sealed:
            self.stored.seal(self._lac)
        elif self.stored.last_entry != self._lac:
            raise Fenced("another owner recovered this ledger", ledger=self.ledger)
        self.die(Closed("the writer is closed", ledger=self.ledger))

    # Callbacks, in order

    def _say(self, done: Done, first: int, error: MagnetarError | None) -> None:
        self._out.append((done, first, error))
        self._tell_after(self.store.away_s + self.store.memory.drawn(self.store.fault_rates.append_s), self._ring)

    def _say_now(self, done: Done, first: int) -> None:
        self._out.append((done, first, None))
        while self._out:
            self._ring()

    def _ring(self) -> None:
        if self._out:
            done, first, error = self._out.popleft()
            self.store.context.copy().run(done, first, error)

    def _tell_after(self, delay_s: float, work: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        if not delay_s and self._tells_s <= loop.time():
            loop.call_soon(work, context=self.store.context)
            return
        self._tells_s = max(self._tells_s, loop.time() + delay_s)
        loop.call_at(self._tells_s, work, context=self.store.context)
