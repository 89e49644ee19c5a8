"""A topic as a query sees it: its layout, the topics of its segments, its key routing, and its incarnation.

A scalable topic is watched, so the newest layout is available without a request. A plain topic appears as one segment,
a partitioned topic as one segment per partition; its number of partitions is its epoch, because it only increases. It
creates no topic, and rejects non-persistent topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from magnetar.base.errors import MagnetarError, Misuse, NotReady
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import SPARK_PARTITIONS_FRESH_S
from magnetar.base.names import Domain, TopicName, topic_name
from magnetar.client.layout_watch import LayoutView, LayoutWatch
from magnetar.client.read_client import ReadClient
from magnetar.layout.layout import Layout
from magnetar.layout.plain_layout import synthetic
from magnetar.layout.readable_range import START
from magnetar.layout.routing import DEFAULT, Routing
from magnetar.layout.segment import FIRST
from magnetar.spark.source.offset import SourceOffset


@dataclass(frozen=True, slots=True)
class TopicLayout:
    topic: str
    layout: Layout
    topics: Mapping[SegmentId, str]  # topic name of each segment
    routing: Routing = DEFAULT
    life: int = 0
    plain: bool = False  # partitions may be added, without parents

    def adopted(self, start: SourceOffset) -> SourceOffset:
        """Adds partitions that were created since; they are read from their beginning."""
        if not self.plain:
            return start
        added = {one.id: START for one in self.layout.segments if one.id not in start.places}
        return replace(start, places={**start.places, **added}) if added else start

    def started(self, start: SourceOffset, end: SourceOffset) -> SourceOffset:
        """The same for a planned batch: its start includes the partitions that its end names."""
        if not self.plain or end.origin is not None:
            return start
        added = {id: START for id in end.places if id not in start.places}
        return replace(start, places={**start.places, **added}) if added else start


class TopicLayouts(Protocol):
    async def now(self, epoch: Epoch = FIRST) -> TopicLayout:
        """At this epoch or a later one."""
        ...

    async def close(self) -> None: ...


def shapes(client: ReadClient, topic: str) -> TopicLayouts:
    name = topic_name(topic)
    if name.domain is Domain.NON_PERSISTENT:
        raise Misuse(
            "option topic: a query cannot read a non-persistent topic, because it stores no messages", topic=topic
        )
    return _Watched(client, name) if name.is_scalable else _Plain(client, name)


class _Watched:
    def __init__(self, client: ReadClient, name: TopicName) -> None:
        self._name = name
        self._timeout_s = client.operation_timeout_s
        self._watch = LayoutWatch(client.lookup, name.canonical, heard=self._heard, gone=self._gone, create=False)
        self._started = False
        self._error: MagnetarError | None = None
        self._news = asyncio.Event()

    async def now(self, epoch: Epoch = FIRST) -> TopicLayout:
        if not self._started:
            await self._watch.start(self._timeout_s)
            self._started = True
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    seen = self._watch.seen
                    if self._error is not None:
                        raise self._error
                    if seen is not None and seen.layout.epoch >= epoch:
                        return _shape(self._name, seen, self._watch.incarnation)
                    self._watch.seek(Epoch(epoch - 1))
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise NotReady(
                "the broker does not report a layout as new as the offset", topic=self._name, epoch=epoch
            ) from None

    async def close(self) -> None:
        await self._watch.close()

    def _heard(self, seen: LayoutView) -> None:
        self._news.set()

    def _gone(self, error: MagnetarError) -> None:
        self._error = error
        self._news.set()


class _Plain:
    def __init__(self, client: ReadClient, name: TopicName) -> None:
        self._client = client
        self._name = name
        self._shape: TopicLayout | None = None
        self._asked = 0.0

    async def now(self, epoch: Epoch = FIRST) -> TopicLayout:
        now = self._client.runtime.monotonic()
        layout = self._shape
        if layout is None or now - self._asked > SPARK_PARTITIONS_FRESH_S or layout.layout.epoch < epoch:
            names = await self._client.partitions(str(self._name))
            layout = self._shape = plain(self._name.canonical, names)
            self._asked = now
        if layout.layout.epoch < epoch:
            raise Misuse(
                "the topic has fewer partitions than the offset: it was probably deleted and recreated. Set a "
                "new checkpointLocation",
                topic=self._name,
                partitions=len(layout.layout),
                offset=epoch,
            )
        return layout

    async def close(self) -> None:
        """Closes no resource."""


def plain(topic: str, names: list[str]) -> TopicLayout:
    """One segment per partition. Producers place keys freely: the ranges only cover the hash range formally."""
    layout = synthetic(names, epoch=len(names))
    return TopicLayout(topic, layout, {one.id: one.legacy_topic for one in layout.segments}, plain=True)


def _shape(name: TopicName, seen: LayoutView, incarnation: int) -> TopicLayout:
    topics = {one.id: one.topic(name).canonical for one in seen.layout.segments}
    return TopicLayout(name.canonical, seen.layout, topics, seen.routing, incarnation)
