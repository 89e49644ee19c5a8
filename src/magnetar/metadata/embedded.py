"""The metadata store inside the process: one sqlite file, for a broker without ZooKeeper or Oxia.

Operations queue on the loop. The thread of the lane runs all waiting ones in one transaction with one FULL sync; they
are answered after it. Reads use the same queue, so they see every write answered before them and nothing that could
still be rolled back. Events are delivered after the commit, before the call of the writer returns. Versions count
writes of the whole store: a record that is deleted and created again never has an earlier version. A parent without a
value is kept as a row while it has children.

One process owns the file (sqlite's exclusive lock); opening the file removes ephemerals of earlier sessions. The store
does its own file I/O and trusts sqlite for the meaning of FULL sync. After a failed write, except for lack of space, it
answers nothing any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from magnetar.base.errors import (
    Busy,
    Closed,
    MagnetarError,
    Misuse,
    StorageFailed,
    StorageFull,
)
from magnetar.base.limits import (
    METADATA_BATCH_OPS_MAX,
    METADATA_PAGE_NAMES_MAX,
    METADATA_PAGE_NODES_MAX,
    METADATA_QUEUE_OPS_MAX,
)
from magnetar.metadata.listeners import Listeners
from magnetar.metadata.path_checks import as_parent, check_limit, check_path, check_prefix, check_size
from magnetar.metadata.store import ABSENT, Event, NamePage, Node, Session, Stat, Unsubscribe
from magnetar.metadata.table import BatchResult, Operation, Table
from magnetar.runtime.runtime import Runtime

LANE = "metadata"


class EmbeddedStore:
    def __init__(self, path: str, runtime: Runtime) -> None:
        """Use `open`."""
        self.path = path
        self.session_id = ""
        self._runtime = runtime
        self._table = Table(path)
        self._listeners = Listeners()
        self._queue: list[tuple[Operation, asyncio.Future[Any]]] = []
        self._scheduled = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._failed: MagnetarError | None = None
        self.on_failure: list[Callable[[MagnetarError], None]] = []  # called when the disk is full or fails

    @classmethod
    async def open(cls, path: str, runtime: Runtime) -> EmbeddedStore:
        """The directory of `path` must exist. Conflict: another process uses the file. Corrupt: the file is not
        Magnetar's, or from a newer version."""
        store = cls(path, runtime)
        now = runtime.wall()
        store.session_id = str(await runtime.offload(lambda: store._table.open(now), LANE))
        return store

    async def get(self, path: str) -> Node | None:
        check_path(path)
        node: Node | None = await self._do(lambda table: table.get(path))
        return node

    async def sync(self, path: str) -> None:
        """Every read is linearizable here."""

    async def fresh(self, path: str) -> Node | None:
        return await self.get(path)

    async def exists(self, path: str) -> bool:
        return await self.get(path) is not None

    async def children(self, path: str) -> list[str]:
        check_prefix(path)
        names: list[str] = []
        while True:
            after = names[-1] if names else ""
            page = await self.names(path, after=after)
            names += page.names
            if not page.more:
                return names

    async def names(self, path: str, *, after: str | None = None, limit: int | None = None) -> NamePage:
        check_prefix(path)
        check_limit(limit)
        count = METADATA_PAGE_NAMES_MAX if limit is None else min(limit, METADATA_PAGE_NAMES_MAX)
        names: list[str] = await self._do(lambda table: table.names(as_parent(path), after or "", count))
        return NamePage(names, len(names) == count)

    async def scan(
        self, path: str, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[tuple[str, Node]]:
        check_prefix(path)
        last, left = after or "", limit
        while left is None or left > 0:
            count = METADATA_PAGE_NODES_MAX if left is None else min(left, METADATA_PAGE_NODES_MAX)
            page: list[tuple[str, Node]]
            page, more = await self._do(lambda table, last=last, count=count: table.page(as_parent(path), last, count))
            for item in page:
                yield item
            if not more:
                return
            last = page[-1][0]
            left = None if left is None else left - len(page)

    async def put(
        self, path: str, value: bytes, *, expected: int | None = None, ephemeral: bool = False, sequential: bool = False
    ) -> Stat:
        check_path(path)
        check_size(path, value)
        if sequential and expected not in (None, ABSENT):
            raise Misuse("a sequential put must not expect a version", path=path)
        now = self._runtime.wall()
        stat: Stat = await self._do(
            lambda table: table.put(path, value, expected, now, ephemeral=ephemeral, sequential=sequential)
        )
        return stat

    async def delete(self, path: str, *, expected: int | None = None) -> None:
        check_path(path)
        await self._do(lambda table: table.delete(path, expected))

    async def delete_tree(self, path: str) -> None:
        check_prefix(path)
        while await self._do(lambda table: table.delete_some(as_parent(path))):
            pass

    def subscribe(self, prefix: str, heard: Callable[[Event], None]) -> Unsubscribe:
        return self._listeners.subscribe(prefix, heard)

    def on_session(self, heard: Callable[[Session], None]) -> Unsubscribe:
        return self._listeners.on_session(heard)

    async def expire_session(self, server_side: bool) -> None:
        """For tests: loses the session and gets another. Without `server_side` the old ephemerals stay for now, as on a
        server that has not detected the loss; they end with the next expiry, the next opening, or at close."""
        self._listeners.tell_session(Session.CONNECTION_LOST)
        self._listeners.tell_session(Session.LOST)
        self.session_id = str(await self._do(lambda table: table.new_session(reap=server_side)))
        self._listeners.tell_session(Session.RECONNECTED)
        self._listeners.tell_session(Session.REESTABLISHED)

    async def close(self) -> None:
        """Answers earlier requests, ends the session with its ephemerals and closes the file. A second call does
        nothing."""
        if self._closed:
            return
        self._closed = True
        await self._idle.wait()
        self._listeners.clear()
        await self._runtime.offload(self._table.close, LANE)

    def abandon(self) -> None:
        """For tests, after the lane is abandoned: closes the file as a killed process does and keeps the session."""
        self._closed = True
        self._table.abandon()

    # The queue

    def _do(self, work: Operation) -> asyncio.Future[Any]:
        if self._failed is not None:
            raise type(self._failed)(self._failed.what, **self._failed.facts)
        if self._closed:
            raise Closed("the metadata store is closed", path=self.path)
        if len(self._queue) >= METADATA_QUEUE_OPS_MAX:
            raise Busy("too many operations wait for the metadata store", waiting=len(self._queue))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.append((work, future))
        if not self._scheduled:
            self._scheduled = True
            self._idle.clear()
            loop.call_soon(self._begin)  # not now: what else is asked in this turn of the loop shares the sync
        return future

    def _begin(self) -> None:
        batch, self._queue = self._queue[:METADATA_BATCH_OPS_MAX], self._queue[METADATA_BATCH_OPS_MAX:]
        works = [work for work, _ in batch]
        done = self._runtime.offload(lambda: self._table.run(works), LANE)
        done.add_done_callback(partial(self._answer, batch))

    def _answer(self, batch: list[tuple[Operation, asyncio.Future[Any]]], done: asyncio.Future[BatchResult]) -> None:
        error = done.exception()
        if error is None:
            ran = done.result()
            self._listeners.tell(ran.events)
            for (_, future), answer in zip(batch, ran.answers, strict=True):
                _settle(future, answer)
        else:
            failure = error if isinstance(error, MagnetarError) else StorageFailed(repr(error))
            if not isinstance(error, StorageFull):
                self._failed = failure
            for _, future in batch:
                _settle(future, error)
            for heard in self.on_failure:
                heard(failure)
        if self._failed is not None:
            for _, future in self._queue:
                _settle(future, self._failed)
            self._queue.clear()
        if self._queue:
            self._begin()
        else:
            self._scheduled = False
            self._idle.set()


def _settle(future: asyncio.Future[Any], answer: Any) -> None:
    if future.done():
        return  # the caller was cancelled; what it asked for was done all the same
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
