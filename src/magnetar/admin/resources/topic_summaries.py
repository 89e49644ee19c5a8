"""Topics of a namespace with their messages and bytes, for lists that people read. An extension of Magnetar.

The list is paged by `after` and `limit` as for names: persistent topics, then scalable ones. Counting opens a topic, so
a page opens at most `TOPIC_SUMMARIES_MAX` topics. Further topics, and topics of another broker, have no counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import Request, Response, shown
from magnetar.admin.resolve import open_topic
from magnetar.admin.resources.namespaces import topic_names
from magnetar.admin.route import get
from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.limits import TOPIC_SUMMARIES_MAX
from magnetar.base.names import Domain, TopicName, topic_name
from magnetar.client.documents.topics import TopicSummary
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.node import Node


async def summaries(node: Node, request: Request) -> Response:
    namespace = request.namespace
    await node.namespaces.get(namespace)
    after = request.query.get("after")
    if after is not None and topic_name(after).namespace != namespace:
        raise Misuse("`after` must be the last topic of the previous page, in the same namespace", after=after)
    limit = request.number("limit", TOPIC_SUMMARIES_MAX)
    if not 1 <= limit <= TOPIC_SUMMARIES_MAX:
        raise Misuse(f"limit must be from 1 to {TOPIC_SUMMARIES_MAX}", limit=limit)
    page = _Page(node)
    if after is None or not topic_name(after).is_scalable:
        async for text in topic_names(node, namespace, (Domain.PERSISTENT,), after=after, limit=limit):
            await page.add_plain(topic_name(text))
        after = None
    for name in sorted(await node.scalable.names(str(namespace)), key=str):
        if len(page.found) >= limit:
            break
        if after is None or str(name) > after:
            await page.add_scalable(name)
    return shown(page.found)


class _Page:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._budget = TOPIC_SUMMARIES_MAX  # topics that may still be opened
        self.found: list[TopicSummary] = []

    async def add_plain(self, name: TopicName) -> None:
        counts = await self._counts(name)
        messages, size = (None, None) if counts is None else counts
        self.found.append(TopicSummary(str(name), messages=messages, bytes=size))

    async def add_scalable(self, name: TopicName) -> None:
        """Adds the sum of all segments, sealed ones included."""
        record = await self._node.scalable.read(name)
        if record is None:
            return  # deleted since it was listed
        counts = [await self._counts(segment.topic(name)) for segment in record.layout.segments]
        present = [one for one in counts if one is not None]
        whole = len(present) == len(counts)
        self.found.append(
            TopicSummary(
                str(name),
                segments=len(record.layout.active),
                messages=sum(one[0] for one in present) if whole else None,
                bytes=sum(one[1] for one in present) if whole else None,
            )
        )

    async def _counts(self, name: TopicName) -> tuple[int, int] | None:
        """Messages and bytes; None: this broker does not know them."""
        if self._budget <= 0:
            return None
        self._budget -= 1
        try:
            topic = await open_topic(self._node, name)
        except MagnetarError:
            return None  # another broker's, or deleted since it was listed
        return (topic.managed.messages, topic.managed.bytes) if isinstance(topic, Topic) else None


ROUTES = [
    get(
        "/admin/v2/namespaces/{tenant}/{namespace}/topicSummaries",
        summaries,
        "Topics with their segments, messages and bytes; pages by `after` and `limit`",
        list[TopicSummary],
    )
]
