"""A topic goes for good: marked first, buried last, and repeated by whoever leads until then."""

from __future__ import annotations

import pytest

from magnetar.base.errors import TopicNotFound
from magnetar.base.ids import SegmentId, Term
from magnetar.cluster.calls.topic_calls import Delete
from magnetar.scalable.machines import deletion
from magnetar.scalable.machines.deletion import Phase, step
from magnetar.scalable.machines.effects import (
    CallFenced,
    CallLost,
    Finished,
    ReadRecord,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    RemoveSubscriptions,
    SegmentDeleted,
    StepDown,
    SubscriptionsRemoved,
    TermEnded,
    WriteRecord,
)
from magnetar.scalable.record.record import Intent, Kind, Record, created

OP, TERM = "delete", Term(1)


def splitting() -> Record:
    record = created(None, 1, now_ms=1).claimed()
    layout, children = record.layout.burned(record.layout.split_ranges(SegmentId(0)))
    return record.intended(Intent("split", Kind.SPLIT, (SegmentId(0),), children, TERM), layout)


def marked():
    record = splitting()
    state, effects = deletion.begin(OP, term=TERM, incarnation=record.incarnation)
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, record, 3))
    assert effects == (WriteRecord(OP, 3, record.deleting()),)
    return step(state, RecordWritten(OP, 4))


def burying():
    state, effects = marked()
    for call in effects:
        state, effects = step(state, SegmentDeleted(OP, call.segment.id))
    return step(state, SubscriptionsRemoved(OP))


def test_contents_of_record_are_deleted_before_tombstone_h_h3():
    state, effects = marked()
    assert [(type(one.request), one.segment.id) for one in effects] == [(Delete, id) for id in range(3)]
    for id in range(2):
        state, effects = step(state, SegmentDeleted(OP, SegmentId(id)))
        assert effects == ()
    state, effects = step(state, SegmentDeleted(OP, SegmentId(2)))
    assert effects == (RemoveSubscriptions(OP, splitting().incarnation),)
    state, effects = step(state, SubscriptionsRemoved(OP))
    assert effects == (WriteRecord(OP, 4, splitting().deleting().buried()),)
    state, effects = step(state, RecordWritten(OP, 5))
    assert (state.phase, effects) == (Phase.DONE, (Finished(OP),))


def test_crash_in_middle_is_finished_by_next_leader():
    record = splitting().deleting().claimed()
    _state, effects = deletion.resume(OP, record, 7, term=record.term)
    assert [(one.segment.id, one.request.term) for one in effects] == [(id, 2) for id in range(3)]


def test_topic_marked_by_somebody_else_is_deleted_all_same():
    state, _ = deletion.begin(OP, term=TERM, incarnation=splitting().incarnation)
    state, _effects = step(state, RecordRead(OP, splitting().deleting(), 3))
    assert state.phase is Phase.CLEAN


@pytest.mark.parametrize("event", [RecordOvertaken(OP), CallLost(OP, WriteRecord(OP, 4, splitting()))])
def test_burial_with_unknown_outcome_is_looked_for(event):
    state, effects = burying()
    state, after = step(state, event)
    assert after == (ReadRecord(OP),)
    assert step(state, RecordRead(OP, effects[0].record, 5))[1] == (Finished(OP),)
    _again, after = step(state, RecordRead(OP, splitting().deleting(), 6))
    assert [one.version for one in after] == [6]


@pytest.mark.parametrize("gone", [None, splitting().deleting().buried()])
def test_what_is_not_there_cannot_be_deleted(gone):
    state, _ = deletion.begin(OP, term=TERM, incarnation=splitting().incarnation)
    _, (answer,) = step(state, RecordRead(OP, gone, 3))
    assert answer.refusal.kind is TopicNotFound


def test_another_term_ends_operation_and_next_leader_continues_h_b3():
    state, _ = deletion.begin(OP, term=TERM, incarnation=splitting().incarnation)
    state, effects = step(state, RecordRead(OP, splitting().claimed(), 3))
    assert [type(one) for one in effects] == [StepDown]
    state, calls = marked()
    state, effects = step(state, CallFenced(OP, calls[0]))
    assert [type(one) for one in effects] == [StepDown]


def test_fenced_call_of_earlier_term_changes_nothing_h_b12():
    _, calls = marked()
    record = splitting().deleting().claimed()
    state, _ = deletion.resume(OP, record, 7, term=record.term)
    assert step(state, CallFenced(OP, calls[0])) == (state, ())


def test_call_of_unknown_outcome_is_repeated_until_term_ends():
    state, calls = marked()
    assert step(state, CallLost(OP, calls[0])) == (state, (calls[0],))
    assert step(state, TermEnded(Term(9))) == (state, ())
    assert step(state, TermEnded(TERM))[0].phase is Phase.LOST
