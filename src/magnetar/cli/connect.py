"""Connections of commands that use the binary protocol. The client fails immediately if no broker answers or another
protocol answers. Ctrl-C ends a run cleanly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import MagnetarError, Misuse, NotReady
from magnetar.cli.exit_codes import ErrorWithHint, Exit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from magnetar.cli.options import Common
    from magnetar.client.client import Client

STRANGER = "this is HTTP"  # the client's error for a port that serves REST
PROBE_S = 2.0  # timeout for trying the other protocol on a port: short, because a person waits


def run(work: Coroutine[Any, Any, Exit]) -> Exit:
    """Ctrl-C is the normal end of a command that waits for messages, and no failure."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        return Exit.OK


@asynccontextmanager
async def connected(common: Common) -> AsyncIterator[Client]:
    """A client retries until its timeout, as applications need it. A command reports an unreachable broker immediately
    instead.
    """
    from magnetar.client.client import Client

    if common.url.startswith(("http://", "https://")):
        raise Misuse(
            "--url must be an address of the binary protocol (pulsar://host:6650); this is a REST URL", url=common.url
        )
    silence()
    async with Client(common.url, operation_timeout_s=common.timeout) as client:
        await _first(client, common.url)
        yield client


def speaks_binary(admin_url: str) -> bool:
    """Whether one of the hosts of a REST address is in fact the binary port of a broker."""
    from urllib.parse import urlsplit

    from magnetar.client.connection.address import rest_urls

    ports = [(parts.hostname, parts.port) for parts in map(urlsplit, rest_urls(admin_url))]
    hosts = [(f"[{host}]" if ":" in host else host, port) for host, port in ports if host and port is not None]
    return bool(hosts) and asyncio.run(_one_speaks([f"pulsar://{host}:{port}" for host, port in hosts]))


async def _one_speaks(urls: list[str]) -> bool:
    return any(await asyncio.gather(*map(_speaks, urls)))


async def _speaks(url: str) -> bool:
    from magnetar.client.client import Client

    silence()
    try:
        async with asyncio.timeout(PROBE_S), Client(url) as client:
            await client.pool.get(url)
    except (MagnetarError, TimeoutError):
        return False
    return True


def silence() -> None:
    """Suppresses the client's warnings: a command prints its own errors."""
    import logging

    logger = logging.getLogger("magnetar")
    if not any(type(handler) is logging.NullHandler for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())


async def unreachable(client: Client, url: str) -> MagnetarError | None:
    """The reason why no broker answers now; None if one answers."""
    try:
        await _first(client, url)
    except MagnetarError as error:
        return error
    return None


async def _first(client: Client, url: str) -> None:
    """Waits until one of the addresses answers in the binary protocol. The client keeps the connection."""
    from magnetar.client.connection.address import addresses

    why: MagnetarError | None = None
    for address in addresses(url):
        try:
            await client.pool.get(address.url)
            return
        except MagnetarError as error:
            why = error
    assert why is not None
    if STRANGER in why.what:
        wrong = Misuse("--url must name the port of the binary protocol; this port serves REST", url=url, heard="HTTP")
        raise ErrorWithHint(
            wrong, run="the same command with --url (MAGNETAR_URL) set to the port of the binary protocol, usually 6650"
        )
    raise NotReady(f"no broker answers at {url}: {why.what}")
