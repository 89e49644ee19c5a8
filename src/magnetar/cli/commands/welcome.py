"""The message of `magnetar standalone` on a terminal: addresses, who can connect, and commands to try next."""

from __future__ import annotations

from typing import Any

from magnetar.base.hosts import EVERYWHERE, is_loopback


def welcome(ready: dict[str, Any]) -> str:
    """`ready`: the document that scripts get as JSON."""
    url, http = ready["url"], ready["http"]
    options = "" if (url, http) == ("pulsar://localhost:6650", "http://localhost:8080") else _options(url, http)
    lines = [
        f"Magnetar {ready['version']} is ready.",
        f"  clients    {url}",
        f"  REST       {http}  (metrics: {http}/metrics)",
        f"  data       {ready['data']}",
        *_access(ready),
        f"  try        magnetar message produce hello world{options}",
        f"             magnetar message read hello{options}",
        "  stop       Ctrl-C",
    ]
    return "\n".join(lines)


def access(bind: str, *, authentication: bool) -> str:
    """Which machines can connect, and whether they must authenticate."""
    if is_loopback(bind):
        who = "programs on this machine only"
    elif bind in EVERYWHERE:
        who = f"every machine that reaches this one (bindAddress {bind or 'is empty'})"
    else:
        who = f"every machine that reaches {bind}"
    return who if authentication else f"{who}, without authentication"


def _access(ready: dict[str, Any]) -> list[str]:
    bind = ready["bind"]
    lines = [f"  access     {access(bind, authentication=ready['authentication'])}"]
    if is_loopback(bind):
        lines.append("             --bind-address 0.0.0.0 lets other machines connect")
    elif not ready["authentication"]:
        lines.append("             --bind-address 127.0.0.1 keeps it to this machine")
    return lines


def _options(url: str, http: str) -> str:
    return f" --url {url} --admin-url {http}"
