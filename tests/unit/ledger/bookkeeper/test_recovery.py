"""Recoveries over bookies in Python: what they keep, what they refuse, and several at the same time."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Fenced, MagnetarError, NoSuchLedger, Unavailable, Unknown
from magnetar.ledger.bookkeeper import wire
from magnetar.ledger.bookkeeper.ledger_metadata import State
from magnetar.ledger.bookkeeper.wire import Code
from magnetar.ledger.store import Quorum
from simulation.environment.loop import pass_time
from tests.support.bookkeeper import TRIPLE, Appends, Cluster, payloads, run_cluster

DATA = payloads(300)
QUORUMS = [Quorum(1, 1, 1), Quorum(2, 2, 2), Quorum(3, 3, 2), Quorum(3, 2, 2), Quorum(4, 3, 2)]


async def killed_writer(cluster: Cluster, entries: int, quorum: Quorum = TRIPLE) -> Appends:
    """A writer that ends with all entries acknowledged and the ledger open."""
    appends = await cluster.ledger(quorum)
    appends.append(*DATA[:entries])
    await cluster.until(lambda: not appends.pending)
    await appends.handle.abandon()
    return appends


@pytest.mark.parametrize(
    "quorum", [Quorum(1, 1, 1), Quorum(2, 2, 2), Quorum(3, 3, 2), Quorum(3, 2, 2), Quorum(4, 3, 2)]
)
@pytest.mark.parametrize("entries", [0, 1, 2, 200])
def test_acknowledged_entries_survive(quorum: Quorum, entries: int) -> None:
    async def body(cluster: Cluster) -> None:
        appends = await killed_writer(cluster, entries, quorum)
        assert await cluster.contents(appends.handle.ledger) == DATA[:entries]
        metadata = await cluster.client.ledger_metadata(appends.handle.ledger)
        assert metadata.is_closed
        assert metadata.last_entry == entries - 1

    run_cluster(body)


@pytest.mark.parametrize("seed", range(30))
def test_kill_in_burst_loses_no_acknowledged_entry(seed: int) -> None:
    """A writer is killed with entries in flight, bookies crash, and three recoveries run together."""

    async def body(cluster: Cluster) -> None:
        for bookie in cluster.bookies.values():
            bookie.faults.sync_s = 0.002
        appends = await cluster.ledger()
        appends.append(*DATA)
        await cluster.until(lambda: len(appends.acknowledged) > 5 * seed)
        if seed % 2:
            cluster.members(appends.handle)[seed % 3].crash()
        if seed % 3:
            await appends.handle.abandon()
        results = await asyncio.gather(*(cluster.contents(appends.handle.ledger) for _ in range(3)))
        assert results[0] == results[1] == results[2]
        if not seed % 3:  # the writer lived on: it may hear of kept entries, and of nothing else
            await cluster.until(lambda: not appends.pending)
        assert results[0][: len(appends.acknowledged)] == DATA[: len(appends.acknowledged)]
        assert results[0] == DATA[: len(results[0])]

    run_cluster(body, seed=seed, bookies=5)


def test_every_read_of_recovery_fences_h_j2() -> None:
    """A bookie that lost the first fencing request is fenced by the read of an entry."""

    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        appends.append(*DATA[:5])
        await cluster.until(lambda: not appends.pending)
        await pass_time(0.1)
        members = cluster.members(appends.handle)
        before = [bookie.requests[wire.Operation.READ] for bookie in members]
        await cluster.contents(appends.handle.ledger)
        for bookie, count in zip(members, before, strict=True):
            assert bookie.ledgers[appends.handle.ledger].fenced
            assert bookie.fencing_reads > 1
            assert bookie.fencing_reads <= bookie.requests[wire.Operation.READ] - count
        appends.append(DATA[5])
        await cluster.until(lambda: bool(appends.errors))
        assert isinstance(appends.errors[0], Fenced)
        assert appends.acknowledged == list(range(5))

    run_cluster(body)


def test_recovery_reads_bookies_of_last_segment_only_h_j2() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        appends.append(*DATA[:5])
        await cluster.until(lambda: not appends.pending)
        old = cluster.members(appends.handle)[0]
        old.crash()
        appends.append(*DATA[5:10])
        await cluster.until(lambda: not appends.pending and old.id not in appends.handle.state.ensemble)
        await appends.handle.abandon()
        await old.start()
        assert await cluster.contents(appends.handle.ledger) == DATA[:10]
        assert old.fencing_reads == 0

    run_cluster(body)


def test_unacknowledged_entry_on_one_bookie_is_kept_byte_for_byte() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        appends.append(*DATA[:3])
        await cluster.until(lambda: not appends.pending)
        await pass_time(0.1)
        first, *others = cluster.members(appends.handle)
        for bookie in others:
            bookie.faults.code = Code.IO_ERROR
            bookie.faults.silent = True
        appends.append(DATA[3])
        await cluster.until(lambda: 3 in first.ledgers[appends.handle.ledger].entries)
        await appends.handle.abandon()
        for bookie in others:
            bookie.cut()
            bookie.faults.code = None
            bookie.faults.silent = False
        await pass_time(1.0)
        assert await cluster.contents(appends.handle.ledger) == DATA[:4]
        bodies = {bookie.ledgers[appends.handle.ledger].entries[3] for bookie in [first, *others]}
        assert len(bodies) == 1

    run_cluster(body)


def test_unreachable_bookies_make_recovery_fail_until_one_returns() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await killed_writer(cluster, 20)
        members = cluster.members(appends.handle)
        for bookie in members[:2]:
            bookie.crash()
        with pytest.raises((Unavailable, Unknown)):
            await cluster.contents(appends.handle.ledger)
        assert (await cluster.client.ledger_metadata(appends.handle.ledger)).state is State.IN_RECOVERY
        await members[0].start()
        await pass_time(10.0)
        assert await cluster.contents(appends.handle.ledger) == DATA[:20]

    run_cluster(body, bookies=3)


def test_error_is_never_taken_for_end() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await killed_writer(cluster, 20)
        for bookie in cluster.members(appends.handle):
            bookie.faults.read_code = Code.UNKNOWN_LEDGER_STATE
        with pytest.raises(MagnetarError):
            await cluster.contents(appends.handle.ledger)
        for bookie in cluster.bookies.values():
            bookie.faults.read_code = None
        assert await cluster.contents(appends.handle.ledger) == DATA[:20]

    run_cluster(body)


def test_damaged_answer_is_not_absence() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await killed_writer(cluster, 20)
        cluster.members(appends.handle)[0].faults.damaged = True
        assert await cluster.contents(appends.handle.ledger) == DATA[:20]

    run_cluster(body)


def test_bookie_that_fails_in_recovery_is_replaced_in_sealed_metadata() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await killed_writer(cluster, 20, Quorum(3, 3, 3))
        victim = cluster.members(appends.handle)[0]
        victim.faults.code = Code.IO_ERROR  # it answers reads and refuses to store
        assert await cluster.contents(appends.handle.ledger) == DATA[:20]
        metadata = await cluster.client.ledger_metadata(appends.handle.ledger)
        assert victim.id not in metadata.last_segment.bookies

    run_cluster(body)


def test_recovery_that_was_killed_is_finished_by_next_one() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await killed_writer(cluster, 20)
        metadata, version = await cluster.client.catalog.read(appends.handle.ledger)
        await cluster.client.catalog.replace(appends.handle.ledger, metadata.in_recovery(), version)
        assert await cluster.contents(appends.handle.ledger) == DATA[:20]

    run_cluster(body)


def test_lost_answers_of_metadata_store_do_not_stop_recovery() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await killed_writer(cluster, 20)
        cluster.store.lost_answers = 2
        assert await cluster.contents(appends.handle.ledger) == DATA[:20]

    run_cluster(body)


def test_sealed_ledger_is_opened_without_bookies() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await killed_writer(cluster, 20)
        await cluster.contents(appends.handle.ledger)
        for bookie in cluster.bookies.values():
            bookie.crash()
        reader = await cluster.new_client().open_ledger(appends.handle.ledger, recover=True)
        assert (reader.last_entry, reader.sealed) == (19, True)

    run_cluster(body)


def test_ledger_that_does_not_exist_is_refused() -> None:
    async def body(cluster: Cluster) -> None:
        with pytest.raises(NoSuchLedger):
            await cluster.client.open_ledger(77, recover=True)

    run_cluster(body)
