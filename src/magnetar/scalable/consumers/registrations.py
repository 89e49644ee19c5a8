"""The stream consumers of a broker: those connected to it, for any leader, and those of topics that it leads, connected
to any broker.

A registration goes to the leader of the topic, over `Peers` if that is another broker. Its assignments come back to
the broker of the client's connection (`scalable/consumers/local.py` here, `scalable/consumers/remote.py` there). Only a
leader answers the requests of other brokers: NotReady says that this broker does not lead the topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from magnetar.base.errors import Moved, NotReady
from magnetar.base.ids import SegmentId
from magnetar.base.names import TopicName
from magnetar.cluster.calls.topic_calls import (
    AwaitAssignment,
    LeaderAnswer,
    LeaderRequest,
    Leave,
    Left,
    NoChange,
    Peers,
    Register,
)
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.scalable.consumers.assignment import Assignment, Listener, removed
from magnetar.scalable.consumers.coordinator import Coordinator
from magnetar.scalable.consumers.local import LocalConsumer, LocalContext
from magnetar.scalable.consumers.remote import RemoteConsumers
from magnetar.scalable.leader.controller import Controller
from magnetar.scalable.leader.term import Term

Key = tuple[str, str, str, int]  # topic, subscription, consumer, session


class StreamRegistrations:
    """`controllers` are those there are, `controller` gives the one of a topic; `subscribe` makes a subscription of
    which only the name is known yet."""

    def __init__(
        self,
        runtime: Runtime,
        peers: Peers,
        *,
        controllers: Mapping[str, Controller],
        controller: Callable[[TopicName], Controller],
        subscribe: Callable[[TopicName, str], Awaitable[None]],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self._peers = peers
        self._controllers = controllers
        self._controller = controller
        self._subscribe = subscribe
        self._owner = Owner("stream consumers", failed)
        self._context = LocalContext(runtime, self._owner, peers, register=self._register, moved=self._moved)
        self._by_session: dict[Key, LocalConsumer] = {}
        self._connected: dict[str, LocalConsumer] = {}  # by connection
        self._remote = RemoteConsumers()

    def __len__(self) -> int:
        """Consumers that are connected here."""
        return len(self._connected)

    async def register(
        self, name: TopicName, subscription: str, consumer: str, listener: Listener, *, makes: bool = True
    ) -> Assignment:
        """`makes`: create the subscription if it does not exist."""
        local = LocalConsumer(name, subscription, consumer, listener, self._context, makes=makes)
        before = self._connected.get(listener.connection)
        if before is not None:  # the same consumer asks again: its first registration is followed no longer
            self._forget(before)
            before.close()
        self._connected[listener.connection] = local
        try:
            return await local.begin()
        except BaseException:  # its connection is gone, as a rule: what the leader still writes down must not stay
            self._forget(local)
            local.close()
            coordinator = self.coordinator(name, subscription)
            if coordinator is not None:
                coordinator.gone(local.connection)
            raise

    async def leave(self, name: TopicName, subscription: str, consumer: str, session: int) -> None:
        """Releases all segments of the consumer immediately. A session older than the present one changes nothing."""
        local = self._by_session.get((name.canonical, subscription, consumer, session))
        if local is not None:
            self._forget(local)
            local.close()
        try:
            term = await self._controller(name).lead()
        except Moved:
            if local is None:
                raise
            await local.leave()
            return
        coordinator = await term.coordinator(subscription)
        if coordinator is not None:
            await coordinator.leave(consumer, session)

    async def segment_closed(self, name: TopicName, subscription: str, consumer: str, segment: SegmentId) -> None:
        """A consumer that may be registered anywhere closed a segment: it leaves if it is to read that segment."""
        request = Leave(
            op="leave", subscription=subscription, consumer=consumer, session=0, connection="", segment=segment
        )
        try:
            term = await self._controller(name).lead()
        except Moved:
            await self._peers.leave(name, request)
        else:
            await self._left(term, request)

    def lost(self, name: TopicName, subscription: str, consumer: str, session: int) -> None:
        """The connection of the consumer was lost: its grace period begins at the leader."""
        local = self._by_session.get((name.canonical, subscription, consumer, session))
        if local is not None:
            self._forget(local)
            local.lost()
        coordinator = self.coordinator(name, subscription)
        if coordinator is not None:
            coordinator.disconnected(consumer, session)

    def coordinator(self, name: TopicName, subscription: str) -> Coordinator | None:
        """While this broker leads."""
        controller = self._controllers.get(name.canonical)
        return None if controller is None or controller.term is None else controller.term.coordinators.get(subscription)

    async def asked(self, name: TopicName, request: LeaderRequest) -> LeaderAnswer:
        """By another broker, because this one leads."""
        if isinstance(request, AwaitAssignment):
            reply = await self._remote.share(request.connection, request.seen, request.wait_s)
            return NoChange() if reply is None else reply
        try:
            term = await self._controller(name).lead()
        except Moved as error:
            raise NotReady(error.what) from None
        match request:
            case Register():
                new = request.makes and not request.resume
                coordinator = await self._coordinator(term, name, request.subscription, new=new)
                return await self._remote.register(
                    coordinator, request.consumer, request.connection, request.resume, shares=request.shares
                )
            case Leave():
                return await self._left(term, request)

    async def close(self) -> None:
        await self._owner.close()
        self._remote.close()
        self._by_session.clear()
        self._connected.clear()

    async def _left(self, term: Term, request: Leave) -> Left:
        coordinator = await term.coordinator(request.subscription)
        if request.segment is not None:
            if coordinator is not None:
                await coordinator.segment_closed(request.consumer, SegmentId(request.segment))
            return Left()
        self._remote.leave(request.connection)
        if coordinator is not None and request.lost:
            coordinator.disconnected(request.consumer, request.session)
        elif coordinator is not None:
            await coordinator.leave(request.consumer, request.session)
        return Left()

    async def _register(self, local: LocalConsumer) -> Assignment:
        try:
            term = await self._controller(local.name).lead()
        except Moved:
            return await local.ask()
        coordinator = await self._coordinator(
            term, local.name, local.subscription, new=local.makes and not local.session
        )
        return await coordinator.register(local.consumer, local, resume=local.session)

    async def _coordinator(self, term: Term, name: TopicName, subscription: str, *, new: bool) -> Coordinator:
        """Creates a missing subscription for a consumer that registers first, not for one that was registered."""
        coordinator = await term.coordinator(subscription)
        if coordinator is None and new:
            await self._subscribe(name, subscription)
            coordinator = await term.coordinator(subscription)
            if coordinator is None:
                raise NotReady(f"subscription {subscription} is being removed: try again")
        if coordinator is None:
            record, _ = await term.context.records.fresh(name)
            raise removed(subscription, record, term.incarnation)
        return coordinator

    def _moved(self, local: LocalConsumer, before: int) -> None:
        """Its session has another number now, or has ended."""
        key = local.name.canonical, local.subscription, local.consumer
        if self._by_session.get((*key, before)) is local:
            del self._by_session[(*key, before)]
        if local.closed:
            self._forget(local)
        else:
            self._by_session[(*key, local.session)] = local

    def _forget(self, local: LocalConsumer) -> None:
        key = local.name.canonical, local.subscription, local.consumer, local.session
        if self._by_session.get(key) is local:
            del self._by_session[key]
        if self._connected.get(local.connection) is local:
            del self._connected[local.connection]
