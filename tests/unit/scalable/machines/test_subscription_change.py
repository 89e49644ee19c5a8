"""A subscription is acknowledged when every segment has its cursor, and leaves none behind when it goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import AlreadyExists, Busy, TopicNotFound
from magnetar.base.ids import SegmentId, Term
from magnetar.cluster.calls.topic_calls import PlaceCursor, RemoveCursor
from magnetar.scalable.machines import subscription_change
from magnetar.scalable.machines.effects import (
    ABSENT,
    CallLost,
    CallRefused,
    CursorPlaced,
    CursorRemoved,
    Finished,
    ReadRecord,
    ReadSubscription,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    RemoveSubscription,
    SubscriptionOvertaken,
    SubscriptionRead,
    SubscriptionRemoved,
    SubscriptionWritten,
    WriteRecord,
    WriteSubscription,
)
from magnetar.scalable.machines.subscription_change import Phase, step
from magnetar.scalable.record.record import Intent, Kind, Record, created
from magnetar.scalable.record.subscription import Start, Subscription, SubscriptionState, Type

OP, S = "op-1", "s"


def splitting() -> Record:
    """Segments 0 (sealed), 1, 2, and an intent that splits 1 into 3 and 4."""
    record = created(None, 1, now_ms=1)
    record = replace(record, layout=record.layout.split(SegmentId(0), now_ms=2), subs_gen=7)
    layout, children = record.layout.burned(record.layout.split_ranges(SegmentId(1)))
    return record.intended(Intent("split", Kind.SPLIT, (SegmentId(1),), children, Term(0)), layout)


def looked(record: Record, found: Subscription | None = None, *, work=None):
    state, effects = work or subscription_change.create(OP, S)
    assert effects == (ReadRecord(OP),)
    state, effects = step(state, RecordRead(OP, record, 3))
    assert effects == (ReadSubscription(OP, S),)
    return step(state, SubscriptionRead(OP, found, 5 if found else ABSENT))


def placing(start: Start = Start.EARLIEST):
    record = splitting()
    state, effects = looked(record, work=subscription_change.create(OP, S, start=start))
    state, _ = step(state, SubscriptionWritten(OP, 0))
    state, effects = step(state, RecordRead(OP, record, 3))
    assert effects == (WriteRecord(OP, 3, record.resubscribed()),)
    return step(state, RecordWritten(OP, 4))


def test_record_then_generation_then_cursors_then_answer_h_d1():
    record = splitting()
    state, effects = looked(record)
    new = Subscription(S, Type.STREAM, life=7, incarnation=record.incarnation)
    assert effects == (WriteSubscription(OP, ABSENT, new),)
    state, effects = step(state, SubscriptionWritten(OP, 0))
    assert effects == (ReadRecord(OP),)
    state, effects = placing()
    assert [(one.segment.id, one.request.at_end) for one in effects] == [(id, False) for id in range(5)]
    assert all(isinstance(one.request, PlaceCursor) and one.request.subscription.life == 7 for one in effects)
    for id in range(4):
        state, effects = step(state, CursorPlaced(OP, SegmentId(id)))
        assert effects == ()
    state, effects = step(state, CursorPlaced(OP, SegmentId(4)))
    assert effects == (WriteSubscription(OP, 0, replace(new, ready=True)),)
    state, effects = step(state, SubscriptionWritten(OP, 1))
    assert (state.phase, effects) == (Phase.DONE, (Finished(OP),))


def test_child_under_creation_gets_cursor_from_reshape():
    state, effects = placing()
    for call in effects[:4]:
        state, _ = step(state, CursorPlaced(OP, call.segment.id))
    state, effects = step(state, CallRefused(OP, effects[4], "no such segment"))
    assert state.phase is Phase.FINISH


def test_latest_is_done_end_or_start_by_segment_state_h_d4():
    state, effects = placing(Start.LATEST)
    assert [one.request.at_end for one in effects] == [True, True, True, False, False]
    for call in effects:
        state, after = step(state, CursorPlaced(OP, call.segment.id))
    assert after[0].subscription.latched == (0,)


def test_checkpoint_group_has_no_cursors_h_d8():
    record = splitting()
    state, _ = looked(record, work=subscription_change.create(OP, S, type=Type.CHECKPOINT))
    state, _ = step(state, SubscriptionWritten(OP, 0))
    state, _ = step(state, RecordRead(OP, record, 3))
    state, effects = step(state, RecordWritten(OP, 4))
    assert [type(one) for one in effects] == [WriteSubscription]


def made(record: Record, **changes) -> Subscription:
    return replace(Subscription(S, Type.STREAM, 2, record.incarnation, ready=True), **changes)


def test_making_what_is_there_changes_nothing():
    record = splitting()
    state, effects = looked(record, made(record))
    assert (state.phase, effects) == (Phase.DONE, (Finished(OP),))


def test_what_somebody_else_began_is_finished():
    record = splitting()
    state, effects = looked(record, made(record, ready=False))
    assert (state.phase, effects) == (Phase.RAISE, (ReadRecord(OP),))


@pytest.mark.parametrize(
    ("changes", "kind"),
    [({"type": Type.QUEUE}, AlreadyExists), ({"standing": SubscriptionState.DELETING}, Busy)],
)
def test_other_type_or_current_removal_is_refused_h_d6_h_d9(changes, kind):
    record = splitting()
    _, (answer,) = looked(record, made(record, **changes))
    assert answer.refusal.kind is kind


def test_wrong_type_is_refused_with_actual_type_and_remedy():
    record = splitting()
    _, (answer,) = looked(record, made(record, type=Type.QUEUE))
    assert answer.refusal.what == f"subscription {S} is of type QUEUE: use a queue consumer, or choose another name"


def test_leftover_of_earlier_life_of_topic_is_overwritten_h_c1():
    record = splitting()
    _, effects = looked(record, made(record, incarnation=record.incarnation - 1))
    assert [(one.version, one.subscription.life) for one in effects] == [(5, 7)]


@pytest.mark.parametrize("gone", [None, splitting().deleting(), splitting().deleting().buried()])
def test_topic_that_is_gone_has_no_subscriptions(gone):
    state, _ = subscription_change.create(OP, S)
    _, (answer,) = step(state, RecordRead(OP, gone, 3))
    assert answer.refusal.kind is TopicNotFound


def test_topic_deleted_and_made_again_meanwhile_is_another_one():
    record = splitting()
    state, _ = looked(record)
    state, _ = step(state, SubscriptionWritten(OP, 0))
    _, (answer,) = step(state, RecordRead(OP, replace(record, incarnation=99), 3))
    assert answer.refusal.kind is TopicNotFound


def test_removing_marks_raises_removes_cursors_and_then_record_h_d2():
    record = splitting()
    state, effects = looked(record, made(record), work=subscription_change.delete(OP, S))
    assert effects == (WriteSubscription(OP, 5, made(record).deleting()),)
    state, _ = step(state, SubscriptionWritten(OP, 6))
    state, _ = step(state, RecordRead(OP, record, 3))
    state, effects = step(state, RecordWritten(OP, 4))
    assert {type(one.request) for one in effects} == {RemoveCursor}
    for call in effects:
        state, after = step(state, CursorRemoved(OP, call.segment.id))
    assert after == (RemoveSubscription(OP, 6, S),)
    state, effects = step(state, SubscriptionRemoved(OP))
    assert effects == (Finished(OP),)


def test_removing_what_is_not_there_succeeds():
    _state, effects = looked(splitting(), work=subscription_change.delete(OP, S))
    assert effects == (Finished(OP),)


def test_write_with_unknown_outcome_starts_over_and_finds_itself():
    record = splitting()
    state, effects = looked(record)
    state, again = step(state, CallLost(OP, effects[0]))
    assert again == (ReadRecord(OP),)
    state, _ = step(state, RecordRead(OP, record, 3))
    state, effects = step(state, SubscriptionRead(OP, effects[0].subscription, 0))
    assert state.phase is Phase.RAISE


def test_raising_is_repeated_until_it_is_known_to_be_written():
    record = splitting()
    state, _ = looked(record)
    state, _ = step(state, SubscriptionWritten(OP, 0))
    state, effects = step(state, RecordRead(OP, record, 3))
    assert step(state, RecordOvertaken(OP))[1] == (ReadRecord(OP),)
    assert step(state, CallLost(OP, effects[0]))[1] == (ReadRecord(OP),)


def test_subscription_removed_while_it_was_made_is_not_acknowledged():
    state, effects = placing()
    for call in effects:
        state, _ = step(state, CursorPlaced(OP, call.segment.id))
    state, effects = step(state, SubscriptionOvertaken(OP))
    assert (state.phase, effects) == (Phase.LOOK, (ReadRecord(OP),))


def test_cursor_call_with_unknown_outcome_is_repeated():
    state, effects = placing()
    assert step(state, CallLost(OP, effects[0])) == (state, (effects[0],))
