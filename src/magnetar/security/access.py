"""The question every command and route asks: may this principal do this here?"""

from __future__ import annotations

from typing import Protocol


class Access(Protocol):
    def authenticate(self, method: str, data: bytes) -> str | None:
        """The principal of a connection, None for anonymous; NotAuthenticated if the credentials are bad."""
        ...

    def allowed(self, principal: str | None, action: str, resource: str) -> bool: ...


class Open:
    """Security is off: everybody may do everything."""

    def authenticate(self, method: str, data: bytes) -> str | None:
        return None

    def allowed(self, principal: str | None, action: str, resource: str) -> bool:
        return True
