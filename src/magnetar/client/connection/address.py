"""Service URLs: `pulsar://host:port`, with several hosts separated by commas; and URLs of REST servers.

Only plain TCP is supported; a URL of another kind is refused with the kind to use instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from magnetar.base.errors import Misuse, NotBuilt

SCHEME = "pulsar://"
PORT = 6650


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"{SCHEME}{self}"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses(url: str) -> list[Address]:
    """All hosts of a service URL, in the order given."""
    if url.startswith(("pulsar+ssl://", "https://", "http://")):
        raise NotBuilt("this version of the client supports only pulsar:// URLs", url=without_password(url))
    if not url.startswith(SCHEME):
        raise Misuse("service URL must be pulsar://host:port", url=without_password(url))
    return [_address(part, url) for part in url[len(SCHEME) :].rstrip("/").split(",")]


def address(url: str) -> Address:
    """The one host of a broker's URL."""
    return addresses(url)[0]


def rest_url(url: str) -> str:
    """The URL of the first REST server of `rest_urls`."""
    return rest_urls(url)[0]


def rest_urls(url: str) -> list[str]:
    """The URLs of REST servers without a trailing slash; several hosts are separated by commas, as in Pulsar's
    configuration files."""
    scheme, mark, rest = url.partition("://")
    hosts, slash, path = rest.partition("/")
    return [_rest_url(f"{scheme}{mark}{host}{slash}{path}".rstrip("/"), url) for host in hosts.split(",")]


def _rest_url(address: str, url: str) -> str:
    try:
        parts = urlsplit(address)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # invalid host or port
        is_good = False
    if not is_good or not address.isprintable() or " " in address:
        raise Misuse("admin URL must be http://host:port or https://host:port", url=without_password(url))
    return address


def without_password(url: str) -> str:
    """The URL for errors and tables: http://ada:secret@host becomes http://ada:***@host."""
    scheme, mark, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    user, at, host = place.rpartition("@")
    if not mark or not at or ":" not in user:
        return url
    return f"{scheme}://{user.partition(':')[0]}:***@{host}{slash}{path}"


def _address(text: str, url: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or host.endswith(":") or (host.startswith("[") and not host.endswith("]")):
        host, port = text, str(PORT)
    host = host.strip("[]")
    if not host or "@" in host or not port.isdigit() or not 0 < int(port) < 65536:
        raise Misuse("service URL must be pulsar://host:port", url=without_password(url))
    return Address(host, int(port))
