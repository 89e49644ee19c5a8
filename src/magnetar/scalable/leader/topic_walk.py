"""A walk over the records of the scalable topics that this broker minds, in pages of names.

The walk reads names, asks in memory which broker minds them, and reads the records of this broker's topics, several at
a time. A caller lets a topic rest that needs nothing: for a time it is not read again, unless the store reports a
change of it. After events may be missed, nothing rests. A broken record is logged and passed over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from magnetar.base.errors import Corrupt
from magnetar.base.limits import RECORDS_READ_AT_ONCE_MAX, WALK_REST_S, WALK_RESTING_MAX
from magnetar.base.names import TopicName
from magnetar.metadata import paths
from magnetar.metadata.filtered_scan import name_pages, read_nodes
from magnetar.metadata.store import Change, Event, MetadataStore, Session, Stat
from magnetar.observe.log import get
from magnetar.runtime.runtime import Runtime
from magnetar.scalable.record import codec
from magnetar.scalable.record.record import Record

log = get("scalable")

PATH_PARTS = 5  # of a record: "", topics, tenant, namespace, topic


class TopicWalk:
    """`minds`: whether the periodic work of a topic is this broker's. `close` ends the subscription to the store."""

    def __init__(self, store: MetadataStore, runtime: Runtime, minds: Callable[[TopicName], Awaitable[bool]]) -> None:
        self.store = store
        self._runtime = runtime
        self.minds = minds
        self._resting: dict[str, float] = {}  # by path, until when
        self._reading: dict[str, bool] = {}  # by path: whether it changed since its record was requested
        self._stops = [store.subscribe(paths.SCALABLE_TOPICS, self._heard), store.on_session(self._heard_session)]

    def close(self) -> None:
        for stop in self._stops:
            stop()

    def rest(self, name: TopicName, for_s: float = WALK_REST_S) -> None:
        """The topic that the walk returned last needs nothing for this time, unless it changes."""
        path = paths.scalable(name)
        if not self._reading.get(path, True) and len(self._resting) < WALK_RESTING_MAX:
            self._resting[path] = self._runtime.monotonic() + min(for_s, WALK_REST_S)

    def wake(self, name: TopicName) -> None:
        """The topic has something to do, although its record has not changed."""
        self._resting.pop(paths.scalable(name), None)

    async def changed(self) -> AsyncIterator[tuple[TopicName, Record, Stat]]:
        """The topics that do not rest, with tombstones."""
        async for page in self._pages():
            now = self._runtime.monotonic()
            due = [name for name in page if self._resting.get(paths.scalable(name), 0.0) <= now]
            async for read in self._read(due):
                yield read

    async def names(self) -> AsyncIterator[TopicName]:
        """All topics of this broker, resting ones too."""
        async for page in self._pages():
            for name in page:
                yield name

    async def _pages(self) -> AsyncIterator[list[TopicName]]:
        for tenant in await self.store.children(paths.SCALABLE_TOPICS):
            for namespace in await self.store.children(f"{paths.SCALABLE_TOPICS}/{tenant}"):
                parent = f"{paths.SCALABLE_TOPICS}/{tenant}/{namespace}"
                async for page in name_pages(self.store, parent):
                    mine: list[TopicName] = []
                    for path in (f"{parent}/{part}" for part in page):
                        name = paths.scalable_of(path)
                        if name is not None and await self._is_ours(name):
                            mine.append(name)
                        else:
                            self._resting.pop(path, None)  # it is read when this broker minds it again
                    yield mine

    async def _is_ours(self, name: TopicName) -> bool:
        """A record that cannot be read, of its namespace or its owner, stops the work of these topics alone."""
        try:
            return await self.minds(name)
        except Corrupt as error:
            log.warning("topic_walk_skipped", topic=str(name), error=str(error))
            return False

    async def _read(self, names: list[TopicName]) -> AsyncIterator[tuple[TopicName, Record, Stat]]:
        for start in range(0, len(names), RECORDS_READ_AT_ONCE_MAX):
            some = {paths.scalable(name): name for name in names[start : start + RECORDS_READ_AT_ONCE_MAX]}
            self._reading = dict.fromkeys(some, False)
            async for path, node in read_nodes(self.store, list(some)):
                try:
                    record = codec.decode(node.value)
                except Corrupt as error:
                    log.warning("record_decode_failed", path=path, error=str(error))
                    continue
                yield some[path], record, node.stat

    def _heard(self, event: Event) -> None:
        if event.change is Change.RESYNC:
            self._forget()
            return
        path = "/".join(event.path.split("/")[:PATH_PARTS])
        self._resting.pop(path, None)
        if path in self._reading:
            self._reading[path] = True

    def _heard_session(self, session: Session) -> None:
        if session in (Session.RECONNECTED, Session.REESTABLISHED):
            self._forget()

    def _forget(self) -> None:
        self._resting.clear()
        self._reading = dict.fromkeys(self._reading, True)
