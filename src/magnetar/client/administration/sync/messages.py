"""Single messages over REST, for people: the n-th of a backlog or of a topic, by id, by time. Nothing is acknowledged.

The server counts entries; an entry that holds a batch answers with all its messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from magnetar.client.administration import paths
from magnetar.client.administration.peeked import Peeked, messages_of
from magnetar.client.administration.sync.exchange import Exchange
from magnetar.client.documents.topics import MessageId


class Messages:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def peek(self, topic: str, subscription: str, position: int = 1) -> list[Peeked]:
        """The n-th unacknowledged entry, from 1."""
        return self._messages(f"{paths.subscription(topic, subscription)}/position/{position}")

    def examine(
        self, topic: str, position: int = 1, *, origin: Literal["earliest", "latest"] = "latest"
    ) -> list[Peeked]:
        """The n-th entry from either end of the topic, from 1."""
        query = {"initialPosition": origin, "messagePosition": position}
        return self._messages(f"{paths.topic(topic)}/examinemessage", query)

    def get(self, topic: str, message_id: MessageId) -> list[Peeked]:
        """The entry that a message is in."""
        return self._messages(f"{paths.topic(topic)}/ledger/{message_id.ledgerId}/entry/{message_id.entryId}")

    def id_at(self, topic: str, publish_time_ms: int) -> MessageId:
        """The first message published then or later."""
        return self._exchange.read(f"{paths.topic(topic)}/messageid/{publish_time_ms}", MessageId)

    def _messages(self, path: str, query: Mapping[str, object] | None = None) -> list[Peeked]:
        answer = self._exchange.call("GET", path, query=query)
        return messages_of(answer.headers, answer.body)
