"""What commands that speak the binary protocol share: a client that fails at once where nobody listens, and a run that
Ctrl-C ends well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import NotReady
from magnetar.base.limits import CLIENT_CONNECT_S
from magnetar.cli.exits import Exit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from magnetar.cli.options import Common
    from magnetar.client.client import Client


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

    await _probe(common.url)
    async with Client(common.url, operation_timeout_s=common.timeout) as client:
        yield client


async def _probe(url: str) -> None:
    from magnetar.client.address import addresses

    loop = asyncio.get_running_loop()
    why = ""
    for address in addresses(url):
        try:
            async with asyncio.timeout(CLIENT_CONNECT_S):
                transport, _ = await loop.create_connection(asyncio.Protocol, address.host, address.port)
        except OSError as error:
            why = error.strerror or str(error) or f"no connection within {CLIENT_CONNECT_S:g} s"
            continue
        transport.close()
        return
    raise NotReady(f"no broker answers at {url}: {why}")
