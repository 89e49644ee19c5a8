"""Clusters over REST: list, read, create, change, delete. A cluster's document is free: every field survives."""

from __future__ import annotations

from magnetar.client.administration import paths
from magnetar.client.administration.sync.exchange import Exchange
from magnetar.client.documents.tenants import ClusterData


class Clusters:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def names(self) -> list[str]:
        return self._exchange.read(f"{paths.ROOT}/clusters", list[str])

    def get(self, name: str) -> ClusterData:
        return self._exchange.read(paths.cluster(name), ClusterData)

    def create(self, name: str, data: ClusterData) -> None:
        self._exchange.send("PUT", paths.cluster(name), data)

    def update(self, name: str, data: ClusterData) -> None:
        self._exchange.send("POST", paths.cluster(name), data)

    def delete(self, name: str) -> None:
        self._exchange.send("DELETE", paths.cluster(name))
