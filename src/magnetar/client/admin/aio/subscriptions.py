"""Subscriptions over REST: list, create, delete, move, clear. For a partitioned topic these apply to all partitions,
except where the server supports a message of one partition only.
"""

from __future__ import annotations

from typing import Literal

from magnetar.client.admin import paths
from magnetar.client.admin.aio.resource import AdminResource
from magnetar.client.documents.topics import EARLIEST, LATEST, MessageId, ResetCursor

Names = list[str]

Start = MessageId | Literal["earliest", "latest"]


class Subscriptions(AdminResource):
    async def names(self, topic: str) -> Names:
        return await self._exchange.read(f"{paths.topic(topic)}/subscriptions", Names)

    async def list(self, topic: str) -> Names:
        """The same as `names`: every resource has a `list`."""
        return await self.names(topic)

    async def create(self, topic: str, name: str, start: Start = "latest") -> None:
        """Its first message is the one at `start`; with "latest", the next published message."""
        await self._exchange.send("PUT", paths.subscription(topic, name), _cursor(start))

    async def delete(self, topic: str, name: str, *, force: bool = False) -> None:
        """Delete it; with `force`, also while consumers use it."""
        await self._exchange.send("DELETE", paths.subscription(topic, name), query={"force": force or None})

    # Moving: its consumers are disconnected and reconnect

    async def seek(self, topic: str, name: str, to: Start, *, excluded: bool = False) -> None:
        """Move to a message, or with `excluded` after it. One topic or partition, not a partitioned topic."""
        await self._exchange.send("POST", f"{paths.subscription(topic, name)}/resetcursor", _cursor(to, excluded))

    async def seek_to_time(self, topic: str, name: str, publish_time_ms: int) -> None:
        """Move to the first message published at or after a time."""
        await self._exchange.send("POST", f"{paths.subscription(topic, name)}/resetcursor/{publish_time_ms}")

    # Clearing: messages are acknowledged without being received

    async def skip(self, topic: str, name: str, entries: int) -> None:
        """Skip the next entries. Pulsar counts entries here: a batch is one."""
        await self._exchange.send("POST", f"{paths.subscription(topic, name)}/skip/{entries}")

    async def clear(self, topic: str, name: str) -> None:
        """Skip every message."""
        await self._exchange.send("POST", f"{paths.subscription(topic, name)}/skip_all")

    async def expire(self, topic: str, name: str, older_than_s: int) -> None:
        await self._exchange.send("POST", f"{paths.subscription(topic, name)}/expireMessages/{older_than_s}")

    async def expire_to(self, topic: str, name: str, to: MessageId, *, excluded: bool = False) -> None:
        """Skip everything up to a message."""
        await self._exchange.send("POST", f"{paths.subscription(topic, name)}/expireMessages", _cursor(to, excluded))

    async def expire_all(self, topic: str, older_than_s: int) -> None:
        """Skip older messages, for every subscription of the topic."""
        await self._exchange.send("POST", f"{paths.topic(topic)}/all_subscription/expireMessages/{older_than_s}")

    # Properties

    async def properties(self, topic: str, name: str) -> dict[str, str]:
        return await self._exchange.read(f"{paths.subscription(topic, name)}/properties", dict[str, str])

    async def set_properties(self, topic: str, name: str, properties: dict[str, str]) -> None:
        """Replace all properties: omitted ones are removed."""
        await self._exchange.send("PUT", f"{paths.subscription(topic, name)}/properties", properties)


def _cursor(at: Start, excluded: bool = False) -> ResetCursor:
    if isinstance(at, str):
        ledger, entry = EARLIEST if at == "earliest" else LATEST
        return ResetCursor(ledger, entry, excluded=excluded)
    return ResetCursor(at.ledgerId, at.entryId, at.partitionIndex, at.batchIndex, excluded)
