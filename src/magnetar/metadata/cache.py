"""Decoded records kept in memory, so that a policy or a partition count is not read and parsed for every client.

Absence is remembered too. Records are bounded in number and in bytes, paths included: clients choose names, and with
them the paths that are asked for. What is kept is dropped when the store tells of a change below the prefix, of a gap
in its events, or of a change of session; a read that was under way meanwhile is answered but not kept. It writes only
through `update`, by compare-and-set on what it has just read, never on what it kept.
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
    """`decode` and `encode` are pure; what `decode` cannot read is Corrupt, naming the path."""

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
        """What is kept, without asking the store; None also when nothing is known."""
        found = self._kept.get(path)
        return None if found is None else found[0]

    async def get(self, path: str) -> T | None:
        while True:
            found = self._kept.get(path)
            if found is not None:
                self.hits += 1
                return found[0]
            under_way = self._reading.get(path)
            if under_way is None:
                self.misses += 1
                return await self._read(path)
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                return under_way.result()
            # Whoever read was told to stop: that is its own affair, we read for ourselves.

    async def update(self, path: str, change: Callable[[T | None], T]) -> T:
        """Read, change, compare-and-set, again if somebody was faster. `change` may refuse by raising, and may run
        several times."""
        for _ in range(METADATA_UPDATE_TRIES_MAX):
            await self._store.sync(path)  # a read that is behind may say that there is nothing to do
            node = await self._store.get(path)
            before = None if node is None else self._read_value(path, node.value)
            after = change(before)
            if node is not None and after == before:
                return after
            version = ABSENT if node is None else node.stat.version
            try:
                await put_checked(self._store, path, self._encode(after), expected=version)
            except BadVersion:
                continue
            self._drop(path)  # the event did that too, where the engine tells before it answers
            return after
        raise Conflict("too many others change this record at once: try again", path=path)

    async def create(self, path: str, value: T) -> None:
        """BadVersion if it is there."""
        try:
            await put_checked(self._store, path, self._encode(value), expected=ABSENT)
        finally:
            self._drop(path)  # also when another was faster: what is kept may say that nothing is there

    async def delete(self, path: str) -> None:
        """Nothing there is no error."""
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
        if self._reading.get(path) is answer:  # else: told of a change meanwhile, what we read may be the old value
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
        except Exception as error:  # whatever a decoder of foreign bytes raises, the record is what is wrong
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
        found = self._kept.pop(path, None)
        if found is not None:
            self.bytes -= found[1]

    def _drop(self, path: str) -> None:
        self._forget_one(path)
        self._reading.pop(path, None)

    def forget(self) -> None:
        """Keep nothing: what is asked for again is read again."""
        self._kept.clear()
        self.bytes = 0
        self._reading.clear()

    def _heard(self, event: Event) -> None:
        if event.change is Change.RESYNC:
            self.forget()
        elif event.change is not Change.CHILDREN_CHANGED:
            self._drop(event.path)

    def _heard_session(self, session: Session) -> None:
        self.forget()


def _fail(answer: asyncio.Future[T], error: BaseException) -> None:
    """Give the error to those who wait beside us; there may be none, and then nobody needs to be told that it was not
    heard."""
    if answer.done():
        return
    if isinstance(error, MagnetarError):
        answer.set_exception(error)
        answer.exception()
    else:
        answer.cancel()
