"""The words that deciders and actors share: what may be asked of the store and of segment owners, and what comes back.

Effects are imperatives and carry what authorises them: operation, term, incarnation. A request to the owner of a
segment is the one that travels between brokers (`cluster/calls/topic_calls.py`). Events are past participles and name
the operation they answer; one that answers another operation is late and means nothing. `CallLost` stands for
every unknown outcome (H-A7): the call may have happened. An actor answers each effect with one event; it has no
opinion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId, Term
from magnetar.cluster.calls.topic_calls import (
    Delete,
    Fence,
    PlaceCursor,
    ProvisionSegment,
    RemoveCursor,
    ResetCursor,
    Seal,
    SeedDedup,
)
from magnetar.layout.layout import Child
from magnetar.layout.segment import Ending
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Subscription

ABSENT = -1  # the version of a record that does not exist


@dataclass(frozen=True, slots=True)
class SealSummary:
    """The answer of an owner to a seal. It is the same each time, because the end of a sealed segment never changes."""

    ending: Ending
    dedup: bytes = b""  # a snapshot, for the children (H-E4)
    fence: int = 0  # of the exclusive producer (H-E11)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, as a value; `error()` is what to raise."""

    kind: type[MagnetarError]
    what: str
    facts: tuple[tuple[str, object], ...] = ()

    def error(self) -> MagnetarError:
        facts: dict[str, Any] = dict(self.facts)
        return self.kind(self.what, **facts)


# Effects: the store


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Fresh, not from a cache (H-B8)."""

    op: str


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """Compare-and-set: only over the version that was read."""

    op: str
    version: int
    record: Record


@dataclass(frozen=True, slots=True)
class ListSubscriptions:
    """All of this life that are LIVE, of types that have cursors (H-D8); with `groups`, those of readers too."""

    op: str
    incarnation: int
    groups: bool = False


@dataclass(frozen=True, slots=True)
class ReadSubscription:
    op: str
    name: str


@dataclass(frozen=True, slots=True)
class WriteSubscription:
    """Compare-and-set; over ABSENT it creates."""

    op: str
    version: int
    subscription: Subscription


@dataclass(frozen=True, slots=True)
class RemoveSubscription:
    op: str
    version: int
    name: str


@dataclass(frozen=True, slots=True)
class RemoveSubscriptions:
    """Everything below the subscriptions of a topic that is being deleted."""

    op: str
    incarnation: int


# Effects: segment owners. Each checks term and record (see `admission`); each request may be repeated.


OwnerRequest = ProvisionSegment | Seal | SeedDedup | Fence | Delete | PlaceCursor | RemoveCursor | ResetCursor


@dataclass(frozen=True, slots=True)
class AskOwner:
    """Sends a request to the owner of a segment."""

    segment: Child
    request: OwnerRequest

    @property
    def op(self) -> str:
        return self.request.op


# Effects: the broker itself


@dataclass(frozen=True, slots=True)
class StepDown:
    """This term has ended. The receiver resigns THIS term and no later one (H-B12)."""

    term: Term
    why: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Report the outcome to the caller: done, or the reason of the refusal."""

    op: str
    refusal: Refusal | None = None


StoreCall = (
    ReadRecord
    | WriteRecord
    | ListSubscriptions
    | ReadSubscription
    | WriteSubscription
    | RemoveSubscription
    | RemoveSubscriptions
)
Call = StoreCall | AskOwner
Effect = Call | StepDown | Finished


# Events


@dataclass(frozen=True, slots=True)
class RecordRead:
    op: str
    record: Record | None
    version: int


@dataclass(frozen=True, slots=True)
class RecordWritten:
    op: str
    version: int


@dataclass(frozen=True, slots=True)
class RecordOvertaken:
    """Another version stands there: nothing was written."""

    op: str


@dataclass(frozen=True, slots=True)
class SubscriptionsListed:
    op: str
    subscriptions: tuple[Subscription, ...]


@dataclass(frozen=True, slots=True)
class SubscriptionRead:
    op: str
    subscription: Subscription | None
    version: int


@dataclass(frozen=True, slots=True)
class SubscriptionWritten:
    op: str
    version: int


@dataclass(frozen=True, slots=True)
class SubscriptionOvertaken:
    op: str


@dataclass(frozen=True, slots=True)
class SubscriptionRemoved:
    op: str


@dataclass(frozen=True, slots=True)
class SubscriptionsRemoved:
    op: str


@dataclass(frozen=True, slots=True)
class ChildProvisioned:
    op: str
    segment: SegmentId
    subs_gen: int  # of the list it was made equal to


@dataclass(frozen=True, slots=True)
class ParentSealed:
    op: str
    segment: SegmentId
    seal: SealSummary


@dataclass(frozen=True, slots=True)
class ChildSeeded:
    op: str
    segment: SegmentId


@dataclass(frozen=True, slots=True)
class ParentFenced:
    op: str
    segment: SegmentId
    sealed: bool


@dataclass(frozen=True, slots=True)
class SegmentDeleted:
    op: str
    segment: SegmentId


@dataclass(frozen=True, slots=True)
class CursorPlaced:
    op: str
    segment: SegmentId


@dataclass(frozen=True, slots=True)
class CursorRemoved:
    op: str
    segment: SegmentId


@dataclass(frozen=True, slots=True)
class CursorReset:
    op: str
    segment: SegmentId
    drained: bool  # it stands at the end of a sealed segment, durably


@dataclass(frozen=True, slots=True)
class CallLost:
    """The call may have happened, or no owner could be reached."""

    op: str
    call: Call


@dataclass(frozen=True, slots=True)
class CallFenced:
    """The owner knows a higher term."""

    op: str
    call: Call


@dataclass(frozen=True, slots=True)
class CallOvertaken:
    """The record that the owner read says otherwise than the call (another list, no such segment): look at it."""

    op: str
    call: Call


@dataclass(frozen=True, slots=True)
class CallRefused:
    """The owner says no, and will say so again: nothing happened."""

    op: str
    call: Call
    why: str


@dataclass(frozen=True, slots=True)
class TermEnded:
    """The leadership under which a task was started is over: the task ends with it."""

    term: Term


Event = (
    RecordRead
    | RecordWritten
    | RecordOvertaken
    | SubscriptionsListed
    | SubscriptionRead
    | SubscriptionWritten
    | SubscriptionOvertaken
    | SubscriptionRemoved
    | SubscriptionsRemoved
    | ChildProvisioned
    | ParentSealed
    | ChildSeeded
    | ParentFenced
    | SegmentDeleted
    | CursorPlaced
    | CursorRemoved
    | CursorReset
    | CallLost
    | CallFenced
    | CallOvertaken
    | CallRefused
    | TermEnded
)


def other_term(event: Event, term: Term) -> bool:
    """Whether the event answers a call of another term: a late answer to an earlier leadership of ours (H-B12)."""
    call = getattr(event, "call", None)
    return isinstance(call, AskOwner) and getattr(call.request, "term", term) != term
