"""Probes tell apart what is alive, what is ready and what works."""

from __future__ import annotations

import pytest

from magnetar.base.errors import ConnectionLost, SessionLost, StorageFull
from simulation.stores.metadata import InjectedFault, MemoryStore
from tests.unit.admin.world import World, a_world

pytestmark = pytest.mark.real_clock

HEALTH = "/admin/v2/brokers/health"


async def statuses(world: World) -> list[int]:
    return [(await world.ask("GET", path)).status for path in ("/livez", "/readyz", "/admin/v2/brokers/ready", HEALTH)]


async def test_broker_that_stops_is_alive_and_takes_no_more_clients() -> None:
    async with a_world() as world:
        assert await statuses(world) == [200, 200, 200, 200]
        world.node.ready = False
        assert await statuses(world) == [200, 503, 503, 503]


async def test_broker_whose_disk_is_full_is_neither_and_says_why() -> None:
    async with a_world() as world:
        world.node.fail(StorageFull("no space left"))
        assert await statuses(world) == [503, 503, 503, 503]
        assert "no space left" in (await world.ask("GET", "/livez")).reason


async def test_broker_whose_session_is_lost_names_session() -> None:
    async with a_world() as world:
        world.node.end(SessionLost("no session after 10 attempts"))
        assert await statuses(world) == [503, 503, 503, 503]
        for path in ("/livez", "/readyz"):
            reason = (await world.ask("GET", path)).reason
            assert reason.startswith("the session with the metadata store was lost, the broker is stopping")


async def test_silent_store_is_unhealthy_but_alive_and_ready() -> None:
    async with a_world() as world:
        store = world.node.metadata
        assert isinstance(store, MemoryStore)
        store.faults.append(InjectedFault(ConnectionLost("gone"), happened=False))
        assert (await world.ask("GET", HEALTH)).status == 503
        assert await statuses(world) == [200, 200, 200, 200]
