"""Retention for topics that are not in memory: a sweep over all records trims what retention allows, and finds
backlogs.

An unloaded topic trims nothing. The sweep reads the records page by page, a bounded number per round, and decides from
the record alone whether retention could delete anything. A broker reads names first, and then the records of the topics
that it minds. Only a topic with something to delete is loaded and trimmed; it is unloaded later like any idle topic.
Only the loaded topic knows whether its subscriptions have passed the data in question, so one with a backlog is loaded
in vain once per sweep. For this reason sweeps are far apart, and a broker visits only the topics that it owns.

After a start the backlogs are unknown. The sweep reads the cursor records of each topic that this broker owns. If a
cursor is behind the last entry, or the end is unknown because of a crash, the topic is loaded once. It is unloaded like
any idle topic, and its sample stays for metrics (`broker/metrics/unloaded_topics.py`). So /metrics itself never loads a
topic.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar.base.errors import InvalidName, MagnetarError, TopicNotFound
from magnetar.base.limits import VISIT_RECORDS_PER_ROUND_MAX, VISIT_S, VISITS_PER_ROUND_MAX
from magnetar.base.names import Domain, NamespaceName, TopicName, namespace_name
from magnetar.broker.topics.settings import topic_settings
from magnetar.cluster.topic_policies import whole
from magnetar.ledger.chain import LedgerSpan
from magnetar.ledger.cursor.cursor import marks_of, may_lag
from magnetar.ledger.record import decode_end
from magnetar.ledger.retention import Rule, TopicSizes, may_drop
from magnetar.metadata import paths
from magnetar.metadata.filtered_scan import filtered_scan, name_pages
from magnetar.observe.log import get
from magnetar.policy.policies import Policies
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.node import Node

log = get("retention_sweep")


@dataclass(frozen=True, slots=True)
class _Namespace:
    policies: Policies
    named: frozenset[TopicName]  # topics that have policies of their own


@dataclass(frozen=True, slots=True)
class Record:
    path: str
    value: bytes = field(repr=False)
    context: _Namespace
    sizes: TopicSizes | None = None  # of the scalable topic that it is a segment of


class RetentionSweeper:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._walk: AsyncIterator[Record] | None = None
        self._next_at = 0.0  # the first walk begins with the broker: much may have run out while it was down
        self.trimmed = 0  # ledgers dropped from topics that were not loaded

    async def round(self) -> None:
        """Runs a part of a sweep; does nothing before the next one is due, or while the metadata store does not
        respond."""
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
                record = await anext(self._walk)
            except StopAsyncIteration:
                self._walk = None
                return
            except MagnetarError as error:  # the store does not respond: end this sweep, the next one starts over
                log.warning("retention_sweep_failed", error=str(error))
                self._walk = None
                return
            visits += await self._look(record)
            if visits >= VISITS_PER_ROUND_MAX:
                return

    async def _records(self) -> AsyncIterator[Record]:
        node = self._node
        for tenant in await node.tenants.names():
            for name in await node.namespaces.names(tenant):
                namespace = namespace_name(name)
                policies = await node.namespaces.policies(namespace)
                if policies is None:
                    continue
                context = _Namespace(policies, await node.topic_policies.names(namespace))
                async for record in self._records_of(namespace, context):
                    yield record

    async def _records_of(self, namespace: NamespaceName, context: _Namespace) -> AsyncIterator[Record]:
        policies = context.policies
        for parent in paths.bucket_parents(namespace, Domain.PERSISTENT, policies.buckets):
            async for path, node in filtered_scan(self._node.metadata, parent, self._reads):
                yield Record(path, node.value, context)
        if self._node.scalable.enabled:  # switched off, they are not touched
            async for record in self._segments_of(namespace, context):
                yield record

    async def _segments_of(self, namespace: NamespaceName, context: _Namespace) -> AsyncIterator[Record]:
        """The segments below the name of their topic."""
        metadata = self._node.metadata
        for parent in paths.bucket_parents(namespace, Domain.SEGMENT, context.policies.buckets):
            for topic in await metadata.children(parent):
                directory = f"{parent}/{topic}"
                if not await self._minds_any(directory):
                    continue
                records = [(f"{directory}/{child}", found.value) async for child, found in metadata.scan(directory)]
                if records:
                    sizes = self._node.sizes.added(paths.topic_of(records[0][0]).parent, records)
                    for path, value in records:
                        yield Record(path, value, context, sizes)

    async def _minds_any(self, directory: str) -> bool:
        """Whether this broker minds a segment. The sizes of all segments decide what it may delete."""
        async for page in name_pages(self._node.metadata, directory):
            for name in page:
                if await self._reads(f"{directory}/{name}"):
                    return True
        return False

    async def _reads(self, path: str) -> bool:
        """Whether the record is of a topic of this broker that is not in memory."""
        try:
            name = paths.topic_of(path)
        except InvalidName:
            return True  # the visit reports it
        return name.canonical not in self._node.topics.loaded and await self._node.served.minds(name)

    async def _look(self, record: Record) -> bool:
        """Returns whether the topic had to be loaded."""
        node = self._node
        try:
            name = paths.topic_of(record.path)
            if name.canonical in node.topics.loaded or not await self._worth(name, record):
                return False
            if not await self._ours(name, record.context.policies):
                return False
            topic = await node.topics.get(name, create=False)
            if isinstance(topic, Topic):
                await topic.expire()
                self.trimmed += await topic.trim()
        except TopicNotFound:
            pass  # deleted since its record was read
        except MagnetarError as error:
            log.warning("retention_sweep_failed", path=record.path, error=str(error))
        return True

    async def _worth(self, name: TopicName, record: Record) -> bool:
        """Whether there may be data to trim, or an unknown backlog."""
        node = self._node
        own = await node.topic_policies.of(name) if whole(name) in record.context.named else None
        ruled = topic_settings(node.settings, record.context.policies, own, scalable=name.is_segment)
        now_ms = node.clock.now_ms()
        rule = Rule(
            ruled.retention,
            now_ms,
            aging=node.clock.trusted,
            sizes=record.sizes,
            sealed_ms_min=int(node.managed_config.age_min_s * 1000),
        )
        links, sealed = decode_end(record.path, record.value)
        if may_drop(links, rule, sealed=sealed):
            return True
        expired_ms = now_ms - ruled.message_ttl_s * 1000
        if ruled.message_ttl_s and rule.aging and any(one.entries and 0 < one.closed_ms < expired_ms for one in links):
            return await self._lags(record.path, links)  # its subscriptions may have messages to expire
        return name.canonical not in node.topics.unloaded and await self._lags(record.path, links)

    async def _lags(self, path: str, links: list[LedgerSpan]) -> bool:
        """Whether a subscription may be behind, judged by the records without opening the topic."""
        if not links:
            return False
        marks = [mark async for _, mark in marks_of(self._node.metadata, path)]
        return may_lag(links, marks)

    async def _ours(self, name: TopicName, policies: Policies) -> bool:
        node = self._node
        return await node.ownership.owns(name.namespace, await node.bundles.find(name, policies))
