"""Holds of scalable topics over REST: list, show, delete. Their readers make and move them (`Client.hold`)."""

from __future__ import annotations

from magnetar.client.admin import paths
from magnetar.client.admin.aio.resource import AdminResource
from magnetar.client.documents.holds import Hold


class Holds(AdminResource):
    async def list(self, name: str) -> dict[str, Hold]:
        """The holds by name."""
        return await self._exchange.read(f"{paths.scalable(name)}/holds", dict[str, Hold])

    async def get(self, name: str, hold: str) -> Hold:
        return await self._exchange.read(f"{paths.scalable(name)}/holds/{paths.part(hold)}", Hold)

    async def delete(self, name: str, hold: str, *, force: bool = False) -> None:
        """Delete a hold, so that its messages may be deleted. `Conflict`: a group uses it; `force` ends its members."""
        path = f"{paths.scalable(name)}/holds/{paths.part(hold)}"
        await self._exchange.send("DELETE", path, query={"force": force or None})
