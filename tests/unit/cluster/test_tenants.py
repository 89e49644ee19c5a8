"""Tenants, with the words and statuses of the recorded exchanges."""

from __future__ import annotations

import pytest

from magnetar.base.errors import AlreadyExists, Conflict, MagnetarError, Misuse, NotFound, QuotaExceeded
from magnetar.base.names import namespace_name
from magnetar.cluster.tenants import TenantInfo
from tests.unit.cluster.world import World

pytestmark = pytest.mark.real_clock


async def test_tenant_is_created_changed_and_deleted(world: World) -> None:
    tenants = world.tenants
    await tenants.create("acme", TenantInfo(["ops", "admin"], ["standalone"]))
    assert (await tenants.get("acme")).adminRoles == ["admin", "ops"]
    with pytest.raises(AlreadyExists, match="Tenant already exist"):
        await tenants.create("acme", TenantInfo([], ["standalone"]))
    await tenants.update("acme", TenantInfo(None, ["standalone"]))
    assert (await tenants.get("acme")).adminRoles is None
    await world.namespaces.create(namespace_name("acme/orders"))
    with pytest.raises(Conflict, match="The tenant still has active namespaces"):
        await tenants.delete("acme")
    await world.namespaces.delete(namespace_name("acme/orders"))
    await tenants.delete("acme")
    with pytest.raises(NotFound, match="Tenant doesn't exist"):
        await tenants.delete("acme")
    with pytest.raises(NotFound, match="Tenant acme not found"):
        await tenants.update("acme", TenantInfo([], ["standalone"]))
    with pytest.raises(NotFound, match="Tenant does not exist"):
        await tenants.get("acme")


@pytest.mark.parametrize(
    ("name", "info", "words"),
    [
        ("t", TenantInfo(["a"], []), "Clusters cannot be empty or blank"),
        ("t", TenantInfo(["a"], [" "]), "Clusters cannot be empty or blank"),
        ("t", TenantInfo(["a"]), "Clusters cannot be null"),
        ("t", TenantInfo([], ["nosuch"]), "Clusters do not exist"),
        ("t", None, "TenantInfo is null"),
        ("bad name", TenantInfo([], ["standalone"]), "Tenant name is not valid"),
        ("bad@name", TenantInfo([], ["standalone"]), "Tenant name is not valid"),
        ("t" * 1025, TenantInfo([], ["standalone"]), "the name of a tenant must have at most 1024 bytes"),
    ],
)
async def test_wrong_tenants_are_refused_in_pulsars_words(
    world: World, name: str, info: TenantInfo | None, words: str
) -> None:
    with pytest.raises(MagnetarError, match=words) as refused:
        await world.tenants.create(name, info)
    assert refused.value.http_status == 412
    assert await world.tenants.names() == ["public", "pulsar"]


@pytest.mark.setup(maxTenants="2")
async def test_limits_and_forced_deletion_follow_settings(world: World) -> None:
    with pytest.raises(QuotaExceeded):
        await world.tenants.create("third", TenantInfo([], ["standalone"]))
    with pytest.raises(Misuse, match="Broker doesn't allow forced deletion of tenants") as refused:
        world.tenants.check_force()
    assert refused.value.http_status == 405
