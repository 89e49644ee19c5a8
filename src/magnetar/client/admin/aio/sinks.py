"""Sinks of staged publishing over REST: list, show, delete. Whoever writes to them makes them (`client.stages`)."""

from __future__ import annotations

from magnetar.base.names import full_name
from magnetar.client.admin import paths
from magnetar.client.admin.aio.transport import RestTransport
from magnetar.client.documents.sinks import SinkStatus

Found = list[SinkStatus]


class Sinks:
    def __init__(self, exchange: RestTransport) -> None:
        self._exchange = exchange

    async def list(self, namespace: str) -> Found:
        """Those that write to topics of a namespace."""
        return await self._exchange.read(paths.sinks(namespace), Found)

    async def get(self, topic: str, name: str) -> SinkStatus:
        return await self._exchange.read(paths.sink(full_name(topic), name), SinkStatus)

    async def delete(self, topic: str, name: str) -> None:
        """With all its stages. What was committed and is not published yet is lost."""
        await self._exchange.send("DELETE", paths.sink(full_name(topic), name))
