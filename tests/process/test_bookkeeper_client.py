"""The client of BookKeeper against real bookies, on both storages, and ledgers shared with BookKeeper's Java client."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from magnetar.base.errors import Fenced
from magnetar.ledger.bookkeeper.client import BookKeeperClient
from magnetar.ledger.bookkeeper.config import BookKeeperConfig
from magnetar.ledger.bookkeeper.ledger_metadata import State
from magnetar.ledger.store import Quorum
from magnetar.metadata.zookeeper.address import Server
from magnetar.metadata.zookeeper.client import ZooKeeperConfig
from magnetar.metadata.zookeeper.store import ZooKeeperStore
from magnetar.runtime.system_runtime import RealRuntime
from tests.servers import bookkeeper
from tests.servers.bookkeeper import Bookie, Ensemble
from tests.support.bookkeeper import Appends, payloads

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

TRIPLE = Quorum(3, 3, 2)
DATA = payloads(2_000, 500)
WAIT_S = 120.0


@pytest.fixture(params=[bookkeeper.SORTED, bookkeeper.DATABASE], ids=["sorted", "database"], scope="module")
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    folder: Path = tmp_path_factory.mktemp("bookkeeper")
    with bookkeeper.ensemble(folder, {"ledgerStorageClass": request.param}) as ensemble:
        asyncio.run(_initialize(ensemble))
        ensemble.start(4)
        yield ensemble


async def _initialize(servers: Ensemble) -> None:
    async with connected(servers, opened=False) as client:
        await client.catalog.initialize()


@asynccontextmanager
async def connected(servers: Ensemble, *, opened: bool = True) -> AsyncIterator[BookKeeperClient]:
    runtime = RealRuntime()
    store = await ZooKeeperStore.open(ZooKeeperConfig((Server("127.0.0.1", servers.keeper.port),)), runtime)
    client = BookKeeperClient(store, runtime, BookKeeperConfig(quorum=TRIPLE, request_s=3.0))
    try:
        if opened:
            await client.open()
            await _until_registered(store, servers)
        yield client
    finally:
        await client.close()
        await store.close()
        runtime.close()


async def _until_registered(store: ZooKeeperStore, servers: Ensemble) -> None:
    running = {bookie.id for bookie in servers.bookies if bookie.process is not None}
    async with asyncio.timeout(WAIT_S):
        while not running <= set(await store.children("/ledgers/available")):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.2)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110 - callbacks of the client have no event
            await asyncio.sleep(0.01)


async def until_idle(appends: Appends) -> None:
    await until(lambda: not appends.pending)


async def contents(client: BookKeeperClient, ledger: int, *, recover: bool) -> list[bytes]:
    reader = await client.open_ledger(ledger, recover=recover)
    data: list[bytes] = []
    while len(data) <= reader.last_entry:
        data += [entry.payload for entry in await reader.read(len(data), reader.last_entry, 200_000)]
    assert reader.length == sum(map(len, data))
    return data


async def write(client: BookKeeperClient, data: list[bytes], quorum: Quorum = TRIPLE) -> Appends:
    appends = Appends(await client.create_ledger({"application": b"magnetar"}, quorum))
    for start in range(0, len(data), 200):
        appends.append(*data[start : start + 200])
        await until_idle(appends)
    assert appends.acknowledged == list(range(len(data)))
    return appends


@pytest.mark.parametrize("quorum", [TRIPLE, Quorum(3, 2, 2), Quorum(1, 1, 1)], ids=str)
async def test_ledger_is_written_sealed_and_read(servers: Ensemble, quorum: Quorum) -> None:
    async with connected(servers) as client:
        appends = await write(client, DATA, quorum)
        await appends.handle.close()
    async with connected(servers) as client:
        assert await contents(client, appends.handle.ledger, recover=False) == DATA
        metadata = await client.ledger_metadata(appends.handle.ledger)
        assert (metadata.state, metadata.last_entry) == (State.CLOSED, len(DATA) - 1)
        assert appends.handle.ledger in await client.list_ledgers()
        if quorum == TRIPLE:
            assert any(client.bookies.batches(bookie) for bookie in metadata.last_segment.bookies)


async def test_open_ledger_is_fenced_and_recovered(servers: Ensemble) -> None:
    async with connected(servers) as old, connected(servers) as new:
        appends = await write(old, DATA[:500])
        began = time.monotonic()
        assert await contents(new, appends.handle.ledger, recover=True) == DATA[:500]
        assert time.monotonic() - began < 30.0
        appends.append(DATA[500])
        await until_idle(appends)
        assert [type(error) for error in appends.errors] == [Fenced]
        with pytest.raises(Fenced):
            await appends.handle.close()


async def test_recoveries_in_burst_agree_and_lose_nothing(servers: Ensemble) -> None:
    async with connected(servers) as old, connected(servers) as first, connected(servers) as second:
        appends = Appends(await old.create_ledger({}, TRIPLE))
        appends.append(*DATA)
        await until(lambda: len(appends.acknowledged) >= 100)
        results = await asyncio.gather(
            contents(first, appends.handle.ledger, recover=True), contents(second, appends.handle.ledger, recover=True)
        )
        await until_idle(appends)
        assert results[0] == results[1]
        assert results[0] == DATA[: len(results[0])]
        assert len(results[0]) >= len(appends.acknowledged)


@pytest.mark.parametrize("strike", [Bookie.pause, Bookie.kill], ids=["suspended", "killed"])
async def test_struck_bookie_is_replaced_without_loss(servers: Ensemble, strike: object) -> None:
    async with connected(servers) as client:
        appends = await write(client, DATA[:200])
        victim = next(bookie for bookie in servers.bookies if bookie.id == appends.handle.state.ensemble[1])
        Bookie.kill(victim) if strike is Bookie.kill else Bookie.pause(victim)
        try:
            began = time.monotonic()
            sent = 200
            while victim.id in appends.handle.state.ensemble and sent < len(DATA):
                appends.append(DATA[sent])
                sent += 1
                await asyncio.sleep(0.02)
            assert victim.id not in appends.handle.state.ensemble, "the bookie was not replaced"
            passed_s = time.monotonic() - began
            assert passed_s < 30.0
            assert strike is Bookie.kill or passed_s > client.config.request_s / 2
            appends.append(*DATA[sent:])
            await until_idle(appends)
            assert appends.acknowledged == list(range(len(DATA)))
            assert len(appends.handle.metadata.segments) == 2
            await appends.handle.close()
            assert await contents(client, appends.handle.ledger, recover=False) == DATA
        finally:
            if strike is Bookie.kill:
                victim.launch()
                victim.wait_ready()
            else:
                victim.go_on()


def summary(data: list[bytes]) -> list[str]:
    return [str(len(data)), str(sum(map(len, data))), hashlib.sha256(b"".join(data)).hexdigest()]


async def java(servers: Ensemble, *words: object) -> list[str]:
    return await asyncio.to_thread(servers.java_client, *map(str, words))


async def test_java_client_reads_our_sealed_ledger(servers: Ensemble) -> None:
    async with connected(servers) as client:
        appends = await write(client, DATA)
        await appends.handle.close()
        assert await java(servers, "read", appends.handle.ledger) == summary(DATA)


async def test_java_client_recovers_our_open_ledger(servers: Ensemble) -> None:
    async with connected(servers) as client:
        appends = await write(client, DATA[:500])
        assert await java(servers, "recover", appends.handle.ledger) == summary(DATA[:500])
        assert (await client.ledger_metadata(appends.handle.ledger)).is_closed
        appends.append(DATA[500])
        await until_idle(appends)
        assert [type(error) for error in appends.errors] == [Fenced]
        assert await contents(client, appends.handle.ledger, recover=True) == DATA[:500]


async def test_java_client_reads_ledger_that_we_recovered(servers: Ensemble) -> None:
    async with connected(servers) as old, connected(servers) as new:
        appends = await write(old, DATA[:500])
        assert await contents(new, appends.handle.ledger, recover=True) == DATA[:500]
        assert await java(servers, "read", appends.handle.ledger) == summary(DATA[:500])


@pytest.mark.parametrize("how", ["write", "leave"])
async def test_ledger_of_java_client_is_read_and_recovered(servers: Ensemble, how: str) -> None:
    expected = [b"java-%d" % number for number in range(100)]
    async with connected(servers) as client:
        (ledger,) = await java(servers, how, len(expected))
        assert (await client.ledger_metadata(int(ledger))).is_closed == (how == "write")
        assert await contents(client, int(ledger), recover=True) == expected
        assert await java(servers, "read", ledger) == summary(expected)
