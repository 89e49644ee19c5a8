"""The list of bookies: read when it is needed, without read-only ones, with racks and addresses."""

from __future__ import annotations

import json

import pytest

from magnetar.base.errors import NotEnoughNodes, NotReady
from magnetar.ledger.bookkeeper.registration import Address, registration
from magnetar.ledger.store import Quorum
from magnetar.metadata import paths
from simulation.environment.loop import pass_time
from tests.support.bookkeeper import Cluster, run_cluster


def test_new_bookie_is_found_when_list_does_not_suffice() -> None:
    async def body(cluster: Cluster) -> None:
        bookies = cluster.client.bookies
        with pytest.raises(NotEnoughNodes):
            await bookies.ensemble(Quorum(3, 3, 2))
        await cluster.add_bookie()
        assert len(set(await bookies.ensemble(Quorum(3, 3, 2)))) == 3

    run_cluster(body, bookies=2)


def test_read_only_bookie_gets_no_ledger() -> None:
    async def body(cluster: Cluster) -> None:
        bookie = next(iter(cluster.bookies.values()))
        await bookie.unregister(cluster.store)
        bookie.faults.read_only = True
        await bookie.register(cluster.store)
        for _ in range(20):
            assert bookie.id not in await cluster.client.bookies.ensemble(Quorum(2, 2, 2))
        assert await cluster.client.bookies.address(bookie.id) == bookie.address

    run_cluster(body, bookies=3)


def test_bookie_with_name_is_found_by_its_registration() -> None:
    async def body(cluster: Cluster) -> None:
        value = registration("bookie-7", Address("10.0.0.7", 3181))
        await cluster.store.put(f"{paths.bookies()}/bookie-7", value, ephemeral=True)
        assert await cluster.client.bookies.address("bookie-7") == Address("10.0.0.7", 3181)
        with pytest.raises(NotReady):
            await cluster.client.bookies.address("bookie-8")
        assert await cluster.client.bookies.address("10.0.0.9:3181") == Address("10.0.0.9", 3181)

    run_cluster(body)


def test_racks_of_pulsar_are_obeyed() -> None:
    async def body(cluster: Cluster) -> None:
        names = list(cluster.bookies)
        racks = {name: {"rack": "/r1" if index < 3 else "/r2"} for index, name in enumerate(names)}
        await cluster.store.put(paths.BOOKIE_RACKS, json.dumps({"default": racks}).encode())
        for _ in range(20):
            assert names[3] in await cluster.client.bookies.ensemble(Quorum(2, 2, 2))

    run_cluster(body)


def test_failed_bookie_is_avoided_until_quarantine_ends() -> None:
    async def body(cluster: Cluster) -> None:
        bookies, victim = cluster.client.bookies, next(iter(cluster.bookies))
        bookies.failed(victim)
        chosen = {name for _ in range(20) for name in await bookies.ensemble(Quorum(2, 2, 2))}
        assert victim not in chosen
        await pass_time(61.0)
        assert victim in {name for _ in range(40) for name in await bookies.ensemble(Quorum(2, 2, 2))}

    run_cluster(body)
