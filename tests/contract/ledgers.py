"""The ledger engines that the suite about their contract runs on. A new engine adds a class and a line to WORLDS."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from magnetar.base.errors import MagnetarError
from magnetar.ledger.bookkeeper.catalog import LedgerCatalog
from magnetar.ledger.bookkeeper.client import BookKeeperClient
from magnetar.ledger.bookkeeper.config import BookKeeperConfig
from magnetar.ledger.bookkeeper.engine.store import BookKeeperLedgers
from magnetar.ledger.bookkeeper.registration import Address
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.ledger.memory import MemoryLedgerStore, SharedLedgers
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.store import LedgerStore, Quorum, Reader, Writer
from magnetar.metadata.embedded import EmbeddedStore
from magnetar.runtime.system_runtime import RealRuntime
from simulation.environment.disk import SimulatedFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.bookie import FakeBookie
from simulation.stores.ledger_memory import LedgerFaultRates
from simulation.stores.ledgers import MemoryLedgers
from simulation.stores.metadata import MemoryStore
from tests.contract import virtual

SEGMENT_BYTES = 8192  # small, so that every test of some length rolls


class World(Protocol):
    """One engine and what it stands on."""

    def __init__(self, directory: Path) -> None: ...

    async def start(self) -> LedgerStore:
        """The first process, or the next one after the last was closed."""
        ...

    async def crash(self) -> LedgerStore:
        """The next process on what the last one had made durable, without the last having been closed."""
        ...

    async def end(self) -> None: ...


class LocalOnDisk:
    """Real files, real threads, sqlite."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runtime = RealRuntime()
        self.generation = 0
        self.stores: list[EmbeddedStore] = []
        self.engines: list[LocalLedgers] = []

    def path(self) -> Path:
        return self.directory / str(self.generation)

    async def start(self) -> LocalLedgers:
        self.path().mkdir(exist_ok=True)
        for store in self.stores:
            await store.close()
        return await self._start()

    async def crash(self) -> LocalLedgers:
        """The files as they are now: what a kill leaves behind. The old process lives on, on files nobody reads.
        Copied on the lane, since a copy that takes a while is no instant."""
        old = self.path()
        self.generation += 1
        await self.runtime.offload(lambda: shutil.copytree(old, self.path()), "journal")
        return await self._start()

    async def _start(self) -> LocalLedgers:
        store = await EmbeddedStore.open(str(self.path() / "metadata.db"), self.runtime)
        self.stores.append(store)
        data = str(self.path() / "data")
        engine = await LocalLedgers.start(data, self.runtime, store, segment_bytes=SEGMENT_BYTES)
        self.engines.append(engine)
        return engine

    async def end(self) -> None:
        for engine in self.engines:
            await engine.close()
        for store in self.stores:
            await store.close()
        self.runtime.close()


class LocalForgetful:
    """Files that forget what was not synced; one thread; metadata in memory."""

    def __init__(self, directory: Path) -> None:
        self.runtime = InlineRuntime(SimulatedFiles(seed=7))
        self.metadata: MemoryStore | None = None

    async def start(self) -> LocalLedgers:
        if self.metadata is None:
            self.metadata = MemoryStore(self.runtime)
        return await LocalLedgers.start("/data", self.runtime, self.metadata, segment_bytes=SEGMENT_BYTES)

    async def crash(self) -> LocalLedgers:
        assert isinstance(self.runtime.files, SimulatedFiles)
        assert self.metadata is not None
        self.runtime = InlineRuntime(self.runtime.files.crash())
        self.metadata = self.metadata.reopen()
        return await self.start()

    async def end(self) -> None:
        pass


class SharedWorld(World, Protocol):
    """An engine that several processes may use at a time."""

    async def other(self) -> LedgerStore:
        """A second process on the same ledgers, beside the first."""
        ...


class InMemory:
    """The engine that other rooms' tests stand on."""

    def __init__(self, directory: Path) -> None:
        self.ledgers = MemoryLedgers()

    async def start(self) -> MemoryLedgers:
        self.ledgers = self.ledgers.crash()
        return self.ledgers

    async def crash(self) -> MemoryLedgers:
        return await self.start()

    async def other(self) -> MemoryLedgers:
        return self.ledgers.peer()

    async def end(self) -> None:
        pass


class Slow(InMemory):
    """Every operation takes its time, and a run lands before anybody hears of it. Drawn from a seed."""

    def __init__(self, directory: Path) -> None:
        fault_rates = LedgerFaultRates(delay_s=0.01, append_s=0.02, slow=0.02, slow_s=0.2)
        self.ledgers = MemoryLedgers(fault_rates=fault_rates, rng=random.Random(11))

    async def crash(self) -> MemoryLedgers:
        self.ledgers = self.ledgers.crash(landed=None)
        return self.ledgers


class HalfRuns(Slow):
    """A crash or a recovery may keep the first entries of a run alone, and entries have a limit, as of bookies."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.ledgers.entry_bytes_max = 2_000_000
        self.ledgers.fault_rates.half_run = 0.8


class Shared:
    """The store of several brokers in one process: a crash leaves all that was appended."""

    def __init__(self, directory: Path) -> None:
        self.shared = SharedLedgers(threading.Lock())

    async def start(self) -> MemoryLedgerStore:
        return MemoryLedgerStore(self.shared)

    async def crash(self) -> MemoryLedgerStore:
        return MemoryLedgerStore(self.shared)

    async def other(self) -> MemoryLedgerStore:
        return MemoryLedgerStore(self.shared)

    async def end(self) -> None:
        pass


class Bookies:
    """BookKeeper's wire to bookies in Python, over sockets of this machine. A crash leaves the old process alive."""

    quorum = Quorum(3, 2, 2)  # entries are read one by one

    def __init__(self, directory: Path) -> None:
        self.runtime = RealRuntime()
        self.metadata = MemoryStore(self.runtime)
        self.bookies = [FakeBookie(Address("127.0.0.1", 0)) for _ in range(3)]
        self.stores: list[BookKeeperLedgers] = []

    async def start(self) -> BookKeeperLedgers:
        if not self.stores:
            await LedgerCatalog(self.metadata, self.runtime).initialize()
            for bookie in self.bookies:
                await bookie.start()
                await bookie.register(self.metadata)
        return await self.other()

    async def crash(self) -> BookKeeperLedgers:
        return await self.other()

    async def other(self) -> BookKeeperLedgers:
        client = BookKeeperClient(self.metadata.peer(), self.runtime, BookKeeperConfig(quorum=self.quorum))
        await client.open()
        self.stores.append(BookKeeperLedgers(client))
        return self.stores[-1]

    async def end(self) -> None:
        for store in self.stores:
            await store.close()
        for bookie in self.bookies:
            assert bookie.conflicts == [], "an entry came with other bytes than before"
            bookie.crash()
        self.runtime.close()


class BookiesInBatches(Bookies):
    """Every bookie has every entry, so one of them answers a read of many."""

    quorum = Quorum(3, 3, 2)


WORLDS: dict[str, type[World]] = {
    "local": LocalOnDisk,
    "local-forgetful": LocalForgetful,
    "memory": InMemory,
    "slow": Slow,
    "half-runs": HalfRuns,
    "shared": Shared,
    "bookies": Bookies,
    "bookies-in-batches": BookiesInBatches,
}

SHARED_WORLDS = [name for name, world in WORLDS.items() if hasattr(world, "other")]  # several processes at a time

Body = Callable[[World, LedgerStore], Awaitable[None]]
On = Callable[[Body], None]


def run_on(world: str, directory: Path, body: Body) -> None:
    async def main() -> None:
        made = WORLDS[world](directory)
        try:
            await body(made, await made.start())
        finally:
            await made.end()

    if world in ("slow", "half-runs"):
        virtual.run(main())
    else:
        asyncio.run(main())


class Outcomes:
    """What became of runs, in the order of the callbacks."""

    def __init__(self) -> None:
        self.all: list[tuple[int, MagnetarError | None]] = []
        self._changed = asyncio.Event()

    def done(self, first: int, error: MagnetarError | None) -> None:
        self.all.append((first, error))
        self._changed.set()

    async def upto(self, count: int) -> None:
        while len(self.all) < count:
            self._changed.clear()
            await self._changed.wait()

    @property
    def acked(self) -> list[int]:
        return [first for first, error in self.all if error is None]

    @property
    def errors(self) -> list[type[MagnetarError]]:
        return [type(error) for _, error in self.all if error is not None]


async def append(writer: Writer, *runs: Run) -> list[int]:
    """Append and wait; the first entry of each run. An error is raised."""
    outcomes = Outcomes()
    for run in runs:
        writer.append(run, outcomes.done)
    await outcomes.upto(len(runs))
    for _, error in outcomes.all:
        if error is not None:
            raise error
    return outcomes.acked


def entry(ledger: int, number: int) -> bytes:
    """Bytes that say whose they are; some empty, some larger than a disk sector."""
    return b"" if number % 7 == 3 else f"{ledger}/{number};".encode() * (1 + number % 11 * 10)


def entries(ledger: int, first: int, count: int) -> Run:
    numbers = range(first, first + count)
    return run_of([entry(ledger, number) for number in numbers], [1 + number % 3 for number in numbers])


async def read_all(reader: Reader, bytes_max: int = 1 << 20) -> list[bytes]:
    """Every entry, in as many reads as it takes; positions must follow each other."""
    found: list[bytes] = []
    while len(found) <= reader.last_entry:
        run = await reader.read(len(found), reader.last_entry, bytes_max)
        assert (run.ledger, run.first) == (reader.ledger, len(found))
        assert run.messages == sum(run.counts)
        found += [run.entry(index) for index in range(len(run))]
    return found
