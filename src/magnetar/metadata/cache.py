"""Decoded records in memory, so that the broker does not read and parse a policy or a partition count for every client.

The cache also keeps the absence of a record. Records are bounded in number and in bytes, paths included, because
clients choose names and thereby the requested paths. An entry is dropped when the store reports a change below the
prefix, a gap in its events, or the return of a lost connection or session. A read that was in progress then is answered
but not kept. While the store is away, the cache answers with what it has: a broker goes on with the topics that it
serves. The cache writes only through `update`, by compare-and-set on a fresh read, never on a cached value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from magnetar.base.errors import BadVersion, Conflict, Corrupt, MagnetarError, NotFound
from magnetar.base.limits import METADATA_CACHE_BYTES_MAX, METADATA_CACHE_ENTRIES_MAX, METADATA_UPDATE_TRIES_MAX
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT, Change, Event, MetadataStore, Session

T = TypeVar("T")


class Cache(Generic[T]):
    """`decode` and `encode` are pure; a value that `decode` cannot read is Corrupt, with its path."""

    def __init__(
        self,
        store: MetadataStore,
        prefix: str,
        *,
        decode: Callable[[bytes], T],
        encode: Callable[[T], bytes],
        entries_max: int = METADATA_CACHE_ENTRIES_MAX,
        bytes_max: int = METADATA_CACHE_BYTES_MAX,
    ) -> None:
        self.hits = 0
        self.misses = 0
        self._store = store
        self._decode = decode
        self._encode = encode
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self.bytes = 0  # of paths and values as they are stored
        self._kept: dict[str, tuple[T | None, int]] = {}  # with their bytes, the oldest first
        self._reading: dict[str, asyncio.Future[T | None]] = {}
        self._stops = [store.subscribe(prefix, self._heard), store.on_session(self._heard_session)]

    def __len__(self) -> int:
        return len(self._kept)

    def peek(self, path: str) -> T | None:
        """The cached value without a read of the store; None also if the record is not cached."""
        entry = self._kept.get(path)
        return None if entry is None else entry[0]

    async def get(self, path: str) -> T | None:
        while True:
            entry = self._kept.get(path)
            if entry is not None:
                self.hits += 1
                return entry[0]
            under_way = self._reading.get(path)
            if under_way is None:
                self.misses += 1
                return await self._read(path)
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                return under_way.result()
            # The other reader was cancelled, which does not concern this caller: read again.

    async def update(self, path: str, change: Callable[[T | None], T]) -> T:
        """Reads, changes and writes by compare-and-set; repeats if another writer was faster. `change` may refuse by
        raising, and may run several times."""
        for _ in range(METADATA_UPDATE_TRIES_MAX):
            node = await self._store.fresh(path)  # a read that is behind may say that there is nothing to do
            before = None if node is None else self._read_value(path, node.value)
            after = change(before)
            if node is not None and after == before:
                return after
            version = ABSENT if node is None else node.stat.version
            try:
                await put_checked(self._store, path, self._encode(after), expected=version)
            except BadVersion:
                continue
            self._drop(path)  # the event did the same if the engine delivers it before the answer
            return after
        raise Conflict("the record changed during every attempt to update it: try again", path=path)

    async def create(self, path: str, value: T) -> None:
        """BadVersion: the record exists."""
        try:
            await put_checked(self._store, path, self._encode(value), expected=ABSENT)
        finally:
            self._drop(path)  # also if another writer was faster: the cache may hold the absence of the record

    async def delete(self, path: str) -> None:
        """A missing record is not an error."""
        try:
            await self._store.delete(path)
        except NotFound:
            pass
        self._drop(path)

    def close(self) -> None:
        for stop in self._stops:
            stop()
        self.forget()

    async def _read(self, path: str) -> T | None:
        answer: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        self._reading[path] = answer
        try:
            node = await self._store.get(path)
            value = None if node is None else self._read_value(path, node.value)
        except BaseException as error:
            if self._reading.get(path) is answer:
                del self._reading[path]
            _fail(answer, error)
            raise
        # otherwise a change was reported during the read, and the value may be outdated
        if self._reading.get(path) is answer:
            del self._reading[path]
            self._keep(path, value, 0 if node is None else len(node.value))
        if not answer.done():
            answer.set_result(value)
        return value

    def _read_value(self, path: str, value: bytes) -> T:
        try:
            return self._decode(value)
        except MagnetarError:
            raise
        except Exception as error:  # a decoder of foreign bytes may raise anything; the record is at fault
            raise Corrupt(f"the record cannot be read: {error}", path=path) from error

    def _keep(self, path: str, value: T | None, value_bytes: int) -> None:
        size = len(path) + value_bytes
        if size > self._bytes_max:
            return
        while len(self._kept) >= self._entries_max or self.bytes + size > self._bytes_max:
            self._forget_one(next(iter(self._kept)))
        self._kept[path] = value, size
        self.bytes += size

    def _forget_one(self, path: str) -> None:
        entry = self._kept.pop(path, None)
        if entry is not None:
            self.bytes -= entry[1]

    def _drop(self, path: str) -> None:
        self._forget_one(path)
        self._reading.pop(path, None)

    def forget(self) -> None:
        """Drops all entries; the next request reads the store."""
        self._kept.clear()
        self.bytes = 0
        self._reading.clear()

    def _heard(self, event: Event) -> None:
        if event.change is Change.RESYNC:
            self.forget()
        elif event.change is not Change.CHILDREN_CHANGED:
            self._drop(event.path)

    def _heard_session(self, session: Session) -> None:
        if session in (Session.RECONNECTED, Session.REESTABLISHED):
            self.forget()


def _fail(answer: asyncio.Future[T], error: BaseException) -> None:
    """Passes the error to the callers that wait for the same read. Marks it as retrieved, because there may be none."""
    if answer.done():
        return
    if isinstance(error, MagnetarError):
        answer.set_exception(error)
        answer.exception()
    else:
        answer.cancel()
