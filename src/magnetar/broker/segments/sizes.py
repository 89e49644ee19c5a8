"""The total size of the segments of a scalable topic, for the size limit of its retention.

It is read from the records of the segments on any broker, and cached for a minute. A record contains the size of closed
ledgers only; open ledgers count if they are loaded on this broker. A migrated plain topic is not counted, because it
has its own retention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import Corrupt
from magnetar.base.limits import SIZES_KEPT_S, SIZES_TOPICS_MAX
from magnetar.base.names import TopicName
from magnetar.ledger.chain import LedgerSpan
from magnetar.ledger.record import decode_links
from magnetar.ledger.retention import TopicSizes
from magnetar.observe.log import get
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.topics.topics import Topics
    from magnetar.metadata.store import MetadataStore
    from magnetar.runtime.runtime import Runtime

log = get("sizes")


class SizesNode(Protocol):
    """What SegmentSizes uses of the node."""

    runtime: Runtime
    metadata: MetadataStore
    topics: Topics


class SegmentSizes:
    def __init__(self, node: SizesNode) -> None:
        self._node = node
        self._kept: dict[TopicName, tuple[float, TopicSizes]] = {}

    async def of(self, topic: Topic) -> TopicSizes:
        """The size of the scalable topic that contains this segment."""
        parent, now = topic.name.parent, self._node.runtime.monotonic()
        kept = self._kept.pop(parent, None)
        if kept is None or now - kept[0] >= SIZES_KEPT_S:
            kept = now, await self._read(parent, topic.managed.path.rpartition("/")[0])
        while len(self._kept) >= SIZES_TOPICS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[parent] = kept
        return kept[1]

    async def _read(self, parent: TopicName, directory: str) -> TopicSizes:
        records = [(f"{directory}/{child}", row.value) async for child, row in self._node.metadata.scan(directory)]
        return self.added(parent, records)

    def added(self, parent: TopicName, records: Sequence[tuple[str, bytes]]) -> TopicSizes:
        """Sizes from records that the caller has read: path and value of each segment."""
        closed = [(link.closed_ms, link.bytes) for path, value in records for link in _links(path, value)]
        return TopicSizes((one for one in closed if one[0]), self._open_bytes(parent))

    def _open_bytes(self, parent: TopicName) -> int:
        return sum(
            link.bytes
            for topic in self._node.topics.loaded.values()
            if isinstance(topic, Topic) and topic.part_of == parent
            for link in topic.managed.chain.links[-1:]
            if not link.closed_ms
        )


def _links(path: str, value: bytes) -> list[LedgerSpan]:
    try:
        return decode_links(path, value)
    except Corrupt as error:  # it counts as empty, which keeps more of the others
        log.warning("record_skipped", path=path, error=str(error))
        return []
