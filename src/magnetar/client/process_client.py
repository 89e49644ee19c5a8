"""One client per process, class and service URL, for code that cannot await and that may fork at any time.

The client is created at its first use, so no connection is open before a fork and no client is pickled afterwards. A
forked child creates its own client and does not touch its parent's: the sockets belong to the parent. Clients live as
long as the process.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from magnetar.client.read_client import ReadClient
from magnetar.runtime.portal import Portal, portal

T = TypeVar("T")
Client = TypeVar("Client", bound=ReadClient)

_clients: dict[tuple[str, type[ReadClient]], list[tuple[Portal, ReadClient]]] = {}  # the last one: this process's own


def run(kind: type[Client], url: str, call: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Run `call` with this process's client of these brokers, and block until it returns."""
    here = portal()

    async def called() -> T:
        clients = _clients.setdefault((url, kind), [])
        if not clients or clients[-1][0] is not here:
            clients.append((here, kind(url)))
        client = clients[-1][1]
        assert isinstance(client, kind)
        return await call(client)

    return here.run(called)
