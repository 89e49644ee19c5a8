"""Lanes: what a seal does to the messages of one producer, step by step. Random lives are in `test_lanes_machine`."""

from __future__ import annotations

import pytest

from magnetar.base.errors import InvalidTransition, Sealed
from magnetar.base.ids import SegmentId
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable.queued_messages import SendStatus
from magnetar.client.producer.scalable.segment_queue import BatchLimits, SegmentQueue
from magnetar.client.producer.scalable.segment_queues import (
    AttachSegment,
    DrainSegment,
    DropSegment,
    Effect,
    LayoutAdvanced,
    RefreshLayout,
    SegmentAttached,
    SegmentDetached,
    SegmentQueues,
    SegmentSealed,
    WriteSegment,
)
from magnetar.layout.plain_layout import migrated, synthetic
from tests.support.segment_owner_model import Violation, World
from tests.support.segment_queues import (
    AGAIN,
    HIGH,
    LOW,
    MERGED,
    ONE,
    PARENT,
    SPLIT,
    add,
    fates,
    names,
    some_lanes,
    written,
)


def test_a_split_moves_the_rest_in_order_and_releases_the_children_only_then():
    lanes = some_lanes(cut=BatchLimits(messages_max=3))
    for name, slot in [("a1", 0), ("b1", 0xFFFF), ("a2", 0)]:
        add(lanes, slot, name)
    assert written(lanes, PARENT) == [["a1", "b1", "a2"]]
    effects = lanes.handle(LayoutAdvanced(SPLIT))
    assert effects == [DrainSegment(PARENT), AttachSegment(LOW), AttachSegment(HIGH)]
    assert lanes.handle(SegmentAttached(LOW)) == lanes.handle(SegmentAttached(HIGH)) == []
    assert add(lanes, 0, "a3") == PARENT  # behind the rest
    assert written(lanes, LOW) == written(lanes, HIGH) == []
    assert lanes.handle(SegmentDetached(PARENT, certain=True)) == [
        DropSegment(PARENT),
        WriteSegment(LOW),
        WriteSegment(HIGH),
    ]
    assert written(lanes, LOW) == [["a1", "a2", "a3"]]
    assert written(lanes, HIGH) == [["b1"]]


def test_what_a_receipt_came_for_while_frozen_is_not_sent_again():
    lanes = some_lanes(cut=BatchLimits(messages_max=1))
    add(lanes, 0, "a1")
    add(lanes, 0, "a2")
    written(lanes, PARENT)
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(SegmentAttached(LOW))
    assert names(lanes.stored(PARENT, 0)) == ["a1"]
    lanes.handle(SegmentDetached(PARENT, certain=True))
    assert written(lanes, LOW) == [["a2"]]


def test_a_seal_heard_before_the_layout_asks_for_one_and_waits_for_it():
    lanes = some_lanes()
    add(lanes, 0, "a1")
    written(lanes, PARENT)
    assert lanes.refused(PARENT, 0, Sealed()) == [RefreshLayout(ONE.epoch), DrainSegment(PARENT)]
    assert lanes.handle(SegmentDetached(PARENT, certain=True)) == []
    assert lanes.handle(SegmentSealed(PARENT)) == []
    lanes.handle(LayoutAdvanced(ONE))
    assert lanes.lane(PARENT) is not None
    assert DropSegment(PARENT) in lanes.handle(LayoutAdvanced(SPLIT))


def test_two_generations_that_pass_while_frozen_are_skipped():
    lanes = some_lanes()
    add(lanes, 0, "a1")
    written(lanes, PARENT)
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(SegmentAttached(LOW))
    effects = lanes.handle(LayoutAdvanced(AGAIN))
    assert effects == [AttachSegment(SegmentId(3)), AttachSegment(SegmentId(4)), DropSegment(LOW)]
    lanes.handle(SegmentAttached(SegmentId(3)))
    assert written(lanes, SegmentId(3)) == []
    lanes.handle(SegmentDetached(PARENT, certain=False))
    assert written(lanes, SegmentId(3)) == [["a1"]]


class DoesNotWaitForAllParents(SegmentQueues):
    def _held(self, lane: SegmentQueue) -> bool:
        return False


def a_merge_with_one_parent_late(make: type[SegmentQueues]) -> None:
    world = World(deduplicated=True, segments=2, make=make)
    world.send("k0")
    world.send("k7")
    world.send("k7")
    world.write(SegmentId(0))
    world.merge(0, 2)
    world.seal()
    world.seal()
    world.commit()
    world.push(-1)
    world.open(SegmentId(2))
    world.write(SegmentId(2))
    world.process(SegmentId(2))
    world.settle(SegmentId(0))
    world.finish()


def test_a_merge_waits_for_all_its_parents():
    a_merge_with_one_parent_late(SegmentQueues)
    with pytest.raises(Violation):
        a_merge_with_one_parent_late(DoesNotWaitForAllParents)


def test_a_merge_puts_the_rests_in_the_order_of_sending():
    lanes = some_lanes(SPLIT, cut=BatchLimits(messages_max=10))
    for name, slot in [("a1", 0), ("b1", 0xFFFF), ("a2", 0), ("b2", 0xFFFF)]:
        add(lanes, slot, name)
    lanes.next_entry(HIGH)
    lanes.handle(LayoutAdvanced(MERGED))
    lanes.handle(SegmentDetached(HIGH))
    lanes.handle(SegmentAttached(SegmentId(3)))
    assert written(lanes, SegmentId(3)) == [["a1", "b1", "a2", "b2"]]


def test_what_may_be_below_the_mark_of_a_child_goes_alone():
    lanes = some_lanes(cut=BatchLimits(messages_max=10))
    for name in ["a0", "a1", "a2", "a3"]:
        add(lanes, 0, name)
    written(lanes, PARENT)
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(SegmentDetached(PARENT))
    lanes.handle(SegmentAttached(LOW, 1))
    assert written(lanes, LOW) == [["a0"], ["a1"], ["a2", "a3"]]


def test_a_message_in_chunks_goes_again_as_a_whole():
    lanes = some_lanes()
    add(lanes, 0, "large", alone=True)
    entry = lanes.next_entry(PARENT)
    assert entry is not None
    entry.parts = 3
    assert lanes.stored(PARENT, 0) is None
    assert lanes.refused(PARENT, 0, Sealed()) == [RefreshLayout(ONE.epoch), DrainSegment(PARENT)]
    lanes.handle(SegmentDetached(PARENT, certain=True))
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(SegmentAttached(LOW))
    again = lanes.next_entry(LOW)
    assert names(again) == ["large"]
    assert again is not entry
    assert names(lanes.stored(LOW, 0)) == ["large"]


def test_after_a_lost_connection_the_same_entries_are_written_again_first():
    lanes = some_lanes(cut=BatchLimits(messages_max=2))
    for name in ["a", "b", "c"]:
        add(lanes, 0, name)
    lanes.next_entry(PARENT)
    lanes.handle(SegmentDetached(PARENT))
    add(lanes, 0, "d")
    assert lanes.next_entry(PARENT) is None
    assert lanes.handle(SegmentAttached(PARENT, 1)) == [WriteSegment(PARENT)]
    assert written(lanes, PARENT) == [["a", "b"], ["c", "d"]]


# Bounds, numbers, layouts


def test_room_is_counted_in_bytes_over_all_lanes():
    lanes = some_lanes(SPLIT, bytes_max=10)
    assert lanes.room(100)  # alone it is let in, or it would be stuck
    add(lanes, 0, size=6)
    add(lanes, 0xFFFF, size=4)
    assert not lanes.room(1)
    lanes.next_entry(LOW)
    lanes.stored(LOW, 0)
    assert lanes.room(6)
    assert not lanes.room(7)


def test_numbers_begin_above_what_every_owner_has():
    lanes = SegmentQueues()
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(SegmentAttached(LOW, 40))
    with pytest.raises(InvalidTransition):
        add(lanes, 0)
    lanes.handle(SegmentAttached(HIGH, 70))
    add(lanes, 0)
    entry = lanes.next_entry(LOW)
    assert entry is not None
    assert entry.sequence == 71


def test_numbers_that_were_given_are_kept_and_never_grow_downwards_in_a_batch():
    lanes = some_lanes()
    for name, sequence in [("a", 7), ("b", 9), ("c", 8)]:
        add(lanes, 0, name, sequence=sequence)
    add(lanes, 0, "d")
    assert written(lanes, PARENT) == [["a", "b"], ["c", "d"]]
    assert lanes.next_sequence == 11


def test_groups_do_not_share_a_batch():
    lanes = some_lanes()
    for name, group in [("a", 1), ("b", 1), ("c", 2)]:
        add(lanes, 0, name, group=group)
    assert written(lanes, PARENT) == [["a", "b"], ["c"]]


def test_a_batch_is_bounded_in_bytes():
    lanes = some_lanes(cut=BatchLimits(bytes_max=5))
    for name, size in [("a", 2), ("b", 3), ("c", 9), ("d", 1)]:
        add(lanes, 0, name, size=size)
    assert written(lanes, PARENT) == [["a", "b"], ["c"], ["d"]]


def test_a_layout_that_is_not_newer_changes_nothing():
    lanes = some_lanes(SPLIT)
    assert lanes.handle(LayoutAdvanced(ONE)) == []
    assert lanes.handle(LayoutAdvanced(SPLIT)) == []
    assert lanes.layout is SPLIT


def test_answers_for_lanes_that_are_gone_change_nothing():
    lanes = some_lanes()
    lanes.handle(LayoutAdvanced(SPLIT))
    effects: list[Effect] = [*lanes.refused(PARENT, 0, Sealed())]
    for event in (SegmentAttached(PARENT), SegmentDetached(PARENT), SegmentSealed(PARENT)):
        effects += lanes.handle(event)
    assert effects == []
    assert lanes.stored(PARENT, 0) is None
    assert lanes.next_entry(PARENT) is None


def test_a_plain_topic_is_one_lane_for_ever_and_a_seal_fails_what_it_refused():
    lanes = some_lanes(synthetic(["persistent://public/default/t"]), follows=False)
    add(lanes, 0xFFFF, "a")
    written(lanes, PARENT)
    assert lanes.handle(SegmentSealed(PARENT)) == []
    assert fates(lanes.refused(PARENT, 0, Sealed())) == {"a": SendStatus.FAILED}
    assert lanes.lane(PARENT) is not None


def test_partitions_take_keys_as_pulsar_does_and_their_rest_goes_by_range_after_a_migration():
    topics = [f"persistent://public/default/t-partition-{index}" for index in range(2)]
    lanes = some_lanes(synthetic(topics))
    assert lanes.add("a", KeyRoute(0x0000, 1), size=1, deadline=9.0).segment == SegmentId(1)
    assert lanes.add("b", KeyRoute(0xFFFF, 4), size=1, deadline=9.0).segment == SegmentId(0)
    written(lanes, SegmentId(1))
    after = migrated(topics, now_ms=1).raised()
    lanes.handle(LayoutAdvanced(after))
    assert lanes.add("a2", KeyRoute(0x0000, 1), size=1, deadline=9.0).segment == SegmentId(1)
    lanes.handle(SegmentAttached(SegmentId(2)))
    lanes.handle(SegmentAttached(SegmentId(3)))
    assert written(lanes, SegmentId(3)) == []  # any plain topic may hold older messages of its keys
    lanes.handle(SegmentDetached(SegmentId(1), certain=True))
    assert written(lanes, SegmentId(2)) == [["a", "a2"]]
    assert written(lanes, SegmentId(3)) == [["b"]]


def test_while_a_partition_keeps_its_rest_a_slot_alone_does_not_say_where_a_message_goes():
    topics = [f"persistent://public/default/t-partition-{index}" for index in range(2)]
    lanes = some_lanes(synthetic(topics))
    for hash in (1, 4):
        lanes.add("old", KeyRoute(0x0000, hash), size=1, deadline=9.0)
    written(lanes, SegmentId(0))
    written(lanes, SegmentId(1))
    lanes.handle(LayoutAdvanced(migrated(topics, now_ms=1).raised()))
    lanes.handle(SegmentDetached(SegmentId(1), certain=True))  # the other one may still have older messages
    assert lanes.add("odd", KeyRoute(0x0000, 1), size=1, deadline=9.0).segment == SegmentId(2)
    assert lanes.add("even", KeyRoute(0x0000, 4), size=1, deadline=9.0).segment == SegmentId(0)
