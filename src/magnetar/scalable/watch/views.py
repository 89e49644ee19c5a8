"""The view that clients have of a scalable topic: its record, the owner of each segment, the leader, and every change.

The broker that serves the watches derives a view from the stores; the broker that made a change never sends it (H-A4).
All watches of a topic share one view. Epochs only advance (H-E6). The view of a topic that is being deleted or was
deleted is None. A plain topic has a view too, followed by that of the topic that it becomes. A broker that shows a
reshape without a leader notifies the controllers (H-B5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from magnetar.base.bundles import Bundle
from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.base.limits import CALL_RETRY_S_MAX, POKE_S
from magnetar.base.names import NamespaceName, TopicName
from magnetar.cluster.ownership import Broker, Ownership
from magnetar.layout.plain_layout import synthetic, topics_of
from magnetar.layout.segment import Segment
from magnetar.metadata import paths
from magnetar.metadata.store import Event, Node, Session
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.scalable.record.leader import decode_leader
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.store import RecordStore
from magnetar.scalable.watch.namespace import NamespaceIndex

log = get("views")


class Brokers(Protocol):
    """Which bundle a topic is in, and who has it."""

    @property
    def ownership(self) -> Ownership: ...

    @property
    def cluster(self) -> bool: ...

    async def place(self, name: TopicName) -> tuple[NamespaceName, Bundle]: ...

    async def partitions(self, name: TopicName) -> int: ...

    async def minds(self, name: TopicName) -> bool: ...

    async def subscriptions_max(self, name: TopicName) -> int: ...


@dataclass(frozen=True, slots=True)
class TopicView:
    """`owners` lacks a segment without an owner: look it up. Watches show active segments only. `leader` None: no
    broker leads now.
    """

    name: TopicName
    record: Record
    owners: Mapping[SegmentId, Broker]
    leader: Broker | None


Heard = Callable[[TopicView | None], None]


class Views:
    def __init__(
        self, runtime: Runtime, records: RecordStore, brokers: Brokers, *, poke: Callable[[TopicName], None]
    ) -> None:
        self._runtime = runtime
        self._records = records
        self._brokers = brokers
        self._poke = poke
        self._owner = Owner("views")
        self._shown: dict[str, _Shown] = {}
        self.members = NamespaceIndex(runtime, records.store)

    def watch(self, name: TopicName, heard: Heard) -> Callable[[], None]:
        """Calls `heard` with the present view when it is known, and with every later one; it may skip older views."""
        shown = self._shown.get(name.canonical)
        if shown is None:
            shown = self._shown[name.canonical] = _Shown(self, name)
        listening = [heard]  # of its own: one callable may listen twice
        shown.listeners.append(listening)
        if shown.known:
            heard(shown.view)

        def stop() -> None:
            if listening in shown.listeners:
                shown.listeners.remove(listening)
                if not shown.listeners and self._shown.get(name.canonical) is shown:
                    del self._shown[name.canonical]
                    shown.close()

        return stop

    async def view(self, name: TopicName, record: Record) -> TopicView:
        """With the owners of all segments, the sealed ones too."""
        controller = await self._records.store.get(paths.controller(name))
        return await self.of(name, record, controller, record.layout.segments)

    async def of(
        self, name: TopicName, record: Record, controller: Node | None, segments: tuple[Segment, ...]
    ) -> TopicView:
        """`controller`: who leads, as the store has it. `segments`: those whose owners are wanted."""
        owners: dict[SegmentId, Broker] = {}
        bundles: dict[Bundle, Broker | None] = {}
        for segment in segments:
            namespace, bundle = await self._brokers.place(segment.topic(name))
            if bundle not in bundles:
                bundles[bundle] = await self._brokers.ownership.known(namespace, bundle)
            broker = bundles[bundle]
            if broker is not None:
                owners[segment.id] = broker
        return TopicView(name, record, owners, None if controller is None else decode_leader(controller.value))

    async def plain(self, name: TopicName) -> TopicView:
        """The view of a plain topic without a record, whether it exists or not: the plain topics that it is made of."""
        partitions = await self._brokers.partitions(name)
        layout = synthetic(topics_of(name, partitions), epoch=partitions)
        return await self.of(name, Record(layout, incarnation=0), None, layout.active)

    async def close(self) -> None:
        for shown in self._shown.values():
            shown.close()
        self._shown.clear()
        await self.members.close()
        await self._owner.close()


class _Shown:
    """One topic that has at least one watch on this broker."""

    def __init__(self, views: Views, name: TopicName) -> None:
        self.listeners: list[list[Heard]] = []
        self.view: TopicView | None = None
        self.known = False
        self._views = views
        self._name = name
        self._again = False
        self._running = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._record_of = name.scalable
        store = views._records.store
        self._stops = [
            store.subscribe(paths.scalable(self._record_of), self._heard),
            store.on_session(self._heard_session),
        ]
        if not name.is_scalable:
            self._stops.append(store.subscribe(paths.partitioned(name), self._heard))
        if views._brokers.cluster:
            self._stops.append(store.subscribe(f"{paths.OWNERSHIP}/{name.namespace}", self._heard))
        self.look()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for stop in self._stops:
            stop()

    def look(self) -> None:
        self._again = True
        if not self._running and not self._closed and not self._views._owner.closed:
            self._running = True
            self._views._runtime.spawn(self._views._owner, self._look())

    def _heard(self, event: Event) -> None:
        if not event.path.startswith(paths.scalable_subscriptions(self._record_of)):
            self.look()

    def _heard_session(self, session: Session) -> None:
        if session in (Session.RECONNECTED, Session.REESTABLISHED):
            self.look()

    async def _look(self) -> None:
        try:
            while self._again and not self._closed:
                self._again = False
                try:
                    view = await self._read()
                except MagnetarError as error:
                    log.warning("topic_view_failed", topic=str(self._name), error=str(error))
                    self._later(CALL_RETRY_S_MAX)
                    continue
                self._show(view)
        finally:
            self._running = False

    async def _read(self) -> TopicView | None:
        """Reads record and leader together: clients wait for the result of a reshape."""
        records = self._views._records
        (record, _), controller = await asyncio.gather(
            records.fresh(self._record_of), records.store.get(paths.controller(self._record_of))
        )
        if record is not None and record.is_live:
            return await self._views.of(self._record_of, record, controller, record.layout.active)
        if self._name.is_scalable or (self.view is not None and self.view.record.incarnation):
            return None  # of a plain topic that had a record: it was deleted
        return await self._views.plain(self._name)

    def _show(self, view: TopicView | None) -> None:
        if view is not None and view.record.intent is not None and view.leader is None:
            self._later(POKE_S)
        if view is not None and self.view is not None and view.record.epoch < self.view.record.epoch:
            return  # a read that was behind
        if self.known and _same(self.view, view):
            return
        self.view, self.known = view, True
        for listening in list(self.listeners):
            listening[0](view)

    def _later(self, wait_s: float) -> None:
        if self._timer is not None or self._closed:
            return

        def again() -> None:
            self._timer = None
            if self.view is not None and self.view.leader is None and self.view.record.intent is not None:
                self._views._poke(self._record_of)
            self.look()

        self._timer = asyncio.get_running_loop().call_later(wait_s, again)


def _same(before: TopicView | None, after: TopicView | None) -> bool:
    """Nothing that clients are shown has changed."""
    if before is None or after is None:
        return before is after
    return (before.record.epoch, before.owners, before.leader) == (after.record.epoch, after.owners, after.leader)
