"""A second metadata engine: records in memory that are durable once `put` returns, with crashes, peers and lost answers
on demand.

`reopen()` is what a process finds after a crash: the same records, another session, the old session's ephemerals gone,
the old handle dead. `peer()` is another process on the same records. `faults` are met by the next operations, in order:
`lost(happened=True)` does the work and loses the answer. Written apart from the sqlite engine on purpose: one checks
the other.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

from magnetar.base.errors import BadVersion, Closed, ConnectionLost, MagnetarError, Misuse, NotEmpty, NotFound
from magnetar.metadata.keys import ROOT, ancestors, check_path, check_prefix, check_size
from magnetar.metadata.listeners import Listeners
from magnetar.metadata.store import ABSENT, Change, Event, Node, Session, Stat, Unsubscribe
from magnetar.runtime.runtime import Runtime

PAGE_NODES = 100  # small, so that a test of a few hundred records crosses pages


@dataclass(frozen=True, slots=True)
class Fault:
    error: MagnetarError | None  # None: nothing goes wrong this time
    happened: bool


def lost(*, happened: bool) -> Fault:
    """The answer does not arrive; `happened` says what only the store knows."""
    return Fault(ConnectionLost("the connection to the metadata store broke"), happened)


@dataclass(frozen=True, slots=True)
class Record:
    value: bytes
    version: int
    created: int
    ctime_ms: int
    mtime_ms: int
    session: str | None


@dataclass(slots=True)
class Content:
    """What is on the disk, so to speak: it outlives every handle."""

    records: dict[str, Record] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)  # names of children, sorted; only where there are any
    sequences: dict[str, int] = field(default_factory=dict)
    version: int = 0
    sessions: int = 0
    handles: list[MemoryStore] = field(default_factory=list)

    def tell(self, events: list[Event]) -> None:
        for handle in list(self.handles):
            handle._listeners.tell(events)


class MemoryStore:
    def __init__(self, runtime: Runtime | None = None, *, content: Content | None = None) -> None:
        self.content = content if content is not None else Content()
        self.faults: deque[Fault] = deque()
        self.puts = 0  # for tests that count what a caller costs
        self._runtime = runtime
        self._listeners = Listeners()
        self._closed = False
        self.session_id = self._new_session()
        self.content.handles.append(self)

    def reopen(self) -> MemoryStore:
        """This process crashed; here is the next one."""
        self._die()
        self.forget_sessions()
        return MemoryStore(self._runtime, content=self.content)

    def peer(self) -> MemoryStore:
        """Another process that is connected to the same records."""
        return MemoryStore(self._runtime, content=self.content)

    async def get(self, path: str) -> Node | None:
        check_path(path)
        await self._look()
        record = self.content.records.get(path)
        return None if record is None else Node(record.value, self._stat(path, record))

    async def sync(self, path: str) -> None:
        await self._look()

    async def exists(self, path: str) -> bool:
        return await self.get(path) is not None

    async def children(self, path: str) -> list[str]:
        check_prefix(path)
        await self._look()
        return list(self.content.below.get(path, ()))

    async def scan(
        self, path: str, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[tuple[str, Node]]:
        check_prefix(path)
        last, given = after or "", 0
        while limit is None or given < limit:
            await self._look()
            names = self.content.below.get(path, [])
            start = bisect_right(names, last)
            page = names[start : start + PAGE_NODES]
            if not page:
                return
            for name in page:
                child = _join(path, name)
                record = self.content.records.get(child)
                if record is not None and (limit is None or given < limit):
                    given += 1
                    yield name, Node(record.value, self._stat(child, record))
            last = page[-1]

    async def put(
        self, path: str, value: bytes, *, expected: int | None = None, ephemeral: bool = False, sequential: bool = False
    ) -> Stat:
        check_path(path)
        check_size(path, value)
        if sequential and expected not in (None, ABSENT):
            raise Misuse("a sequential record is always a new one", path=path)
        fault = await self._turn()
        self.puts += 1
        if sequential:
            number, prefix = self._next_in_sequence(path), path
            stat = self._put(f"{prefix}{number:010d}", bytes(value), ABSENT, ephemeral)
            self.content.sequences[prefix] = number + 1
        else:
            stat = self._put(path, bytes(value), expected, ephemeral)
        if fault is not None and fault.error is not None:
            raise fault.error
        return stat

    async def delete(self, path: str, *, expected: int | None = None) -> None:
        check_path(path)
        fault = await self._turn()
        record = self.content.records.get(path)
        if record is None and path not in self.content.below:
            raise NotFound("there is no such record", path=path)
        if record is not None and expected is not None and expected != record.version:
            raise BadVersion("the record is not as expected", path=path, expected=expected, found=record.version)
        if path in self.content.below:
            raise NotEmpty("the record has children", path=path)
        self.content.tell(_remove(self.content, path))
        if fault is not None and fault.error is not None:
            raise fault.error

    async def delete_tree(self, path: str) -> None:
        check_prefix(path)
        await self._turn()
        events: list[Event] = []
        stack = [path]
        order: list[str] = []
        while stack:
            node = stack.pop()
            order.append(node)
            stack += [_join(node, name) for name in self.content.below.get(node, ())]
        for node in reversed(order):
            if node in self.content.records:
                events += _remove(self.content, node)
        self.content.tell(events)

    def subscribe(self, prefix: str, heard: Callable[[Event], None]) -> Unsubscribe:
        return self._listeners.subscribe(prefix, heard)

    def on_session(self, heard: Callable[[Session], None]) -> Unsubscribe:
        return self._listeners.on_session(heard)

    def resync(self, prefix: str = ROOT) -> None:
        """Tell this handle's listeners that events may have been lost."""
        self._listeners.tell([Event(Change.RESYNC, prefix)])

    async def expire_session(self, server_side: bool) -> None:
        """Lose the session and get another; not `server_side`: the old ephemerals stay until `forget_sessions`."""
        self.lose_session(server_side=server_side)
        await self._turn()
        self.regain_session()

    def lose_session(self, *, server_side: bool) -> None:
        self._listeners.tell_session(Session.CONNECTION_LOST)
        self._listeners.tell_session(Session.LOST)
        if server_side:
            _reap(self.content, self.session_id)
            self.forget_sessions()

    def regain_session(self) -> None:
        self.session_id = self._new_session()
        self._listeners.tell_session(Session.RECONNECTED)
        self._listeners.tell_session(Session.REESTABLISHED)

    def reconnect(self) -> None:
        """A short outage: the same session afterwards."""
        self._listeners.tell_session(Session.CONNECTION_LOST)
        self._listeners.tell_session(Session.RECONNECTED)

    def forget_sessions(self) -> None:
        """The server notices at last: ephemerals of sessions that no handle has any more are gone."""
        alive = {handle.session_id for handle in self.content.handles}
        for session in sorted({record.session for record in self.content.records.values() if record.session} - alive):
            _reap(self.content, session)

    async def close(self) -> None:
        if self._closed:
            return
        self._die()
        self.forget_sessions()

    def _die(self) -> None:
        self._closed = True
        self._listeners.clear()
        if self in self.content.handles:
            self.content.handles.remove(self)

    async def _turn(self) -> Fault | None:
        """Let others run first, as a store behind a thread or a socket does; meet the next fault."""
        self._check_open()
        await asyncio.sleep(0)
        self._check_open()
        if not self.faults:
            return None
        fault = self.faults.popleft()
        if not fault.happened and fault.error is not None:
            raise fault.error
        return fault

    async def _look(self) -> None:
        """A turn of something that only reads: a lost answer is lost whatever happened."""
        fault = await self._turn()
        if fault is not None and fault.error is not None:
            raise fault.error

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the metadata store is closed")

    def _new_session(self) -> str:
        self.content.sessions += 1
        return str(self.content.sessions)

    def _next_in_sequence(self, prefix: str) -> int:
        number = self.content.sequences.get(prefix, 0)
        while f"{prefix}{number:010d}" in self.content.records or f"{prefix}{number:010d}" in self.content.below:
            number += 1
        return number

    def _put(self, path: str, value: bytes, expected: int | None, ephemeral: bool) -> Stat:
        content = self.content
        record = content.records.get(path)
        found = ABSENT if record is None else record.version
        if expected is not None and expected != found:
            raise BadVersion("the record is not as expected", path=path, expected=expected, found=found)
        if record is None and ephemeral and path in content.below:
            raise Misuse("a record with children cannot be ephemeral", path=path)
        for above in ancestors(path)[1:]:
            if above in content.records and content.records[above].session is not None:
                raise Misuse("an ephemeral record has no children", path=path)
        now = 0 if self._runtime is None else self._runtime.wall()
        content.version += 1
        if record is not None:
            record = replace(record, value=value, version=content.version, mtime_ms=now)
            events = [Event(Change.MODIFIED, path)]
        else:
            session = self.session_id if ephemeral else None
            record = Record(value, content.version, content.version, now, now, session)
            events = [*_link(content, path), Event(Change.CREATED, path)]
        content.records[path] = record
        content.tell(events)
        return self._stat(path, record)

    def _stat(self, path: str, record: Record) -> Stat:
        return Stat(
            path=path,
            version=record.version,
            first_version=record.version == record.created,
            ctime_ms=record.ctime_ms,
            mtime_ms=record.mtime_ms,
            ephemeral=record.session is not None,
            mine=record.session == self.session_id,
        )


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def _join(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def _link(content: Content, path: str) -> list[Event]:
    """Make the path a child of its parent, and its parents of theirs."""
    events: list[Event] = []
    while path != ROOT:
        parent, name = _parent(path), path.rpartition("/")[2]
        names = content.below.setdefault(parent, [])
        at = bisect_right(names, name)
        if at and names[at - 1] == name:
            break
        insort(names, name)
        events.append(Event(Change.CHILDREN_CHANGED, parent))
        path = parent
    return events


def _remove(content: Content, path: str) -> list[Event]:
    events = []
    if content.records.pop(path, None) is not None:
        events.append(Event(Change.DELETED, path))
    while path != ROOT and path not in content.records and path not in content.below:
        parent = _parent(path)
        names = content.below[parent]
        names.remove(path.rpartition("/")[2])
        if not names:
            del content.below[parent]
        events.append(Event(Change.CHILDREN_CHANGED, parent))
        path = parent
    return events


def _reap(content: Content, session: str) -> None:
    gone = sorted(path for path, record in content.records.items() if record.session == session)
    events: list[Event] = []
    for path in gone:
        events += _remove(content, path)
    content.tell(events)
