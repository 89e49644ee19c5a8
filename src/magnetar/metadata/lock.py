"""Locks: an ephemeral record whose value names the holder. The ownership of a bundle and the registration of a broker
are locks.

A lock survives the loss of its session: it is validated again when a session exists, when its record disappears, and
after the store did not respond. Silence is not loss: until the store says that another process holds the lock, the
holder continues (fencing makes its writes safe, not the lock). `on_lost` is called once, when the loss is certain.

After a lost session the record may be left from the old session of this process. Its holder waits for the server to
delete it, for a bounded time, and then deletes it on its version (PIP-57). Locks are validated concurrently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto

from magnetar.base.errors import BadVersion, Closed, Conflict, MagnetarError, NotFound, Unavailable, Unknown
from magnetar.base.limits import LOCKS_AT_ONCE_MAX, METADATA_CHECKED_TRIES_MAX, METADATA_RETRY_S_MIN
from magnetar.metadata.session_times import session_times
from magnetar.metadata.store import ABSENT, Change, Event, MetadataStore, Node, Session, Unsubscribe
from magnetar.runtime.runtime import Owner, Runtime


class State(Enum):
    INIT = auto()
    VALID = auto()
    RELEASING = auto()
    RELEASED = auto()


class Lock:
    """Held while `state` is VALID. Created only by `Locks.acquire`."""

    def __init__(self, path: str, value: bytes, on_lost: Callable[[Lock], None] | None) -> None:
        self.path = path
        self.value = value
        self.version = ABSENT
        self.state = State.INIT
        self.doubtful = False  # the store did not answer when last asked: ask again when it is back
        self.turn = asyncio.Lock()  # a release must not cross a look that would make the record again
        self.changed = asyncio.Event()  # set when the store reports a change of the record
        self._on_lost = on_lost

    def _lose(self) -> None:
        self.state = State.RELEASED
        if self._on_lost is not None:
            self._on_lost(self)


class Locks:
    """All locks of one process on one store. `waits`: a record of an old session of this process is deleted only after
    the server had the time to do it. Otherwise it is deleted immediately, for locks whose holder is fenced by a term.
    """

    def __init__(self, store: MetadataStore, runtime: Runtime, name: str = "locks", *, waits: bool = False) -> None:
        self._store = store
        self._runtime = runtime
        self._owner = Owner(name)
        self._held: dict[str, Lock] = {}
        self._leaving: dict[str, Lock] = {}  # released, and the store did not say that the record is gone
        self._stops: dict[str, Unsubscribe] = {}
        self.on_validated: Callable[[], None] | None = None  # called when no lock is being validated any more
        self._waits = waits
        self._slots = asyncio.Semaphore(LOCKS_AT_ONCE_MAX)
        self._waiting: dict[str, None] = {}  # to be validated
        self._working: set[str] = set()  # being validated
        self._retry_s = METADATA_RETRY_S_MIN
        self._timer: asyncio.TimerHandle | None = None
        self._session_stop = store.on_session(self._heard_session)

    def held(self) -> list[Lock]:
        return [lock for lock in self._held.values() if lock.state is State.VALID]

    async def acquire(self, path: str, value: bytes, on_lost: Callable[[Lock], None] | None = None) -> Lock:
        """Conflict: another process holds the lock. Unknown, Unavailable: the store did not respond; nothing is held,
        try again."""
        if self._owner.closed:
            raise Closed("the lock service is closed")
        if path in self._held:
            raise Conflict("this process already holds the lock or is acquiring it", path=path)
        lock = Lock(path, value, on_lost)
        self._held[path] = lock
        self._stops[path] = self._store.subscribe(path, self._heard)
        try:
            leaving = self._leaving.pop(path, None)
            if leaving is not None:
                async with leaving.turn:
                    pass  # a removal under way would take the record that is made now
            await self._take(lock)
        except BaseException:
            self._forget(lock)
            raise
        return lock

    async def update(self, lock: Lock, value: bytes) -> None:
        """Gives a held lock another value. Conflict: the lock is not held any more, or another process wrote to its
        record."""
        async with lock.turn:
            if lock.state is not State.VALID:
                raise Conflict("the lock is not held", path=lock.path)
            try:
                stat = await self._store.put(lock.path, value, expected=lock.version, ephemeral=True)
            except (BadVersion, Unknown):
                self._look_at(lock.path)  # an answer that was lost leaves us with a version that is not the record's
                raise
            lock.value, lock.version = value, stat.version

    async def release(self, lock: Lock) -> None:
        """A missing record counts as released. Unknown, Unavailable: the record may still exist; its removal is retried
        until the store responds or the lock is acquired again."""
        async with lock.turn:
            if lock.state is not State.VALID:
                return
            lock.state = State.RELEASING
            try:
                await self._remove(lock)
            except (NotFound, BadVersion):
                pass
            except (Unknown, Unavailable):
                self._leaving[lock.path] = lock
                self._retry_later()
                raise
            finally:
                lock.state = State.RELEASED
                self._forget(lock)

    async def confirm(self, lock: Lock) -> bool:
        """Validates the lock with the store; a missing record is created again. False: the lock is lost, and `on_lost`
        was called. Unknown, Unavailable: the state is unknown."""
        async with lock.turn:
            if lock.state is not State.VALID:
                return False
            try:
                await self._revalidate(lock)
            except Conflict:
                self._forget(lock)
                lock._lose()
                return False
            return True

    async def close(self) -> None:
        """Releases all held locks. A store that does not respond does not block the closing."""
        self._session_stop()
        if self._timer is not None:
            self._timer.cancel()
        await self._owner.close()
        for lock in self.held():
            try:
                await self.release(lock)
            except (Unknown, Unavailable, Closed):
                pass  # the session's end releases it

    async def _remove(self, lock: Lock) -> None:
        try:
            await self._store.delete(lock.path, expected=lock.version)
        except BadVersion:
            # The record belongs to another process, or to this one with a version from a lost answer. The latter must
            # not outlive its release.
            node = await self._store.fresh(lock.path)
            if node is not None and node.stat.mine:
                await self._store.delete(lock.path, expected=node.stat.version)

    async def _create(self, lock: Lock) -> None:
        stat = await self._store.put(lock.path, lock.value, expected=ABSENT, ephemeral=True)
        lock.version, lock.state, lock.doubtful = stat.version, State.VALID, False

    async def _take(self, lock: Lock) -> None:
        try:
            await self._create(lock)
        except (BadVersion, Unknown):
            await self._revalidate(lock)

    async def _revalidate(self, lock: Lock) -> None:
        """Conflict: the lock is lost. Any other error: the state is unknown."""
        for _ in range(METADATA_CHECKED_TRIES_MAX):
            try:
                return await self._look(lock)
            except BadVersion:
                pass  # changed between look and write: by a rival, or by a late write of ours
        raise Conflict("the lock changed during every attempt to validate it: try again", path=lock.path)

    async def _look(self, lock: Lock) -> None:
        node = await self._read(lock)
        if node is not None and self._waits and _is_of_old_session(lock, node):
            node = await self._wait_for_deletion(lock)
        if node is None:
            async with self._slots:
                await self._create(lock)
            return
        mine, equal = node.stat.mine, node.value == lock.value
        if not node.stat.ephemeral or not (equal or mine):
            raise Conflict("another process holds the lock", path=lock.path)
        if equal and mine:
            lock.version, lock.state, lock.doubtful = node.stat.version, State.VALID, False
            return
        # The record is ours, from an old session or with another value: replace it.
        async with self._slots:
            try:
                await self._store.delete(lock.path, expected=node.stat.version)
            except NotFound:
                pass
            await self._create(lock)

    async def _read(self, lock: Lock) -> Node | None:
        async with self._slots:
            return await self._store.fresh(lock.path)

    async def _wait_for_deletion(self, lock: Lock) -> Node | None:
        """Waits until the server ends the old session, for a bounded time; then returns the record as it is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + session_times(self._store).remainder_s
        while True:
            lock.changed.clear()
            node = await self._read(lock)
            if node is None or not _is_of_old_session(lock, node) or loop.time() >= deadline:
                return node
            try:
                async with asyncio.timeout_at(deadline):
                    await lock.changed.wait()
            except TimeoutError:
                pass  # an event may be lost as well: one more read decides

    def _forget(self, lock: Lock) -> None:
        if self._held.get(lock.path) is lock:
            del self._held[lock.path]
        stop = self._stops.pop(lock.path, None)
        if stop is not None:
            stop()

    def _heard(self, event: Event) -> None:
        lock = self._held.get(event.path)
        if lock is not None:
            lock.changed.set()
        if lock is not None and event.change is not Change.CHILDREN_CHANGED and lock.state is State.VALID:
            self._look_at(event.path)  # also when it was made: that event may stand for a deletion before it

    def _heard_session(self, session: Session) -> None:
        if session is Session.REESTABLISHED:
            self._look_at(*self._held)
        elif session is Session.RECONNECTED:
            self._look_at(*(path for path, lock in self._held.items() if lock.doubtful))

    def _look_at(self, *paths: str) -> None:
        if self._owner.closed:
            return
        self._waiting.update(dict.fromkeys(paths))
        for path in paths:
            if path not in self._working:
                self._working.add(path)
                self._runtime.spawn(self._owner, self._work(path))

    async def _work(self, path: str) -> None:
        """Validates one lock until no event asks for it again."""
        try:
            while path in self._waiting:
                del self._waiting[path]
                lock = self._held.get(path)
                if lock is not None:
                    await self._look_again(lock)
                elif path in self._leaving:
                    await self._remove_again(self._leaving[path])
        finally:
            self._working.discard(path)
            if not self._working and self.on_validated is not None:
                self.on_validated()

    async def _look_again(self, lock: Lock) -> None:
        async with lock.turn:
            if lock.state is not State.VALID:
                return
            try:
                await self._revalidate(lock)
            except Conflict:
                self._forget(lock)
                lock._lose()
            except MagnetarError:
                lock.doubtful = True
                self._retry_later()
            else:
                self._retry_s = METADATA_RETRY_S_MIN

    async def _remove_again(self, lock: Lock) -> None:
        async with lock.turn:
            if self._leaving.get(lock.path) is not lock:
                return  # acquired again
            try:
                await self._remove(lock)
            except (NotFound, BadVersion):
                pass
            except MagnetarError:
                self._retry_later()
                return
            self._leaving.pop(lock.path, None)

    def _retry_later(self) -> None:
        if self._timer is not None or self._owner.closed:
            return
        retry_s_max = max(session_times(self._store).retry_s_max, METADATA_RETRY_S_MIN)
        wait_s, self._retry_s = self._retry_s, min(self._retry_s * 2, retry_s_max)

        def again() -> None:
            self._timer = None
            self._look_at(*(path for path, lock in self._held.items() if lock.doubtful), *self._leaving)

        self._timer = asyncio.get_running_loop().call_later(wait_s, again)


def _is_of_old_session(lock: Lock, node: Node) -> bool:
    """Whether the record is of this process, whose value no other process writes, and of an old session of it."""
    return node.stat.ephemeral and not node.stat.mine and node.value == lock.value
