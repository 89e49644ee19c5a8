"""Sinks of staged publishing over REST: list, show, delete. Their writers create them (`client.staged_sink`)."""

from __future__ import annotations

from magnetar.base.names import full_name
from magnetar.client.admin import paths
from magnetar.client.admin.sync.resource import AdminResource
from magnetar.client.documents.sinks import SinkStatus

Found = list[SinkStatus]


class Sinks(AdminResource):
    def list(self, namespace: str) -> Found:
        """The sinks that write to topics of a namespace."""
        return self._exchange.read(paths.sinks(namespace), Found)

    def get(self, topic: str, name: str) -> SinkStatus:
        return self._exchange.read(paths.sink(full_name(topic), name), SinkStatus)

    def delete(self, topic: str, name: str) -> None:
        """Delete a sink with all its stages. Committed batches that are not published yet are lost."""
        self._exchange.send("DELETE", paths.sink(full_name(topic), name))
