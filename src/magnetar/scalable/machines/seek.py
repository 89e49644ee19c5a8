"""Move a subscription of a scalable topic over all of its segments: one plan that any leader can resume (H-D7).

The target is written into the subscription's record first, and the same write clears all latches. From then on owners
attach no consumer to the subscription and report none of its segments as drained. So no consumer reads a newer message
before the older ones to which the subscription was moved back. Then the cursor of every segment is moved, with retries;
the number of the seek identifies each move. One more write ends the seek, once the controller has taken away the
segments that must wait for an older one again. A later seek replaces an earlier one. Takes events, returns effects, and
performs no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from magnetar.base import validation
from magnetar.base.errors import Busy, Conflict, MagnetarError, Misuse, Refused, SubscriptionNotFound, TopicNotFound
from magnetar.base.ids import BEFORE_ALL, SegmentId
from magnetar.cluster.calls.topic_calls import ResetCursor, SubscriptionLife
from magnetar.layout.lineage import open_segments
from magnetar.scalable.machines.effects import (
    ABSENT,
    AskOwner,
    CallLost,
    CallOvertaken,
    CallRefused,
    CursorReset,
    Effect,
    Event,
    Finished,
    ReadRecord,
    ReadSubscription,
    RecordRead,
    Refusal,
    SubscriptionOvertaken,
    SubscriptionRead,
    SubscriptionWritten,
    WriteSubscription,
)
from magnetar.scalable.machines.seek_target import Seek, SegmentTarget, Target, stops
from magnetar.scalable.machines.table import Transition, taken
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Subscription, SubscriptionState

Step = tuple["Seeking", tuple[Effect, ...]]


class Phase(Enum):
    LOOK = "topic and subscription are being read"
    INTEND = "the target is being written"
    LIST = "the segments are being listed; their readers have been disconnected"
    MOVE = "cursors are being moved"
    FINISH = "the completion is being written"
    DONE = "done"
    REFUSED = "refused; the operation carries the reason"


FINAL = frozenset({Phase.DONE, Phase.REFUSED})


@dataclass(frozen=True, slots=True)
class Seeking:
    op: str
    name: str
    target: Target
    phase: Phase = Phase.LOOK
    record: Record | None = None
    subscription: Subscription | None = None
    version: int = ABSENT
    left: frozenset[SegmentId] = frozenset()  # cursors that are not moved yet
    drained: frozenset[SegmentId] = frozenset()  # moved to the end of a sealed segment, durably
    waits: int = 0  # how often a consumer still held a segment that must be taken away


def begin(op: str, name: str, target: Target) -> Step:
    return Seeking(op, name, target), (ReadRecord(op),)


def resume(subscription: Subscription) -> Step:
    """Of a record that says that a seek is under way."""
    assert subscription.seek is not None
    return begin(subscription.seek.op, subscription.name, subscription.seek.target)


def step(state: Seeking, event: Event) -> Step:
    after, effects = taken(TABLE, state, event)
    if validation.enabled:
        validate(after)
    return after, effects


def validate(state: Seeking) -> None:
    if state.phase is Phase.LOOK or state.phase in FINAL:
        return
    record, subscription = state.record, state.subscription
    assert record is not None, f"{state.phase.name}: the topic is known"
    assert subscription is not None, f"{state.phase.name}: the subscription is known"
    assert subscription.seek is not None, f"{state.phase.name}: the record has the seek"
    assert subscription.seek.op == state.op, "the seek in the record is this operation's"
    assert not state.left & state.drained, "a drained cursor is moved"
    if state.phase is Phase.INTEND:
        assert not subscription.latched, "the write that begins a seek clears all latches"
    if state.phase is Phase.MOVE:
        assert state.left, "MOVE ends with the last cursor"
    if state.phase in (Phase.MOVE, Phase.FINISH):
        assert all(id in record.layout for id in state.left), "only cursors of listed segments are moved"


def _topic_read(state: Seeking, event: RecordRead) -> Step:
    """The topic must be there; then the subscription is looked at"""
    if event.record is None or not event.record.is_live:
        return _refuse(state, TopicNotFound, "topic not found")
    try:
        stops(state.target, event.record.layout)
    except Misuse as error:
        return _refuse(state, Misuse, str(error))
    return replace(state, record=event.record), (ReadSubscription(state.op, state.name),)


def _subscription_read(state: Seeking, event: SubscriptionRead) -> Step:
    """Begun already, by an earlier leader: continue. Otherwise write the target, over that of an earlier seek"""
    record = state.record
    assert record is not None
    subscription = event.subscription
    if (
        subscription is None
        or subscription.incarnation != record.incarnation
        or subscription.standing is not SubscriptionState.LIVE
    ):
        return _refuse(state, SubscriptionNotFound, f"Subscription {state.name} not found")
    if not subscription.has_cursors:
        return _refuse(
            state,
            Refused,
            "a checkpoint subscription has no cursor to move: seek with its reader, which keeps the positions",
        )
    if not subscription.ready:
        return _refuse(state, Busy, "the subscription is being created: try again")
    state = replace(state, subscription=subscription, version=event.version)
    if subscription.sought == state.op:
        return _done(state)
    if subscription.seek is not None and subscription.seek.op == state.op:
        return _list(state)
    sought = replace(subscription, seek=Seek(state.op, state.target), seeks=subscription.seeks + 1, latched=())
    state = replace(state, phase=Phase.INTEND, subscription=sought)
    return state, (WriteSubscription(state.op, event.version, sought),)


def _intended(state: Seeking, event: SubscriptionWritten) -> Step:
    """Only now the segments are listed: what a reshape made before is among them, what it makes later is newer"""
    return _list(replace(state, version=event.version))


def _list(state: Seeking) -> Step:
    return replace(state, phase=Phase.LIST), (ReadRecord(state.op),)


def _listed(state: Seeking, event: RecordRead) -> Step:
    """Every cursor that the target concerns is moved"""
    before, subscription, record = state.record, state.subscription, event.record
    assert before is not None
    assert subscription is not None
    if record is None or not record.is_live or record.incarnation != before.incarnation:
        return _refuse(state, TopicNotFound, "the topic was deleted during the operation")
    layout = record.layout
    places = tuple(place for place in state.target.places if place[0] in layout)  # pruned segments are left out
    moves = stops(replace(state.target, places=places), layout)
    going = frozenset(record.going())  # they hold no message any more: nothing of them is read again
    moves = {id: move for id, move in moves.items() if id not in going}
    state = replace(state, record=record, left=frozenset(moves), drained=going)
    if not moves:
        return _finish(state)
    calls = tuple(AskOwner(layout.child(id), _reset(state.op, subscription, moves[id])) for id in sorted(moves))
    return replace(state, phase=Phase.MOVE), calls


def _reset(op: str, subscription: Subscription, target: SegmentTarget) -> ResetCursor:
    return ResetCursor(
        op=op,
        subscription=SubscriptionLife(subscription.name, subscription.life),
        seeks=subscription.seeks,
        position=target.position or BEFORE_ALL,
        time_ms=target.time_ms,
        by_time=target.position is None,
    )


def _moved(state: Seeking, event: CursorReset) -> Step:
    """With the last one: finish"""
    if event.drained:
        state = replace(state, drained=state.drained | {event.segment})
    return _seen_to(state, event.segment)


def _move_refused(state: Seeking, event: CallRefused) -> Step:
    """A segment, or its cursor, that is gone needs no move. A sealed one was pruned: consumers do not wait for it"""
    assert isinstance(event.call, AskOwner)
    assert state.record is not None
    segment = state.record.layout.segment(event.call.segment.id)
    if not segment.is_active:
        state = replace(state, drained=state.drained | {segment.id})
    return _seen_to(state, segment.id)


def _seen_to(state: Seeking, segment: SegmentId) -> Step:
    state = replace(state, left=state.left - {segment})
    return (state, ()) if state.left else _finish(state)


def _finish(state: Seeking) -> Step:
    return replace(state, phase=Phase.FINISH), (ReadSubscription(state.op, state.name),)


def _finish_read(state: Seeking, event: SubscriptionRead) -> Step:
    """Ended, by us or by another leader: done. Replaced by another seek: that one counts. Otherwise: end it"""
    subscription, stored = state.subscription, event.subscription
    assert subscription is not None
    if stored is None or stored.life != subscription.life or stored.standing is not SubscriptionState.LIVE:
        return _refuse(state, SubscriptionNotFound, f"subscription {state.name} was removed during the seek")
    if stored.seeks != subscription.seeks or (stored.seek is not None and stored.seek.op != state.op):
        return _refuse(state, Conflict, "a newer seek of the subscription replaced this one")
    if stored.seek is None:
        return _done(state)
    if state.left:
        return _list(state)  # an owner had read what was before this seek
    ended = replace(stored, seek=None, sought=state.op, latched=tuple(sorted(state.drained)))
    if not _settled(state, ended):
        return replace(state, waits=state.waits + 1), (ReadSubscription(state.op, state.name),)
    return state, (WriteSubscription(state.op, event.version, ended),)


def _settled(state: Seeking, ended: Subscription) -> bool:
    """No consumer may hold a segment whose past was moved back: it would be read too early. The controller takes such
    a segment away by itself and stores that."""
    assert state.record is not None
    readable = {one.id for one in open_segments(state.record.layout, ended.latched)}
    return all(hold.segment in readable or not hold.held_by for hold in ended.plan.holds)


def _finished(state: Seeking, _: SubscriptionWritten) -> Step:
    """The caller gets the outcome"""
    return _done(state)


def _look_again(state: Seeking, _: Event) -> Step:
    """Another writer changed the record, an owner saw another record, or the outcome is unknown: start again"""
    return begin(state.op, state.name, state.target)


def _finish_again(state: Seeking, _: Event) -> Step:
    """The record is read again: it may be ended"""
    return _finish(state)


def _repeat(state: Seeking, event: CallLost) -> Step:
    """Repeated"""
    return state, (event.call,)


def _overtaken(state: Seeking, _: CallOvertaken) -> Step:
    """The owner does not know this seek as the one under way: what the record says now counts"""
    return _finish(state)


def _done(state: Seeking) -> Step:
    return replace(state, phase=Phase.DONE), (Finished(state.op),)


def _refuse(state: Seeking, kind: type[MagnetarError], what: str) -> Step:
    return replace(state, phase=Phase.REFUSED), (Finished(state.op, Refusal(kind, what)),)


P = Phase
TABLE: dict[tuple[Phase, type[Event]], Transition[Seeking, Phase, Effect]] = {
    (P.LOOK, RecordRead): Transition(_topic_read, (P.LOOK, P.REFUSED)),
    (P.LOOK, SubscriptionRead): Transition(_subscription_read, (P.INTEND, P.LIST, P.DONE, P.REFUSED)),
    (P.LOOK, CallLost): Transition(_repeat, (P.LOOK,)),
    (P.INTEND, SubscriptionWritten): Transition(_intended, (P.LIST,)),
    (P.INTEND, SubscriptionOvertaken): Transition(_look_again, (P.LOOK,)),
    (P.INTEND, CallLost): Transition(_look_again, (P.LOOK,)),
    (P.LIST, RecordRead): Transition(_listed, (P.MOVE, P.FINISH, P.REFUSED)),
    (P.LIST, CallLost): Transition(_repeat, (P.LIST,)),
    (P.MOVE, CursorReset): Transition(_moved, (P.MOVE, P.FINISH)),
    (P.MOVE, CallRefused): Transition(_move_refused, (P.MOVE, P.FINISH)),
    (P.MOVE, CallOvertaken): Transition(_overtaken, (P.FINISH,)),
    (P.MOVE, CallLost): Transition(_repeat, (P.MOVE,)),
    (P.FINISH, SubscriptionRead): Transition(_finish_read, (P.LIST, P.FINISH, P.DONE, P.REFUSED)),
    (P.FINISH, SubscriptionWritten): Transition(_finished, (P.DONE,)),
    (P.FINISH, SubscriptionOvertaken): Transition(_finish_again, (P.FINISH,)),
    (P.FINISH, CallLost): Transition(_finish_again, (P.FINISH,)),
}
