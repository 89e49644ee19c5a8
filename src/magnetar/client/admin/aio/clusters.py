"""Clusters over REST: list, read, create, change, delete. A cluster's document is free: every field survives."""

from __future__ import annotations

from magnetar.client.admin import paths
from magnetar.client.admin.aio.resource import AdminResource
from magnetar.client.documents.tenants import ClusterData

Names = list[str]


class Clusters(AdminResource):
    async def names(self) -> Names:
        return await self._exchange.read(f"{paths.ROOT}/clusters", Names)

    async def list(self) -> Names:
        """The same as `names`: every resource has a `list`."""
        return await self.names()

    async def get(self, name: str) -> ClusterData:
        return await self._exchange.read(paths.cluster(name), ClusterData)

    async def create(self, name: str, data: ClusterData) -> None:
        await self._exchange.send("PUT", paths.cluster(name), data)

    async def update(self, name: str, data: ClusterData) -> None:
        await self._exchange.send("POST", paths.cluster(name), data)

    async def delete(self, name: str) -> None:
        await self._exchange.send("DELETE", paths.cluster(name))
