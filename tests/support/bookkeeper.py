"""A cluster of bookies in Python on a virtual clock: a client, its metadata store, and faults of both.

Each body runs on the simulator's loop and network, so that no test waits, and the same test takes the same steps. At
the end no callback may have raised, and no bookie may have seen two versions of an entry.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any

from magnetar.base.errors import ConnectionLost, MagnetarError, NotReady
from magnetar.ledger.bookkeeper.client import BookKeeperClient
from magnetar.ledger.bookkeeper.config import BookKeeperConfig
from magnetar.ledger.bookkeeper.ledger_handle import LedgerHandle
from magnetar.ledger.bookkeeper.registration import Address
from magnetar.ledger.store import Quorum
from magnetar.metadata.memory.records import SharedMetadata
from magnetar.metadata.memory.store import MemoryMetadataStore
from magnetar.metadata.store import Stat
from magnetar.runtime.disk import RealFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.environment.loop import VirtualLoop, pass_time
from simulation.environment.network import Network
from simulation.environment.random_streams import RandomStreams
from simulation.stores.bookie import FakeBookie

FIRST_PORT = 3181
TRIPLE = Quorum(3, 3, 2)


class OneThreadLoop(VirtualLoop):
    """The metadata store in memory calls handles of other threads; here they are all of this one."""

    def call_soon_threadsafe(self, callback: Any, *args: Any, **options: Any) -> Any:
        return self.call_soon(callback, *args, **options)


class FaultyStore(MemoryMetadataStore):
    """`lost_answers`: so many next writes happen, and their answers do not arrive. `down`: nothing is answered."""

    lost_answers = 0
    down = False

    async def put(self, path: str, value: bytes, **options: Any) -> Stat:
        self._check()
        stat = await super().put(path, value, **options)
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionLost("the answer was lost")
        return stat

    async def children(self, path: str) -> list[str]:
        self._check()
        return await super().children(path)

    async def fresh(self, path: str) -> Any:
        self._check()
        return await super().fresh(path)

    def _check(self) -> None:
        if self.down:
            raise NotReady("the metadata store is down")


class Appends:
    """The results of the appends to one ledger."""

    def __init__(self, handle: LedgerHandle) -> None:
        self.handle = handle
        self.acknowledged: list[int] = []
        self.errors: list[MagnetarError] = []

    def append(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.handle.append(payload, self._done)

    @property
    def pending(self) -> int:
        return self.handle.state.pending

    def _done(self, entry: int, error: MagnetarError | None) -> None:
        if error is None:
            assert not self.errors, "an entry was acknowledged behind a failed one"
            self.acknowledged.append(entry)
        else:
            assert entry == -1
            self.errors.append(error)


class Cluster:
    def __init__(self, loop: VirtualLoop, config: BookKeeperConfig) -> None:
        self.loop = loop
        self.config = config
        self.runtime = InlineRuntime(RealFiles(), seed=1)
        self.shared = SharedMetadata(session_s=3_600.0, lock=nullcontext())
        self.bookies: dict[str, FakeBookie] = {}
        self.clients: list[BookKeeperClient] = []
        self.store = FaultyStore(self.shared, self.runtime)
        self.client = self.new_client()

    def new_client(self) -> BookKeeperClient:
        client = BookKeeperClient(self.store, self.runtime, self.config)
        self.clients.append(client)
        return client

    async def start(self, bookies: int) -> None:
        await self.client.catalog.initialize()
        for _ in range(bookies):
            await self.add_bookie()
        await self.client.open()

    async def add_bookie(self, *, frame_bytes_max: int = 5_242_880) -> FakeBookie:
        address = Address("127.0.0.1", FIRST_PORT + len(self.bookies))
        bookie = FakeBookie(address, frame_bytes_max=frame_bytes_max)
        self.bookies[bookie.id] = bookie
        await bookie.start()
        await bookie.register(self.store)
        return bookie

    async def ledger(self, quorum: Quorum = TRIPLE) -> Appends:
        return Appends(await self.client.create_ledger({"application": b"test"}, quorum))

    def members(self, handle: LedgerHandle) -> list[FakeBookie]:
        return [self.bookies[bookie] for bookie in handle.state.ensemble]

    async def until(self, true: Callable[[], bool], *, limit_s: float = 120.0) -> None:
        end = self.loop.time() + limit_s
        while not true():
            assert self.loop.time() < end, "the condition did not become true"
            await pass_time(0.01)

    async def contents(self, ledger: int, *, recover: bool = True) -> list[bytes]:
        """All payloads, read by a client that has nothing in memory."""
        reader = await self.new_client().open_ledger(ledger, recover=recover)
        payloads: list[bytes] = []
        while len(payloads) <= reader.last_entry:
            entries = await reader.read(len(payloads), reader.last_entry, 100_000)
            assert [entry.entry for entry in entries] == list(range(len(payloads), len(payloads) + len(entries)))
            payloads += [entry.payload for entry in entries]
        assert sum(map(len, payloads)) == reader.length
        return payloads

    async def stop(self) -> None:
        for client in self.clients:
            await client.close()
        for bookie in self.bookies.values():
            bookie.crash()
        await self.store.close()


def run_cluster(
    body: Callable[[Cluster], Coroutine[Any, Any, None]],
    *,
    bookies: int = 4,
    seed: int | None = None,
    config: BookKeeperConfig | None = None,
) -> None:
    """`seed`: the network has delays and cuts reads anywhere; None: it is perfect."""
    loop = OneThreadLoop(seed=seed or 0)
    Network(loop, None if seed is None else RandomStreams(seed))

    async def main() -> None:
        cluster = Cluster(loop, config or BookKeeperConfig())
        try:
            await cluster.start(bookies)
            await body(cluster)
        finally:
            await cluster.stop()
        assert all(not bookie.conflicts for bookie in cluster.bookies.values()), "an entry came in two versions"

    try:
        loop.run_until_complete(main())
        assert not loop.errors, loop.errors
    finally:
        loop.close()


def payloads(count: int, size: int = 100, seed: int = 0) -> list[bytes]:
    rng = random.Random(seed)
    return [f"{number}:".encode() + rng.randbytes(size) for number in range(count)]


__all__ = ["TRIPLE", "Appends", "Cluster", "FaultyStore", "pass_time", "payloads", "run_cluster"]
