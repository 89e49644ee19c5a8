"""The URL of a ZooKeeper store: `zk:host:2181,other:2181/path`, as Pulsar writes it.

The path is the root of everything that this store reads and writes; without one it is the root of the server. The
parser rejects credentials in a URL: URLs are shown in logs.
"""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.base.errors import InvalidName
from magnetar.base.limits import ZOOKEEPER_SERVERS_MAX
from magnetar.metadata.path_checks import check_path

SCHEME = "zk:"
PORT = 2181


@dataclass(frozen=True, slots=True)
class Server:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Address:
    servers: tuple[Server, ...]
    root: str  # "" for the root of the server


def parse(url: str) -> Address:
    """InvalidName: not such a URL."""
    rest = url.removeprefix(SCHEME).removeprefix("//")
    names, slash, path = rest.partition("/")
    if "@" in names:
        raise InvalidName("a ZooKeeper URL must not contain credentials: use the setting for them")
    servers = tuple(_server(name.strip(), url) for name in names.split(","))
    if len(servers) > ZOOKEEPER_SERVERS_MAX:
        raise InvalidName("a ZooKeeper URL names too many servers", servers=len(servers), max=ZOOKEEPER_SERVERS_MAX)
    root = f"{slash}{path}".rstrip("/")
    if root:
        check_path(root)
    return Address(servers, root)


def _server(name: str, url: str) -> Server:
    host, port = name, str(PORT)
    if name.startswith("["):
        host, bracket, tail = name[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise _invalid(url)
        port = tail[1:] if tail else port
    elif ":" in name:
        host, _, port = name.rpartition(":")
    number = int(port) if port.isascii() and port.isdigit() else 0
    if not host or not 0 < number < 65536 or (":" in host and not name.startswith("[")):
        raise _invalid(url)
    return Server(host, number)


def _invalid(url: str) -> InvalidName:
    return InvalidName("a ZooKeeper URL must be zk:host:port,host:port/path", url=url)
