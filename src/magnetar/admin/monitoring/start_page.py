"""`GET /`: the name of the broker and links to its health, metrics, API description and documentation.

A browser gets a small page; a client that accepts JSON gets the same links as JSON. The page calls no other component
and shows no data.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from magnetar import __version__
from magnetar.admin.request import Request, Response, shown, text
from magnetar.admin.route import OPEN, get

if TYPE_CHECKING:
    from magnetar.broker.node import Node

LINKS = {
    "health": "/readyz",
    "metrics": "/metrics",
    "openapi": "/openapi.json",
    "tenants": "/admin/v2/tenants",
    "brokers": "/admin/v2/brokers/version",
}
COMMANDS = ["magnetar --help", "magnetar topic list", "magnetar topic --help"]
_HTML = "text/html; charset=utf-8"


async def start_page(node: Node, request: Request) -> Response:
    cluster = node.settings.text("clusterName")
    service = node.addresses.url
    if _wants_json(request.headers.get("accept", "")):
        return shown({"name": "Magnetar", "version": __version__, "cluster": cluster, "service": service, **LINKS})
    links = "".join(f'<li><a href="{path}">{name}</a></li>' for name, path in LINKS.items())
    commands = "".join(f"<li><code>{command}</code></li>" for command in COMMANDS)
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Magnetar</title>"
        f"<h1>Magnetar {escape(__version__)}</h1>"
        f"<p>A message broker of cluster <b>{escape(cluster)}</b>. "
        f"Clients connect to <code>{escape(service)}</code>.</p><ul>{links}</ul>"
        f"<p>Documentation: the <code>docs</code> folder of the source, and</p><ul>{commands}</ul></html>"
    )
    return text(page, kind=_HTML)


def _wants_json(accept: str) -> bool:
    """Whether the client lists JSON before HTML; a client that accepts anything gets the page."""
    kinds = [part.split(";")[0].strip().lower() for part in accept.split(",")]
    return "application/json" in kinds and "text/html" not in kinds[: kinds.index("application/json")]


ROUTES = [get("/", start_page, "A start page: HTML, or JSON for Accept: application/json", dict[str, str], OPEN)]
