"""The handlers of the calls in `cluster/calls/topic_calls.py` on this node's topics, and the carrier that finds the
owner of a topic.

One call at a time runs for each topic, so that two terms cannot interleave between the check of the term and the
action. The term is stored in the topic's record together with the action that it authorized: a later owner refuses what
an earlier one refused. A call about a topic of another broker goes to that broker (`broker/peers/rpc.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import (
    AlreadyExists,
    Conflict,
    Fenced,
    NotReady,
    Refused,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.base.ids import Term
from magnetar.base.names import TopicName, namespace_name
from magnetar.broker.batch_read.holds import Holds, HoldsNode
from magnetar.broker.batch_read.plans import ReadPlanner, ReadPlanNode
from magnetar.broker.peers.destination import DestinationNode, destination
from magnetar.broker.peers.keyed_lock import KeyedLock
from magnetar.broker.peers.rpc import PeerClient, PeerClientNode
from magnetar.broker.peers.wait_server import WaitServer
from magnetar.broker.peers.waits import PeerWaits
from magnetar.cluster.calls.broker_calls import BrokerAnswer, BrokerRequest, ListLoaded, LoadedNames
from magnetar.cluster.calls.topic_calls import (
    Answer,
    ApplyAcks,
    AwaitAssignment,
    AwaitDrained,
    AwaitReceived,
    AwaitReleased,
    Create,
    Created,
    Delete,
    Deleted,
    DropOrphan,
    Flush,
    Flushed,
    Leave,
    Measure,
    MeasureLoad,
    Register,
    Request,
    Seal,
)
from magnetar.cluster.ownership import Broker
from magnetar.ledger.orphans import drop_orphan
from magnetar.ledger.properties import number
from magnetar.topic.seal import TERM_PROPERTY, SealResult
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.cluster.topics import Catalogue
    from magnetar.ledger.store import LedgerStore
    from magnetar.metadata.store import MetadataStore
    from magnetar.staged.service import StagedSinkService

OP_PROPERTY = "magnetar.created-by"  # of the managed ledger: the operation that made the topic


class PeerHandlersNode(HoldsNode, ReadPlanNode, Protocol):
    """What PeerHandlers uses of the node."""

    catalogue: Catalogue
    sinks: StagedSinkService
    ledgers: LedgerStore
    metadata: MetadataStore


class PeerHandlers:
    """Handles calls from any carrier. Each is idempotent; a lower term is Fenced."""

    def __init__(self, node: PeerHandlersNode) -> None:
        self._node = node
        self.plans = ReadPlanner(node)
        self.holds = Holds(node, self.plans)
        self.waits = PeerWaits()
        self.wait_server = WaitServer(node.runtime, node.owner)
        self._locks = KeyedLock()

    async def handle(self, name: TopicName, request: Request) -> Answer:
        """NotReady: this broker does not own the topic, or the owner is unknown."""
        match request:
            case AwaitDrained() | AwaitReleased() | AwaitReceived() | ApplyAcks():
                return await self._node.segments.wait(name, request)
            case MeasureLoad():
                return await self._node.segments.measured(name, request.interval_s)
            case Measure():
                return await self.plans.measured(request)
            case Register() | AwaitAssignment() | Leave():
                return await self._node.scalable.asked(name, request)
        async with self._locks.through(name.canonical):
            match request:
                case Create():
                    return await self._create(name, request)
                case Seal():
                    return await self._seal(name, request)
                case Delete():
                    return await self._delete(name, request)
                case DropOrphan():
                    return await self._drop_orphan(request)
                case Flush():
                    return await self._flush(name, request)
                case _:
                    return await self._node.segments.handle(name, request)

    async def handle_broker(self, request: BrokerRequest) -> BrokerAnswer:
        """Handles a call about this broker. A REST request is the task of the REST server."""
        if isinstance(request, ListLoaded):
            return LoadedNames(tuple(self._node.topics.non_persistent(namespace_name(request.namespace))))
        raise Refused("this broker answers REST requests of other brokers over REST only")

    async def _create(self, name: TopicName, request: Create) -> Created:
        if name.is_stage and not await self._node.sinks.listed(name):
            raise TopicNotFound(f"{name} is a stage that was dropped")
        try:
            await self._node.catalogue.create(name, own={OP_PROPERTY: request.op})
        except AlreadyExists:
            pass  # by an earlier try or by another caller: its record decides
        if name.is_stage and not await self._node.sinks.listed(name):  # dropped concurrently: this is its only deletion
            await self._node.topics.delete(name, force=True)
            raise TopicNotFound(f"{name} is a stage that was dropped")
        topic = await self._topic(name)
        check_term(topic, request.term)
        by = topic.managed.properties.get(OP_PROPERTY)
        if by != request.op:
            raise Conflict(f"{name} already exists, created by {by or 'a client'}", op=request.op)
        if topic.managed.entries or topic.managed.terminated is not None:
            return _cursors(topic)  # it is in use: this is a late repetition, and cursors may have come since
        if request.term > term_of(topic):
            await topic.managed.set_properties({TERM_PROPERTY: str(request.term)})
        for stale in [each.name for each in topic.subscriptions if each.durable and each.name not in request.cursors]:
            await topic.subscriptions.delete(stale, force=True)
        for cursor in request.cursors:
            if topic.subscriptions.get(cursor) is None:
                await topic.subscriptions.create(cursor, topic.managed.before(topic.managed.first))
        return _cursors(topic)

    async def _seal(self, name: TopicName, request: Seal) -> SealResult:
        # Creates a segment that the record lists but that no client has used: otherwise its parent could not be split.
        return await (await self._topic(name, create=name.is_segment)).seal(request.op, request.term)

    async def _delete(self, name: TopicName, request: Delete) -> Deleted:
        try:
            if name.is_persistent:
                topic = await self._topic(name)
                check_term(topic, request.term)
                if name.is_partition and topic.part_of is not None:
                    await self._node.segments.plains.forget_partitions(name.partitioned)
            await self._node.topics.delete(name, force=request.force)
        except TopicNotFound:
            return Deleted(existed=False)
        return Deleted(existed=True)

    async def _drop_orphan(self, request: DropOrphan) -> Deleted:
        node = self._node
        if not await node.served.sweeps(request.path):
            raise NotReady(f"this broker does not own the topic of {request.path}: ask its owner")
        existed = await drop_orphan(request.path, request.ledger, ledgers=node.ledgers, metadata=node.metadata)
        return Deleted(existed=existed)

    async def _flush(self, name: TopicName, request: Flush) -> Flushed:
        topic = await self._topic(name)
        check_term(topic, request.term)
        subscription = topic.subscriptions.get(request.cursor)
        if subscription is None:
            raise SubscriptionNotFound(f"Subscription {request.cursor} not found for topic {name}")
        return Flushed(await subscription.cursor.flush())

    async def _topic(self, name: TopicName, *, create: bool = False) -> Topic:
        topic = await self._node.topics.get(name, create=create)
        if not isinstance(topic, Topic):
            raise Refused(f"{name} is non-persistent: only persistent topics have cursors and can be sealed")
        return topic


class PeerRouterNode(DestinationNode, PeerClientNode, Protocol):
    """What PeerRouter uses of the node."""

    handlers: PeerHandlers


class PeerRouter:
    """Delivers calls to this node's handlers for its own topics, and over REST to the owners of the others."""

    def __init__(self, node: PeerRouterNode, remote: PeerClient | None = None) -> None:
        self._node = node
        self._remote = PeerClient(node) if remote is None else remote

    async def carry(self, name: TopicName, request: Request) -> Answer:
        node = self._node
        if node.served.cluster:
            broker = await destination(node, name)
            if broker.id != node.ownership.me.id:
                return await self._remote.ask(broker, name, request)
        return await node.handlers.handle(name, request)

    async def carry_to(self, broker: Broker, request: BrokerRequest) -> BrokerAnswer:
        return await self._remote.ask_broker(broker, request)


def term_of(topic: Topic) -> int:
    return number(topic.managed.properties, TERM_PROPERTY, -1)


def check_term(topic: Topic, term: Term) -> None:
    highest = term_of(topic)
    if term < highest:
        topic.runtime.mark("term.refused", topic=str(topic.name), term=term, known=highest)
        raise Fenced(
            f"term {term} is fenced: this topic has received a request of term {highest}",
            topic=str(topic.name),
            wire_code=6,
        )


def _cursors(topic: Topic) -> Created:
    return Created(tuple(sorted(found.name for found in topic.subscriptions if found.durable)))
