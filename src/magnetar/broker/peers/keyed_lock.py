"""A lock per name: later callers wait in order, and an unused name takes no memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class KeyedLock:
    """Used on the loop."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}  # a lock, and how many are at it

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def through(self, name: str) -> AsyncIterator[None]:
        lock, users = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[name]
            if users > 1:
                self._locks[name] = lock, users - 1
            else:
                del self._locks[name]
