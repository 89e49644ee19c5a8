"""The fields of a context that may be shown, and the fields that may be stored. Pure; it never returns a token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from magnetar.base.errors import Misuse
from magnetar.cli.output.values import Cell
from magnetar.cli.settings.context_document import Context
from magnetar.cli.settings.resolve import redacted
from magnetar.client.connection.address import SCHEME, addresses, rest_urls, without_password

_NAMES = {"url": "url", "adminUrl": "admin_url", "token": "token", "tokenFile": "token_file"}


def safe(key: str, value: str | float | None) -> str | float | None:
    """A field's value in a form that is safe to show."""
    if key == "token" and isinstance(value, str):
        return redacted(value)
    return without_password(value) if isinstance(value, str) else value


def public(context: Context) -> dict[str, Cell]:
    """All fields without the token."""
    fields = {key: context.fields.get(key) for key in ("url", "admin_url", "timeout")}
    return {key: safe(key, value) for key, value in fields.items() if value is not None}


def token_of(context: Context) -> str | None:
    """Whether a token is set, or its file."""
    if "token_file" in context.fields:
        return f"in {context.fields['token_file']}"
    return redacted(context.fields["token"]) if "token" in context.fields else None


def document_of(context: Context, used: str) -> dict[str, Any]:
    """The document for programs."""
    return {
        "name": context.name,
        "used": context.name == used,
        **{name: safe(key, context.fields.get(key)) for name, key in _NAMES.items()},
        "timeout": context.fields.get("timeout"),
        "unknown": context.unknown,
        "line": context.line or None,
    }


def check_addresses(fields: Mapping[str, str | float]) -> None:
    """Rejects wrong addresses when they are stored instead of at first use."""
    url = str(fields.get("url", "pulsar://localhost"))
    if not url.startswith((SCHEME, "pulsar+ssl://")):
        raise Misuse("expected a service URL such as pulsar://host:port", url=without_password(url))
    if url.startswith(SCHEME):  # a later version may support other schemes
        addresses(url)
    rest_urls(str(fields.get("admin_url", "http://localhost")))
