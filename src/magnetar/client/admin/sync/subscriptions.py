"""Subscriptions over REST: list, create, delete, move, clear. For a partitioned topic these apply to all partitions,
except where the server supports a message of one partition only.
"""

from __future__ import annotations

from typing import Literal

from magnetar.client.admin import paths
from magnetar.client.admin.sync.resource import AdminResource
from magnetar.client.documents.topics import EARLIEST, LATEST, MessageId, ResetCursor

Names = list[str]

Start = MessageId | Literal["earliest", "latest"]


class Subscriptions(AdminResource):
    def names(self, topic: str) -> Names:
        return self._exchange.read(f"{paths.topic(topic)}/subscriptions", Names)

    def list(self, topic: str) -> Names:
        """The same as `names`: every resource has a `list`."""
        return self.names(topic)

    def create(self, topic: str, name: str, start: Start = "latest") -> None:
        """Its first message is the one at `start`; with "latest", the next published message."""
        self._exchange.send("PUT", paths.subscription(topic, name), _cursor(start))

    def delete(self, topic: str, name: str, *, force: bool = False) -> None:
        """Delete it; with `force`, also while consumers use it."""
        self._exchange.send("DELETE", paths.subscription(topic, name), query={"force": force or None})

    # Moving: its consumers are disconnected and reconnect

    def seek(self, topic: str, name: str, to: Start, *, excluded: bool = False) -> None:
        """Move to a message, or with `excluded` after it. One topic or partition, not a partitioned topic."""
        self._exchange.send("POST", f"{paths.subscription(topic, name)}/resetcursor", _cursor(to, excluded))

    def seek_to_time(self, topic: str, name: str, publish_time_ms: int) -> None:
        """Move to the first message published at or after a time."""
        self._exchange.send("POST", f"{paths.subscription(topic, name)}/resetcursor/{publish_time_ms}")

    # Clearing: messages are acknowledged without being received

    def skip(self, topic: str, name: str, entries: int) -> None:
        """Skip the next entries. Pulsar counts entries here: a batch is one."""
        self._exchange.send("POST", f"{paths.subscription(topic, name)}/skip/{entries}")

    def clear(self, topic: str, name: str) -> None:
        """Skip every message."""
        self._exchange.send("POST", f"{paths.subscription(topic, name)}/skip_all")

    def expire(self, topic: str, name: str, older_than_s: int) -> None:
        self._exchange.send("POST", f"{paths.subscription(topic, name)}/expireMessages/{older_than_s}")

    def expire_to(self, topic: str, name: str, to: MessageId, *, excluded: bool = False) -> None:
        """Skip everything up to a message."""
        self._exchange.send("POST", f"{paths.subscription(topic, name)}/expireMessages", _cursor(to, excluded))

    def expire_all(self, topic: str, older_than_s: int) -> None:
        """Skip older messages, for every subscription of the topic."""
        self._exchange.send("POST", f"{paths.topic(topic)}/all_subscription/expireMessages/{older_than_s}")

    # Properties

    def properties(self, topic: str, name: str) -> dict[str, str]:
        return self._exchange.read(f"{paths.subscription(topic, name)}/properties", dict[str, str])

    def set_properties(self, topic: str, name: str, properties: dict[str, str]) -> None:
        """Replace all properties: omitted ones are removed."""
        self._exchange.send("PUT", f"{paths.subscription(topic, name)}/properties", properties)


def _cursor(at: Start, excluded: bool = False) -> ResetCursor:
    if isinstance(at, str):
        ledger, entry = EARLIEST if at == "earliest" else LATEST
        return ResetCursor(ledger, entry, excluded=excluded)
    return ResetCursor(at.ledgerId, at.entryId, at.partitionIndex, at.batchIndex, excluded)
