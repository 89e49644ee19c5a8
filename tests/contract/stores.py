"""The metadata engines that every suite about the contract runs on. A new engine adds one class and one line to
ENGINES."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import random
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import uvloop

from magnetar.metadata.embedded import EmbeddedStore
from magnetar.metadata.memory.records import SharedMetadata
from magnetar.metadata.memory.store import MemoryMetadataStore
from magnetar.metadata.store import Event, MetadataStore, Session
from magnetar.metadata.zookeeper.address import Server
from magnetar.metadata.zookeeper.client import ZooKeeperConfig
from magnetar.metadata.zookeeper.messages import Operation
from magnetar.metadata.zookeeper.store import ZooKeeperStore
from magnetar.runtime.runtime import Runtime
from magnetar.runtime.system_runtime import RealRuntime
from simulation.stores.metadata import MemoryStore, StoreContent, Versions
from simulation.stores.metadata_faults import FaultRates
from tests.contract import virtual
from tests.servers.zookeeper import ZooKeeper as ServerProcess
from tests.servers.zookeeper import need
from tests.servers.zookeeper_clients import end_session

SEED = 5
WATCH_S = 0.1


class Expiring(MetadataStore, Protocol):
    """What an engine under test adds: the hook that takes its session away."""

    async def expire_session(self, server_side: bool) -> None: ...


class Engine(Protocol):
    def __init__(self, directory: Path, runtime: RealRuntime) -> None: ...

    async def open(self) -> Expiring: ...

    async def crash(self, store: Expiring) -> Expiring:
        """Another process on what `store` had made durable, without `store` having been closed."""
        ...


class Memory:
    def __init__(self, directory: Path, runtime: RealRuntime) -> None:
        self.runtime = runtime

    async def open(self) -> MemoryStore:
        return MemoryStore(self.runtime)

    async def crash(self, store: Expiring) -> MemoryStore:
        assert isinstance(store, MemoryStore)
        return store.reopen()


class Counted(Memory):
    """Its server counts versions per node, and it has the cure of an engine for such a server (H-C6)."""

    async def open(self) -> MemoryStore:
        return MemoryStore(self.runtime, content=StoreContent(versions=Versions.PER_NODE))


class Nasty(Memory):
    """As bad as the contract allows: every operation takes its time, reads come from a follower that is behind, events
    are late and several of one path may be one."""

    async def open(self) -> MemoryStore:
        fault_rates = FaultRates(delay_s=0.01, stale=0.5, lag_s=0.5, watch_s=WATCH_S, coalesce=0.3)
        return MemoryStore(self.runtime, fault_rates=fault_rates, rng=random.Random(SEED))


class Embedded:
    def __init__(self, directory: Path, runtime: RealRuntime) -> None:
        self.directory = directory
        self.runtime = runtime
        self.generation = 0
        self.opened: list[EmbeddedStore] = []

    def path(self) -> Path:
        return self.directory / str(self.generation) / "metadata.db"

    async def open(self) -> EmbeddedStore:
        self.path().parent.mkdir()
        return await self._open()

    async def crash(self, store: Expiring) -> EmbeddedStore:
        """The files as they are now, the write-ahead log unmerged: what a kill leaves behind."""
        old = self.path().parent
        self.generation += 1
        shutil.copytree(old, self.path().parent)
        return await self._open()

    async def _open(self) -> EmbeddedStore:
        store = await EmbeddedStore.open(str(self.path()), self.runtime)
        self.opened.append(store)
        return store


class StealableStore(ZooKeeperStore):
    """Its session can be taken away."""

    def __init__(self, config: ZooKeeperConfig, runtime: Runtime, *, root: str = "") -> None:
        super().__init__(config, runtime, root=root)
        self.seen: dict[int, bytes] = {}  # sessions and their passwords
        self.config = config

    def note_session(self) -> None:
        self.seen[self.client.machine.session] = self.client.machine.password

    async def expire_session(self, server_side: bool) -> None:
        self.note_session()
        established = asyncio.Event()
        stop = self.on_session(lambda said: established.set() if said is Session.REESTABLISHED else None)
        if server_side:
            await self.client.ask(Operation.CLOSE, b"")  # the store does not know why its connection ends
        else:
            self.client.give_up()
        await established.wait()
        stop()
        self.note_session()


class ZooKeeper:
    """A real server, which all tests of the process share; each test has a root of its own."""

    server: ServerProcess | None = None
    roots = itertools.count(1)

    def __init__(self, directory: Path, runtime: RealRuntime) -> None:
        self.runtime = runtime
        self.root = f"/t{next(self.roots)}"
        self.opened: list[StealableStore] = []

    @classmethod
    def started(cls) -> ServerProcess:
        if cls.server is None:
            need()
            folder = Path(tempfile.mkdtemp(prefix="zookeeper-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            cls.server = ServerProcess(folder)
            atexit.register(cls.server.kill)
            cls.server.start()
        return cls.server

    async def open(self) -> StealableStore:
        server = Server("127.0.0.1", self.started().port)
        store = StealableStore(ZooKeeperConfig((server,), session_s=10.0), self.runtime, root=self.root)
        await store.client.open()
        store.note_session()
        self.opened.append(store)
        return store

    async def crash(self, store: Expiring) -> StealableStore:
        """The server is made to end the sessions that the process had, which else takes their time."""
        assert isinstance(store, StealableStore)
        store.abandon()
        for session, password in store.seen.items():
            await end_session(store.config.servers[0], session, password)
        return await self.open()


class Shared:
    """The store of several brokers in one process."""

    def __init__(self, directory: Path, runtime: RealRuntime) -> None:
        self.runtime = runtime
        self.shared = SharedMetadata(30.0, threading.Lock())
        self.opened: list[MemoryMetadataStore] = []

    async def open(self) -> MemoryMetadataStore:
        self.opened.append(MemoryMetadataStore(self.shared, self.runtime))
        return self.opened[-1]

    async def crash(self, store: Expiring) -> MemoryMetadataStore:
        """The next process, after the server has ended all sessions of the last one."""
        assert isinstance(store, MemoryMetadataStore)
        store.abandon()
        with self.shared.lock:
            for number in range(int(store.session_id)):
                self.shared.end_session(str(number + 1))
        return await self.open()


ENGINES: dict[str, type[Engine]] = {
    "memory": Memory,
    "counted": Counted,
    "nasty": Nasty,
    "embedded": Embedded,
    "shared": Shared,
    "zookeeper": ZooKeeper,
}
# These report every event, before the writer's call returns: more than the contract asks.
EXACT = ["memory", "counted", "embedded", "shared", "zookeeper"]

Body = Callable[[Engine, Expiring], Awaitable[None]]
On = Callable[[Body], None]


def listen(store: MetadataStore, prefix: str) -> list[Event]:
    heard: list[Event] = []
    store.subscribe(prefix, heard.append)
    return heard


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until it holds; the suite's time limit ends what never does."""
    while not condition():
        await (virtual.rest(virtual.TURN_S) if virtual.here() else asyncio.sleep(0))


async def told() -> None:
    """Until every event has been heard that an engine may keep back."""
    if virtual.here():
        await virtual.rest(WATCH_S * 2)


def run_on(engine: str, directory: Path, body: Body) -> None:
    """A fresh store of that engine, for one test."""
    runtime = RealRuntime()

    async def main() -> None:
        made = ENGINES[engine](directory, runtime)
        store = await made.open()
        try:
            await body(made, store)
        finally:
            await store.close()
            for other in getattr(made, "opened", []):
                await other.close()

    try:
        if engine == "nasty":
            virtual.run(main())
        elif engine == "zookeeper":
            uvloop.run(main())  # the loop of a broker; the tests of processes use asyncio's
        else:
            asyncio.run(main())
    finally:
        runtime.close()
