"""Checks of the origin of a request: refuses cross-site requests and requests under a host name that is not the
broker's.

A browser sends requests to localhost for every page that is open in it, and a site can let its own name resolve to
127.0.0.1 (DNS rebinding). Neither page is a client of this broker, and neither may read or change anything. Clients
that are not browsers send no `Origin` and no `Sec-Fetch-Site`, and use an address or a known name of the broker.
"""

from __future__ import annotations

import socket
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from magnetar.admin.request import Request
from magnetar.base.errors import Refused
from magnetar.base.hosts import is_address
from magnetar.cluster.ownership import advertised

if TYPE_CHECKING:
    from magnetar.broker.node import Node

ANY = "*"
READING = ("GET", "HEAD", "OPTIONS")
OUR_SITES = ("", "none", "same-origin")  # of Sec-Fetch-Site; none: a person typed the address or opened a bookmark


def check_source(node: Node, request: Request) -> None:
    """Raises Refused: with 421 for a host name that is not the broker's, with 403 for a cross-site request."""
    host = request.headers.get("host", "")
    name = _name(host)
    if host and not _is_ours(node, name):
        raise Refused(
            f"host name {name[:200]} is not allowed: use the broker's address, localhost or advertisedAddress, or add "
            "the name to webServiceHosts",
            http_status=421,
        )
    reads = request.method in READING
    if reads and request.headers.get("sec-fetch-mode") == "navigate":
        return  # a person follows a link
    origin = request.headers.get("origin", "")
    foreign = bool(origin) and not reads and _authority(origin) != host.lower()  # a page sees no answer of ours
    if foreign or request.headers.get("sec-fetch-site", "") not in OUR_SITES:
        shown = f" ({origin[:200]})" if origin else ""
        raise Refused(
            f"cross-site request{shown} refused: browsers may use this broker from its own pages only", http_status=403
        )


def _is_ours(node: Node, name: str) -> bool:
    if name == "localhost" or is_address(name):
        return True
    settings = node.settings
    allowed = settings.get("webServiceHosts")
    hosts = _known(settings.text("advertisedListeners"), *allowed)
    own = (settings.text("advertisedAddress").lower(), node.addresses.host.lower())
    return ANY in allowed or name in own or name in hosts or name == _machine()


@cache
def _known(listeners: str, *names: str) -> frozenset[str]:
    urls = [url for one in advertised(listeners).values() for url in (one.broker, one.broker_tls, one.http, one.https)]
    return frozenset([*(name.lower() for name in names), *(_name(_authority(url)) for url in urls if url)])


@cache
def _machine() -> str:
    return socket.gethostname().lower()


def _authority(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _name(host: str) -> str:
    """The host name without its port, of `name:port`, `address:port` and `[address]:port`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    name, _, port = host.partition(":")
    return name.rstrip(".").lower() if port.isdigit() or not port else host.lower()
