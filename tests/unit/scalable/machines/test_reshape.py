"""Given events, expect effects: a reshape goes forward through every lost answer, and back only while it may."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from magnetar.base.errors import Busy, Conflict, InvalidRange, LimitExceeded, NotFound, TopicNotFound
from magnetar.base.ids import Position, SegmentId, Term
from magnetar.cluster.calls.topic_calls import Delete, Fence, ProvisionSegment, Seal, SeedDedup
from magnetar.layout.layout import Child
from magnetar.layout.segment import Ending
from magnetar.scalable.machines import reshape
from magnetar.scalable.machines.effects import (
    AskOwner,
    CallFenced,
    CallLost,
    CallOvertaken,
    CallRefused,
    ChildProvisioned,
    ChildSeeded,
    Finished,
    ListSubscriptions,
    ParentFenced,
    ParentSealed,
    ReadRecord,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    SealSummary,
    SegmentDeleted,
    StepDown,
    SubscriptionsListed,
    TermEnded,
    WriteRecord,
)
from magnetar.scalable.machines.reshape import Phase, Request, Reshape, step
from magnetar.scalable.record.record import Kind, Outcome, Record, created

ROOT, LEFT, RIGHT = SegmentId(0), SegmentId(1), SegmentId(2)
OP, TERM = "op-1", Term(1)
SEAL = SealSummary(Ending(Position(7, 41), messages=42))


def provision(record: Record, child: Child) -> AskOwner:
    request = ProvisionSegment(op=OP, term=TERM, incarnation=record.incarnation, subs_gen=0, cursors=())
    return AskOwner(child, request)


def seal_root(record: Record, term: Term = TERM) -> AskOwner:
    return AskOwner(record.layout.child(ROOT), Seal(op=OP, term=term))


def a_record(segments: int = 1) -> Record:
    return created(None, segments, now_ms=1).claimed()


def a_request(**changes) -> Request:
    return replace(Request(OP, Kind.SPLIT, (ROOT,), now_ms=5), **changes)


def begun(record: Record, request: Request | None = None):
    return reshape.begin(request or a_request(), term=TERM, incarnation=record.incarnation)


def asked(record: Record, request: Request | None = None):
    state, _ = begun(record, request)
    return step(state, RecordRead(OP, record, 4))


def written(effects) -> Record:
    (write,) = [one for one in effects if isinstance(one, WriteRecord)]
    return write.record


def provisioning() -> tuple[Reshape, Record]:
    state, effects = asked(a_record())
    intended = written(effects)
    state, _ = step(state, RecordWritten(OP, 5))
    state, _ = step(state, SubscriptionsListed(OP, ()))
    return state, intended


def sealing() -> tuple[Reshape, Record]:
    state, intended = provisioning()
    for child in (LEFT, RIGHT):
        state, _ = step(state, ChildProvisioned(OP, child, 0))
    state, _ = step(state, RecordRead(OP, intended, 5))
    assert state.phase is Phase.SEAL
    return state, intended


def committing(seal: SealSummary = SEAL) -> tuple[Reshape, Record, Record]:
    state, intended = sealing()
    state, effects = step(state, ParentSealed(OP, ROOT, seal))
    return state, intended, written(effects)


def test_whole_way_of_split():
    record = a_record()
    state, effects = begun(record)
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, record, 4))
    intended = written(effects)
    assert intended.intent is not None
    assert [child.id for child in intended.intent.children] == [1, 2]
    assert effects == (WriteRecord(OP, 4, intended),)
    state, effects = step(state, RecordWritten(OP, 5))
    assert effects == (ListSubscriptions(OP, record.incarnation),)
    state, effects = step(state, SubscriptionsListed(OP, ()))
    assert [(type(one.request), one.segment.id, one.request.term) for one in effects] == [
        (ProvisionSegment, 1, TERM),
        (ProvisionSegment, 2, TERM),
    ]
    state, effects = step(state, ChildProvisioned(OP, LEFT, 0))
    assert effects == ()
    state, effects = step(state, ChildProvisioned(OP, RIGHT, 0))
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, intended, 5))
    assert effects == (seal_root(record),)
    state, effects = step(state, ParentSealed(OP, ROOT, SEAL))
    committed = written(effects)
    assert committed.layout.segment(ROOT).ending == SEAL.ending
    state, effects = step(state, RecordWritten(OP, 6))
    assert (state.phase, effects) == (Phase.DONE, (Finished(OP),))


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (a_request(parents=(SegmentId(9),)), NotFound),
        (a_request(at=0), InvalidRange),
        (a_request(into=65537), InvalidRange),
        (a_request(into=3, active_max=2), LimitExceeded),
        (a_request(kind=Kind.MERGE), InvalidRange),
    ],
)
def test_impossible_request_is_refused_before_any_effect_h_a9(request_, kind):
    state, effects = asked(a_record(), request_)
    (answer,) = effects
    assert state.phase is Phase.REFUSED
    assert isinstance(answer.refusal.error(), kind)


def test_record_growing_too_large_is_refused_in_preflight_h_a9():
    record = replace(a_record(), properties=(("big", Random(1).randbytes(530_000).hex()),))
    _, (answer,) = asked(record)
    assert issubclass(answer.refusal.kind, LimitExceeded)


def test_topic_at_its_limit_may_still_merge():
    state, effects = asked(a_record(4), a_request(kind=Kind.MERGE, parents=(ROOT, LEFT), active_max=2))
    assert state.phase is Phase.INTENT
    assert written(effects).intent is not None


def test_second_reshape_waits_for_first_h_a5():
    _, intended = provisioning()
    state, _ = reshape.begin(a_request(op="op-2"), term=TERM, incarnation=intended.incarnation)
    state, (answer,) = step(state, RecordRead("op-2", intended, 5))
    assert answer.refusal.kind is Busy


@pytest.mark.parametrize("lost", [RecordOvertaken(OP), CallLost(OP, WriteRecord(OP, 4, a_record()))])
def test_intent_with_unknown_outcome_is_looked_for_h_a7(lost):
    state, effects = asked(a_record())
    intended = written(effects)
    state, effects = step(state, lost)
    assert (state.phase, effects) == (Phase.PREFLIGHT, (ReadRecord(OP),))
    again, effects = step(state, RecordRead(OP, intended, 5))
    assert again.phase is Phase.PROVISION
    assert effects == (ListSubscriptions(OP, intended.incarnation),)


def test_commit_with_lost_answer_is_recognised_as_success_h_a7():
    state, _, committed = committing()
    state, effects = step(state, CallLost(OP, WriteRecord(OP, 5, committed)))
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, committed, 6))
    assert (state.phase, effects) == (Phase.DONE, (Finished(OP),))


def test_commit_by_next_leader_counts_for_lost_answer():
    state, _, committed = committing()
    state, _ = step(state, RecordOvertaken(OP))
    state, effects = step(state, RecordRead(OP, committed.claimed(), 9))
    assert (state.phase, effects) == (Phase.DONE, (Finished(OP),))


def test_subscription_made_before_seal_sends_split_back_h_d1():
    state, intended = provisioning()
    for child in (LEFT, RIGHT):
        state, _ = step(state, ChildProvisioned(OP, child, 0))
    state, effects = step(state, RecordRead(OP, intended.resubscribed(), 6))
    assert (state.phase, effects) == (Phase.PROVISION, (ListSubscriptions(OP, intended.incarnation),))


def test_subscription_after_seal_repeats_commit_and_keeps_seal_h_d1():
    state, intended, _ = committing()
    state, _ = step(state, RecordOvertaken(OP))
    moved = intended.resubscribed()
    state, _ = step(state, RecordRead(OP, moved, 6))
    state, effects = step(state, SubscriptionsListed(OP, ()))
    assert [one.request.subs_gen for one in effects] == [1, 1]
    state, _ = step(state, ChildProvisioned(OP, LEFT, 0))  # of the older list: counts for nothing
    state, effects = step(state, ChildProvisioned(OP, RIGHT, 1))
    assert effects == ()
    state, effects = step(state, ChildProvisioned(OP, LEFT, 1))
    assert written(effects).sealed_by(OP)
    assert state.phase is Phase.COMMIT


def test_commit_overtaken_by_another_change_is_made_again_over_it():
    state, intended, _ = committing()
    state, effects = step(state, RecordOvertaken(OP))
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, replace(intended, properties=(("a", "b"),)), 9))
    assert effects[0].version == 9
    assert written(effects).properties == (("a", "b"),)


def test_seal_answer_arriving_twice_changes_nothing():
    state, _, _ = committing()
    assert step(state, ParentSealed(OP, ROOT, SEAL)) == (state, ())


@pytest.mark.parametrize("phase", ["provisioning", "sealing"])
def test_call_of_unknown_outcome_is_repeated_unchanged_h_a7(phase):
    state, intended = provisioning() if phase == "provisioning" else sealing()
    child = intended.intent.children[0]
    call = provision(intended, child) if phase == "provisioning" else seal_root(intended)
    assert step(state, CallLost(OP, call)) == (state, (call,))


def test_higher_term_at_owner_ends_this_leadership_h_b3():
    state, intended = sealing()
    state, effects = step(state, CallFenced(OP, seal_root(intended)))
    assert state.phase is Phase.LOST
    assert [(type(one), one.term) for one in effects] == [(StepDown, TERM)]


def test_fenced_call_of_own_earlier_term_is_ignored_h_b12():
    record = a_record().claimed()
    intended = written(asked(replace(record, term=TERM))[1])
    state, _ = reshape.resume(replace(intended, term=Term(3)), 7, term=Term(3), now_ms=9)
    old = provision(record, intended.intent.children[0])
    assert step(state, CallFenced(OP, old)) == (state, ())


def test_read_that_shows_another_term_ends_this_leadership_h_b1():
    state, _ = begun(a_record())
    state, effects = step(state, RecordRead(OP, a_record().claimed(), 9))
    assert state.phase is Phase.LOST
    assert isinstance(effects[0], StepDown)


def test_end_of_own_term_ends_operation():
    state, _ = sealing()
    assert step(state, TermEnded(Term(7))) == (state, ())
    assert step(state, TermEnded(TERM))[0].phase is Phase.LOST


def test_crash_after_seal_is_finished_by_next_leader_h_a2():
    _, intended = sealing()
    taken = intended.claimed()
    state, effects = reshape.resume(taken, 8, term=taken.term, now_ms=9)
    assert effects == (ListSubscriptions(OP, taken.incarnation),)
    state, effects = step(state, SubscriptionsListed(OP, ()))
    assert {one.request.term for one in effects} == {taken.term}
    for child in (LEFT, RIGHT):
        state, _ = step(state, ChildProvisioned(OP, child, 0))
    state, effects = step(state, RecordRead(OP, taken, 8))
    assert effects == (seal_root(taken, taken.term),)
    state, effects = step(state, ParentSealed(OP, ROOT, SEAL))
    assert written(effects).sealed_by(OP)


def test_children_learn_producers_of_parents_before_commit_h_e4():
    state, _ = sealing()
    seal = replace(SEAL, dedup=b"marks", fence=3)
    state, effects = step(state, ParentSealed(OP, ROOT, seal))
    assert [(type(one.request), one.segment.id, one.request.dedups, one.request.fence) for one in effects] == [
        (SeedDedup, 1, (b"marks",), 3),
        (SeedDedup, 2, (b"marks",), 3),
    ]
    state, _ = step(state, ChildSeeded(OP, LEFT))
    state, effects = step(state, ChildSeeded(OP, RIGHT))
    assert written(effects).fence == 3


def test_merge_commits_after_all_parents_are_sealed_h_a3():
    record = a_record(3)
    request = a_request(kind=Kind.MERGE, parents=(ROOT, LEFT, RIGHT))
    state, effects = asked(record, request)
    intended = written(effects)
    state, _ = step(state, RecordWritten(OP, 5))
    state, _ = step(state, SubscriptionsListed(OP, ()))
    state, _ = step(state, ChildProvisioned(OP, SegmentId(3), 0))
    state, effects = step(state, RecordRead(OP, intended, 5))
    assert [one.segment.id for one in effects] == [0, 1, 2]
    for parent in (RIGHT, ROOT):
        state, effects = step(state, ParentSealed(OP, parent, SEAL))
        assert effects == ()
    state, effects = step(state, ParentSealed(OP, LEFT, SEAL))
    assert [one.id for one in written(effects).layout.active] == [3]


def refused() -> tuple[Reshape, Record]:
    state, intended = provisioning()
    child = intended.intent.children[1]
    call = provision(intended, child)
    state, effects = step(state, CallRefused(OP, call, "no room"))
    request = Fence(op=OP, term=TERM, incarnation=intended.incarnation)
    assert effects == (AskOwner(intended.layout.child(ROOT), request),)
    return state, intended


def test_permanently_refused_child_aborts_plan_after_fencing_h_a10_h_b4():
    state, intended = refused()
    state, effects = step(state, ParentFenced(OP, ROOT, sealed=False))
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, intended, 5))
    abandoned = written(effects)
    assert abandoned.intent.abandoned == "no room"
    state, effects = step(state, RecordWritten(OP, 6))
    assert [(type(one.request), one.segment.id) for one in effects] == [(Delete, 1), (Delete, 2)]
    state, _ = step(state, SegmentDeleted(OP, LEFT))
    state, _ = step(state, SegmentDeleted(OP, RIGHT))
    state, effects = step(state, RecordRead(OP, abandoned, 6))
    cleared = written(effects)
    assert (cleared.intent, cleared.history[-1].outcome) == (None, Outcome.ABORTED)
    assert cleared.layout.next_segment_id == 3
    state, (answer,) = step(state, RecordWritten(OP, 7))
    assert (answer.refusal.kind, answer.refusal.what) == (Conflict, "no room")


def test_plan_whose_parent_turns_out_sealed_goes_forward_h_b4():
    state, intended = refused()
    state, effects = step(state, ParentFenced(OP, ROOT, sealed=True))
    assert (state.phase, effects) == (Phase.PROVISION, (ListSubscriptions(OP, intended.incarnation),))


def test_aborted_plan_is_aborted_by_next_leader_too():
    _, intended = provisioning()
    taken = intended.abandoned("no room").claimed()
    state, effects = reshape.resume(taken, 8, term=taken.term, now_ms=9)
    assert state.phase is Phase.CLEAN
    assert [one.segment.id for one in effects] == [1, 2]


def test_clear_whose_answer_was_lost_is_recognised():
    _, intended = provisioning()
    taken = intended.abandoned("no room").claimed()
    state, _ = reshape.resume(taken, 8, term=taken.term, now_ms=9)
    for child in (LEFT, RIGHT):
        state, _ = step(state, SegmentDeleted(OP, child))
    state, effects = step(state, RecordRead(OP, taken, 8))
    state, _ = step(state, CallLost(OP, effects[0]))
    state, (answer,) = step(state, RecordRead(OP, written(effects), 9))
    assert answer.refusal.what == "no room"


def test_deletion_beside_split_ends_split_h_h3():
    state, intended = sealing()
    state, effects = step(state, CallOvertaken(OP, seal_root(intended)))
    assert effects == (ReadRecord(OP),)
    state, (answer,) = step(state, RecordRead(OP, intended.deleting(), 9))
    assert answer.refusal.kind is TopicNotFound


def test_owner_that_read_newer_list_sends_plan_to_record():
    state, intended = provisioning()
    call = provision(intended, intended.intent.children[0])
    state, effects = step(state, CallOvertaken(OP, call))
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, intended.resubscribed(), 6))
    assert effects == (ListSubscriptions(OP, intended.incarnation),)
    assert step(state, CallLost(OP, call)) == (state, ())  # of the older list: not repeated


def test_answers_to_another_operation_mean_nothing():
    state, _ = sealing()
    assert step(state, ParentSealed("op-9", ROOT, SEAL)) == (state, ())


def test_every_phase_that_waits_survives_lost_call():
    waiting = [phase for phase in Phase if phase not in reshape.FINAL]
    assert all((phase, CallLost) in reshape.TABLE for phase in waiting)
