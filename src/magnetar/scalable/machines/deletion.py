"""Delete one scalable topic so that none of its parts remains and none can come back.

The record is marked first: from then on owners admit nothing (H-H3). Then all segments that record AND intent list are
deleted, then the subscriptions. Last, the record is replaced in place by a tombstone, which keeps the counters (H-C1,
H-C5, H-H5). Every step may be repeated, by a later leader too. Takes events, returns effects, and performs no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from magnetar.base import validation
from magnetar.base.errors import TopicNotFound
from magnetar.base.ids import SegmentId, Term
from magnetar.cluster.calls.topic_calls import Delete
from magnetar.scalable.machines.effects import (
    AskOwner,
    CallFenced,
    CallLost,
    Effect,
    Event,
    Finished,
    ReadRecord,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    Refusal,
    RemoveSubscriptions,
    SegmentDeleted,
    StepDown,
    SubscriptionsRemoved,
    TermEnded,
    WriteRecord,
    other_term,
)
from magnetar.scalable.machines.table import Transition
from magnetar.scalable.record.record import Lifecycle, Record


class Phase(Enum):
    MARK = "the record is being marked as DELETING"
    CLEAN = "segments are being deleted"
    UNSUBSCRIBE = "subscriptions are being removed"
    BURY = "the record is being replaced by a tombstone"
    DONE = "gone"
    REFUSED = "the topic did not exist"
    LOST = "the term has ended: another leader continues"


FINAL = frozenset({Phase.DONE, Phase.REFUSED, Phase.LOST})


@dataclass(frozen=True, slots=True)
class Deletion:
    op: str
    term: Term
    incarnation: int
    phase: Phase = Phase.MARK
    record: Record | None = None
    version: int = -1
    deleted: frozenset[SegmentId] = frozenset()


Step = tuple[Deletion, tuple[Effect, ...]]


def begin(op: str, *, term: Term, incarnation: int) -> Step:
    return Deletion(op, term, incarnation), (ReadRecord(op),)


def resume(op: str, record: Record, version: int, *, term: Term) -> Step:
    """A new leader found the record marked."""
    return _clean(Deletion(op, term, record.incarnation, record=record, version=version))


def step(state: Deletion, event: Event) -> Step:
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


def validate(state: Deletion) -> None:
    if state.phase is Phase.MARK or state.phase in FINAL:
        return
    assert state.record is not None, f"{state.phase.name}: the marked record is known"
    assert state.record.lifecycle is Lifecycle.DELETING, "nothing is deleted before the record is marked (H-H3)"
    assert state.record.incarnation == state.incarnation, "only this incarnation of the topic is deleted"
    assert state.version >= 0, "the marked record has a version"
    listed = {child.id for child in state.record.own()}
    assert state.deleted <= listed, "only listed segments are deleted"
    left = state.phase is Phase.CLEAN
    assert (state.deleted < listed) is left, f"{state.phase.name}: subscriptions are removed after the last segment"


def _mark(state: Deletion, event: RecordRead) -> Step:
    """Written over the version that was read; if it is marked already, continue"""
    stopped = _stopped(state, event)
    if stopped is not None:
        return stopped
    assert event.record is not None
    if event.record.lifecycle is Lifecycle.DELETING:
        return _clean(replace(state, record=event.record, version=event.version))
    marked = event.record.deleting()
    return replace(state, record=marked), (WriteRecord(state.op, event.version, marked),)


def _marked(state: Deletion, event: RecordWritten) -> Step:
    """Owners admit nothing any more: everything listed is deleted"""
    return _clean(replace(state, version=event.version))


def _clean(state: Deletion) -> Step:
    assert state.record is not None
    request = Delete(op=state.op, term=state.term, force=True)
    calls = tuple(AskOwner(segment, request) for segment in state.record.own())
    state = replace(state, phase=Phase.CLEAN, deleted=frozenset())
    return (state, calls) if calls else _unsubscribe(state)


def _segment_deleted(state: Deletion, event: SegmentDeleted) -> Step:
    """With the last one: the subscriptions"""
    assert state.record is not None
    listed = {one.id for one in state.record.own()}
    state = replace(state, deleted=state.deleted | {event.segment})
    if state.deleted < listed:
        return state, ()
    return _unsubscribe(state)


def _unsubscribe(state: Deletion) -> Step:
    return (
        replace(state, phase=Phase.UNSUBSCRIBE),
        (RemoveSubscriptions(state.op, state.incarnation),),
    )


def _unsubscribed(state: Deletion, _: SubscriptionsRemoved) -> Step:
    """Nothing is left but the record"""
    assert state.record is not None
    buried = state.record.buried()
    return replace(state, phase=Phase.BURY), (WriteRecord(state.op, state.version, buried),)


def _buried(state: Deletion, _: RecordWritten) -> Step:
    """Done"""
    return replace(state, phase=Phase.DONE), (Finished(state.op),)


def _look(state: Deletion, _: Event) -> Step:
    """The record was changed, or the outcome is unknown: read it"""
    return state, (ReadRecord(state.op),)


def _bury_read(state: Deletion, event: RecordRead) -> Step:
    """A tombstone, or another life: done. Else bury again"""
    record = event.record
    if record is None or record.lifecycle is Lifecycle.GONE or record.incarnation != state.incarnation:
        return replace(state, phase=Phase.DONE), (Finished(state.op),)
    if record.term != state.term:
        return _lose(state, f"term {record.term} has taken over")
    return state, (WriteRecord(state.op, event.version, record.buried()),)


def _lost_call(state: Deletion, event: CallLost) -> Step:
    """A write is looked for, any other call is repeated"""
    if isinstance(event.call, WriteRecord):
        return state, (ReadRecord(state.op),)
    return state, (event.call,)


def _term_over(state: Deletion, event: CallFenced) -> Step:
    """The owner knows a higher term"""
    return _lose(state, "a deletion was fenced")


def _stopped(state: Deletion, event: RecordRead) -> Step | None:
    record = event.record
    if record is None or record.lifecycle is Lifecycle.GONE or record.incarnation != state.incarnation:
        refusal = Refusal(TopicNotFound, "topic not found")
        return replace(state, phase=Phase.REFUSED), (Finished(state.op, refusal),)
    if record.term != state.term:
        return _lose(state, f"term {record.term} has taken over")
    return None


def _lose(state: Deletion, why: str) -> Step:
    return replace(state, phase=Phase.LOST), (StepDown(state.term, why),)


P = Phase
TABLE: dict[tuple[Phase, type[Event]], Transition[Deletion, Phase, Effect]] = {
    (P.MARK, RecordRead): Transition(_mark, (P.MARK, P.CLEAN, P.UNSUBSCRIBE, P.REFUSED, P.LOST)),
    (P.MARK, RecordWritten): Transition(_marked, (P.CLEAN, P.UNSUBSCRIBE)),
    (P.MARK, RecordOvertaken): Transition(_look, (P.MARK,)),
    (P.CLEAN, SegmentDeleted): Transition(_segment_deleted, (P.CLEAN, P.UNSUBSCRIBE)),
    (P.UNSUBSCRIBE, SubscriptionsRemoved): Transition(_unsubscribed, (P.BURY,)),
    (P.BURY, RecordWritten): Transition(_buried, (P.DONE,)),
    (P.BURY, RecordOvertaken): Transition(_look, (P.BURY,)),
    (P.BURY, RecordRead): Transition(_bury_read, (P.BURY, P.DONE, P.LOST)),
    **{(phase, CallLost): Transition(_lost_call, (phase,)) for phase in Phase if phase not in FINAL},
    (P.CLEAN, CallFenced): Transition(_term_over, (P.LOST,)),
}
