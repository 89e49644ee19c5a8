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


Request = Create | Seal | Delete | Flush
Answer = Created | SealedTopic | Deleted | Flushed


class TopicOwner(Protocol):
    """Whoever serves one topic. Fenced: the term is over. Unavailable: nothing happened. Unknown: ask again."""

    async def create(self, op: str, term: Term, cursors: tuple[str, ...] = ()) -> Created: ...

    async def seal(self, op: str, term: Term) -> SealedTopic: ...

    async def delete(self, op: str, term: Term, *, force: bool = False) -> Deleted: ...

    async def flush(self, op: str, term: Term, cursor: str) -> Position:
        """The durable mark."""
        ...


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
