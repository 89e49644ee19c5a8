"""The record goes forward only: epochs, terms, generations and ids never come back, not even after a deletion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import AlreadyExists, Conflict
from magnetar.base.ids import Position, SegmentId, Term
from magnetar.base.limits import HISTORY_RESHAPES_MAX
from magnetar.layout.layout import Child
from magnetar.layout.routing import Routing
from magnetar.layout.segment import Ending
from magnetar.scalable.record.record import Intent, Kind, Lifecycle, Outcome, Record, created, plain

ROOT = SegmentId(0)


def splitting(record: Record, op: str = "op-1") -> Record:
    parent = record.layout.active[0].id
    layout, children = record.layout.burned(record.layout.split_ranges(parent))
    return record.intended(Intent(op, Kind.SPLIT, (parent,), children, record.term), layout)


def split(record: Record, op: str = "op-1", now_ms: int = 5) -> Record:
    intended = splitting(record, op)
    assert intended.intent is not None
    endings = {intended.intent.parents[0]: Ending(Position(1, 2), messages=3)}
    return intended.committed(endings, fence=4, now_ms=now_ms)


def test_take_over_raises_term_and_epoch_h_b6_h_b7():
    before = created(None, 1, now_ms=9)
    after = before.claimed()
    assert (after.term, after.epoch) == (before.term + 1, before.epoch + 1)
    assert after.layout.segments == before.layout.segments


def test_intent_burns_ids_and_admits_no_second_h_a5():
    intended = splitting(created(None, 1, now_ms=9))
    assert intended.layout.next_segment_id == 3
    assert [one.id for one in intended.everything()] == [0, 1, 2]
    with pytest.raises(Conflict):
        splitting(intended, "op-2")


def test_commit_records_sealer_and_history_h_a7():
    after = split(created(None, 1, now_ms=9))
    assert after.intent is None
    assert after.sealed_by("op-1")
    assert not after.sealed_by("op-2")
    assert after.fence == 4
    assert [(past.op, past.outcome, past.parents, past.children) for past in after.history] == [
        ("op-1", Outcome.DONE, (0,), (1, 2))
    ]


def test_pruning_does_not_erase_history():
    after = split(created(None, 1, now_ms=9))
    pruned = replace(after, layout=after.layout.pruning([ROOT]).removed(ROOT))
    assert [past.parents for past in pruned.history] == [(0,)]


def test_history_is_bounded_and_keeps_newest():
    record = created(None, 1, now_ms=0)
    for number in range(HISTORY_RESHAPES_MAX + 5):
        record = splitting(record, f"op-{number}").abandoned("tried").cleared(now_ms=number)
    assert len(record.history) == HISTORY_RESHAPES_MAX
    assert record.history[-1].op == f"op-{HISTORY_RESHAPES_MAX + 4}"


def test_last_reshape_of_each_kind_stays_in_history():
    """Cool-downs are counted from it."""
    record = split(created(None, 1, now_ms=9))
    for number in range(2 * HISTORY_RESHAPES_MAX):
        record = splitting(record, f"op-{number}").abandoned("tried").cleared(now_ms=number)
    assert len(record.history) == HISTORY_RESHAPES_MAX
    assert [(past.op, past.outcome) for past in record.history][:2] == [
        ("op-1", Outcome.DONE),
        (f"op-{HISTORY_RESHAPES_MAX + 1}", Outcome.ABORTED),
    ]


def test_operation_is_recognised_after_its_parent_was_pruned_h_a7():
    after = split(created(None, 1, now_ms=9))
    pruned = after.pruning([ROOT]).pruned()
    assert pruned.going() == ()
    assert pruned.sealed_by("op-1")
    assert not pruned.sealed_by("op-2")


def test_aborted_plan_keeps_its_ids_burned_h_a10_h_c2():
    record = splitting(created(None, 1, now_ms=0)).abandoned("no room").cleared(now_ms=1)
    assert record.history[0].outcome is Outcome.ABORTED
    again = splitting(record, "op-2").intent
    assert again is not None
    assert [child.id for child in again.children] == [3, 4]


def test_second_incarnation_repeats_nothing_of_first_h_c1_h_c5():
    first = split(created(None, 1, now_ms=100).claimed())
    tomb = first.deleting().buried()
    assert (tomb.lifecycle, len(tomb.layout), tomb.history) == (Lifecycle.GONE, 0, ())
    second = created(tomb, 2, now_ms=50)  # the clock went back meanwhile
    assert second.incarnation > first.incarnation
    assert second.term > first.term
    assert second.epoch > first.epoch
    assert second.subs_gen > first.subs_gen
    assert not {one.id for one in second.everything()} & {one.id for one in first.everything()}


@pytest.mark.parametrize("step", ["live", "deleting"])
def test_name_is_free_only_when_its_tombstone_stands(step):
    record = created(None, 1, now_ms=0)
    with pytest.raises(AlreadyExists):
        created(record if step == "live" else record.deleting(), 1, now_ms=1)


def test_first_producer_pins_routing_in_new_epoch_h_e12():
    record = created(None, 1, now_ms=0)
    pinned = record.pinned(Routing.LOW16)
    assert (pinned.routing, pinned.epoch) == (Routing.LOW16, record.epoch + 1)
    assert pinned.pinned(Routing.HIGH16) is pinned


def test_low_half_routing_keeps_one_entry_bucket():
    record = created(None, 2, now_ms=0, buckets=4)
    assert {one.buckets for one in record.pinned(Routing.HIGH16).layout.segments} == {4}
    low = record.pinned(Routing.LOW16)
    assert {one.buckets for one in low.layout.segments} == {1}
    burned, children = low.layout.burned([low.layout.merge_range([SegmentId(0), SegmentId(1)])])
    intent = Intent("op", Kind.MERGE, (SegmentId(0), SegmentId(1)), children, Term(0))
    merged = low.intended(intent, burned).committed({}, fence=0, now_ms=1)
    assert {one.buckets for one in merged.layout.segments} == {1}


def test_nothing_is_committed_without_intent():
    with pytest.raises(Conflict):
        created(None, 1, now_ms=0).committed({}, fence=0, now_ms=1)
    with pytest.raises(Conflict):
        created(None, 1, now_ms=0).abandoned("why")


def test_merge_intent_reserves_all_its_parents_h_a3():
    record = created(None, 3, now_ms=0)
    layout, children = record.layout.burned([record.layout.merge_range([SegmentId(0), SegmentId(1), SegmentId(2)])])
    intent = Intent("m", Kind.MERGE, (SegmentId(0), SegmentId(1), SegmentId(2)), children, Term(0))
    after = record.intended(intent, layout).committed({}, fence=0, now_ms=1)
    assert [Child(one.id, one.range) for one in after.layout.active] == list(children)


PARTS = ("persistent://public/default/x-partition-0", "persistent://public/default/x-partition-1")


def migrating(record: Record) -> Record:
    layout, children = record.layout.burned([one.range for one in record.layout.active])
    parents = tuple(one.id for one in record.layout.active)
    return record.intended(Intent("op-m", Kind.MIGRATE, parents, children, record.term), layout)


def test_plain_topic_record_keeps_epochs_and_topics():
    record = plain(None, PARTS, now_ms=9)
    assert record.is_plain
    assert record.epoch > len(PARTS)
    assert [one.legacy_topic for one in record.everything()] == list(PARTS)
    assert list(record.own()) == []


def test_migration_is_cancelled_with_children_and_without_plain_topics():
    record = migrating(plain(None, PARTS, now_ms=9))
    assert record.is_migrating
    assert [one.id for one in record.own()] == [2, 3]
    assert not record.abandoned("why").is_migrating


def test_deletion_of_migrated_topic_includes_plain_topics():
    after = migrating(plain(None, PARTS, now_ms=9)).committed({}, fence=0, now_ms=10)
    assert not after.is_plain
    assert [one.legacy_topic for one in after.own()] == [*PARTS, "", ""]


def test_partitions_join_plain_topic_and_not_migrated_one():
    record = plain(None, PARTS[:1], now_ms=9)
    assert [one.legacy_topic for one in record.grown(PARTS).layout.active] == list(PARTS)
    after = migrating(record).committed({}, fence=0, now_ms=10)
    assert after.grown(PARTS) == after


def test_segment_ids_never_repeat_earlier_scalable_incarnation_h_c1():
    first = split(created(None, 1, now_ms=9)).buried()
    second = plain(first, PARTS, now_ms=8)
    assert [one.id for one in second.layout.active] == [0, 1], "the numbers of partitions: clients go by them"
    assert second.incarnation > first.incarnation
    assert second.epoch > first.epoch
    assert second.term > first.term
    made = migrating(second).intent
    assert made is not None
    assert [child.id for child in made.children] == [3, 4]
    with pytest.raises(AlreadyExists):
        plain(second, PARTS, now_ms=10)
