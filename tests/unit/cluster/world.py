"""A cluster of one broker without the broker: the records of a standalone, on a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from magnetar.base.names import TopicName
from magnetar.cluster.bootstrap import bootstrap
from magnetar.cluster.clusters import Clusters
from magnetar.cluster.namespaces import Namespaces
from magnetar.cluster.tenants import Tenants
from magnetar.cluster.topics import Catalogue
from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore
from magnetar.policy.settings import Settings
from simulation.stores.metadata import MemoryStore
from tests.support.async_tests import provides, run_on_real_clock, within

DATA = {"serviceUrl": "http://localhost:8080", "brokerServiceUrl": "pulsar://localhost:6650"}


@dataclass(frozen=True)
class World:
    store: MetadataStore
    settings: Settings
    clusters: Clusters
    tenants: Tenants
    namespaces: Namespaces
    catalogue: Catalogue

    async def erase(self, name: TopicName) -> None:
        """As the topic's owner does when it is deleted; in a namespace that is there."""
        policies = await self.namespaces.get(name.namespace)
        await self.store.delete_tree(paths.topic(name, policies.buckets))

    @property
    def memory(self) -> MemoryStore:
        assert isinstance(self.store, MemoryStore)
        return self.store


async def a_world(store: MetadataStore, **file: str) -> World:
    settings = Settings(file=file)
    clusters = Clusters(store)
    tenants = Tenants(store, clusters, settings)
    namespaces = Namespaces(store, tenants, settings)
    world = World(store, settings, clusters, tenants, namespaces, Catalogue(store, namespaces, settings))
    await bootstrap(clusters, tenants, namespaces, cluster="standalone", data=DATA)
    return world


@provides(World)
async def new_world(**file: str) -> AsyncIterator[World]:
    yield await a_world(MemoryStore(), **file)


def run(body: Callable[[World], Awaitable[None]], **file: str) -> None:
    run_on_real_clock(lambda: within(new_world(**file), body))
