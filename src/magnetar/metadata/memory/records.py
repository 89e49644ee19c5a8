"""The server side of the metadata store in memory: records, sessions and their timeouts, shared by several threads.

All methods are called with `lock` held. A change is put in the queue of every connected handle under the same lock, so
events of one path keep their order. A session that sends nothing for `session_s` ends, and its ephemeral records are
deleted. While the server is not `available`, no session ages. It trusts its handles to check paths and sizes.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from magnetar.base.errors import BadVersion, Misuse, NotEmpty, NotFound
from magnetar.metadata.path_checks import ROOT, ancestors, shown, split
from magnetar.metadata.store import ABSENT, Change, Event, Stat

Publish = Callable[[list[Event]], None]


@dataclass(frozen=True, slots=True)
class Record:
    value: bytes = field(repr=False)
    version: int
    created: int  # the version at its creation
    ctime_ms: int
    mtime_ms: int
    session: str | None  # of an ephemeral record


class SharedMetadata:
    """`session_s`: the timeout of every session. `lock`: a lock of threads, which the owner of the threads creates."""

    def __init__(self, session_s: float, lock: AbstractContextManager[object]) -> None:
        self.lock = lock
        self.session_s = session_s
        self.available = True
        self.handles: dict[str, Publish] = {}  # by session: takes the events of changes, in any thread
        self._records: dict[str, Record] = {}
        self._children: dict[str, list[str]] = {}  # sorted names; only of parents with children
        self._sequences: dict[str, int] = {}
        self._version = 0
        self._sessions: dict[str, float | None] = {}  # the time of the last heartbeat; None: not known yet
        self._sessions_made = 0

    # Sessions

    def begin_session(self, now: float, publish: Publish) -> str:
        self._sessions_made += 1
        session = str(self._sessions_made)
        self._sessions[session] = now
        self.handles[session] = publish
        return session

    def heartbeat(self, session: str, now: float) -> bool:
        """False: the session has ended. Ends the other sessions that have timed out."""
        for other, last in list(self._sessions.items()):
            if last is None:
                self._sessions[other] = now
            elif now - last > self.session_s:
                self.end_session(other)
        if session not in self._sessions:
            return False
        self._sessions[session] = now
        return True

    def end_session(self, session: str) -> None:
        self._sessions.pop(session, None)
        for path in sorted(path for path, record in self._records.items() if record.session == session):
            self._publish(self._remove(path))

    def refresh_sessions(self) -> None:
        """After an outage of the server every session has its whole time again, from its next heartbeat or look on."""
        self._sessions = dict.fromkeys(self._sessions)

    # Records

    def get(self, path: str) -> Record | None:
        return self._records.get(path)

    def children(self, path: str) -> list[str]:
        return list(self._children.get(path, ()))

    def page(self, path: str, after: str, limit: int) -> list[tuple[str, Record | None]]:
        """Names of direct children behind `after`, with their records; None: the child has only children."""
        return [(name, self._records.get(join(path, name))) for name in self.names(path, after, limit)]

    def names(self, path: str, after: str, limit: int) -> list[str]:
        """Names of direct children behind `after`."""
        names = self._children.get(path, [])
        start = bisect_right(names, after)
        return names[start : start + limit]

    def put(self, path: str, value: bytes, expected: int | None, session: str | None, now_ms: int) -> Stat:
        record = self._records.get(path)
        version = ABSENT if record is None else record.version
        if expected is not None and expected != version:
            raise BadVersion(
                "the record does not have the expected version", path=path, expected=expected, found=version
            )
        if record is None and session is not None and path in self._children:
            raise Misuse("a record with children cannot be ephemeral", path=path)
        for above in ancestors(path)[1:]:
            parent = self._records.get(above)
            if parent is not None and parent.session is not None:
                raise Misuse("an ephemeral record must not have children", path=path)
        self._version += 1
        if record is not None:
            record = replace(record, value=value, version=self._version, mtime_ms=now_ms)
            events = [Event(Change.MODIFIED, path)]
        else:
            record = Record(value, self._version, self._version, now_ms, now_ms, session)
            events = [*self._link(path), Event(Change.CREATED, path)]
        self._records[path] = record
        self._publish(events)
        return stat_of(path, record, session)

    def put_next(self, path: str, value: bytes, session: str | None, now_ms: int) -> Stat:
        """The path gets the next number of its sequence."""
        number = self._sequences.get(path, 0)
        while f"{path}{number:010d}" in self._records or f"{path}{number:010d}" in self._children:
            number += 1
        stat = self.put(f"{path}{number:010d}", value, ABSENT, session, now_ms)
        self._sequences[path] = number + 1
        return stat

    def delete(self, path: str, expected: int | None) -> None:
        record = self._records.get(path)
        if record is None and path not in self._children:
            raise NotFound("the record does not exist", path=path)
        if record is not None and expected is not None and expected != record.version:
            raise BadVersion(
                "the record does not have the expected version", path=path, expected=expected, found=record.version
            )
        if path in self._children:
            raise NotEmpty("the record has children", path=path)
        self._publish(self._remove(path))

    def delete_tree(self, path: str) -> None:
        order, stack = [], [path]
        while stack:
            node = stack.pop()
            order.append(node)
            stack += [join(node, name) for name in self._children.get(node, ())]
        for node in reversed(order):
            if node in self._records:
                self._publish(self._remove(node))

    def _publish(self, events: list[Event]) -> None:
        for publish in list(self.handles.values()):
            publish(events)

    def _link(self, path: str) -> list[Event]:
        """Makes the path a child of its parent, and new parents children of theirs."""
        events: list[Event] = []
        while path != ROOT:
            above, name = split(path)
            parent = shown(above)
            names = self._children.setdefault(parent, [])
            at = bisect_right(names, name)
            if at and names[at - 1] == name:
                break
            insort(names, name)
            events.append(Event(Change.CHILDREN_CHANGED, parent))
            path = parent
        return events

    def _remove(self, path: str) -> list[Event]:
        """Removes a record, and each parent without a value and without other children."""
        events = []
        if self._records.pop(path, None) is not None:
            events.append(Event(Change.DELETED, path))
        while path != ROOT and path not in self._records and path not in self._children:
            above, name = split(path)
            parent = shown(above)
            names = self._children[parent]
            names.remove(name)
            if not names:
                del self._children[parent]
            events.append(Event(Change.CHILDREN_CHANGED, parent))
            path = parent
        return events


def stat_of(path: str, record: Record, session: str | None) -> Stat:
    """`session`: of the handle that reads the record."""
    return Stat(
        path=path,
        version=record.version,
        first_version=record.version == record.created,
        ctime_ms=record.ctime_ms,
        mtime_ms=record.mtime_ms,
        ephemeral=record.session is not None,
        mine=record.session is not None and record.session == session,
    )


def join(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"
