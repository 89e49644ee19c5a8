"""Answers with a whole list of topics: one at a time per connection, and none while its peer does not read.

The list of a large namespace has megabytes, and one connection may request hundreds of lists concurrently. Requests
wait here before their list is encoded, so that the broker holds one list for a peer that does not read, not all of
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol


class Peer(Protocol):
    congested: bool


class ListAnswers:
    """The list answers of one connection. Waiting tasks belong to the connection and end with it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._lock = asyncio.Lock()
        self._reads = asyncio.Event()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The caller builds and writes its answer inside this context."""
        async with self._lock:
            while self._peer.congested:
                self._reads.clear()
                await self._reads.wait()
            yield

    def resume(self) -> None:
        """Called when the peer reads again."""
        self._reads.set()
