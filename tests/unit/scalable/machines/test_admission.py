"""An owner makes nothing that the record does not list now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import (
    Busy,
    ConsumerAssignError,
    Fenced,
    NotReady,
    Refused,
    Sealed,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.base.ids import SegmentId, Term
from magnetar.scalable.machines import admission
from magnetar.scalable.record.record import created
from magnetar.scalable.record.subscription import Hold, StreamPlan, Subscription, Type
from magnetar.topic.subscriptions.consumer import KeyShared
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from tests.unit.scalable.machines.test_subscription_change import splitting

RECORD = splitting()  # 0 sealed, 1 and 2 active, 3 and 4 planned
LIFE = RECORD.incarnation


@pytest.mark.parametrize("id", [1, 2, 3, 4])
def test_what_is_active_or_planned_may_be_made(id):
    admission.check_creation(RECORD, SegmentId(id), LIFE)


@pytest.mark.parametrize(
    ("record", "id", "life"),
    [
        (RECORD, 0, LIFE),
        (RECORD, 9, LIFE),
        (RECORD, 1, LIFE - 1),
        (RECORD.abandoned("why"), 3, LIFE),
        (RECORD.deleting(), 1, LIFE),
        (RECORD.deleting().buried(), 1, LIFE),
        (None, 1, LIFE),
    ],
)
def test_sealed_unknown_or_foreign_segment_is_not_created_h_e9_h_h3_h_c1(record, id, life):
    with pytest.raises(TopicNotFound):
        admission.check_creation(record, SegmentId(id), life)


@pytest.mark.parametrize(("id", "error"), [(0, Sealed), (3, NotReady), (9, TopicNotFound)])
def test_only_active_segments_admit_producers_h_d1(id, error):
    admission.check_producer(RECORD, SegmentId(1), LIFE)
    with pytest.raises(error):
        admission.check_producer(RECORD, SegmentId(id), LIFE)


@pytest.mark.parametrize(
    ("record", "op", "id", "gen"),
    [
        (RECORD, "split", 3, 6),
        (RECORD, "other", 3, 7),
        (RECORD, "split", 1, 7),
        (RECORD.abandoned("why"), "split", 3, 7),
        (RECORD.deleting(), "split", 3, 7),
        (replace(RECORD, intent=None), "split", 3, 7),
        (replace(RECORD, incarnation=99), "split", 3, 7),
        (None, "split", 3, 7),
    ],
)
def test_cursors_follow_current_list_while_plan_stands(record, op, id, gen):
    assert admission.check_provision(RECORD, "split", SegmentId(3), incarnation=LIFE, subs_gen=7)
    assert not admission.check_provision(record, op, SegmentId(id), incarnation=LIFE, subs_gen=gen)


def test_no_cursor_without_record_of_subscription_h_d3_h_d9():
    one = Subscription("s", Type.QUEUE, life=4, incarnation=LIFE)
    admission.check_cursor(one, 4)
    for found, life in [(None, 4), (one, 3), (one.deleting(), 4)]:
        with pytest.raises(SubscriptionNotFound):
            admission.check_cursor(found, life)


@pytest.mark.parametrize(
    ("type", "kind", "welcome"),
    [
        (Type.STREAM, EXCLUSIVE, True),
        (Type.STREAM, SHARED, False),
        (Type.STREAM, FAILOVER, False),
        (Type.STREAM, KEY_SHARED, False),
        (Type.QUEUE, SHARED, True),
        (Type.QUEUE, EXCLUSIVE, False),
        (Type.CHECKPOINT, EXCLUSIVE, False),
        (Type.CHECKPOINT, SHARED, False),
    ],
)
def test_record_says_who_may_consume_segment_h_d6(type, kind, welcome):
    one = Subscription("s", type, life=4, incarnation=LIFE, ready=True)
    if welcome:
        assert admission.check_consumer(one, kind)
        assert not admission.check_consumer(replace(one, ready=False), kind)  # somebody began: it is finished first
        with pytest.raises(Busy):
            admission.check_consumer(one.deleting(), kind)
    else:
        with pytest.raises(Refused, match=f"of type {type}"):
            admission.check_consumer(one, kind)


def test_only_those_who_share_make_subscription_by_coming_h_d3():
    assert not admission.check_consumer(None, SHARED)
    for kind in (EXCLUSIVE, FAILOVER, KEY_SHARED):
        with pytest.raises(SubscriptionNotFound):
            admission.check_consumer(None, kind)


def test_lower_term_than_one_seen_is_fenced_h_b3():
    admission.check_term(Term(2), Term(2))
    with pytest.raises(Fenced):
        admission.check_term(Term(2), Term(1))


def test_moved_segment_belongs_to_planned_consumer_h_d7():
    plan = StreamPlan(1, (Hold(SegmentId(1), "a", "a"), Hold(SegmentId(2), "", "", ("b", "c"), ("b", "c"))))
    moved = Subscription("s", Type.STREAM, 1, LIFE, plan=plan)
    admission.check_granted(moved, SegmentId(1), "a-seg-1")
    admission.check_granted(moved, SegmentId(2), "c-seg-2")
    admission.check_granted(moved, SegmentId(2), "of-another-client")
    admission.check_granted(replace(moved, type=Type.QUEUE), SegmentId(1), "b-seg-1")
    for segment, name in [(1, "b"), (2, "a"), (0, "a")]:
        with pytest.raises(NotReady):
            admission.check_granted(moved, SegmentId(segment), f"{name}-seg-{segment}")


def test_sharers_consume_segment_with_own_boundaries_only():
    one = Subscription("s", Type.STREAM, life=4, incarnation=LIFE, ready=True)
    assert admission.check_consumer(one, KEY_SHARED, buckets=True)
    with pytest.raises(Refused):
        admission.check_consumer(replace(one, type=Type.QUEUE), KEY_SHARED, buckets=True)
    record = created(None, 1, now_ms=0, buckets=2)
    halves = KeyShared(sticky=True, ranges=[(0, 32767), (32768, 65535)], out_of_order=False, buckets=True)
    admission.check_buckets(record, SegmentId(0), halves)
    with pytest.raises(ConsumerAssignError):
        admission.check_buckets(created(None, 1, now_ms=0, buckets=4), SegmentId(0), halves)
    with pytest.raises(TopicNotFound):
        admission.check_buckets(record, SegmentId(7), halves)
