"""Writers over bookies in Python: acknowledgement, replaced bookies, lost answers of the metadata store, fences."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Closed, Fenced, LimitExceeded, NotAuthorized, NotEnoughNodes, TimedOut
from magnetar.ledger.bookkeeper.config import BookKeeperConfig
from magnetar.ledger.bookkeeper.ledger_metadata import State
from magnetar.ledger.bookkeeper.wire import Code
from magnetar.ledger.store import Quorum
from simulation.environment.loop import pass_time
from tests.support.bookkeeper import Cluster, payloads, run_cluster

DATA = payloads(200)
QUORUMS = [Quorum(1, 1, 1), Quorum(2, 2, 2), Quorum(3, 3, 2), Quorum(3, 2, 2), Quorum(4, 2, 1)]


@pytest.mark.parametrize(
    "quorum", [Quorum(1, 1, 1), Quorum(2, 2, 2), Quorum(3, 3, 2), Quorum(3, 2, 2), Quorum(4, 2, 1)]
)
def test_entries_are_acknowledged_in_order_and_read_back(quorum: Quorum) -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger(quorum)
        appends.append(*DATA)
        assert appends.acknowledged == []
        await cluster.until(lambda: not appends.pending)
        assert appends.acknowledged == list(range(len(DATA)))
        await appends.handle.close()
        assert await cluster.contents(appends.handle.ledger, recover=False) == DATA

    run_cluster(body)


def test_metadata_exist_before_first_add() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        metadata = await cluster.client.ledger_metadata(appends.handle.ledger)
        assert metadata.state is State.OPEN
        assert metadata.custom == {"application": b"test"}
        assert not any(bookie.ledgers for bookie in cluster.bookies.values())

    run_cluster(body)


def test_ledger_ids_grow() -> None:
    async def body(cluster: Cluster) -> None:
        ids = [(await cluster.ledger()).handle.ledger for _ in range(5)]
        assert ids == sorted(set(ids))
        assert await cluster.client.list_ledgers() == ids

    run_cluster(body)


def test_close_seals_at_last_acknowledged_entry() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        appends.append(*DATA[:3])
        await cluster.until(lambda: not appends.pending)
        for bookie in cluster.bookies.values():
            bookie.faults.silent = True
        appends.append(*DATA[3:5])
        await appends.handle.close()
        assert [type(error) for error in appends.errors] == [Closed, Closed]
        metadata = await cluster.client.ledger_metadata(appends.handle.ledger)
        assert (metadata.state, metadata.last_entry) == (State.CLOSED, 2)
        assert metadata.length == sum(map(len, DATA[:3]))
        appends.append(b"late")
        await cluster.until(lambda: len(appends.errors) == 3)

    run_cluster(body)


@pytest.mark.parametrize("seed", range(6))
def test_killed_bookie_is_replaced_without_loss(seed: int) -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        appends.append(*DATA[:100])
        await cluster.until(lambda: len(appends.acknowledged) > 20)
        victim = cluster.members(appends.handle)[seed % 3]
        victim.crash()
        appends.append(*DATA[100:])
        await cluster.until(lambda: not appends.pending)
        assert victim.id not in appends.handle.state.ensemble
        await appends.handle.close()
        metadata = await cluster.client.ledger_metadata(appends.handle.ledger)
        assert len(metadata.segments) in (1, 2)
        assert await cluster.contents(appends.handle.ledger, recover=False) == DATA

    run_cluster(body, seed=seed)


def test_suspended_bookie_is_replaced_after_request_timeout() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        victim = cluster.members(appends.handle)[0]
        victim.faults.silent = True
        appends.append(*DATA[:10])
        await cluster.until(lambda: not appends.pending)
        assert appends.acknowledged == list(range(10))
        began = cluster.loop.time()
        await pass_time(cluster.config.request_s + 0.1)
        appends.append(*DATA[10:20])
        await cluster.until(lambda: victim.id not in appends.handle.state.ensemble)
        assert cluster.loop.time() - began < cluster.config.request_s + 1
        await cluster.until(lambda: not appends.pending)
        await appends.handle.close()
        assert await cluster.contents(appends.handle.ledger) == DATA[:20]

    run_cluster(body)


def test_answer_of_woken_bookie_is_ignored() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger(Quorum(2, 2, 2))
        victim = cluster.members(appends.handle)[0]
        victim.faults.delay_s = cluster.config.request_s + 0.05
        appends.append(*DATA[:4])
        await cluster.until(lambda: not appends.pending)
        assert victim.id not in appends.handle.state.ensemble
        await pass_time(10.0)
        appends.append(*DATA[4:8])
        await cluster.until(lambda: not appends.pending)
        await appends.handle.close()
        assert await cluster.contents(appends.handle.ledger) == DATA[:8]

    run_cluster(body)


@pytest.mark.parametrize(
    "code", [Code.IO_ERROR, Code.READ_ONLY, Code.TOO_MANY_REQUESTS, Code.UNKNOWN_LEDGER_STATE, 999]
)
def test_refusing_bookie_is_replaced(code: Code) -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        cluster.members(appends.handle)[1].faults.code = code
        appends.append(*DATA)
        await cluster.until(lambda: not appends.pending)
        assert appends.acknowledged == list(range(len(DATA)))
        await appends.handle.close()
        assert await cluster.contents(appends.handle.ledger) == DATA

    run_cluster(body)


def test_ledger_goes_on_with_ack_quorum_and_heals_later() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        victim = cluster.members(appends.handle)[2]
        victim.crash()
        await victim.unregister(cluster.store)
        appends.append(*DATA[:10])
        await cluster.until(lambda: not appends.pending)
        appends.append(*DATA[10:20])
        await cluster.until(lambda: not appends.pending)
        assert appends.handle.state.has_vacancies
        spare = await cluster.add_bookie()
        for start in range(20, 200):
            appends.append(DATA[start])
            await pass_time(0.1)
        await cluster.until(lambda: spare.id in appends.handle.state.ensemble)
        await cluster.until(lambda: not appends.pending)
        await appends.handle.close()
        assert await cluster.contents(appends.handle.ledger) == DATA

    run_cluster(body, bookies=3)


def test_too_few_bookies_fail_pending_entries_in_order() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger(Quorum(2, 2, 2))
        for bookie in cluster.members(appends.handle):
            bookie.crash()
            await bookie.unregister(cluster.store)
        appends.append(*DATA[:5])
        await cluster.until(lambda: len(appends.errors) == 5)
        assert {type(error) for error in appends.errors} == {NotEnoughNodes}

    run_cluster(body, bookies=2)


def test_new_ledger_needs_its_ensemble() -> None:
    async def body(cluster: Cluster) -> None:
        with pytest.raises(NotEnoughNodes):
            await cluster.ledger(Quorum(3, 3, 2))

    run_cluster(body, bookies=2)


def test_change_whose_answer_was_lost_is_found_again() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger(Quorum(2, 2, 2))
        cluster.members(appends.handle)[0].crash()
        cluster.store.lost_answers = 2
        appends.append(*DATA)
        await cluster.until(lambda: not appends.pending)
        await appends.handle.close()
        assert await cluster.contents(appends.handle.ledger) == DATA

    run_cluster(body)


def test_change_waits_for_metadata_store() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger(Quorum(2, 2, 2))
        cluster.members(appends.handle)[0].crash()
        cluster.store.down = True
        appends.append(*DATA)
        await pass_time(10.0)
        assert (appends.acknowledged, appends.errors) == ([], [])
        cluster.store.down = False
        await cluster.until(lambda: not appends.pending)
        assert appends.acknowledged == list(range(len(DATA)))

    run_cluster(body)


def test_metadata_store_that_stays_down_ends_ledger() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger(Quorum(2, 2, 2))
        cluster.members(appends.handle)[0].crash()
        cluster.store.down = True
        appends.append(DATA[0])
        await cluster.until(lambda: bool(appends.errors))
        assert isinstance(appends.errors[0], TimedOut)
        cluster.store.down = False

    run_cluster(body)


def test_writer_is_fenced_by_recovery() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        appends.append(*DATA[:10])
        await cluster.until(lambda: not appends.pending)
        assert await cluster.contents(appends.handle.ledger) == DATA[:10]
        appends.append(*DATA[10:12])
        await cluster.until(lambda: len(appends.errors) == 2)
        assert all(isinstance(error, Fenced) for error in appends.errors)
        with pytest.raises(Fenced):
            await appends.handle.close()

    run_cluster(body)


def test_recovery_during_change_fences_writer() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        appends.append(*DATA[:10])
        await cluster.until(lambda: not appends.pending)
        assert await cluster.contents(appends.handle.ledger) == DATA[:10]
        for bookie in cluster.members(appends.handle):  # fenced bookies that the writer does not hear
            bookie.crash()
        appends.append(DATA[10])
        await cluster.until(lambda: bool(appends.errors))
        assert isinstance(appends.errors[0], Fenced)

    run_cluster(body, bookies=7)


def test_close_of_recovered_ledger_is_fenced() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        appends.append(*DATA[:3])
        await cluster.until(lambda: not appends.pending)
        await cluster.contents(appends.handle.ledger)
        with pytest.raises(Fenced):
            await appends.handle.close()

    run_cluster(body)


def test_close_whose_answer_was_lost_succeeds() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        appends.append(*DATA[:3])
        await cluster.until(lambda: not appends.pending)
        cluster.store.lost_answers = 1
        await appends.handle.close()
        assert (await cluster.client.ledger_metadata(appends.handle.ledger)).is_closed

    run_cluster(body)


def test_metadata_deleted_under_writer_fence_it() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        await cluster.client.delete_ledger(appends.handle.ledger)
        for bookie in cluster.bookies.values():
            bookie.collect(appends.handle.ledger)
        appends.append(DATA[0])
        await cluster.until(lambda: bool(appends.errors))
        assert isinstance(appends.errors[0], Fenced)
        with pytest.raises(Fenced):
            await appends.handle.close()

    run_cluster(body)


def test_wrong_password_ends_ledger() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        for bookie in cluster.bookies.values():
            bookie.faults.code = Code.UNAUTHORIZED
        appends.append(DATA[0])
        await cluster.until(lambda: bool(appends.errors))
        assert isinstance(appends.errors[0], NotAuthorized)

    run_cluster(body)


def test_entry_larger_than_frame_is_refused_and_largest_is_taken() -> None:
    async def body(cluster: Cluster) -> None:
        appends = await cluster.ledger()
        assert appends.handle.entry_bytes_max == cluster.client.entry_bytes_max
        with pytest.raises(LimitExceeded):
            appends.append(bytes(cluster.client.entry_bytes_max + 1))
        appends.append(bytes(cluster.client.entry_bytes_max))
        await cluster.until(lambda: appends.acknowledged == [0])

    run_cluster(body, config=BookKeeperConfig(frame_bytes_max=10_000))


def test_unsynced_entries_of_crashed_bookies_were_not_acknowledged() -> None:
    async def body(cluster: Cluster) -> None:
        for bookie in cluster.bookies.values():
            bookie.faults.sync_s = 1.0
        appends = await cluster.ledger()
        appends.append(*DATA[:10])
        await pass_time(0.5)
        for bookie in cluster.members(appends.handle):
            bookie.crash()
            await bookie.start()
        acknowledged = len(appends.acknowledged)
        assert acknowledged == 0
        await cluster.until(lambda: not appends.pending)
        await appends.handle.close()
        assert len(await cluster.contents(appends.handle.ledger)) >= len(appends.acknowledged)

    run_cluster(body, bookies=7)
