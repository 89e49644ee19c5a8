"""Holds of scalable topics over REST: list, show, delete. Their readers make and move them (`Client.hold`)."""

from __future__ import annotations

from magnetar.client.admin import paths
from magnetar.client.admin.sync.resource import AdminResource
from magnetar.client.documents.holds import Hold


class Holds(AdminResource):
    def list(self, name: str) -> dict[str, Hold]:
        """The holds by name."""
        return self._exchange.read(f"{paths.scalable(name)}/holds", dict[str, Hold])

    def get(self, name: str, hold: str) -> Hold:
        return self._exchange.read(f"{paths.scalable(name)}/holds/{paths.part(hold)}", Hold)

    def delete(self, name: str, hold: str, *, force: bool = False) -> None:
        """Delete a hold, so that its messages may be deleted. `Conflict`: a group uses it; `force` ends its members."""
        path = f"{paths.scalable(name)}/holds/{paths.part(hold)}"
        self._exchange.send("DELETE", path, query={"force": force or None})
