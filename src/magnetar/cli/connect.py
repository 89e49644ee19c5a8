"""What commands that speak the binary protocol share: a client that fails at once where nobody listens or somebody
else does, and a run that Ctrl-C ends well.
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

STRANGER = "this is HTTP"  # what the client says of a port where REST is spoken
PROBE_S = 2.0  # for the other protocol on a port that did not answer in its own: a person waits


def run(work: Coroutine[Any, Any, Exit]) -> Exit:
    """Whoever waits for messages ends with Ctrl-C: that is no failure."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        return Exit.OK


@asynccontextmanager
async def connected(common: Common) -> AsyncIterator[Client]:
    """A client keeps trying for as long as it may, which is right for applications; a person wants to know at once."""
    from magnetar.client.client import Client

    if common.url.startswith(("http://", "https://")):
        raise Misuse(
            "--url is where the binary protocol is spoken (pulsar://host:6650); this is a URL of REST", url=common.url
        )
    silence()
    async with Client(common.url, operation_timeout_s=common.timeout) as client:
        await _first(client, common.url)
        yield client


def speaks_binary(admin_url: str) -> bool:
    """Whether a port that is no REST is the other one of a broker."""
    from urllib.parse import urlsplit

    parts = urlsplit(admin_url)
    if not parts.hostname or parts.port is None:
        return False
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return asyncio.run(_speaks(f"pulsar://{host}:{parts.port}"))


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
    """A command writes its own errors: the client's warnings would stand between them."""
    import logging

    logger = logging.getLogger("magnetar")
    if not any(type(handler) is logging.NullHandler for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())


async def unreachable(client: Client, url: str) -> MagnetarError | None:
    """Why no broker answers at this moment; None if one does."""
    try:
        await _first(client, url)
    except MagnetarError as error:
        return error
    return None


async def _first(client: Client, url: str) -> None:
    """One of the addresses answers in the protocol; the connection stays for the client."""
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
        wrong = Misuse("--url names a port where REST is spoken", url=url, heard="HTTP")
        raise ErrorWithHint(
            wrong, run="the same with --url (MAGNETAR_URL) naming the port of the binary protocol, mostly 6650"
        )
    raise NotReady(f"no broker answers at {url}: {why.what}")
