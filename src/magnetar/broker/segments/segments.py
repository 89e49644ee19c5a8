"""The owner's part of scalable topics: segments of this broker, and the requests of leaders about them.

A segment is a persistent topic that may exist only according to the record of its scalable topic. The record is read
fresh before a segment is created and again afterwards (H-E9, H-H3). A producer is admitted only while the record says
ACTIVE (H-D1), and a durable cursor is created only for a subscription of the topic (H-D3).
`scalable/machines/admission.py` decides; this module acts. Calls run one at a time per segment
(`broker/peers/handlers.py`), except those that wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from magnetar.base.errors import (
    BadVersion,
    Conflict,
    Fenced,
    NotFound,
    NotReady,
    Refused,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.base.ids import SegmentId
from magnetar.base.names import TopicName
from magnetar.broker.migration.plain_topics import PlainTopics, PlainTopicsNode
from magnetar.broker.peers.handlers import check_term, term_of
from magnetar.broker.peers.keyed_lock import KeyedLock
from magnetar.broker.segments.cursor_reset import reset
from magnetar.broker.segments.cursors import life, place, start
from magnetar.broker.segments.drain_wait import awaited, complete
from magnetar.broker.segments.exclusive import ExclusiveNode, ExclusiveProducers
from magnetar.broker.segments.key_routing import misrouted, slots, spreads
from magnetar.broker.segments.queue_admission import admit_consumer
from magnetar.cluster.calls.topic_calls import (
    ApplyAcks,
    AskProducers,
    AwaitDrained,
    Awaited,
    AwaitReceived,
    AwaitReleased,
    CursorPlacedReply,
    CursorRemovedReply,
    Ensured,
    EnsureSegment,
    Fence,
    InspectPlainTopic,
    MeasuredLoad,
    PlaceCursor,
    Provisioned,
    ProvisionSegment,
    RemoveCursor,
    ResetCursor,
    SeedDedup,
    Seeded,
    SegmentAnswer,
    SegmentRequest,
    Stale,
    TermFenced,
)
from magnetar.layout.autoscale.load import UNLOADED
from magnetar.layout.routing import DEFAULT, routing_of
from magnetar.ledger.properties import number
from magnetar.metadata import paths
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT
from magnetar.observe.log import get
from magnetar.scalable.machines import admission
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Start
from magnetar.topic.dedup.dedup import Dedup
from magnetar.topic.load_meter import LoadMeter
from magnetar.topic.producers.access import Mode
from magnetar.topic.producers.admission import Admission, Admitted
from magnetar.topic.producers.producers import EPOCH_PROPERTY
from magnetar.topic.seal import TERM_PROPERTY
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.cluster.namespaces import Namespaces
    from magnetar.metadata.store import MetadataStore
    from magnetar.scalable.watch.watches import Watches

log = get("segments")

INCARNATION_PROPERTY = "magnetar.incarnation"  # of the managed ledger: the life of the topic that the segment is of
OURS = "Magnetar-"  # prefix of clients that follow the routing pinned in the record


class SegmentsNode(ExclusiveNode, PlainTopicsNode, Protocol):
    """What Segments uses of the node."""

    metadata: MetadataStore
    namespaces: Namespaces
    watches: Watches


class Segments:
    def __init__(self, node: SegmentsNode) -> None:
        self._node = node
        self.exclusive = ExclusiveProducers(node)
        self.plains = PlainTopics(node)
        self._making = KeyedLock()  # of subscriptions, by consumers that came

    # Loading

    async def admit(self, name: TopicName, *, create: bool) -> None:
        """Checks before a load. TopicNotFound: the segment does not exist and the record does not list it as active."""
        if await self._node.catalogue.exists(name):
            return
        if not create:
            raise TopicNotFound(f"Topic {name} does not exist")
        record = await self._listed(name)
        await self._make(name, record.incarnation)

    async def recover(self, topic: Topic) -> Topic:
        """Makes an opened topic a segment: the current record applies, regardless of the actions of the previous
        owner."""
        record, _ = await self._node.scalable.records.fresh(topic.name.parent)
        routing = record.routing if record is not None and record.routing is not None else DEFAULT
        topic.slot_of = slots(topic.name, routing)
        topic.spread_of = spreads(topic.name, routing)
        assert topic.name.segment is not None
        topic.load = LoadMeter(topic, topic.name.segment.range)
        topic.load.routing = routing
        topic.admission = self._admission(topic)
        topic.after_layout = partial(self._node.watches.when_sealed, topic.name)
        await topic.recover()
        if record is not None and record.incarnation == _incarnation(topic):
            topic.producers.access.inherit(record.fence)
            await self._obey(topic, record)
        return topic

    async def _obey(self, topic: Topic, record: Record) -> None:
        """Applies the record: a segment sealed there is sealed here (H-A8), and a cursor without a subscription is
        removed (H-D2)."""
        segment = record.layout.segment(_id(topic.name)) if _id(topic.name) in record.layout else None
        if segment is not None and not segment.is_active and topic.managed.terminated is None:
            self._node.runtime.mark("segment.obeyed", topic=str(topic.name), op=segment.sealed_by)
            await topic.seal(segment.sealed_by, record.term)
        listed = await self._node.scalable.records.subscriptions(topic.name.parent, record.incarnation)
        recorded = {(one.name, one.life) for one, _ in listed}
        for subscription in topic.subscriptions:
            if subscription.durable and (subscription.name, life(subscription)) not in recorded:
                log.info("stale_subscription_removed", topic=str(topic.name), subscription=subscription.name)
                self._node.runtime.mark("cursor.ghost_removed", topic=str(topic.name), subscription=subscription.name)
                await topic.subscriptions.delete(subscription.name, force=True)

    def _admission(self, topic: Topic) -> Admission:
        async def produce(base: str, client_version: str, mode: Mode, queued: Callable[[], None]) -> None:
            record = await self._admit_producer(topic, client_version)
            await self.exclusive.admit(topic.name.parent, record, base, mode, queued)

        async def produced(base: str, mode: Mode) -> None:
            await self.exclusive.check(topic.name.parent, base, mode)

        def durable_cursor(name: str) -> None:
            raise SubscriptionNotFound(
                f"{topic.name.parent} has no subscription {name}: create it on the topic, not on a segment"
            )

        async def consume(request: Subscribe) -> Admitted | None:
            return await admit_consumer(self._node.scalable, topic, request, self._making)

        return Admission(produce, durable_cursor, produced, start, consume)

    async def _admit_producer(self, topic: Topic, client_version: str) -> Record:
        """Returns the record that admits the producer."""
        scalable = self._node.scalable
        parent = topic.name.parent
        record, _ = await scalable.records.fresh(parent)
        admission.check_producer(record, _id(topic.name), _incarnation(topic))
        assert record is not None
        if topic.managed.terminated is not None:
            # sealed here but active in the record: the controller must finish the operation (H-A2)
            scalable.poke(parent)
        follows = client_version.startswith(OURS)
        routing = DEFAULT if follows else routing_of(client_version)
        pinned = record.routing or await scalable.pin(parent, routing)
        if pinned is not routing and not follows:
            raise Refused(
                f"the keys of {parent} are routed by {pinned}, and this client routes by {routing}: "
                "order would be lost; use clients with the same routing",
                topic=str(topic.name),
            )
        topic.slot_of = slots(topic.name, pinned)
        topic.spread_of = spreads(topic.name, pinned)
        topic.misrouted = misrouted(topic.name, pinned)
        if topic.load is not None:
            topic.load.routing = pinned
        topic.producers.access.inherit(record.fence)
        return record

    async def _listed(self, name: TopicName, incarnation: int | None = None) -> Record:
        """The record, if it allows a segment of exactly this name."""
        record, _ = await self._node.scalable.records.fresh(name.parent)
        expected = incarnation if incarnation is not None or record is None else record.incarnation
        admission.check_creation(record, _id(name), expected or 0)
        assert record is not None
        if all(one.topic(name.parent) != name for one in record.everything() if one.id == _id(name)):
            raise TopicNotFound("the segment with this id has another hash range", segment=str(name))
        return record

    async def _make(self, name: TopicName, incarnation: int) -> None:
        """Check and creation are not atomic: a segment that is no longer listed afterwards is removed again."""
        node = self._node
        policies = await node.namespaces.policies(name.namespace)
        if policies is None:
            raise TopicNotFound(f"namespace {name.namespace} does not exist")
        path = paths.topic(name, policies.buckets)
        properties = {INCARNATION_PROPERTY: str(incarnation)}
        value = msgspec.json.encode({"v": 1, "properties": properties})
        try:
            stat = await put_checked(node.metadata, path, value, expected=ABSENT)
        except BadVersion:
            return  # another call was faster
        try:
            await self._listed(name, incarnation)
        except NotFound:
            try:
                await node.metadata.delete(path, expected=stat.version)
            except (BadVersion, NotFound):
                pass  # deleted, or loaded by another request that gets the same error
            raise

    # What leaders ask

    async def handle(self, name: TopicName, request: SegmentRequest) -> SegmentAnswer:
        match request:
            case EnsureSegment():
                await self._listed(name, request.incarnation)
                await self._make(name, request.incarnation)
                return Ensured()
            case ProvisionSegment():
                return await self._provision(name, request)
            case SeedDedup():
                return await self._seed(name, request)
            case Fence():
                topic = await self._topic(name, create=True)
                await self._remember(topic, request)
                return TermFenced(topic.managed.terminated is not None)
            case InspectPlainTopic():
                return await self.plains.handle(name, request)
            case PlaceCursor():
                return await (self._place if name.is_segment else self.plains.handle)(name, request)
            case RemoveCursor():
                return await self._remove(name, request)
            case ResetCursor():
                return await reset(self._node.scalable.records, await self._topic(name), request)
            case AwaitDrained() | AwaitReleased() | AwaitReceived() | ApplyAcks():
                return await self.wait(name, request)
            case AskProducers():
                return self.exclusive.attached(name, request)

    async def _provision(self, name: TopicName, request: ProvisionSegment) -> SegmentAnswer:
        if not await self._planned(name, request, request.subs_gen):
            self._node.runtime.mark("provision.overtaken", topic=str(name), op=request.op)
            return Stale()
        try:
            await self._make(name, request.incarnation)
        except TopicNotFound:
            return Stale()  # the plan was taken back between the two looks
        topic = await self._topic(name)
        await self._remember(topic, request)
        if topic.managed.entries:
            raise Conflict(
                f"{name} is not empty and cannot become a child segment", entries=topic.managed.entries
            )  # H-C3
        await topic.subscriptions.certain()
        cursors = {(one.name, one.life) for one in request.cursors}
        for subscription in topic.subscriptions:
            if subscription.durable and (subscription.name, life(subscription)) not in cursors:
                await topic.subscriptions.delete(subscription.name, force=True)
        for key in request.cursors:
            await place(topic, key, at_end=False)
        await topic.managed.prepare()  # now, not in the gap between the parents' seal and the first message here
        return Provisioned(request.subs_gen)

    async def _seed(self, name: TopicName, request: SeedDedup) -> SegmentAnswer:
        if not await self._planned(name, request, None):
            return Stale()
        topic = await self._topic(name)
        await self._remember(topic, request)
        if request.fence > topic.producers.access.epoch:
            await self._rename(topic, {EPOCH_PROPERTY: str(request.fence)})
            topic.producers.access.inherit(request.fence)
        if topic.recall is None and request.dedups:
            await topic.remember_sinks()  # the parents did, although deduplication is off
        if topic.recall is not None and request.dedups:
            parents = []
            for data in request.dedups:
                parents.append(Dedup())
                if data:  # otherwise that parent has no deduplication state
                    parents[-1].load(data, self._node.runtime.wall())
            assert name.segment is not None
            await topic.recall.seed(parents[0].unite(parents[1:]).restrict(name.segment.range))
        return Seeded()

    async def _planned(self, name: TopicName, request: ProvisionSegment | SeedDedup, subs_gen: int | None) -> bool:
        """Whether the plan of this call is current, and the generation of subscriptions that it was made for."""
        record, _ = await self._node.scalable.records.fresh(name.parent)
        gen = subs_gen if subs_gen is not None or record is None else record.subs_gen
        return admission.check_provision(
            record, request.op, _id(name), incarnation=request.incarnation, subs_gen=gen or 0
        )

    async def _place(self, name: TopicName, request: PlaceCursor) -> SegmentAnswer:
        key = request.subscription
        stored, _ = await self._node.scalable.records.subscription(name.parent, key.name)
        admission.check_cursor(stored, key.life)
        if not await self._node.catalogue.exists(name):
            record = await self._listed(name, request.incarnation)
            if _id(name) not in record.layout:
                raise TopicNotFound("the child segment does not exist yet: the reshape creates its cursors")
            await self._make(name, request.incarnation)
        assert stored is not None
        requested = stored.start is Start.ASKED
        key = msgspec.structs.replace(key, properties=stored.properties)
        await place(await self._topic(name), key, at_end=request.at_end, asked=requested)
        return CursorPlacedReply()

    async def _remove(self, name: TopicName, request: RemoveCursor) -> SegmentAnswer:
        subscriptions, key = (await self._topic(name)).subscriptions, request.subscription
        await subscriptions.certain()
        subscription = subscriptions.get(key.name) or subscriptions.half_deleted(key.name)
        if subscription is not None and life(subscription) == key.life:
            await subscriptions.delete(subscription.name, force=True)
        return CursorRemovedReply()

    async def _remember(self, topic: Topic, request: ProvisionSegment | SeedDedup | Fence) -> None:
        check_term(topic, request.term)
        if request.term > term_of(topic):
            await self._rename(topic, {TERM_PROPERTY: str(request.term)})

    async def _rename(self, topic: Topic, properties: dict[str, str]) -> None:
        try:
            await topic.managed.set_properties(properties)
        except Fenced as error:  # by its record, not by a term: the leader is none the less the leader
            self._node.topics.failed(topic, error)
            raise NotReady(f"another broker owned {topic.name} in between; it is being reopened: try again") from error

    async def _topic(self, name: TopicName, *, create: bool = False) -> Topic:
        topic = await self._node.topics.get(name, create=create)
        assert isinstance(topic, Topic)
        return topic

    async def wait(self, name: TopicName, request: AwaitDrained | AwaitReleased | AwaitReceived | ApplyAcks) -> Awaited:
        """NotReady: the segment moves; the caller repeats the call at its next owner."""
        topic = await self._topic(name)
        subscription = topic.subscriptions.get(request.subscription.name)
        if subscription is None or life(subscription) != request.subscription.life:
            raise SubscriptionNotFound(f"Subscription {request.subscription.name} not found on topic {name}")
        if isinstance(request, ApplyAcks):
            subscription.apply_early(request.seeks)
            return Awaited(True)
        happened = await awaited(topic, subscription, request)
        if happened and isinstance(request, AwaitDrained):
            parent = name.parent if name.is_segment else name.scalable  # a plain topic that was migrated is one too
            stored, _ = await self._node.scalable.records.subscription(parent, subscription.name)
            happened = stored is not None and stored.seek is None  # else its cursor is about to be moved (H-D7)
        return Awaited(happened, isinstance(request, AwaitDrained) and await complete(topic, subscription))

    async def measured(self, name: TopicName, interval_s: float) -> MeasuredLoad:
        """A segment that is not in memory has no traffic, and is not loaded for this."""
        topic = self._node.topics.loaded.get(name.canonical)
        if not isinstance(topic, Topic) or topic.load is None:
            return MeasuredLoad(UNLOADED)
        return MeasuredLoad(await topic.load.measure(interval_s))

    def in_use(self, name: TopicName) -> None:
        """Raises Conflict if clients use this segment on this broker."""
        topic = self._node.topics.loaded.get(name.canonical)
        if isinstance(topic, Topic):
            topic.check_unused(force=False)


def _id(name: TopicName) -> SegmentId:
    assert name.segment is not None
    return SegmentId(name.segment.id)


def _incarnation(topic: Topic) -> int:
    return number(topic.managed.properties, INCARNATION_PROPERTY, 0)
