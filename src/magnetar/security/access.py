"""The check of every command and route: whether a principal may do an action on a resource."""

from __future__ import annotations

from typing import Protocol


class Access(Protocol):
    def authenticate(self, method: str, data: bytes) -> str | None:
        """The principal of a connection, None for anonymous; NotAuthenticated if the credentials are bad."""
        ...

    def allowed(self, principal: str | None, action: str, resource: str) -> bool: ...


class Open:
    """Security is disabled: every client may do everything."""

    def authenticate(self, method: str, data: bytes) -> str | None:
        return None

    def allowed(self, principal: str | None, action: str, resource: str) -> bool:
        return True
