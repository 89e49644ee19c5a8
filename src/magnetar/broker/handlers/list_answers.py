"""Answers that hold a whole list of topics: one at a time for each connection, and none while its peer does not read.

A list of a large namespace has megabytes, and one connection may ask for hundreds of them at once. Requests wait here
before their list is encoded, so that a peer which asks and does not read makes the broker hold one list, not all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol


class Peer(Protocol):
    congested: bool


class ListAnswers:
    """Of one connection. Tasks that wait here end with their connection, whose tasks they are."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._lock = asyncio.Lock()
        self._reads = asyncio.Event()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The caller makes and writes its answer inside."""
        async with self._lock:
            while self._peer.congested:
                self._reads.clear()
                await self._reads.wait()
            yield

    def resume(self) -> None:
        """The peer reads again."""
        self._reads.set()
