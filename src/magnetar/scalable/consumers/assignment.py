"""The assignment of a stream consumer: all segments that it may read now, the leader that decided it, and its delivery
to the consumer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from magnetar.base.errors import MagnetarError, NotFound, SubscriptionNotFound, Superseded, TopicNotFound
from magnetar.base.ids import Epoch, SegmentId, Term
from magnetar.layout.segment import Segment
from magnetar.scalable.record.record import Record


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that one consumer may read now."""

    subscription: str
    consumer: str
    segments: tuple[Segment, ...]
    epoch: Epoch
    term: Term
    generation: int  # of the plan
    session: int  # distinguishes the connections of one name
    shared: frozenset[SegmentId] = frozenset()  # segments that it reads together with others, by entry buckets
    shown_epoch: int = 0  # of the layout, as Pulsar's clients see it


class Listener(Protocol):
    """The way back to a consumer that registered."""

    connection: str  # the same for everything on one connection
    shares: bool  # it knows entry buckets

    @property
    def connected(self) -> bool: ...

    def assigned(self, assignment: Assignment) -> None: ...

    def ended(self, error: MagnetarError) -> None:
        """Nothing more comes. Superseded: a newer connection has this name. NotReady: look for the next leader.
        SubscriptionNotFound, TopicNotFound: it was removed."""
        ...


def superseded(consumer: str) -> Superseded:
    """H-F9."""
    return Superseded(f"consumer {consumer} was replaced by a newer consumer with the same name", wire_code=5)


def removed(subscription: str, record: Record | None, incarnation: int) -> NotFound:
    """The reason why a subscription is missing: removed by itself, or with its topic, whose current record is given."""
    if record is None or not record.is_live or record.incarnation != incarnation:
        return TopicNotFound(f"the topic of subscription {subscription} was deleted")
    return SubscriptionNotFound(f"subscription {subscription} was removed")
