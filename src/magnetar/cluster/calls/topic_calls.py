"""Calls between brokers about a topic: the owner of its bundle creates, seals and deletes it, and flushes its cursors.

Every call names its operation and the term of the caller. A call may be repeated, may arrive late, and may have
happened although its answer was lost. So each call is idempotent, and a call of a lower term than the topic has seen is
`Fenced`. This module contains the calls and their answers as values. A `PeerTransport` delivers them: this node's own
(`broker/peers/handlers.py`), or a simulated one that delays, loses and repeats calls.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from magnetar.base.ids import Position, Term
from magnetar.base.names import TopicName
from magnetar.cluster.calls.broker_calls import (
    AdminAnswer,
    AdminCall,
    BrokerAnswer,
    BrokerRequest,
    ListLoaded,
    LoadedNames,
)
from magnetar.cluster.ownership import Broker
from magnetar.layout.autoscale.load import SegmentLoad
from magnetar.layout.lag import Lag
from magnetar.layout.readable_range import ReadableRange
from magnetar.topic.measure import RangeRequest
from magnetar.topic.seal import SealResult


class Create(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Creates the empty topic with exactly these durable cursors at its start: missing ones are created, others
    removed."""

    op: str
    term: Term
    cursors: tuple[str, ...] = ()


class Created(msgspec.Struct, frozen=True, tag=True):
    cursors: tuple[str, ...]


class Seal(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Ends the topic permanently for new messages; see `topic/seal.py`."""

    op: str
    term: Term


class Delete(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Deletes the topic with all its data. Without `force`, Conflict while clients use it."""

    op: str
    term: Term
    force: bool = False


class Deleted(msgspec.Struct, frozen=True, tag=True):
    existed: bool


class DropOrphan(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Deletes a ledger that the record at this path, of the topic or of one of its cursors, does not name."""

    op: str
    path: str
    ledger: int


class Flush(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Makes the acknowledgements of a cursor durable."""

    op: str
    term: Term
    cursor: str


class Flushed(msgspec.Struct, frozen=True, tag=True):
    mark: Position


# Segments of scalable topics. The owner judges each call by the record of the topic as it is now; `Stale` says that
# the record has moved on and the caller must look at it.


class SubscriptionLife(msgspec.Struct, frozen=True):
    """A subscription of a scalable topic; `life` distinguishes it from an earlier one of the same name."""

    name: str
    life: int
    properties: tuple[tuple[str, str], ...] = ()  # of a cursor that is made for it


class Stale(msgspec.Struct, frozen=True, tag=True):
    pass


class EnsureSegment(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Creates the segment if the record lists it as active and it does not exist."""

    op: str
    incarnation: int


class Ensured(msgspec.Struct, frozen=True, tag=True):
    pass


class ProvisionSegment(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Creates a child of the current plan, empty, with exactly these cursors at its start. Conflict: it is not
    empty."""

    op: str
    term: Term
    incarnation: int
    subs_gen: int
    cursors: tuple[SubscriptionLife, ...]


class Provisioned(msgspec.Struct, frozen=True, tag=True):
    subs_gen: int


class SeedDedup(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Gives the deduplication state of the parents to a child that does not accept messages yet."""

    op: str
    term: Term
    incarnation: int
    dedups: tuple[bytes, ...]
    fence: int


class Seeded(msgspec.Struct, frozen=True, tag=True):
    pass


class Fence(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Stores the term, and returns whether the segment is sealed."""

    op: str
    term: Term
    incarnation: int


class TermFenced(msgspec.Struct, frozen=True, tag=True):
    sealed: bool


class PlaceCursor(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Creates a durable cursor for a subscription of the topic; an existing cursor is not moved."""

    op: str
    incarnation: int
    subscription: SubscriptionLife
    at_end: bool


class ResetCursor(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Moves the cursor to the first message at or after a position, or (`by_time`) published at or after a time, during
    the seek with this number; a repetition has no effect. SubscriptionNotFound: the cursor does not exist."""

    op: str
    topic: str = ""  # the scalable one; the sender adds it
    subscription: SubscriptionLife
    seeks: int
    position: Position
    time_ms: int = 0
    by_time: bool = False


class CursorPlacedReply(msgspec.Struct, frozen=True, tag=True):
    drained: bool = False  # of a cursor that was moved: it stands at the end of a sealed segment


class RemoveCursor(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    op: str
    incarnation: int
    subscription: SubscriptionLife


class CursorRemovedReply(msgspec.Struct, frozen=True, tag=True):
    pass


class AwaitDrained(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Answered when all messages up to the end of a sealed segment are durably acknowledged, or with no after the
    wait."""

    op: str
    subscription: SubscriptionLife
    wait_s: float


class AwaitReleased(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Answered when no consumer is attached to the subscription, or with no after the wait."""

    op: str
    subscription: SubscriptionLife
    wait_s: float
    evict: str = ""  # they are sent away first
    keeps_acks: bool = False  # what was acknowledged before its ancestors are done is not dropped with them (H-F20)


class AwaitReceived(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Answered when this consumer alone has received every message of a sealed segment, or with no after the wait.
    After a yes, a consumer that attaches is judged by the subscription record as stored by then (H-F20)."""

    op: str
    subscription: SubscriptionLife
    wait_s: float
    consumer: str


class ApplyAcks(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """All ancestors of a segment that was read early are drained: its acknowledgements count (H-F20). `seeks`: those of
    the subscription at that time."""

    op: str
    subscription: SubscriptionLife
    seeks: int


class AskProducers(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The producers attached to the segment. `base`: the name of the caller on all segments; `fence`: close all
    others."""

    op: str
    base: str = ""
    fence: bool = False


class Attached(msgspec.Struct, frozen=True, tag=True):
    """The exclusive producers of the segment, and all producers except the caller."""

    exclusive: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class Awaited(msgspec.Struct, frozen=True, tag=True):
    """`complete`, of `AwaitDrained`: everything is acknowledged, perhaps in memory alone or before its ancestors are
    done (H-F20)."""

    happened: bool
    complete: bool = False


class InspectPlainTopic(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The facts about a plain topic or a segment. `guard`: the topic is being migrated, so from now on subscriptions
    are created and deleted only through the record of its scalable topic. `lags`: measures its subscriptions."""

    op: str
    guard: bool = False
    lags: bool = False


class PlainSubscription(msgspec.Struct, frozen=True):
    """A durable subscription. `kind`: the wire's SubType of the attached consumers; -1: no consumer is attached."""

    name: str
    kind: int = -1
    backlog: int = 0  # what it has not acknowledged


class PlainClient(msgspec.Struct, frozen=True):
    """A client of a plain topic. `subscription` "": a producer. `follows`: it continues after a migration."""

    name: str
    address: str
    version: str
    subscription: str = ""
    follows: bool = False


class PlainFacts(msgspec.Struct, frozen=True, tag=True):
    """`lags`: of every subscription and reader; None: not requested, or an older broker answers."""

    subscriptions: tuple[PlainSubscription, ...] = ()
    clients: tuple[PlainClient, ...] = ()
    messages: int = 0
    size_bytes: int = 0
    lags: dict[str, Lag] | None = None


class MeasureLoad(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The load of a segment over at least `interval_s`; a segment that is not in memory is not loaded."""

    op: str
    interval_s: float


class MeasuredLoad(msgspec.Struct, frozen=True, tag=True):
    load: SegmentLoad


class Measure(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The readable ranges of topics of one owner: one answer per request."""

    op: str
    topics: tuple[str, ...]
    asked: tuple[RangeRequest, ...]


class MeasuredAll(msgspec.Struct, frozen=True, tag=True):
    """None: the topic does not exist."""

    stretches: tuple[ReadableRange | None, ...]


# Stream consumers that are connected to another broker than the leader of their topic. The name is that of the scalable
# topic: such a call goes to its leader. `connection` is the one at that broker; `session` is assigned by the leader.


class Register(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """`resume`: the session to continue under this leader; 0: a new one. Superseded, ConsumerNotFound: it cannot
    continue. `makes`: create a missing subscription; otherwise it is SubscriptionNotFound."""

    op: str
    subscription: str
    consumer: str
    connection: str
    resume: int = 0
    shares: bool = False  # it knows entry buckets
    makes: bool = True


class Granted(msgspec.Struct, frozen=True):
    """A segment that a consumer may read, with the `splits` of its entry buckets if it is shared."""

    id: int
    start: int
    end: int
    legacy: str = ""
    splits: tuple[int, ...] = ()


class AssignmentReply(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """All segments that a consumer may read now, and the number of assignments sent to it so far, this one included."""

    segments: tuple[Granted, ...]
    epoch: int
    term: int
    generation: int
    session: int
    number: int = 0
    shown_epoch: int = 0


class AwaitAssignment(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Answered when there is more than `seen`, or empty after the wait. Errors: those of `Register`; NotReady: not
    registered."""

    op: str
    connection: str
    seen: int
    wait_s: float


class NoChange(msgspec.Struct, frozen=True, tag=True):
    pass


class Leave(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The consumer leaves permanently. `lost`: its connection is lost, and it may return within its grace period."""

    op: str
    subscription: str
    consumer: str
    session: int
    connection: str
    lost: bool = False
    segment: int | None = None  # the consumer closed this one, in no known session: it leaves if it is to read it


class Left(msgspec.Struct, frozen=True, tag=True):
    pass


LeaderRequest = Register | AwaitAssignment | Leave
LeaderAnswer = AssignmentReply | NoChange | Left
SegmentRequest = (
    EnsureSegment
    | ProvisionSegment
    | SeedDedup
    | Fence
    | PlaceCursor
    | RemoveCursor
    | ResetCursor
    | AwaitDrained
    | AwaitReleased
    | AwaitReceived
    | ApplyAcks
    | AskProducers
    | InspectPlainTopic
)
SegmentAnswer = (
    Ensured
    | Provisioned
    | Seeded
    | TermFenced
    | CursorPlacedReply
    | CursorRemovedReply
    | Awaited
    | Attached
    | PlainFacts
    | Stale
)
OwnerRequest = Create | Seal | Delete | DropOrphan | Flush | MeasureLoad | SegmentRequest
Request = OwnerRequest | Measure | LeaderRequest
Answer = Created | SealResult | Deleted | Flushed | MeasuredAll | MeasuredLoad | SegmentAnswer | LeaderAnswer

A = TypeVar("A")


class PeerTransport(Protocol):
    async def carry(self, name: TopicName, request: Request) -> Answer:
        """Delivers a request to the owner of the topic (the leader of a scalable topic), and returns its answer."""
        ...

    async def carry_to(self, broker: Broker, request: BrokerRequest) -> BrokerAnswer:
        """Delivers a request to this broker, which is not the caller's own."""
        ...


class Peers:
    """Resolves the receiver of each call again, because ownership may have moved since the last call."""

    def __init__(self, carrier: PeerTransport) -> None:
        self._carrier = carrier

    def owner(self, name: TopicName) -> TopicOwner:
        return TopicOwner(self._carrier, name)

    async def measure(self, name: TopicName, request: Measure) -> MeasuredAll:
        """`name`: one of the topics, whose owner measures all of them."""
        return _kind(MeasuredAll, await self._carrier.carry(name, request))

    async def register(self, name: TopicName, request: Register) -> AssignmentReply:
        return _kind(AssignmentReply, await self._carrier.carry(name, request))

    async def share(self, name: TopicName, request: AwaitAssignment) -> AssignmentReply | None:
        answer = await self._carrier.carry(name, request)
        return None if isinstance(answer, NoChange) else _kind(AssignmentReply, answer)

    async def leave(self, name: TopicName, request: Leave) -> None:
        _kind(Left, await self._carrier.carry(name, request))

    async def admin(self, broker: Broker, call: AdminCall) -> AdminAnswer:
        return _kind(AdminAnswer, await self._carrier.carry_to(broker, call))

    async def loaded(self, broker: Broker, namespace: str) -> tuple[str, ...]:
        """The names of the loaded non-persistent topics of a namespace."""
        return _kind(LoadedNames, await self._carrier.carry_to(broker, ListLoaded(namespace=namespace))).names


class TopicOwner:
    """The broker that serves one topic. Fenced: the term is outdated. Unavailable: nothing happened. Unknown: try
    again."""

    def __init__(self, carrier: PeerTransport, name: TopicName) -> None:
        self._carrier = carrier
        self._name = name

    async def create(self, op: str, term: Term, cursors: tuple[str, ...] = ()) -> Created:
        return _kind(Created, await self._carrier.carry(self._name, Create(op=op, term=term, cursors=cursors)))

    async def seal(self, op: str, term: Term) -> SealResult:
        return _kind(SealResult, await self._carrier.carry(self._name, Seal(op=op, term=term)))

    async def delete(self, op: str, term: Term, *, force: bool = False) -> Deleted:
        return _kind(Deleted, await self._carrier.carry(self._name, Delete(op=op, term=term, force=force)))

    async def flush(self, op: str, term: Term, cursor: str) -> Position:
        """The durable mark."""
        return _kind(Flushed, await self._carrier.carry(self._name, Flush(op=op, term=term, cursor=cursor))).mark

    async def ask(self, request: OwnerRequest) -> Answer:
        return await self._carrier.carry(self._name, request)


def _kind(kind: type[A], answer: Answer | BrokerAnswer) -> A:
    assert isinstance(answer, kind)
    return answer
