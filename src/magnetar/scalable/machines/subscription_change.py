"""Create and remove a subscription of a scalable topic: needs no leader, and any broker may repeat it.

Creation writes the subscription's own record first, then the generation in the topic's record, then cursors on every
segment that record and intent list, then `ready`. Only then does the caller get an answer (H-D1). A reshape under way
sees the raised generation at its commit and provisions again, so a child that this operation missed gets its cursor
too. Removal: mark, raise, remove cursors, remove the record. Takes events, returns effects, and performs no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from magnetar.base import validation
from magnetar.base.errors import AlreadyExists, Busy, MagnetarError, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.cluster.calls.topic_calls import PlaceCursor, RemoveCursor, SubscriptionLife
from magnetar.layout.layout import Child
from magnetar.scalable.machines.effects import (
    ABSENT,
    AskOwner,
    CallLost,
    CallRefused,
    CursorPlaced,
    CursorRemoved,
    Effect,
    Event,
    Finished,
    ReadRecord,
    ReadSubscription,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    Refusal,
    RemoveSubscription,
    SubscriptionOvertaken,
    SubscriptionRead,
    SubscriptionRemoved,
    SubscriptionWritten,
    WriteRecord,
    WriteSubscription,
)
from magnetar.scalable.machines.table import Transition, taken
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Start, Subscription, SubscriptionState, Type

Step = tuple["SubscriptionChange", tuple[Effect, ...]]


class Phase(Enum):
    LOOK = "topic and subscription are being read"
    WRITE = "the subscription's record is being created, or marked for removal"
    RAISE = "the generation of the subscription list is being raised in the topic's record"
    CURSORS = "cursors are being placed, or removed"
    FINISH = "the subscription's record is being marked as ready, or removed"
    DONE = "done"
    REFUSED = "refused; the operation carries the reason"


FINAL = frozenset({Phase.DONE, Phase.REFUSED})


class ChangeKind(Enum):
    CREATE = "create"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class SubscriptionChange:
    """Where one creation or removal stands."""

    op: str
    verb: ChangeKind
    name: str
    type: Type = Type.STREAM
    start: Start = Start.EARLIEST
    undecided: bool = False
    phase: Phase = Phase.LOOK
    record: Record | None = None
    subscription: Subscription | None = None
    version: int = ABSENT  # of the subscription's record
    cursors: frozenset[SegmentId] = frozenset()  # seen to


def create(
    op: str, name: str, *, type: Type = Type.STREAM, start: Start = Start.EARLIEST, undecided: bool = False
) -> Step:
    """`undecided`: of one that a plain topic has; who consumes it first says of which type it is."""
    return SubscriptionChange(op, ChangeKind.CREATE, name, type, start, undecided), (ReadRecord(op),)


def delete(op: str, name: str) -> Step:
    return SubscriptionChange(op, ChangeKind.DELETE, name), (ReadRecord(op),)


def step(state: SubscriptionChange, event: Event) -> Step:
    after, effects = taken(TABLE, state, event)
    if validation.enabled:
        validate(after)
    return after, effects


def validate(state: SubscriptionChange) -> None:
    if state.phase is Phase.LOOK or state.phase in FINAL:
        return
    record, subscription = state.record, state.subscription
    assert record is not None, f"{state.phase.name}: the topic is known"
    assert subscription is not None, f"{state.phase.name}: the subscription is known"
    assert subscription.name == state.name, "the record belongs to the subscription"
    is_removal = subscription.standing is SubscriptionState.DELETING
    assert is_removal is (state.verb is ChangeKind.DELETE), "a removal marks the record first, a creation never does"
    listed = {child.id for child in record.everything()}
    if state.phase in (Phase.WRITE, Phase.RAISE):
        assert not state.cursors, f"{state.phase.name}: cursors follow the raised generation (H-D1)"
    if state.phase is Phase.CURSORS:
        assert state.cursors < listed, "CURSORS ends with the last segment"
    if state.phase is Phase.FINISH and state.verb is ChangeKind.CREATE:
        assert subscription.ready, "a created subscription ends as ready"


def _topic_read(state: SubscriptionChange, event: RecordRead) -> Step:
    """The topic must be there; then the subscription is looked at"""
    if event.record is None or not event.record.is_live:
        return _refuse(state, TopicNotFound, "topic not found")
    return replace(state, record=event.record), (ReadSubscription(state.op, state.name),)


def _subscription_read(state: SubscriptionChange, event: SubscriptionRead) -> Step:
    """Made and ready, or not there to be removed: done. Of another type: refused (H-D6). Else the record is written"""
    record = state.record
    assert record is not None
    subscription = event.subscription
    if subscription is not None and subscription.incarnation != record.incarnation:
        subscription = None  # left over from an earlier life of the topic: overwritten
    state = replace(state, version=event.version)
    if state.verb is ChangeKind.DELETE:
        return _done(state) if subscription is None else _write(state, subscription.deleting())
    if subscription is None:
        return _write(
            state,
            Subscription(
                state.name,
                state.type,
                record.subs_gen,
                record.incarnation,
                start=state.start,
                undecided=state.undecided,
            ),
        )
    if subscription.standing is SubscriptionState.DELETING:
        return _refuse(state, Busy, "the subscription is being removed: try again")
    if subscription.undecided and not state.undecided:
        return _write(state, replace(subscription, type=state.type, undecided=False))
    if subscription.type is not state.type and not state.undecided:
        return _refuse(
            state,
            AlreadyExists,
            f"subscription {subscription.name} is of type {subscription.type}: {_instead(subscription.type)}",
        )
    state = replace(state, subscription=subscription)
    if subscription.ready:
        return _done(state)
    return _raise(state)  # another broker began and did not finish


def _write(state: SubscriptionChange, subscription: Subscription) -> Step:
    return (
        replace(state, phase=Phase.WRITE, subscription=subscription),
        (WriteSubscription(state.op, state.version, subscription),),
    )


def _written(state: SubscriptionChange, event: SubscriptionWritten) -> Step:
    """Only now the generation is raised: a reshape that lists before this cannot commit after"""
    return _raise(replace(state, version=event.version))


def _raise(state: SubscriptionChange) -> Step:
    return replace(state, phase=Phase.RAISE, cursors=frozenset()), (ReadRecord(state.op),)


def _raise_read(state: SubscriptionChange, event: RecordRead) -> Step:
    """Written over the version that was read. A record of a deleted topic is ignored in its next incarnation"""
    assert state.record is not None
    record = event.record
    if record is None or not record.is_live or record.incarnation != state.record.incarnation:
        return _refuse(state, TopicNotFound, "the topic was deleted during the operation")
    raised = record.resubscribed()
    return replace(state, record=raised), (WriteRecord(state.op, event.version, raised),)


def _raised(state: SubscriptionChange, _: RecordWritten) -> Step:
    """Cursors on every segment that record and intent list"""
    assert state.record is not None
    assert state.subscription is not None
    calls = tuple(_cursor(state, one) for one in state.record.everything())
    if not state.subscription.has_cursors or not calls:
        return _finish(state)
    return replace(state, phase=Phase.CURSORS), calls


def _cursor(state: SubscriptionChange, segment: Child) -> AskOwner:
    assert state.record is not None
    assert state.subscription is not None
    incarnation, subscription = state.record.incarnation, state.subscription
    key = SubscriptionLife(subscription.name, subscription.life)
    if state.verb is ChangeKind.DELETE:
        return AskOwner(segment, RemoveCursor(op=state.op, incarnation=incarnation, subscription=key))
    at_end = subscription.start is Start.LATEST and segment.id in state.record.layout
    return AskOwner(segment, PlaceCursor(op=state.op, incarnation=incarnation, subscription=key, at_end=at_end))


def _cursor_done(state: SubscriptionChange, event: CursorPlaced | CursorRemoved) -> Step:
    """With the last one: finish"""
    return _seen_to(state, event.segment)


def _cursor_refused(state: SubscriptionChange, event: CallRefused) -> Step:
    """A child that is not made yet gets its cursors from the reshape, which must list again; a segment that is gone
    needs none"""
    assert isinstance(event.call, AskOwner)
    return _seen_to(state, event.call.segment.id)


def _seen_to(state: SubscriptionChange, segment: SegmentId) -> Step:
    assert state.record is not None
    listed = {one.id for one in state.record.everything()}
    state = replace(state, cursors=state.cursors | {segment})
    if state.cursors < listed:
        return state, ()
    return _finish(state)


def _finish(state: SubscriptionChange) -> Step:
    record, subscription = state.record, state.subscription
    assert record is not None
    assert subscription is not None
    state = replace(state, phase=Phase.FINISH)
    if state.verb is ChangeKind.DELETE:
        return state, (RemoveSubscription(state.op, state.version, state.name),)
    ready = replace(subscription, ready=True)
    if ready.start is Start.LATEST:
        sealed = tuple(one.id for one in record.layout.segments if not one.is_active)
        ready = replace(ready, latched=sealed)
    return replace(state, subscription=ready), (WriteSubscription(state.op, state.version, ready),)


def _finished(state: SubscriptionChange, _: SubscriptionWritten | SubscriptionRemoved) -> Step:
    """The caller gets the outcome"""
    return _done(state)


def _look_again(state: SubscriptionChange, _: Event) -> Step:
    """Another writer changed the record, or the outcome is unknown: start again; every step may be repeated"""
    again = SubscriptionChange(state.op, state.verb, state.name, state.type, state.start, state.undecided)
    return again, (ReadRecord(state.op),)


def _raise_again(state: SubscriptionChange, _: Event) -> Step:
    """Raising twice does no harm"""
    return state, (ReadRecord(state.op),)


def _repeat(state: SubscriptionChange, event: CallLost) -> Step:
    """Repeated"""
    return state, (event.call,)


def _instead(kind: Type) -> str:
    """Advice for a client whose consumer has another type than the subscription."""
    takes = {
        Type.STREAM: "use a stream consumer",
        Type.QUEUE: "use a queue consumer",
        Type.CHECKPOINT: "it is used by a hold or by a group of checkpoint consumers",
    }
    return f"{takes[kind]}, or choose another name"


def _done(state: SubscriptionChange) -> Step:
    return replace(state, phase=Phase.DONE), (Finished(state.op),)


def _refuse(state: SubscriptionChange, kind: type[MagnetarError], what: str) -> Step:
    return replace(state, phase=Phase.REFUSED), (Finished(state.op, Refusal(kind, what)),)


P = Phase
TABLE: dict[tuple[Phase, type[Event]], Transition[SubscriptionChange, Phase, Effect]] = {
    (P.LOOK, RecordRead): Transition(_topic_read, (P.LOOK, P.REFUSED)),
    (P.LOOK, SubscriptionRead): Transition(_subscription_read, (P.WRITE, P.RAISE, P.DONE, P.REFUSED)),
    (P.LOOK, CallLost): Transition(_repeat, (P.LOOK,)),
    (P.WRITE, SubscriptionWritten): Transition(_written, (P.RAISE,)),
    (P.WRITE, SubscriptionOvertaken): Transition(_look_again, (P.LOOK,)),
    (P.WRITE, CallLost): Transition(_look_again, (P.LOOK,)),
    (P.RAISE, RecordRead): Transition(_raise_read, (P.RAISE, P.REFUSED)),
    (P.RAISE, RecordWritten): Transition(_raised, (P.CURSORS, P.FINISH)),
    (P.RAISE, RecordOvertaken): Transition(_raise_again, (P.RAISE,)),
    (P.RAISE, CallLost): Transition(_raise_again, (P.RAISE,)),
    (P.CURSORS, CursorPlaced): Transition(_cursor_done, (P.CURSORS, P.FINISH)),
    (P.CURSORS, CursorRemoved): Transition(_cursor_done, (P.CURSORS, P.FINISH)),
    (P.CURSORS, CallRefused): Transition(_cursor_refused, (P.CURSORS, P.FINISH)),
    (P.CURSORS, CallLost): Transition(_repeat, (P.CURSORS,)),
    (P.FINISH, SubscriptionWritten): Transition(_finished, (P.DONE,)),
    (P.FINISH, SubscriptionRemoved): Transition(_finished, (P.DONE,)),
    (P.FINISH, SubscriptionOvertaken): Transition(_look_again, (P.LOOK,)),
    (P.FINISH, CallLost): Transition(_look_again, (P.LOOK,)),
}
