"""One client for a process, a kind and a service URL, for code that cannot await and is forked at any time.

Made when it is first used, so that nothing has to be opened before a fork or pickled after it; a forked child gets its
own, and its parent's is left alone there: the sockets are the parent's. They live as long as the process.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from magnetar.client.read_client import ReadClient
from magnetar.runtime.portal import Portal, portal

T = TypeVar("T")
Client = TypeVar("Client", bound=ReadClient)

_clients: dict[tuple[str, type[ReadClient]], list[tuple[Portal, ReadClient]]] = {}  # the last one is of this process


def run(kind: type[Client], url: str, call: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """On this process's client of these brokers, blocking."""
    here = portal()

    async def called() -> T:
        made = _clients.setdefault((url, kind), [])
        if not made or made[-1][0] is not here:
            made.append((here, kind(url)))
        client = made[-1][1]
        assert isinstance(client, kind)
        return await call(client)

    return here.run(called)
