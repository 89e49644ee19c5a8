"""The records of BookKeeper in a metadata store: layout, ids, listing, and compare-and-set."""

from __future__ import annotations

import pytest

from magnetar.base.errors import BadVersion, NoSuchLedger, NotBuilt, NotReady
from magnetar.ledger.bookkeeper.catalog import LONG, LedgerCatalog
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata, Segment
from magnetar.ledger.store import Quorum
from magnetar.metadata import paths
from tests.support.bookkeeper import Cluster, run_cluster

METADATA = LedgerMetadata(Quorum(1, 1, 1), (Segment(0, ("a:1",)),))


def test_cluster_is_initialized_as_bookies_expect() -> None:
    async def body(cluster: Cluster) -> None:
        store = cluster.store
        layout = await store.get("/ledgers/LAYOUT")
        assert layout is not None
        assert layout.value == b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
        instance = await store.get("/ledgers/INSTANCEID")
        assert instance is not None
        assert len(instance.value) == 36
        await cluster.client.catalog.initialize()
        assert await store.get("/ledgers/INSTANCEID") == instance
        for path in ("/ledgers/available", "/ledgers/available/readonly", "/ledgers/idgen"):
            assert await store.exists(path)

    run_cluster(body)


def test_root_without_layout_is_refused() -> None:
    async def body(cluster: Cluster) -> None:
        with pytest.raises(NotReady, match="initialize"):
            await LedgerCatalog(cluster.store, cluster.runtime, "/elsewhere").open()

    run_cluster(body)


def test_flat_layout_is_refused() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.store.put(paths.ledger_layout(), b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1")
        with pytest.raises(NotBuilt, match="layout"):
            await cluster.client.catalog.open()

    run_cluster(body)


def test_long_layout_has_long_paths_for_small_ids() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.store.put(paths.ledger_layout(), f"2\n{LONG}:1".encode())
        catalog = LedgerCatalog(cluster.store, cluster.runtime)
        await catalog.open()
        await catalog.create(7, METADATA)
        assert await cluster.store.exists("/ledgers/000/0000/0000/0000/L0007")
        assert await catalog.list() == [7]

    run_cluster(body)


def test_ids_continue_behind_deleted_records() -> None:
    async def body(cluster: Cluster) -> None:
        catalog = cluster.client.catalog
        assert [await catalog.next_id() for _ in range(3)] == [0, 1, 2]
        assert await cluster.store.children("/ledgers/idgen") == []

    run_cluster(body)


def test_used_up_short_ids_continue_in_long_ones() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.shared._sequences["/ledgers/idgen/ID-"] = 2**31 - 2
        catalog = cluster.client.catalog
        assert await catalog.next_id() == 2**31 - 2
        assert [await catalog.next_id() for _ in range(2)] == [2**32, 2**32 + 1]
        cluster.shared._sequences["/ledgers/idgen-long/HOB-0000000001/ID-"] = 2**31
        assert await catalog.next_id() == 2 << 32

    run_cluster(body)


def test_ledgers_are_listed_in_order_of_ids() -> None:
    async def body(cluster: Cluster) -> None:
        ids = [0, 9, 10, 9_999, 10_000, 10_001, 99_999_999, 100_000_000, 2**31 - 2, 2**31 - 1, 2**32, 2**62]
        catalog = cluster.client.catalog
        for ledger in reversed(ids):
            await catalog.create(ledger, METADATA)
        assert await catalog.list() == ids
        for index, ledger in enumerate(ids):
            assert await catalog.list(after=ledger) == ids[index + 1 :]
            assert await catalog.list(after=ledger - 1, limit=2) == ids[index : index + 2]
        assert await catalog.list(limit=0) == []

    run_cluster(body)


def test_record_is_changed_by_its_version_only() -> None:
    async def body(cluster: Cluster) -> None:
        catalog = cluster.client.catalog
        version = await catalog.create(5, METADATA)
        with pytest.raises(BadVersion):
            await catalog.create(5, METADATA.in_recovery())
        later = await catalog.replace(5, METADATA.in_recovery(), version)
        with pytest.raises(BadVersion):
            await catalog.replace(5, METADATA.closed(-1, 0), version)
        assert await catalog.read(5) == (METADATA.in_recovery(), later)
        await catalog.delete(5)
        await catalog.delete(5)
        with pytest.raises(NoSuchLedger):
            await catalog.read(5)

    run_cluster(body)


def test_create_whose_answer_was_lost_is_found_again() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.store.lost_answers = 1
        version = await cluster.client.catalog.create(5, METADATA)
        assert await cluster.client.catalog.read(5) == (METADATA, version)

    run_cluster(body)
