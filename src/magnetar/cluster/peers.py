"""What brokers ask of each other about a topic: whoever owns its bundle makes it, ends it, deletes it, flushes cursors.

Every call names the operation it belongs to and the term of whoever asks. A call may be repeated, may arrive late and
may have happened although its answer was lost; so each of them is idempotent, and one of a lower term than the topic
has seen is `Fenced`. Here are the calls and their answers as values; who carries them is a `Carrier`: this node's own
(`broker/peers.py`), or a simulated one that delays, loses and repeats.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from magnetar.base.ids import Position, Term
from magnetar.base.names import TopicName
from magnetar.topic.seal import SealedTopic


class Create(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The topic, empty, with exactly these durable cursors at its beginning: missing ones are made, others removed."""

    op: str
    term: Term
    cursors: tuple[str, ...] = ()


class Created(msgspec.Struct, frozen=True, tag=True):
    cursors: tuple[str, ...]


class Seal(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """No more messages, ever; see `topic/seal.py`."""

    op: str
    term: Term


class Delete(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """With everything it holds. Not `force`: Conflict while clients use it."""

    op: str
    term: Term
    force: bool = False


class Deleted(msgspec.Struct, frozen=True, tag=True):
    existed: bool


class Flush(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Make what a cursor has acknowledged durable."""

    op: str
    term: Term
    cursor: str


class Flushed(msgspec.Struct, frozen=True, tag=True):
    mark: Position


# Segments of scalable topics. The owner judges each call by the record of the topic as it is now; `Overtaken` says that
# the record has moved on and the caller must look at it.


class SubscriptionLife(msgspec.Struct, frozen=True):
    """A subscription of a scalable topic; its life tells it from an earlier one of the same name."""

    name: str
    life: int


class Overtaken(msgspec.Struct, frozen=True, tag=True):
    pass


class Ensure(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The segment, if the record lists it as active and it is not there."""

    op: str
    incarnation: int


class Ensured(msgspec.Struct, frozen=True, tag=True):
    pass


class Provision(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A child of the plan that stands, empty, with exactly these cursors at its start. Conflict: it is not empty."""

    op: str
    term: Term
    incarnation: int
    subs_gen: int
    cursors: tuple[SubscriptionLife, ...]


class Provisioned(msgspec.Struct, frozen=True, tag=True):
    subs_gen: int


class Seed(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What the parents knew of producers, given to a child that takes none yet."""

    op: str
    term: Term
    incarnation: int
    dedups: tuple[bytes, ...]
    fence: int


class Seeded(msgspec.Struct, frozen=True, tag=True):
    pass


class Fence(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Remember the term, and say whether the segment is sealed."""

    op: str
    term: Term
    incarnation: int


class TermFenced(msgspec.Struct, frozen=True, tag=True):
    sealed: bool


class PlaceCursor(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A durable cursor for a subscription that the topic has; one that is there stays where it is."""

    op: str
    incarnation: int
    subscription: SubscriptionLife
    at_end: bool


class CursorThere(msgspec.Struct, frozen=True, tag=True):
    pass


class RemoveCursor(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    op: str
    incarnation: int
    subscription: SubscriptionLife


class CursorGone(msgspec.Struct, frozen=True, tag=True):
    pass


class AwaitDrained(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Answered the moment everything up to the end of a sealed segment is acknowledged for good, or with no at last."""

    op: str
    subscription: SubscriptionLife
    wait_s: float


class AwaitReleased(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Answered the moment no consumer is attached to the subscription, or with no at last. `evict`: they are sent
    away first."""

    op: str
    subscription: SubscriptionLife
    wait_s: float
    evict: bool = False


class Awaited(msgspec.Struct, frozen=True, tag=True):
    happened: bool


SegmentRequest = Ensure | Provision | Seed | Fence | PlaceCursor | RemoveCursor | AwaitDrained | AwaitReleased
SegmentAnswer = Ensured | Provisioned | Seeded | TermFenced | CursorThere | CursorGone | Awaited | Overtaken
Request = Create | Seal | Delete | Flush | SegmentRequest
Answer = Created | SealedTopic | Deleted | Flushed | SegmentAnswer


class TopicOwner(Protocol):
    """Whoever serves one topic. Fenced: the term is over. Unavailable: nothing happened. Unknown: ask again."""

    async def create(self, op: str, term: Term, cursors: tuple[str, ...] = ()) -> Created: ...

    async def seal(self, op: str, term: Term) -> SealedTopic: ...

    async def delete(self, op: str, term: Term, *, force: bool = False) -> Deleted: ...

    async def flush(self, op: str, term: Term, cursor: str) -> Position:
        """The durable mark."""
        ...

    async def ask(self, request: SegmentRequest) -> SegmentAnswer: ...


class Peers(Protocol):
    def owner(self, name: TopicName) -> TopicOwner:
        """Found anew at every call: ownership may have moved since the last one."""
        ...


class Carrier(Protocol):
    async def carry(self, name: TopicName, request: Request) -> Answer:
        """To the handlers of the broker that owns the topic, and its answer back."""
        ...


class Through:
    """`Peers` over any carrier."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def owner(self, name: TopicName) -> TopicOwner:
        return _Carried(self._carrier, name)


class _Carried:
    def __init__(self, carrier: Carrier, name: TopicName) -> None:
        self._carrier = carrier
        self._name = name

    async def create(self, op: str, term: Term, cursors: tuple[str, ...] = ()) -> Created:
        answer = await self._carrier.carry(self._name, Create(op=op, term=term, cursors=cursors))
        assert isinstance(answer, Created)
        return answer

    async def seal(self, op: str, term: Term) -> SealedTopic:
        answer = await self._carrier.carry(self._name, Seal(op=op, term=term))
        assert isinstance(answer, SealedTopic)
        return answer

    async def delete(self, op: str, term: Term, *, force: bool = False) -> Deleted:
        answer = await self._carrier.carry(self._name, Delete(op=op, term=term, force=force))
        assert isinstance(answer, Deleted)
        return answer

    async def flush(self, op: str, term: Term, cursor: str) -> Position:
        answer = await self._carrier.carry(self._name, Flush(op=op, term=term, cursor=cursor))
        assert isinstance(answer, Flushed)
        return answer.mark

    async def ask(self, request: SegmentRequest) -> SegmentAnswer:
        answer = await self._carrier.carry(self._name, request)
        assert not isinstance(answer, Created | SealedTopic | Deleted | Flushed)
        return answer
