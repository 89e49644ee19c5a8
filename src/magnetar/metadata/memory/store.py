"""A metadata store in memory for several brokers in one process: one handle for each broker, in the broker's thread.

A handle sends heartbeats on its loop. So a broker whose thread is blocked loses its session after the timeout, as a
process that is suspended does; it notices this afterwards and gets another session. `abandon` ends a handle as `kill
-9` does: its session stays until the timeout. During an outage of the server every operation fails with NotReady. A
handle without a connection gives its session up after the timeout, before the server ends it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from magnetar.base.errors import Closed, Misuse, NotReady
from magnetar.base.limits import METADATA_MEMORY_HEARTBEATS, METADATA_PAGE_NAMES_MAX, METADATA_PAGE_NODES_MAX
from magnetar.metadata.listeners import Listeners
from magnetar.metadata.memory.records import SharedMetadata, join, stat_of
from magnetar.metadata.path_checks import check_limit, check_path, check_prefix, check_size
from magnetar.metadata.store import ABSENT, Event, NamePage, Node, Session, Stat, Unsubscribe
from magnetar.runtime.runtime import Runtime

T = TypeVar("T")


class MemoryMetadataStore:
    """Created on the loop that uses it."""

    def __init__(self, shared: SharedMetadata, runtime: Runtime) -> None:
        self.session_id = ""
        self._shared = shared
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._listeners = Listeners()
        self._events: deque[list[Event]] = deque()
        self._closed = False
        self._connected = True
        self._lost_at = 0.0  # the time when the connection was lost
        self._given_up = False  # the session was lost, and the next one has not begun
        with shared.lock:
            if not shared.available:
                raise NotReady("the metadata store is not available")
            self._begin_session()
        self._timer = self._loop.call_later(self._step_s, self._beat)

    @property
    def session_s(self) -> float:
        """The timeout of the session."""
        return self._shared.session_s

    # The contract

    async def get(self, path: str) -> Node | None:
        check_path(path)

        def read() -> Node | None:
            record = self._shared.get(path)
            return None if record is None else Node(record.value, stat_of(path, record, self.session_id))

        return await self._do(read)

    async def sync(self, path: str) -> None:
        """Every read sees all earlier writes."""
        await self._do(lambda: None)

    async def fresh(self, path: str) -> Node | None:
        return await self.get(path)

    async def exists(self, path: str) -> bool:
        return await self.get(path) is not None

    async def children(self, path: str) -> list[str]:
        check_prefix(path)
        return await self._do(lambda: self._shared.children(path))

    async def names(self, path: str, *, after: str | None = None, limit: int | None = None) -> NamePage:
        check_prefix(path)
        check_limit(limit)
        size = METADATA_PAGE_NAMES_MAX if limit is None else min(limit, METADATA_PAGE_NAMES_MAX)
        names = await self._do(partial(self._shared.names, path, after or "", size))
        return NamePage(names, len(names) == size)

    async def scan(
        self, path: str, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[tuple[str, Node]]:
        check_prefix(path)
        last, count = after or "", 0
        while limit is None or count < limit:
            page = await self._do(partial(self._shared.page, path, last, METADATA_PAGE_NODES_MAX))
            if not page:
                return
            for name, record in page:
                if record is not None and (limit is None or count < limit):
                    count += 1
                    yield name, Node(record.value, stat_of(join(path, name), record, self.session_id))
            last = page[-1][0]

    async def put(
        self, path: str, value: bytes, *, expected: int | None = None, ephemeral: bool = False, sequential: bool = False
    ) -> Stat:
        check_path(path)
        check_size(path, value)
        if sequential and expected not in (None, ABSENT):
            raise Misuse("a sequential put must not expect a version", path=path)
        value = bytes(value)
        now_ms = self._runtime.wall()

        def write() -> Stat:
            session = self.session_id if ephemeral else None
            if sequential:
                return self._shared.put_next(path, value, session, now_ms)
            return self._shared.put(path, value, expected, session, now_ms)

        return await self._do(write)

    async def delete(self, path: str, *, expected: int | None = None) -> None:
        check_path(path)
        await self._do(lambda: self._shared.delete(path, expected))

    async def delete_tree(self, path: str) -> None:
        check_prefix(path)
        await self._do(lambda: self._shared.delete_tree(path))

    def subscribe(self, prefix: str, heard: Callable[[Event], None]) -> Unsubscribe:
        return self._listeners.subscribe(prefix, heard)

    def on_session(self, heard: Callable[[Session], None]) -> Unsubscribe:
        return self._listeners.on_session(heard)

    async def close(self) -> None:
        if self._closed:
            return
        self.abandon()
        with self._shared.lock:
            self._shared.end_session(self.session_id)

    # Faults

    def abandon(self) -> None:
        """Ends the handle as the end of its process does: the session stays until its timeout."""
        self._closed = True
        self._timer.cancel()
        self._listeners.clear()
        with self._shared.lock:
            self._shared.handles.pop(self.session_id, None)

    async def expire_session(self, server_side: bool = True) -> None:
        """Loses the session and gets another. Without `server_side` the old ephemerals stay until the timeout, as on a
        server that has not detected the loss."""
        if server_side:
            with self._shared.lock:
                self._shared.end_session(self.session_id)
        self._renew()

    # Inside

    @property
    def _step_s(self) -> float:
        return self._shared.session_s / METADATA_MEMORY_HEARTBEATS

    async def _do(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)  # lets others run first, as a store behind a socket does
        if self._closed:
            raise Closed("the metadata store is closed")
        self._check_connection()
        if not self._connected:
            raise NotReady("the metadata store does not answer")
        try:
            with self._shared.lock:
                return work()
        finally:
            self._deliver_events()

    def _beat(self) -> None:
        self._timer = self._loop.call_later(self._step_s, self._beat)
        self._check_connection()
        self._deliver_events()

    def _check_connection(self) -> None:
        """Notices what happened to the server and to the session since the last call."""
        now = self._runtime.monotonic()
        with self._shared.lock:
            available = self._shared.available
            alive = available and not self._given_up and self._shared.heartbeat(self.session_id, now)
        if not available:
            self._miss(now)
        elif not alive:
            self._renew()
        elif not self._connected:
            self._connected = True
            self._listeners.tell_session(Session.RECONNECTED)

    def _miss(self, now: float) -> None:
        """The server does not answer."""
        if self._connected:
            self._connected, self._lost_at = False, now
            self._listeners.tell_session(Session.CONNECTION_LOST)
        elif not self._given_up and now - self._lost_at >= self._shared.session_s:
            self._given_up = True
            self._listeners.tell_session(Session.LOST)

    def _renew(self) -> None:
        """Reports the loss of the session unless the listeners know it, and begins another one."""
        if self._connected:
            self._connected = False
            self._listeners.tell_session(Session.CONNECTION_LOST)
        if not self._given_up:
            self._listeners.tell_session(Session.LOST)
        with self._shared.lock:
            self._shared.handles.pop(self.session_id, None)
            self._begin_session()
        self._connected, self._given_up = True, False
        self._deliver_events()
        self._listeners.tell_session(Session.RECONNECTED)
        self._listeners.tell_session(Session.REESTABLISHED)

    def _begin_session(self) -> None:
        self.session_id = self._shared.begin_session(self._runtime.monotonic(), self._publish)

    def _publish(self, events: list[Event]) -> None:
        """Called in any thread, in the order of the changes."""
        self._events.append(events)
        with suppress(RuntimeError):  # the loop of a broker that has ended is closed
            self._loop.call_soon_threadsafe(self._deliver_events)

    def _deliver_events(self) -> None:
        while self._events:
            events = self._events.popleft()
            self._listeners.tell(events)
