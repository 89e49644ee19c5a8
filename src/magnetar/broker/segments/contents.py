"""What pruning must know about segments: the rule that keeps them, and which of them hold no message any more.

Read from policies and from the records of segments, without loading a topic. A sealed segment that is empty stays
empty, so an answer cannot be out of date. A record that cannot be read is not empty.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.names import TopicName
from magnetar.broker.topics.settings import topic_settings
from magnetar.cluster.topic_policies import whole
from magnetar.layout.layout import Child
from magnetar.ledger.record import decode_end
from magnetar.ledger.retention import Rule
from magnetar.metadata import paths
from magnetar.metadata.filtered_scan import read_nodes
from magnetar.observe.log import get

if TYPE_CHECKING:
    from magnetar.broker.topics.retention_clock import RetentionClock
    from magnetar.cluster.namespaces import Namespaces
    from magnetar.cluster.topic_policies import TopicPolicies
    from magnetar.ledger.appender import ManagedConfig
    from magnetar.metadata.store import MetadataStore
    from magnetar.policy.policies import Policies
    from magnetar.policy.settings import Settings

log = get("segments")


class SegmentContentsNode(Protocol):
    """What SegmentContents uses of the node."""

    clock: RetentionClock
    metadata: MetadataStore
    namespaces: Namespaces
    settings: Settings
    topic_policies: TopicPolicies
    managed_config: ManagedConfig


class SegmentContents:
    def __init__(self, node: SegmentContentsNode) -> None:
        self._node = node

    async def rule(self, topic: TopicName) -> Rule:
        """The retention of a scalable topic, now. TopicNotFound: its namespace is gone."""
        node = self._node
        policies = await self._policies(topic)
        own = await node.topic_policies.of(whole(topic))
        retention = topic_settings(node.settings, policies, own, scalable=True).retention
        return Rule(
            retention,
            node.clock.now_ms(),
            aging=node.clock.trusted,
            sealed_ms_min=int(node.managed_config.age_min_s * 1000),
        )

    async def empty(self, topic: TopicName, segments: Collection[Child]) -> frozenset[SegmentId]:
        """Those that take no more messages and hold none. A segment without a record is one that was deleted."""
        buckets = (await self._policies(topic)).buckets
        at = {paths.topic(one.topic(topic), buckets): one.id for one in segments}
        left: set[SegmentId] = set()
        async for path, stored in read_nodes(self._node.metadata, list(at)):
            if not _is_empty(path, stored.value):
                left.add(at[path])
        return frozenset(at.values()) - left

    async def _policies(self, topic: TopicName) -> Policies:
        policies = await self._node.namespaces.policies(topic.namespace)
        if policies is None:
            raise TopicNotFound(f"namespace {topic.namespace} does not exist")
        return policies


def _is_empty(path: str, value: bytes) -> bool:
    try:
        links, sealed = decode_end(path, value)
    except MagnetarError as error:
        log.warning("record_skipped", path=path, error=str(error))
        return False
    return sealed and not any(link.entries or not link.closed_ms for link in links)
