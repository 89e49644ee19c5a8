"""A power switch for crash tests: it counts every effect on stores and stops the world at the chosen one.

Each effect passes the switch twice: before it happens, and after it happened but before any caller gets the result. A
test runs its scenario once to count the passes, then again for every pass. After the cut nothing answers any more: all
callers wait without end, and the test reopens the stores from their content. `PoweredStore` is a metadata store behind
such a switch; `MemoryLedgers` takes one itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from magnetar.metadata.store import Event, MetadataStore, NamePage, Node, Session, Stat, Unsubscribe


class PowerSwitch:
    def __init__(self, cut_at: int | None = None) -> None:
        self.passes = 0
        self.cut_at = cut_at
        self.out = asyncio.Event()

    def spent(self) -> bool:
        """Whether the power is out; counts one pass."""
        if not self.out.is_set() and self.passes == self.cut_at:
            self.out.set()
        if not self.out.is_set():
            self.passes += 1
        return self.out.is_set()

    async def gate(self) -> None:
        if self.spent():
            await asyncio.get_running_loop().create_future()


class PoweredStore:
    def __init__(self, store: MetadataStore, power: PowerSwitch) -> None:
        self.store = store
        self.power = power
        self.session_id = store.session_id

    async def get(self, path: str) -> Node | None:
        return await self.store.get(path)

    async def sync(self, path: str) -> None:
        await self.store.sync(path)

    async def fresh(self, path: str) -> Node | None:
        return await self.store.fresh(path)

    async def exists(self, path: str) -> bool:
        return await self.store.exists(path)

    async def children(self, path: str) -> list[str]:
        return await self.store.children(path)

    async def names(self, path: str, *, after: str | None = None, limit: int | None = None) -> NamePage:
        return await self.store.names(path, after=after, limit=limit)

    def scan(self, path: str, *, after: str | None = None, limit: int | None = None) -> AsyncIterator[tuple[str, Node]]:
        return self.store.scan(path, after=after, limit=limit)

    async def put(
        self, path: str, value: bytes, *, expected: int | None = None, ephemeral: bool = False, sequential: bool = False
    ) -> Stat:
        await self.power.gate()
        stat = await self.store.put(path, value, expected=expected, ephemeral=ephemeral, sequential=sequential)
        await self.power.gate()
        return stat

    async def delete(self, path: str, *, expected: int | None = None) -> None:
        await self.power.gate()
        await self.store.delete(path, expected=expected)
        await self.power.gate()

    async def delete_tree(self, path: str) -> None:
        await self.power.gate()
        await self.store.delete_tree(path)
        await self.power.gate()

    def subscribe(self, prefix: str, heard: Callable[[Event], None]) -> Unsubscribe:
        return self.store.subscribe(prefix, heard)

    def on_session(self, heard: Callable[[Session], None]) -> Unsubscribe:
        return self.store.on_session(heard)

    async def close(self) -> None:
        await self.store.close()
