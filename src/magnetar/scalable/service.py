"""The scalable topics of one broker: the operations for wire handlers and REST.

The service finds or becomes the leader of a topic if an operation needs one (`Moved` names the leader elsewhere). It
performs the others itself: creation, subscriptions, the routing of a topic. Every method may be called on any broker.
A caller that waits too long gets an error that says that the outcome is unknown; the operation continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from magnetar.base.errors import (
    BadVersion,
    Busy,
    LimitExceeded,
    MagnetarError,
    Moved,
    NotReady,
    SubscriptionNotFound,
    TimedOut,
    TopicNotFound,
)
from magnetar.base.ids import SegmentId
from magnetar.base.limits import CALL_RETRY_S_MIN, OPERATION_WAIT_S, SUBSCRIPTIONS_MAX
from magnetar.base.names import Domain, TopicName, check_new_topic
from magnetar.cluster.calls.topic_calls import LeaderAnswer, LeaderRequest, Peers, Register
from magnetar.cluster.ownership import Broker
from magnetar.layout.autoscale.decision import Action
from magnetar.layout.routing import Routing
from magnetar.metadata import paths
from magnetar.metadata.lock import Locks
from magnetar.metadata.store import MetadataStore
from magnetar.observe.log import get
from magnetar.policy.settings import Settings
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.scalable.consumers.assignment import Assignment, Listener
from magnetar.scalable.consumers.registrations import StreamRegistrations
from magnetar.scalable.leader.controller import Controller, ControllerContext
from magnetar.scalable.leader.metrics import LeaderMetrics
from magnetar.scalable.leader.operations import Operation, Operations, begun
from magnetar.scalable.leader.pruner import Contents, is_due
from magnetar.scalable.leader.segment_client import SegmentClient
from magnetar.scalable.leader.subscription_runner import work
from magnetar.scalable.leader.sweep import sweep
from magnetar.scalable.leader.term import Term
from magnetar.scalable.leader.topic_walk import TopicWalk
from magnetar.scalable.machines import effects, subscription_change
from magnetar.scalable.machines import seek as machines_seek
from magnetar.scalable.machines.buckets import shared_out
from magnetar.scalable.machines.effects import Finished, StepDown
from magnetar.scalable.machines.reshape import Request
from magnetar.scalable.machines.seek_target import Target
from magnetar.scalable.machines.sessions import ConsumerSession
from magnetar.scalable.machines.subscription_change import SubscriptionChange
from magnetar.scalable.record import codec
from magnetar.scalable.record.leader import decode_leader
from magnetar.scalable.record.record import Kind, Lifecycle, Record, created
from magnetar.scalable.record.store import RecordStore
from magnetar.scalable.record.subscription import Start, Subscription, Type
from magnetar.scalable.watch.views import Brokers, Heard, TopicView, Views

log = get("scalable")

SubscriptionKind = Type
__all__ = ["Assignment", "Listener", "Operation", "ScalableTopics", "SubscriptionKind", "TopicView"]


class ScalableTopics:
    """`in_use` raises Conflict where clients use a segment here."""

    def __init__(
        self,
        store: MetadataStore,
        runtime: Runtime,
        peers: Peers,
        brokers: Brokers,
        settings: Settings,
        *,
        contents: Contents,
        in_use: Callable[[TopicName], None],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self.records = RecordStore(store)
        self._runtime = runtime
        self._brokers = brokers
        self._settings = settings
        self._in_use = in_use
        self._task_failed = failed
        self._owner = Owner("scalable topics", self._failed)
        self._segment_client = SegmentClient(peers)
        self._locks = Locks(store, runtime, "controllers")
        self._operations = Operations()
        self._views = Views(runtime, self.records, brokers, poke=self.poke)
        self.members = self._views.members
        self._walk: TopicWalk | None = None
        self._controllers: dict[str, Controller] = {}
        self.consumer_registered: Callable[[TopicName], None] = lambda name: None  # by clients of any broker
        self.figures = LeaderMetrics(self._operations, self._controllers)
        self._context = ControllerContext(
            runtime=runtime,
            records=self.records,
            segment_client=self._segment_client,
            contents=contents,
            locks=self._locks,
            operations=self._operations,
            me=lambda: brokers.ownership.me,
            grace_s=lambda name: settings.number("scalableTopicConsumerSessionGracePeriodSeconds"),
            failed=self._failed,
        )
        self._streams = StreamRegistrations(
            runtime,
            peers,
            controllers=self._controllers,
            controller=self.controller,
            subscribe=lambda name, one: self._subscribe(name, one, Type.STREAM, Start.ASKED),
            failed=self._failed,
        )

    @property
    def enabled(self) -> bool:
        return self._settings.flag("scalableTopicsEnabled")

    def start(self) -> None:
        """Continues unfinished operations; does nothing if scalable topics are switched off."""
        if self.enabled:
            self._walk = self.walk()
            self._runtime.spawn(
                self._owner, sweep(self._walk, self.poke, self._runtime.wall, prunable=self._is_prunable)
            )

    async def _is_prunable(self, name: TopicName, record: Record) -> bool:
        return await is_due(name, record, self._context.contents)

    def walk(self) -> TopicWalk:
        """Over the topics that this broker minds."""
        return TopicWalk(self.records.store, self._runtime, self._brokers.minds)

    async def close(self) -> None:
        """Lead nothing any more: others may."""
        await self._owner.close()
        if self._walk is not None:
            self._walk.close()
        await self._streams.close()
        await self._views.close()
        await asyncio.gather(*(controller.close() for controller in list(self._controllers.values())))
        self._controllers.clear()
        await self._locks.close()

    # Topics

    async def read(self, name: TopicName) -> Record | None:
        """As it is now; None where there is none, or where it is being deleted."""
        record, _ = await self.records.fresh(name)
        return record if record is not None and record.is_live else None

    async def names(self, namespace: str) -> list[TopicName]:
        """The scalable topics of `tenant/namespace`, by name; tombstones and plain topics are none."""
        names = []
        async for part, node in self.records.store.scan(f"{paths.SCALABLE_TOPICS}/{namespace}"):
            name = paths.scalable_of(f"{paths.SCALABLE_TOPICS}/{namespace}/{part}")
            if name is not None and (record := codec.decode(node.value)).is_live and not record.is_plain:
                names.append(name)
        return names

    async def create(
        self,
        name: TopicName,
        *,
        segments: int = 1,
        properties: Mapping[str, str] | None = None,
        routing: Routing | None = None,
    ) -> Record:
        """With its segments. AlreadyExists. A name that had a life before goes on with its counters (H-C1)."""
        await self._brokers.place(name)  # TopicNotFound: no such namespace
        check_new_topic(name)
        now_ms, budget = self._runtime.wall(), self._settings.number("scalableTopicEntryBucketBudget")
        buckets, pairs = shared_out(budget, segments, routing), list((properties or {}).items())
        while True:
            before, version = await self.records.fresh(name)
            new = created(before, segments, now_ms=now_ms, properties=pairs, routing=routing, buckets=buckets)
            try:
                await self.records.put(name, new, version)
                break
            except BadVersion:
                continue  # another writer was faster: read its record
        self._runtime.mark("scalable.created", topic=str(name), incarnation=new.incarnation)
        await self._segment_client.ensure(name, list(new.everything()), incarnation=new.incarnation)
        return new

    async def delete(self, name: TopicName, *, force: bool) -> None:
        """Everything of it. Conflict: clients use it, and not `force`. TopicNotFound."""
        record = await self._found(name)
        if not force:
            for segment in record.layout.segments:
                self._in_use(segment.topic(name))
        op = f"delete-{record.incarnation}"
        operation = self._operations.begin(name, op, "DELETE", self._runtime.wall())
        await self._operate(name, operation, lambda term: term.delete(op, operation))

    async def pin(self, name: TopicName, routing: Routing) -> Routing:
        """How the keys of the topic are hashed from now on: the first who asks decides (H-E12)."""
        pinned = await self.records.change(name, lambda one: one.pinned(routing) if one.routing is None else one)
        assert pinned.routing is not None
        return pinned.routing

    async def hold(self, name: TopicName, *, before: str, after: str) -> Record:
        """The name of the exclusive producer in the record, if it is still `before` (H-E11); the record as it is."""
        return await self.records.change(name, lambda one: one.held(after) if one.exclusive == before else one)

    # Reshapes

    async def split(
        self,
        name: TopicName,
        segment: int,
        *,
        at: int | None = None,
        into: int = 2,
        reason: str = "",
        wait: bool = True,
    ) -> Operation:
        """Done when it returns; without `wait`, begun. `at`: the upper child's first hash. TimedOut: it goes on."""
        return await self._reshape(name, Kind.SPLIT, [segment], wait, at=at, into=into, reason=reason)

    async def merge(
        self, name: TopicName, segments: Sequence[int], *, reason: str = "", wait: bool = True
    ) -> Operation:
        """Merges adjacent segments, named in any order."""
        return await self._reshape(name, Kind.MERGE, segments, wait, reason=reason)

    async def rebucket(
        self, name: TopicName, segment: int, buckets: int, *, reason: str = "", wait: bool = True
    ) -> Operation:
        """A segment of the same range follows, which as many consumers can share as it has entry buckets."""
        return await self._reshape(name, Kind.REBUCKET, [segment], wait, buckets=buckets, reason=reason)

    async def scale(
        self, name: TopicName, action: Action, *, bounds: tuple[int, int], trigger: str = "autoscale"
    ) -> Operation:
        """Carries out an action of automatic scaling. LimitExceeded: the number of active segments would leave the
        bounds, as the compare-and-set sees them."""
        how: dict[str, Any] = {"active_min": bounds[0], "active_max": bounds[1], "trigger": trigger}
        how |= {"cuts": action.cuts, "buckets": action.buckets, "reason": action.reason}
        return await self._reshape(name, Kind(action.kind), action.parents, True, **how)

    async def migrate(self, name: TopicName, *, buckets: int = 0, reason: str = "", wait: bool = True) -> Operation:
        """A plain topic that has a record becomes a scalable one: see `broker/migration/migration.py`."""
        return await self._reshape(name, Kind.MIGRATE, (), wait, buckets=buckets, reason=reason)

    def operation(self, name: TopicName, op: str) -> Operation | None:
        """The progress that this broker made with an operation."""
        return self._operations.find(name, op)

    def operations(self, name: TopicName) -> list[Operation]:
        return self._operations.of(name)

    async def _reshape(self, name: TopicName, kind: Kind, parents: Sequence[int], wait: bool, **how: Any) -> Operation:
        now_ms = self._runtime.wall()
        op = f"{kind.lower()}-{self._runtime.rng('operations').getrandbits(64):016x}"
        request = Request(op, kind, tuple(SegmentId(id) for id in parents), now_ms, **how)
        await self._found(name)
        operation = self._operations.begin(name, op, kind, now_ms)
        work = self._operate(name, operation, lambda term: term.reshape(request, operation))
        await (work if wait else begun(operation, self._runtime.spawn(self._owner, work)))
        return operation

    async def _operate(
        self, name: TopicName, operation: Operation, start: Callable[[Term], asyncio.Task[Finished | StepDown]]
    ) -> None:
        try:
            async with asyncio.timeout(OPERATION_WAIT_S):
                while not await self._try(name, operation, start):  # noqa: ASYNC110  # no event says when to try again
                    await asyncio.sleep(CALL_RETRY_S_MIN)
        except TimeoutError:
            raise TimedOut(
                f"{operation.op} did not finish in time and continues: ask for its state", op=operation.op
            ) from None
        except MagnetarError as error:
            operation.ended("REFUSED", self._runtime.wall(), str(error))
            raise

    async def _try(
        self, name: TopicName, operation: Operation, start: Callable[[Term], asyncio.Task[Finished | StepDown]]
    ) -> bool:
        """False: the term ended under it, or another operation is before it; begin again with the same name."""
        try:
            task = start(await self.controller(name).lead())
        except Moved:
            if not operation.steps:
                raise
            return await self._elsewhere(name, operation)  # we had begun: who leads now finishes it
        await asyncio.wait([task])
        outcome = None if task.cancelled() else task.result()
        if not isinstance(outcome, Finished) or (outcome.refusal is not None and outcome.refusal.kind is Busy):
            return False
        if outcome.refusal is not None:
            raise outcome.refusal.error()
        return True

    async def _elsewhere(self, name: TopicName, operation: Operation) -> bool:
        record, _ = await self.records.fresh(name)
        if record is not None and record.is_live and record.intent is not None and record.intent.op == operation.op:
            return False
        if record is None or record.lifecycle is Lifecycle.GONE or record.sealed_by(operation.op):
            operation.ended("DONE", self._runtime.wall())
            return True
        if operation.kind == "SEEK":  # it is in the record of its subscription: the present leader finishes it
            raise TimedOut(f"{operation.op} may continue on another broker: read the subscription to see its state")
        raise NotReady(f"{operation.op} was not started: send the request to the leader of {name}", op=operation.op)

    # Subscriptions

    async def subscribe(self, name: TopicName, subscription: str, kind: SubscriptionKind, *, earliest: bool) -> None:
        """Creates the subscription if it does not exist, durable, with cursors on every segment (H-D5). AlreadyExists:
        it has another type."""
        await self._subscribe(name, subscription, kind, Start.EARLIEST if earliest else Start.LATEST)

    async def _subscribe(self, name: TopicName, subscription: str, kind: Type, start: Start) -> None:
        existing = {one.name for one in await self.subscriptions(name)}
        limit = min(await self._brokers.subscriptions_max(name) or SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_MAX)
        if subscription not in existing and len(existing) >= limit:
            raise LimitExceeded(f"the topic has its maximum of {limit} subscriptions", topic=str(name))
        await self._work(name, subscription_change.create(self._op("subscribe"), subscription, type=kind, start=start))

    async def unsubscribe(self, name: TopicName, subscription: str) -> None:
        """Everywhere. SubscriptionNotFound where the topic has none of this name."""
        record = await self._found(name)
        stored, _ = await self.records.subscription(name, subscription)
        if stored is None or stored.incarnation != record.incarnation:
            raise SubscriptionNotFound(f"Subscription {subscription} not found on topic {name}")
        await self._work(name, subscription_change.delete(self._op("unsubscribe"), subscription))

    async def seek(self, name: TopicName, subscription: str, target: Target) -> None:
        """Seeks on every segment; no consumer reads before it is done. Conflict: another seek replaced it."""
        op = self._op("seek")
        operation = self._operations.begin(name, op, "SEEK", self._runtime.wall())
        await self._operate(
            name, operation, lambda term: term.seek(machines_seek.begin(op, subscription, target), operation)
        )

    async def subscriptions(self, name: TopicName) -> list[Subscription]:
        record = await self._found(name)
        return [one for one, _ in await self.records.subscriptions(name, record.incarnation)]

    async def _work(self, name: TopicName, begun: tuple[SubscriptionChange, tuple[effects.Effect, ...]]) -> None:
        await work(self._runtime, self._owner, self.records, self._segment_client, name, begun)

    # Stream consumers

    async def register(
        self,
        name: TopicName,
        subscription: str,
        consumer: str,
        consumer_id: int,
        kind: SubscriptionKind,
        listener: Listener,
        *,
        makes: bool = True,
    ) -> Assignment:
        """Registers with the leader, and with later leaders, while the connection lives. NotReady: no broker leads. A
        missing subscription is created if `makes`; the first SUBSCRIBE on each segment sets its start there."""
        if kind is Type.CHECKPOINT and makes:  # a group: it stands nowhere until a member says so, by HOLD
            await self.subscribe(name, subscription, kind, earliest=True)
        assignment = await self._streams.register(name, subscription, consumer, listener, makes=makes)
        self.consumer_registered(name)
        return assignment

    @property
    def streams(self) -> StreamRegistrations:
        return self._streams

    def connection_lost(self, name: TopicName, subscription: str, consumer: str, session: int) -> None:
        """Its grace period begins."""
        self._streams.lost(name, subscription, consumer, session)

    async def asked(self, name: TopicName, request: LeaderRequest) -> LeaderAnswer:
        """By another broker, because this one leads the topic. NotReady: it does not."""
        answer = await self._streams.asked(name, request)
        if isinstance(request, Register):
            self.consumer_registered(name)
        return answer

    # Looking

    def sessions(self, name: TopicName, subscription: str) -> Mapping[str, ConsumerSession] | None:
        """The consumers of a stream subscription by name, while this broker leads the topic."""
        coordinator = self._streams.coordinator(name, subscription)
        return None if coordinator is None else coordinator.expected

    async def leader(self, name: TopicName) -> Broker | None:
        """The broker that holds the lock, as the store says now."""
        node = await self.records.store.get(paths.controller(name))
        return None if node is None else decode_leader(node.value)

    def watch(self, name: TopicName, heard: Heard) -> Callable[[], None]:
        """Every change that clients are shown; None: the topic is gone. What it answers with stops it."""
        return self._views.watch(name, heard)

    async def view(self, name: TopicName) -> TopicView | None:
        record = await self.read(name)
        return None if record is None else await self._views.view(name, record)

    def poke(self, name: TopicName) -> None:
        """The topic has an unfinished operation: lead it, if no broker does (H-B5). Switched off: it waits."""
        if self.enabled and not self._owner.closed:
            self.controller(name).need()

    def controller(self, name: TopicName) -> Controller:
        if name.domain is not Domain.TOPIC:
            raise TopicNotFound(f"{name} is not a scalable topic")
        controller = self._controllers.get(name.canonical)
        if controller is None:
            if self._owner.closed:
                raise NotReady("the broker is stopping: try again")
            controller = self._controllers[name.canonical] = Controller(name, self._context, self._retire)
        return controller

    def _retire(self, controller: Controller) -> None:
        if self._controllers.get(controller.name.canonical) is controller and not self._owner.closed:
            del self._controllers[controller.name.canonical]
            self._runtime.spawn(self._owner, controller.close("no client uses the topic"))

    # Inside

    async def _found(self, name: TopicName) -> Record:
        if (record := await self.read(name)) is None:
            raise TopicNotFound(f"Scalable topic not found: {name}")
        return record

    def _op(self, verb: str) -> str:
        return f"{verb}-{self._runtime.rng('operations').getrandbits(64):016x}"

    def _failed(self, owner: str, error: BaseException) -> None:
        if not isinstance(error, MagnetarError):  # the callers got those
            self._task_failed(owner, error)
