"""Tenants over REST: list, read, create, change, delete. The server validates tenants."""

from __future__ import annotations

from magnetar.client.admin import paths
from magnetar.client.admin.aio.resource import AdminResource
from magnetar.client.documents.tenants import TenantInfo

Names = list[str]


class Tenants(AdminResource):
    async def names(self) -> Names:
        return await self._exchange.read(f"{paths.ROOT}/tenants", Names)

    async def list(self) -> Names:
        """The same as `names`: every resource has a `list`."""
        return await self.names()

    async def get(self, name: str) -> TenantInfo:
        return await self._exchange.read(paths.tenant(name), TenantInfo)

    async def create(
        self, name: str, *, allowed_clusters: Names | None = None, admin_roles: Names | None = None
    ) -> None:
        """Without `allowed_clusters` the tenant may use every present cluster."""
        if allowed_clusters is None:
            allowed_clusters = await self._exchange.read(f"{paths.ROOT}/clusters", Names)
        await self._exchange.send("PUT", paths.tenant(name), TenantInfo(admin_roles or [], allowed_clusters))

    async def update(self, name: str, info: TenantInfo) -> None:
        await self._exchange.send("POST", paths.tenant(name), info)

    async def delete(self, name: str, *, force: bool = False) -> None:
        """With `force`, also delete its namespaces and all their topics, if the brokers allow it."""
        await self._exchange.send("DELETE", paths.tenant(name), query={"force": force or None})
