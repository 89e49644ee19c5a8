"""Reads over bookies in Python: batches and single reads, slow, damaged and missing bookies, open ledgers."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Corrupt, InvalidRange, NoSuchEntry, NoSuchLedger, NotReady
from magnetar.ledger.bookkeeper.ledger_reader import LedgerReader
from magnetar.ledger.bookkeeper.wire import Operation
from magnetar.ledger.store import Quorum
from simulation.environment.loop import pass_time
from tests.support.bookkeeper import TRIPLE, Cluster, payloads, run_cluster

DATA = payloads(120)


async def sealed(cluster: Cluster, quorum: Quorum = TRIPLE) -> LedgerReader:
    appends = await cluster.ledger(quorum)
    appends.append(*DATA)
    await cluster.until(lambda: not appends.pending)
    await pass_time(1.0)
    await appends.handle.close()
    return await cluster.client.open_ledger(appends.handle.ledger, recover=False)


def requests(cluster: Cluster, operation: Operation) -> int:
    return sum(bookie.requests[operation] for bookie in cluster.bookies.values())


def test_batch_read_is_one_request() -> None:
    async def body(cluster: Cluster) -> None:
        reader = await sealed(cluster)
        entries = await reader.read(10, 59, 1_000_000)
        assert [entry.payload for entry in entries] == DATA[10:60]
        assert (requests(cluster, Operation.BATCH_READ), requests(cluster, Operation.READ)) == (1, 0)

    run_cluster(body)


def test_striped_ledger_is_read_by_single_reads() -> None:
    async def body(cluster: Cluster) -> None:
        reader = await sealed(cluster, Quorum(3, 2, 2))
        entries = await reader.read(10, 59, 1_000_000)
        assert [entry.payload for entry in entries] == DATA[10:60]
        assert (requests(cluster, Operation.BATCH_READ), requests(cluster, Operation.READ)) == (0, 50)

    run_cluster(body)


@pytest.mark.parametrize("quorum", [Quorum(3, 3, 2), Quorum(3, 2, 2)])
@pytest.mark.parametrize("bytes_max", [0, 1, 250, 1_000, 5_000])
def test_bytes_end_read_behind_first_entry(quorum: Quorum, bytes_max: int) -> None:
    async def body(cluster: Cluster) -> None:
        reader = await sealed(cluster, quorum)
        entries = await reader.read(5, 119, bytes_max)
        sizes = [len(entry.payload) for entry in entries]
        assert [entry.payload for entry in entries] == DATA[5 : 5 + len(entries)]
        assert len(sizes) == 1 or sum(sizes) <= bytes_max
        assert len(sizes) >= min(bytes_max // 120, 100)

    run_cluster(body)


def test_bookies_without_batch_reads_serve_single_reads() -> None:
    async def body(cluster: Cluster) -> None:
        for bookie in cluster.bookies.values():
            bookie.faults.batch_reads = False
        reader = await sealed(cluster)
        assert await cluster.contents(reader.ledger) == DATA
        assert 1 <= requests(cluster, Operation.BATCH_READ) <= 4

    run_cluster(body)


@pytest.mark.parametrize("quorum", [Quorum(3, 3, 2), Quorum(3, 2, 2)])
def test_slow_bookie_is_passed_by_second_one(quorum: Quorum) -> None:
    async def body(cluster: Cluster) -> None:
        reader = await sealed(cluster, quorum)
        cluster.bookies[reader.metadata.write_set(0)[0]].faults.silent = True
        began = cluster.loop.time()
        assert (await reader.read(0, 0, 100))[0].payload == DATA[0]
        assert cluster.loop.time() - began < 2 * cluster.config.speculate_s

    run_cluster(body)


@pytest.mark.parametrize("quorum", [Quorum(3, 3, 2), Quorum(3, 2, 2)])
def test_damaged_and_crashed_bookies_are_passed(quorum: Quorum) -> None:
    async def body(cluster: Cluster) -> None:
        reader = await sealed(cluster, quorum)
        first, second, *_ = [cluster.bookies[bookie] for bookie in reader.metadata.last_segment.bookies]
        first.faults.damaged = True
        if quorum.write == 3:
            second.crash()
        payloads = [
            entry.payload for start in range(0, 120, 10) for entry in await reader.read(start, start + 9, 10**6)
        ]
        assert payloads == DATA

    run_cluster(body)


def test_damage_on_every_bookie_is_reported() -> None:
    async def body(cluster: Cluster) -> None:
        reader = await sealed(cluster)
        for bookie in cluster.bookies.values():
            bookie.faults.damaged = True
        with pytest.raises(Corrupt):
            await reader.read(0, 0, 100)

    run_cluster(body)


def test_acknowledged_entry_without_copy_is_not_end_of_ledger() -> None:
    async def body(cluster: Cluster) -> None:
        reader = await sealed(cluster)
        for bookie in cluster.bookies.values():
            if reader.ledger in bookie.ledgers:
                del bookie.ledgers[reader.ledger].entries[7]
        with pytest.raises(NotReady):
            await reader.read(7, 7, 100)

    run_cluster(body)


def test_read_of_deleted_ledger_finds_it_gone() -> None:
    async def body(cluster: Cluster) -> None:
        reader = await sealed(cluster)
        await cluster.client.delete_ledger(reader.ledger)
        await cluster.client.delete_ledger(reader.ledger)
        for bookie in cluster.bookies.values():
            bookie.ledgers.clear()
        with pytest.raises(NoSuchLedger):
            await reader.read(0, 5, 100)

    run_cluster(body)


def test_read_past_end_is_refused() -> None:
    async def body(cluster: Cluster) -> None:
        reader = await sealed(cluster)
        with pytest.raises(NoSuchEntry):
            await reader.read(120, 130, 100)
        assert len(await reader.read(119, 500, 10**6)) == 1
        for first, last in ((-1, 3), (5, 4)):
            with pytest.raises(InvalidRange):
                await reader.read(first, last, 100)

    run_cluster(body)


def test_open_ledger_is_read_up_to_end_that_bookies_know() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        empty = await cluster.new_client().open_ledger(appends.handle.ledger, recover=False)
        assert (empty.last_entry, empty.length, empty.sealed) == (-1, 0, False)
        for payload in DATA[:10]:
            appends.append(payload)
            await cluster.until(lambda: not appends.pending)
        reader = await cluster.new_client().open_ledger(appends.handle.ledger, recover=False)
        assert (reader.last_entry, reader.length) == (8, sum(map(len, DATA[:9])))
        assert len(await reader.read(0, 100, 10**6)) == 9
        appends.append(DATA[10])
        await cluster.until(lambda: not appends.pending)
        assert not appends.errors  # a read without recovery fences nothing

    run_cluster(body)


def test_read_crosses_segments() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        appends.append(*DATA[:60])
        await cluster.until(lambda: not appends.pending)
        cluster.members(appends.handle)[0].crash()
        appends.append(*DATA[60:])
        await cluster.until(lambda: not appends.pending)
        await appends.handle.close()
        assert await cluster.contents(appends.handle.ledger) == DATA

    run_cluster(body)
