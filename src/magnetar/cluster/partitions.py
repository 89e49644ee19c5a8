"""The records of partitioned topics: the number of partitions of each, which only grows. The partitions themselves are
topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from magnetar.base.errors import AlreadyExists, BadVersion, Conflict, LimitExceeded, NotFound
from magnetar.base.limits import PARTITIONS_MAX
from magnetar.base.names import Domain, NamespaceName, TopicName, decode
from magnetar.metadata import paths
from magnetar.metadata.cache import Cache
from magnetar.metadata.store import MetadataStore


class PartitionedTopic(msgspec.Struct, frozen=True, omit_defaults=True):
    partitions: int
    deleted: bool = False
    properties: dict[str, str] | None = None

    def document(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"partitions": self.partitions, "deleted": self.deleted}
        return shown if self.properties is None else {**shown, "properties": self.properties}


class Partitions:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._cache: Cache[PartitionedTopic] = Cache(
            store,
            paths.PARTITIONED_TOPICS,
            decode=msgspec.json.Decoder(PartitionedTopic).decode,
            encode=lambda topic: msgspec.json.encode(topic.document()),
        )

    async def get(self, name: TopicName) -> PartitionedTopic | None:
        if name.is_partition or name.domain not in (Domain.PERSISTENT, Domain.NON_PERSISTENT):
            return None
        return await self._cache.get(paths.partitioned(name))

    async def create(self, name: TopicName, topic: PartitionedTopic) -> None:
        _check(topic.partitions)
        try:
            await self._cache.create(paths.partitioned(name), topic)
        except BadVersion:
            raise AlreadyExists("This topic already exists", topic=str(name)) from None

    async def grow(self, name: TopicName, partitions: int) -> None:
        _check(partitions)

        def more(before: PartitionedTopic | None) -> PartitionedTopic:
            if before is None:
                raise Conflict(f"Topic {name} is not the partitioned topic.")
            if partitions < before.partitions:
                raise Conflict(
                    f"Desired partitions {partitions} can't be less than the current partitions {before.partitions}.",
                    http_status=422,
                )
            return msgspec.structs.replace(before, partitions=partitions)

        await self._cache.update(paths.partitioned(name), more)

    async def update_properties(self, name: TopicName, properties: Mapping[str, str]) -> None:
        def added(before: PartitionedTopic | None) -> PartitionedTopic:
            if before is None:
                raise NotFound(f"Topic {name} not found")
            return msgspec.structs.replace(before, properties={**(before.properties or {}), **properties})

        await self._cache.update(paths.partitioned(name), added)

    async def delete(self, name: TopicName) -> None:
        await self._cache.delete(paths.partitioned(name))

    async def names(self, namespace: NamespaceName, domain: Domain) -> list[str]:
        parent = paths.partitioned_parent(namespace, domain)
        return [f"{domain}://{namespace}/{decode(child)}" for child in await self._store.children(parent)]

    def forget(self) -> None:
        self._cache.forget()

    def close(self) -> None:
        self._cache.close()


def _check(partitions: int) -> None:
    if partitions > PARTITIONS_MAX:
        raise LimitExceeded(f"Number of partitions should be less than or equal to {PARTITIONS_MAX}", http_status=406)
