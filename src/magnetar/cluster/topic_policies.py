"""The policies of single topics: documents with Pulsar's field names, one for each topic that has any.

A partition and a segment have those of their topic. A document is stored separately from its topic: it may be set
before the topic is loaded, and it is deleted with the topic. Unknown fields survive a change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from magnetar.base.errors import Corrupt
from magnetar.base.names import Domain, NamespaceName, TopicName, decode, namespace_name, topic_name
from magnetar.metadata import paths
from magnetar.metadata.cache import Cache
from magnetar.metadata.store import Change, Event, MetadataStore

Document = dict[str, Any]
_NONE: Document = {}


class TopicPolicies:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._cache: Cache[Document] = Cache(
            store, paths.TOPIC_POLICIES, decode=_decode, encode=lambda document: msgspec.json.encode(document)
        )

    async def of(self, name: TopicName) -> Mapping[str, Any]:
        """The policies of a topic, from the cache if possible; empty if none are set."""
        if name.domain is Domain.NON_PERSISTENT:
            return _NONE
        return await self._cache.get(paths.topic_policies(whole(name))) or _NONE

    async def names(self, namespace: NamespaceName) -> frozenset[TopicName]:
        """The topics of a namespace that may have policies."""
        root = paths.namespace_topic_policies(namespace)
        names = [
            topic_name(f"{domain}://{namespace}/{decode(child)}")
            for domain in (Domain.PERSISTENT, Domain.TOPIC)
            for child in await self._store.children(f"{root}/{domain}")
        ]
        return frozenset(names)

    async def set(self, name: TopicName, field: str, value: Any) -> None:
        """None removes the field."""

        def changed(before: Document | None) -> Document:
            kept = {key: old for key, old in (before or {}).items() if key != field}
            return kept if value is None else {**kept, field: msgspec.to_builtins(value)}

        await self._cache.update(paths.topic_policies(whole(name)), changed)

    async def delete(self, name: TopicName) -> None:
        """Deletes the policies with the topic. A partition keeps those of the whole topic."""
        if name.domain is not Domain.NON_PERSISTENT and not name.is_partition and not name.is_segment:
            await self._cache.delete(paths.topic_policies(name))

    def on_change(self, heard: Callable[[NamespaceName], None]) -> Callable[[], None]:
        """Calls `heard` with the namespace of a topic whose policies were created, changed or removed."""

        def changed(event: Event) -> None:
            parts = event.path.removeprefix(paths.TOPIC_POLICIES + "/").split("/")
            if event.change in (Change.CREATED, Change.MODIFIED, Change.DELETED) and len(parts) == 4:
                heard(namespace_name("/".join(parts[:2])))

        return self._store.subscribe(paths.TOPIC_POLICIES, changed)

    def close(self) -> None:
        self._cache.close()


def whole(name: TopicName) -> TopicName:
    """The whole topic of a partition or segment, or the topic itself."""
    if name.is_segment:
        return name.parent
    return name.partitioned


def _decode(value: bytes) -> Document:
    policies = msgspec.json.decode(value)
    if not isinstance(policies, dict):
        raise Corrupt("the policies of a topic must be a JSON object")
    return policies
