"""The scalable topics of a namespace, followed from their records while at least one watch is open.

All watches of a namespace on this broker share one index. It subscribes to events before it lists, so that it misses no
change in between, and lists again whenever events may have been lost. Every broker derives the list from the store by
itself; the broker that made a change informs no other (H-A4). A record that cannot be read is left out and logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from magnetar.base.errors import Corrupt, MagnetarError
from magnetar.base.limits import CALL_RETRY_S_MAX
from magnetar.base.names import NamespaceName
from magnetar.metadata import paths
from magnetar.metadata.store import Change, Event, MetadataStore, Session
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.scalable.record import codec
from magnetar.scalable.watch.namespace_diff import Member

log = get("namespace")


class Listener(Protocol):
    def begun(self, members: Mapping[str, Member]) -> None:
        """All of them, once, before anything else."""
        ...

    def noted(self, name: str, member: Member | None) -> None:
        """One came, changed, or (None) went."""
        ...


class NamespaceIndex:
    def __init__(self, runtime: Runtime, store: MetadataStore) -> None:
        self._runtime = runtime
        self._store = store
        self._owner = Owner("members")
        self._followed: dict[NamespaceName, _Followed] = {}

    def watch(self, namespace: NamespaceName, listener: Listener) -> Callable[[], None]:
        """What it answers with stops it."""
        followed = self._followed.get(namespace)
        if followed is None:
            followed = self._followed[namespace] = _Followed(self, namespace)
        followed.join(listener)

        def stop() -> None:
            if followed.leave(listener) and self._followed.get(namespace) is followed:
                del self._followed[namespace]
                followed.close()

        return stop

    async def close(self) -> None:
        for followed in self._followed.values():
            followed.close()
        self._followed.clear()
        await self._owner.close()


class _Followed:
    """One namespace that has at least one watch on this broker."""

    def __init__(self, members: NamespaceIndex, namespace: NamespaceName) -> None:
        self._store = members._store
        self._runtime = members._runtime
        self._owner = members._owner
        self._parent = paths.scalable_parent(namespace)
        self._listeners: dict[Listener, None] = {}
        self._members: dict[str, Member] = {}
        self._known = False
        self._all = True  # everything is to be listed
        self._changed: dict[str, None] = {}  # paths of records to be read again
        self._running = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._stops = [
            self._store.subscribe(self._parent, self._heard),
            self._store.on_session(self._heard_session),
        ]
        self._look()

    def join(self, listener: Listener) -> None:
        self._listeners[listener] = None
        if self._known:
            listener.begun(self._members)

    def leave(self, listener: Listener) -> bool:
        """Was it the last one?"""
        self._listeners.pop(listener, None)
        return not self._listeners

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for stop in self._stops:
            stop()

    def _heard(self, event: Event) -> None:
        if event.change is Change.RESYNC:
            self._all = True
        elif paths.scalable_of(event.path) is not None:
            self._changed[event.path] = None
        else:
            return  # something below a record, or the parent of them all
        self._look()

    def _heard_session(self, session: Session) -> None:
        if session in (Session.RECONNECTED, Session.REESTABLISHED):
            self._all = True
            self._look()

    def _look(self) -> None:
        if not self._running and not self._closed and not self._owner.closed:
            self._running = True
            self._runtime.spawn(self._owner, self._read())

    async def _read(self) -> None:
        try:
            while (self._all or self._changed) and not self._closed:
                if self._all:
                    await self._list()
                else:
                    path = next(iter(self._changed))
                    del self._changed[path]
                    await self._read_one(path)
        except MagnetarError as error:
            log.warning("namespace_scan_failed", namespace=self._parent, error=str(error))
            self._all = True
            self._later()
        finally:
            self._running = False

    async def _list(self) -> None:
        """What is heard from here on is read again after it."""
        self._all = False
        self._changed.clear()
        await self._store.sync(self._parent)
        members: dict[str, Member] = {}
        async for part, node in self._store.scan(self._parent):
            name, member = _member(f"{self._parent}/{part}", node.value)
            if member is not None:
                members[name] = member
        if not self._known:
            self._known, self._members = True, members
            for listener in list(self._listeners):
                listener.begun(members)
            return
        for name in sorted(self._members.keys() | members.keys()):
            self._note(name, members.get(name))

    async def _read_one(self, path: str) -> None:
        node = await self._store.get(path)
        name, member = _member(path, None if node is None else node.value)
        self._note(name, member)

    def _note(self, name: str, member: Member | None) -> None:
        if self._members.get(name) == member:
            return
        if member is None:
            del self._members[name]
        else:
            self._members[name] = member
        for listener in list(self._listeners):
            listener.noted(name, member)

    def _later(self) -> None:
        def again() -> None:
            self._timer = None
            self._look()

        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(CALL_RETRY_S_MAX, again)


def _member(path: str, value: bytes | None) -> tuple[str, Member | None]:
    name = paths.scalable_of(path)
    assert name is not None
    try:
        record = None if value is None else codec.decode(value)
    except Corrupt as error:
        log.warning("record_read_failed", topic=str(name), error=str(error))
        record = None
    if record is None or not record.is_live or record.is_plain:
        return name.canonical, None
    return name.canonical, Member(record.incarnation, record.properties)
