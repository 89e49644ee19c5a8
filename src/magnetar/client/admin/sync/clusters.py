"""Clusters over REST: list, read, create, change, delete. A cluster's document is free: every field survives."""

from __future__ import annotations

from magnetar.client.admin import paths
from magnetar.client.admin.sync.resource import AdminResource
from magnetar.client.documents.tenants import ClusterData

Names = list[str]


class Clusters(AdminResource):
    def names(self) -> Names:
        return self._exchange.read(f"{paths.ROOT}/clusters", Names)

    def list(self) -> Names:
        """The same as `names`: every resource has a `list`."""
        return self.names()

    def get(self, name: str) -> ClusterData:
        return self._exchange.read(paths.cluster(name), ClusterData)

    def create(self, name: str, data: ClusterData) -> None:
        self._exchange.send("PUT", paths.cluster(name), data)

    def update(self, name: str, data: ClusterData) -> None:
        self._exchange.send("POST", paths.cluster(name), data)

    def delete(self, name: str) -> None:
        self._exchange.send("DELETE", paths.cluster(name))
