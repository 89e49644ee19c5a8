"""What a standalone finds in place, the first time and every other."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from magnetar.base.names import namespace_name
from magnetar.policy.policies import Policies
from simulation.stores.metadata import MemoryStore
from tests.unit.cluster.world import World, a_world

pytestmark = pytest.mark.real_clock


async def test_standalone_has_its_cluster_public_default_and_pulsar_system(world: World) -> None:
    assert await world.clusters.names() == ["standalone"]
    assert await world.tenants.names() == ["public", "pulsar"]
    assert await world.namespaces.names("public") == ["public/default"]
    assert await world.namespaces.names("pulsar") == ["pulsar/system"]
    info = await world.tenants.get("public")
    assert (info.adminRoles, info.allowedClusters) == ([], ["standalone"])
    policies = await world.namespaces.get(namespace_name("public/default"))
    assert policies.replication_clusters == ["standalone"]
    assert policies.bundles is not None
    assert policies.bundles.boundaries == ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]


async def test_starting_again_changes_nothing_that_people_changed() -> None:
    store = MemoryStore()
    world = await a_world(store)

    def ttl(before: Policies) -> Policies:
        return msgspec.structs.replace(before, message_ttl_in_seconds=7)

    await world.namespaces.update(namespace_name("public/default"), ttl)
    again = await a_world(store.reopen())
    assert (await again.namespaces.get(namespace_name("public/default"))).message_ttl_in_seconds == 7


async def test_two_brokers_may_start_at_once() -> None:
    store = MemoryStore()
    await asyncio.gather(a_world(store), a_world(store.peer()))
    assert await store.children("/admin/policies") == ["public", "pulsar"]
