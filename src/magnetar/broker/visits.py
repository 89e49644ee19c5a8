"""Topics that nobody uses give their space back too: a walk over all records that visits those retention lets go of.

A topic out of memory trims nothing. The walk reads the records, page by page and a bounded number in a round, and
decides from the record alone whether retention could let anything go; only such a topic is loaded, trimmed, and left to
leave memory as any idle one. Whether its subscriptions are past what retention lets go only the loaded topic knows, so
one with a backlog is loaded in vain once in every walk: walks are far apart, and a broker visits what it owns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, TopicNotFound
from magnetar.base.limits import VISIT_RECORDS_PER_ROUND_MAX, VISIT_S, VISITS_PER_ROUND_MAX
from magnetar.base.names import Domain, NamespaceName, TopicName, namespace_name
from magnetar.broker.rules import topic_settings
from magnetar.ledger.book import decode_links
from magnetar.ledger.retention import Retention, may_drop
from magnetar.metadata import paths
from magnetar.observe.log import get
from magnetar.policy.policies import Policies
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.node import Node

log = get("visits")

Record = tuple[str, bytes, Policies]  # path, value, and the policies of its namespace


class Visits:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._walk: AsyncIterator[Record] | None = None
        self._next_at = 0.0  # the first walk begins with the broker: much may have run out while it was down
        self.trimmed = 0  # ledgers dropped from topics that were not loaded

    async def round(self) -> None:
        """A part of a walk; nothing while the next one is not due, or while the metadata store is away."""
        if not self._node.ownership.steady:
            return
        now = self._node.runtime.monotonic()
        if self._walk is None:
            if now < self._next_at:
                return
            self._walk = self._records()
            self._next_at = now + VISIT_S
        visits = 0
        for _ in range(VISIT_RECORDS_PER_ROUND_MAX):
            try:
                path, value, policies = await anext(self._walk)
            except StopAsyncIteration:
                self._walk = None
                return
            except MagnetarError as error:  # the store is away: this walk is over, the next one begins anew
                log.warning("walk given up", error=str(error))
                self._walk = None
                return
            visits += await self._look(path, value, policies)
            if visits >= VISITS_PER_ROUND_MAX:
                return

    async def _records(self) -> AsyncIterator[Record]:
        node = self._node
        for tenant in await node.tenants.names():
            for name in await node.namespaces.names(tenant):
                namespace = namespace_name(name)
                policies = await node.namespaces.policies(namespace)
                if policies is None or topic_settings(node.settings, policies).retention.endless:
                    continue
                async for found in self._records_of(namespace, policies):
                    yield found

    async def _records_of(self, namespace: NamespaceName, policies: Policies) -> AsyncIterator[Record]:
        for parent in paths.bucket_parents(namespace, Domain.PERSISTENT, policies.buckets):
            async for child, found in self._node.metadata.scan(parent):
                yield f"{parent}/{child}", found.value, policies
        if self._node.scalable.enabled:  # switched off, they are not touched
            async for one in self._segments_of(namespace, policies):
                yield one

    async def _segments_of(self, namespace: NamespaceName, policies: Policies) -> AsyncIterator[Record]:
        """Below the name of their topic."""
        metadata = self._node.metadata
        for parent in paths.bucket_parents(namespace, Domain.SEGMENT, policies.buckets):
            for topic in await metadata.children(parent):
                async for child, found in metadata.scan(f"{parent}/{topic}"):
                    yield f"{parent}/{topic}/{child}", found.value, policies

    async def _look(self, path: str, value: bytes, policies: Policies) -> bool:
        """Whether the topic had to be loaded."""
        node = self._node
        retention: Retention = topic_settings(node.settings, policies).retention
        try:
            if not may_drop(decode_links(path, value), retention, node.runtime.wall()):
                return False
            name = paths.topic_of(path)
            if name.canonical in node.topics.loaded or not await self._ours(name, policies):
                return False
            topic = await node.topics.get(name, create=False)
            if isinstance(topic, Topic):
                self.trimmed += await topic.trim()
        except TopicNotFound:
            pass  # deleted since its record was read
        except MagnetarError as error:
            log.warning("visit failed", path=path, error=str(error))
        return True

    async def _ours(self, name: TopicName, policies: Policies) -> bool:
        node = self._node
        return await node.ownership.owns(name.namespace, await node.bundles.find(name, policies))
