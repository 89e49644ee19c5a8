"""Single messages over REST, for inspection: the n-th of a backlog or topic, by id, by time. Acknowledges nothing.

The server counts entries; an entry that holds a batch answers with all its messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from magnetar.client.admin import paths
from magnetar.client.admin.aio.resource import AdminResource
from magnetar.client.admin.messages import PeekedMessage, messages_of
from magnetar.client.documents.topics import MessageId


class Messages(AdminResource):
    async def peek(self, topic: str, subscription: str, position: int = 1) -> list[PeekedMessage]:
        """The n-th unacknowledged entry, from 1."""
        return await self._messages(f"{paths.subscription(topic, subscription)}/position/{position}")

    async def peek_segment(self, segment_topic: str, subscription: str, position: int = 1) -> list[PeekedMessage]:
        """The same for one segment of a scalable topic, by the segment's topic name. Magnetar only."""
        return await self._messages(f"{paths.segment_subscription(segment_topic, subscription)}/position/{position}")

    async def examine(
        self, topic: str, position: int = 1, *, origin: Literal["earliest", "latest"] = "latest"
    ) -> list[PeekedMessage]:
        """The n-th entry from either end of the topic, from 1."""
        query = {"initialPosition": origin, "messagePosition": position}
        return await self._messages(f"{paths.topic(topic)}/examinemessage", query)

    async def get(self, topic: str, message_id: MessageId) -> list[PeekedMessage]:
        """The entry that contains a message."""
        return await self._messages(f"{paths.topic(topic)}/ledger/{message_id.ledgerId}/entry/{message_id.entryId}")

    async def id_at(self, topic: str, publish_time_ms: int) -> MessageId:
        """The first message published at or after a time."""
        return await self._exchange.read(f"{paths.topic(topic)}/messageid/{publish_time_ms}", MessageId)

    async def _messages(self, path: str, query: Mapping[str, object] | None = None) -> list[PeekedMessage]:
        answer = await self._exchange.call("GET", path, query=query)
        return messages_of(answer.headers, answer.body)
