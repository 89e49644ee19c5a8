"""A leader is who has written its term, and stops being one without taking a later leadership along."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.ids import SegmentId, Term
from magnetar.scalable.machines.effects import (
    CallLost,
    ReadRecord,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    WriteRecord,
)
from magnetar.scalable.machines.takeover import (
    OP,
    BeginTerm,
    BeliefExpired,
    CompeteForLock,
    EndTerm,
    LockFreed,
    LockLost,
    LockTaken,
    LockWon,
    Needed,
    Phase,
    ProofDue,
    ReleaseLock,
    ResumeDeletion,
    ResumeReshape,
    TakeOver,
    TermRefused,
    step,
)
from magnetar.scalable.record.record import Intent, Kind, Record, created


def a_record() -> Record:
    return created(None, 1, now_ms=1)


def claiming(record: Record | None = None) -> TakeOver:
    state, _ = step(TakeOver(), Needed())
    state, _ = step(state, LockWon())
    state, _ = step(state, RecordRead(OP, record or a_record(), 4))
    return state


def leading() -> TakeOver:
    state, _ = step(claiming(), RecordWritten(OP, 5))
    assert state.term == 1
    return state


def kinds(effects) -> list[type]:
    return [type(one) for one in effects]


def test_record_is_claimed_over_read_after_lock_h_b1():
    state, effects = step(TakeOver(), Needed())
    assert effects == (CompeteForLock(),)
    state, effects = step(state, LockWon())
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, a_record(), 4))
    claim = a_record().claimed()
    assert effects == (WriteRecord(OP, 4, claim),)
    state, effects = step(state, RecordWritten(OP, 5))
    assert effects == (BeginTerm(Term(1), claim, 5),)
    assert state.phase is Phase.LEADING


def test_winning_lock_is_not_leading_h_b2():
    assert claiming().phase is Phase.CLAIMING
    state, effects = step(claiming(), RecordOvertaken(OP))
    assert (state.phase, effects) == (Phase.READING, (ReadRecord(OP),))


def test_claim_with_unknown_outcome_is_made_again_higher():
    state, effects = step(claiming(), CallLost(OP, WriteRecord(OP, 4, a_record().claimed())))
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, a_record().claimed(), 5))
    assert [one.record.term for one in effects] == [2]


def test_new_leader_first_finishes_recorded_operation_h_a2():
    record = a_record()
    layout, children = record.layout.burned(record.layout.split_ranges(SegmentId(0)))
    intended = record.intended(Intent("op", Kind.SPLIT, (SegmentId(0),), children, Term(0)), layout)
    _, effects = step(claiming(intended), RecordWritten(OP, 5))
    assert kinds(effects) == [BeginTerm, ResumeReshape]
    _, effects = step(claiming(intended.deleting()), RecordWritten(OP, 5))
    assert kinds(effects) == [BeginTerm, ResumeDeletion]


@pytest.mark.parametrize("record", [None, a_record().deleting().buried()])
def test_nobody_leads_topic_that_is_gone(record):
    state, _ = step(TakeOver(), Needed())
    state, _ = step(state, LockWon())
    state, effects = step(state, RecordRead(OP, record, 4))
    assert (state, effects) == (TakeOver(), (ReleaseLock(),))


def test_deaf_leader_detects_loss_and_releases_lock_h_b11():
    state, effects = step(leading(), ProofDue())
    assert effects == (ReadRecord(OP),)
    ours = a_record().claimed()
    assert step(state, RecordRead(OP, ours, 7)) == (state, ())
    state, effects = step(state, RecordRead(OP, ours.claimed(), 8))
    assert state == TakeOver()
    assert kinds(effects) == [EndTerm, ReleaseLock]
    assert step(state, LockFreed()) == (TakeOver(Phase.COMPETING), (CompeteForLock(),))


def test_leader_of_first_life_does_not_lead_second_h_c1():
    second = replace(a_record().claimed(), incarnation=9)
    _state, effects = step(leading(), RecordRead(OP, second, 8))
    assert kinds(effects) == [EndTerm, ReleaseLock]


def test_message_of_earlier_term_does_not_end_present_h_b12():
    state = leading()
    assert step(state, TermRefused(Term(0))) == (state, ())
    assert step(state, BeliefExpired(Term(0))) == (state, ())
    _, effects = step(state, TermRefused(Term(1)))
    assert kinds(effects) == [EndTerm, ReleaseLock]


def test_unproven_leadership_ends_and_is_claimed_again_h_b9():
    state, effects = step(leading(), BeliefExpired(Term(1)))
    assert kinds(effects) == [EndTerm, ReadRecord]
    assert state.phase is Phase.READING


@pytest.mark.parametrize("before", [claiming(), leading(), TakeOver(Phase.READING)])
def test_lost_lock_is_competed_for_again(before):
    state, effects = step(before, LockLost())
    assert state.phase is Phase.COMPETING
    assert kinds(effects)[-1] is CompeteForLock
    assert (EndTerm in kinds(effects)) == (before.phase is Phase.LEADING)


def test_follower_competes_when_lock_is_free():
    state, effects = step(TakeOver(Phase.COMPETING), LockTaken())
    assert (state, effects) == (TakeOver(), ())


def test_answer_that_comes_too_late_makes_nobody_leader():
    assert step(TakeOver(), RecordWritten(OP, 5)) == (TakeOver(), ())
