"""Prune sealed segments that hold no message any more: choose them, delete their topics, forget them.

Retention deletes the messages of a sealed segment by time or by size, never one that a subscription or a hold still
needs. A segment is chosen when nothing is left in it, its ancestors go before it or with it (H-H8), and no consumer
has it. The record lists it as PRUNING until its topic is gone (H-H1); owners create nothing for it from then on. The
choice and the list of subscriptions belong to the version of the record that the write replaces (H-H2). Every step may
be repeated, by a later leader too. Takes events, returns effects, and performs no I/O.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from magnetar.base import validation
from magnetar.base.ids import SegmentId, Term
from magnetar.base.limits import PRUNED_AT_ONCE_MAX, SEALED_SHOWN_MAX
from magnetar.cluster.calls.topic_calls import Delete
from magnetar.layout.layout import Layout
from magnetar.layout.segment import Segment, State
from magnetar.ledger.retention import Rule
from magnetar.scalable.machines.effects import (
    AskOwner,
    CallFenced,
    CallLost,
    Effect,
    Event,
    Finished,
    ListSubscriptions,
    ReadRecord,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    SegmentDeleted,
    StepDown,
    SubscriptionsListed,
    TermEnded,
    WriteRecord,
    other_term,
)
from magnetar.scalable.machines.table import Transition
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Subscription


class Phase(Enum):
    LOOK = "the record is being read"
    LIST = "the subscriptions are being listed"
    MARK = "the chosen segments are being marked as PRUNING"
    DELETE = "their topics are being deleted"
    FORGET = "the record is being written without them"
    DONE = "nothing more is to be pruned"
    LOST = "the term has ended: another leader continues"


FINAL = frozenset({Phase.DONE, Phase.LOST})


@dataclass(frozen=True, slots=True)
class Pruning:
    """`empty`: sealed segments without a message; they stay so."""

    op: str
    term: Term
    incarnation: int
    empty: frozenset[SegmentId]
    phase: Phase = Phase.LOOK
    record: Record | None = None
    version: int = -1
    deleted: frozenset[SegmentId] = frozenset()


Step = tuple[Pruning, tuple[Effect, ...]]


# The choice


def due(layout: Layout, rule: Rule) -> list[Segment]:
    """Sealed segments, parents first, that may go as soon as no message is left in them. One that had messages: some
    minutes after its seal. One that never had any shows the history of the topic: it stays as long as retention keeps
    messages, unless the record is crowded. Nothing is due while the clock is not trusted (H-H6)."""
    if not rule.aging:
        return []
    old = [
        one
        for one in layout.segments
        if one.state is State.SEALED and not one.legacy_topic and rule.now_ms - one.sealed_ms >= rule.sealed_ms_min
    ]
    crowded = len(layout) - len(layout.active) > SEALED_SHOWN_MAX
    return [one for one in old if crowded or _written(one) or rule.retention.expired(one.sealed_ms, rule.now_ms)]


def _written(segment: Segment) -> bool:
    return segment.ending is not None and segment.ending.messages > 0


def chosen(
    layout: Layout, empty: Collection[SegmentId], held: Collection[SegmentId] = (), at_most: int = PRUNED_AT_ONCE_MAX
) -> tuple[SegmentId, ...]:
    """The segments that go now. Their ancestors go with them or are gone. A plain topic that was migrated stays in the
    record: it protects its name. When it is empty, what follows it does not wait for it."""
    going: list[SegmentId] = []
    passed: set[SegmentId] = set()
    for segment in layout.segments:  # parents come before their children: ids grow
        clear = all(parent in passed for parent in segment.parents)
        if not clear or len(going) == at_most:
            continue
        if segment.state is State.PRUNING or (segment.legacy_topic and segment.id in empty and not segment.is_active):
            passed.add(segment.id)
        elif segment.state is State.SEALED and segment.id in empty and segment.id not in held:
            passed.add(segment.id)
            going.append(segment.id)
    return tuple(going)


def held(subscriptions: Collection[Subscription]) -> frozenset[SegmentId]:
    """Segments that a consumer has, or is about to get."""
    return frozenset(hold.segment for one in subscriptions for hold in one.plan.holds)


# The machine


def begin(op: str, *, term: Term, incarnation: int, empty: frozenset[SegmentId]) -> Step:
    return Pruning(op, term, incarnation, empty), (ReadRecord(op),)


def step(state: Pruning, event: Event) -> Step:
    if isinstance(event, TermEnded):
        over = event.term == state.term and state.phase not in FINAL
        return (replace(state, phase=Phase.LOST) if over else state), ()
    row = TABLE.get((state.phase, type(event)))
    if row is None or event.op != state.op or other_term(event, state.term):
        return state, ()
    after, effects = row.take(state, event)
    if validation.enabled:
        validate(after)
    return after, effects


def validate(state: Pruning) -> None:
    if state.phase is Phase.LOOK or state.phase in FINAL:
        return
    record = state.record
    assert record is not None, f"{state.phase.name}: the record is known"
    assert record.is_live, "a deleted topic is not pruned"
    assert record.incarnation == state.incarnation, "only this incarnation of the topic is pruned"
    going = frozenset(record.going())
    if state.phase in (Phase.MARK, Phase.DELETE):
        assert going, f"{state.phase.name}: something is to be deleted"
        listed = {id: record.layout.segment(id) for id in going}
        assert all(
            parent in going or record.layout.segment(parent).legacy_topic
            for one in listed.values()
            for parent in one.parents
        ), "ancestors go before their descendants or with them (H-H8)"
    if state.phase is Phase.DELETE:
        assert state.deleted < going, "DELETE ends with the last topic"
    if state.phase is Phase.FORGET:
        assert not going & state.deleted, "FORGET writes the record without the deleted segments (H-H1)"


def _read(state: Pruning, event: RecordRead) -> Step:
    """Over, lost, or nothing to do: end. Otherwise the subscriptions are asked, or an earlier round is finished"""
    stopped = _stopped(state, event)
    if stopped is not None:
        return stopped
    record = event.record
    assert record is not None
    state = replace(state, record=record, version=event.version)
    if chosen(record.layout, state.empty):
        return replace(state, phase=Phase.LIST), (ListSubscriptions(state.op, state.incarnation, groups=True),)
    return _delete(state)


def _listed(state: Pruning, event: SubscriptionsListed) -> Step:
    """Marked over the version that was read before the list (H-H2)"""
    assert state.record is not None
    going = chosen(state.record.layout, state.empty, held(event.subscriptions))
    if not going:
        return _delete(state)
    marked = state.record.pruning(going)
    return replace(state, phase=Phase.MARK, record=marked), (WriteRecord(state.op, state.version, marked),)


def _marked(state: Pruning, event: RecordWritten) -> Step:
    """Owners admit nothing for them any more: their topics are deleted"""
    return _delete(replace(state, version=event.version))


def _delete(state: Pruning) -> Step:
    assert state.record is not None
    going = state.record.going()
    if not going:
        return _done(state)
    request = Delete(op=state.op, term=state.term, force=True)
    calls = tuple(AskOwner(state.record.layout.child(id), request) for id in going)
    return replace(state, phase=Phase.DELETE, deleted=frozenset()), calls


def _segment_deleted(state: Pruning, event: SegmentDeleted) -> Step:
    """With the last one: the record forgets them"""
    assert state.record is not None
    record, deleted = state.record, state.deleted | {event.segment}
    state = replace(state, deleted=deleted)
    if deleted < frozenset(record.going()):
        return state, ()
    return _forget(state, record, state.version)


def _forget(state: Pruning, record: Record, version: int) -> Step:
    pruned = record.pruned()
    return replace(state, phase=Phase.FORGET, record=pruned), (WriteRecord(state.op, version, pruned),)


def _forget_read(state: Pruning, event: RecordRead) -> Step:
    """Forgotten, and only the answer was lost: done. Otherwise written over what stands there now"""
    stopped = _stopped(state, event)
    if stopped is not None:
        return stopped
    assert event.record is not None
    if frozenset(event.record.going()) <= state.deleted and event.record.going():
        return _forget(state, event.record, event.version)
    return _done(state)


def _forgotten(state: Pruning, _: RecordWritten) -> Step:
    """Done. Watchers read it from the record (H-A4)"""
    return _done(state)


def _again(state: Pruning, _: Event) -> Step:
    """Another writer changed the record, or the outcome is unknown: the choice is made again"""
    return begin(state.op, term=state.term, incarnation=state.incarnation, empty=state.empty)


def _look(state: Pruning, _: Event) -> Step:
    """The record was changed, or the outcome is unknown: read it"""
    return state, (ReadRecord(state.op),)


def _lost_call(state: Pruning, event: CallLost) -> Step:
    """A write is looked for, any other call is repeated"""
    return state, (ReadRecord(state.op) if isinstance(event.call, WriteRecord) else event.call,)


def _term_over(state: Pruning, _: CallFenced) -> Step:
    """The owner knows a higher term"""
    return _lose(state, "a deletion was fenced")


def _stopped(state: Pruning, event: RecordRead) -> Step | None:
    record = event.record
    if record is None or not record.is_live or record.incarnation != state.incarnation:
        return _done(state)  # the deletion of the topic deletes its segments
    if record.term != state.term:
        return _lose(state, f"term {record.term} has taken over")
    return None


def _done(state: Pruning) -> Step:
    return replace(state, phase=Phase.DONE), (Finished(state.op),)


def _lose(state: Pruning, why: str) -> Step:
    return replace(state, phase=Phase.LOST), (StepDown(state.term, why),)


P = Phase
TABLE: dict[tuple[Phase, type[Event]], Transition[Pruning, Phase, Effect]] = {
    (P.LOOK, RecordRead): Transition(_read, (P.LIST, P.DELETE, P.DONE, P.LOST)),
    (P.LIST, SubscriptionsListed): Transition(_listed, (P.MARK, P.DELETE, P.DONE)),
    (P.MARK, RecordWritten): Transition(_marked, (P.DELETE,)),
    (P.MARK, RecordOvertaken): Transition(_again, (P.LOOK,)),
    (P.MARK, CallLost): Transition(_again, (P.LOOK,)),
    (P.DELETE, SegmentDeleted): Transition(_segment_deleted, (P.DELETE, P.FORGET)),
    (P.DELETE, CallFenced): Transition(_term_over, (P.LOST,)),
    (P.FORGET, RecordWritten): Transition(_forgotten, (P.DONE,)),
    (P.FORGET, RecordOvertaken): Transition(_look, (P.FORGET,)),
    (P.FORGET, RecordRead): Transition(_forget_read, (P.FORGET, P.DONE, P.LOST)),
    **{(phase, CallLost): Transition(_lost_call, (phase,)) for phase in (P.LOOK, P.LIST, P.DELETE, P.FORGET)},
}
