"""Tenants: who may administer them and in which clusters their namespaces may live."""

from __future__ import annotations

import msgspec

from magnetar.base.errors import AlreadyExists, BadVersion, Conflict, InvalidName, Misuse, NotFound, QuotaExceeded
from magnetar.base.names import check_entity, check_new, check_size
from magnetar.cluster.clusters import Clusters
from magnetar.metadata import paths
from magnetar.metadata.cache import Cache
from magnetar.metadata.store import MetadataStore
from magnetar.policy.settings import Settings


class TenantInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """`adminRoles` None: unset at creation, and not shown."""

    adminRoles: list[str] | None = None
    allowedClusters: list[str] | None = None


class Tenants:
    def __init__(self, store: MetadataStore, clusters: Clusters, settings: Settings) -> None:
        self._store = store
        self._clusters = clusters
        self._settings = settings
        self._cache: Cache[TenantInfo] = Cache(store, paths.POLICIES, decode=_decode, encode=msgspec.json.encode)

    async def names(self) -> list[str]:
        return await self._store.children(paths.POLICIES)

    async def find(self, name: str) -> TenantInfo | None:
        return await self._cache.get(paths.tenant(name))

    async def get(self, name: str) -> TenantInfo:
        tenant = await self.find(name)
        if tenant is None:
            raise NotFound("Tenant does not exist", tenant=name)
        return tenant

    async def create(self, name: str, info: TenantInfo | None) -> None:
        try:
            check_entity(name)
            check_new(name)
        except InvalidName:
            raise Misuse("Tenant name is not valid", tenant=name) from None
        check_size(name, "tenant")
        checked = await self._checked(info)
        if await self.find(name) is not None:
            raise AlreadyExists("Tenant already exist", tenant=name)
        limit = self._settings.number("maxTenants")
        if limit and len(await self.names()) >= limit:
            raise QuotaExceeded("Exceed the maximum number of tenants", tenants_max=limit)
        try:
            await self._cache.create(paths.tenant(name), checked)
        except BadVersion:
            raise AlreadyExists("Tenant already exist", tenant=name) from None

    async def update(self, name: str, info: TenantInfo | None) -> None:
        checked = await self._checked(info)

        def replaced(before: TenantInfo | None) -> TenantInfo:
            if before is None:
                raise NotFound(f"Tenant {name} not found")
            return checked

        await self._cache.update(paths.tenant(name), replaced)

    async def delete(self, name: str) -> None:
        """Conflict while it has namespaces: the caller deletes those first."""
        if await self.find(name) is None:
            raise NotFound("Tenant doesn't exist", tenant=name)
        if await self._store.children(paths.tenant(name)):
            raise Conflict("The tenant still has active namespaces", tenant=name)
        await self._cache.delete(paths.tenant(name))

    def check_force(self) -> None:
        if not self._settings.flag("forceDeleteTenantAllowed"):
            raise Misuse("Broker doesn't allow forced deletion of tenants", http_status=405)

    def close(self) -> None:
        self._cache.close()

    async def _checked(self, info: TenantInfo | None) -> TenantInfo:
        if info is None:
            raise Misuse("TenantInfo is null")
        if info.allowedClusters is None:
            raise Misuse("Clusters cannot be null")
        if not info.allowedClusters or not all(cluster.strip() for cluster in info.allowedClusters):
            raise Misuse("Clusters cannot be empty or blank")
        for cluster in info.allowedClusters:
            if not await self._clusters.exists(cluster):
                raise Misuse("Clusters do not exist", cluster=cluster)
        roles = None if info.adminRoles is None else sorted(set(info.adminRoles))
        return TenantInfo(roles, sorted(set(info.allowedClusters)))


def _decode(data: bytes) -> TenantInfo:
    return msgspec.json.decode(data, type=TenantInfo)
