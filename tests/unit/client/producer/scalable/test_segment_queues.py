"""Segment queues: how a seal changes the messages of one producer. Random runs: `test_segment_queues_machine`."""

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
    some_queues,
    written,
)


def test_split_moves_rest_in_order_and_releases_children_only_then():
    queues = some_queues(cut=BatchLimits(messages_max=3))
    for name, slot in [("a1", 0), ("b1", 0xFFFF), ("a2", 0)]:
        add(queues, slot, name)
    assert written(queues, PARENT) == [["a1", "b1", "a2"]]
    effects = queues.handle(LayoutAdvanced(SPLIT))
    assert effects == [DrainSegment(PARENT), AttachSegment(LOW), AttachSegment(HIGH)]
    assert queues.handle(SegmentAttached(LOW)) == queues.handle(SegmentAttached(HIGH)) == []
    assert add(queues, 0, "a3") == PARENT  # behind the rest
    assert written(queues, LOW) == written(queues, HIGH) == []
    assert queues.handle(SegmentDetached(PARENT, certain=True)) == [
        DropSegment(PARENT),
        WriteSegment(LOW),
        WriteSegment(HIGH),
    ]
    assert written(queues, LOW) == [["a1", "a2", "a3"]]
    assert written(queues, HIGH) == [["b1"]]


def test_what_receipt_came_for_while_frozen_is_not_sent_again():
    queues = some_queues(cut=BatchLimits(messages_max=1))
    add(queues, 0, "a1")
    add(queues, 0, "a2")
    written(queues, PARENT)
    queues.handle(LayoutAdvanced(SPLIT))
    queues.handle(SegmentAttached(LOW))
    assert names(queues.stored(PARENT, 0)) == ["a1"]
    queues.handle(SegmentDetached(PARENT, certain=True))
    assert written(queues, LOW) == [["a2"]]


def test_early_seal_requests_layout_and_waits_for_it():
    queues = some_queues()
    add(queues, 0, "a1")
    written(queues, PARENT)
    assert queues.refused(PARENT, 0, Sealed()) == [RefreshLayout(ONE.epoch), DrainSegment(PARENT)]
    assert queues.handle(SegmentDetached(PARENT, certain=True)) == []
    assert queues.handle(SegmentSealed(PARENT)) == []
    queues.handle(LayoutAdvanced(ONE))
    assert queues.queue(PARENT) is not None
    assert DropSegment(PARENT) in queues.handle(LayoutAdvanced(SPLIT))


def test_two_generations_that_pass_while_frozen_are_skipped():
    queues = some_queues()
    add(queues, 0, "a1")
    written(queues, PARENT)
    queues.handle(LayoutAdvanced(SPLIT))
    queues.handle(SegmentAttached(LOW))
    effects = queues.handle(LayoutAdvanced(AGAIN))
    assert effects == [AttachSegment(SegmentId(3)), AttachSegment(SegmentId(4)), DropSegment(LOW)]
    queues.handle(SegmentAttached(SegmentId(3)))
    assert written(queues, SegmentId(3)) == []
    queues.handle(SegmentDetached(PARENT, certain=False))
    assert written(queues, SegmentId(3)) == [["a1"]]


class DoesNotWaitForAllParents(SegmentQueues):
    def _held(self, queue: SegmentQueue) -> bool:
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


def test_merge_waits_for_all_its_parents():
    a_merge_with_one_parent_late(SegmentQueues)
    with pytest.raises(Violation):
        a_merge_with_one_parent_late(DoesNotWaitForAllParents)


def test_merge_puts_rests_in_order_of_sending():
    queues = some_queues(SPLIT, cut=BatchLimits(messages_max=10))
    for name, slot in [("a1", 0), ("b1", 0xFFFF), ("a2", 0), ("b2", 0xFFFF)]:
        add(queues, slot, name)
    queues.next_entry(HIGH)
    queues.handle(LayoutAdvanced(MERGED))
    queues.handle(SegmentDetached(HIGH))
    queues.handle(SegmentAttached(SegmentId(3)))
    assert written(queues, SegmentId(3)) == [["a1", "b1", "a2", "b2"]]


def test_what_may_be_below_mark_of_child_goes_alone():
    queues = some_queues(cut=BatchLimits(messages_max=10))
    for name in ["a0", "a1", "a2", "a3"]:
        add(queues, 0, name)
    written(queues, PARENT)
    queues.handle(LayoutAdvanced(SPLIT))
    queues.handle(SegmentDetached(PARENT))
    queues.handle(SegmentAttached(LOW, 1))
    assert written(queues, LOW) == [["a0"], ["a1"], ["a2", "a3"]]


def test_message_in_chunks_goes_again_as_whole():
    queues = some_queues()
    add(queues, 0, "large", alone=True)
    entry = queues.next_entry(PARENT)
    assert entry is not None
    entry.parts = 3
    assert queues.stored(PARENT, 0) is None
    assert queues.refused(PARENT, 0, Sealed()) == [RefreshLayout(ONE.epoch), DrainSegment(PARENT)]
    queues.handle(SegmentDetached(PARENT, certain=True))
    queues.handle(LayoutAdvanced(SPLIT))
    queues.handle(SegmentAttached(LOW))
    again = queues.next_entry(LOW)
    assert names(again) == ["large"]
    assert again is not entry
    assert names(queues.stored(LOW, 0)) == ["large"]


def test_after_lost_connection_same_entries_are_written_again_first():
    queues = some_queues(cut=BatchLimits(messages_max=2))
    for name in ["a", "b", "c"]:
        add(queues, 0, name)
    queues.next_entry(PARENT)
    queues.handle(SegmentDetached(PARENT))
    add(queues, 0, "d")
    assert queues.next_entry(PARENT) is None
    assert queues.handle(SegmentAttached(PARENT, 1)) == [WriteSegment(PARENT)]
    assert written(queues, PARENT) == [["a", "b"], ["c", "d"]]


# Bounds, numbers, layouts


def test_room_is_counted_in_bytes_over_all_queues():
    queues = some_queues(SPLIT, bytes_max=10)
    assert queues.room(100)  # alone it is let in, or it would be stuck
    add(queues, 0, size=6)
    add(queues, 0xFFFF, size=4)
    assert not queues.room(1)
    queues.next_entry(LOW)
    queues.stored(LOW, 0)
    assert queues.room(6)
    assert not queues.room(7)


def test_numbers_begin_above_what_every_owner_has():
    queues = SegmentQueues()
    queues.handle(LayoutAdvanced(SPLIT))
    queues.handle(SegmentAttached(LOW, 40))
    with pytest.raises(InvalidTransition):
        add(queues, 0)
    queues.handle(SegmentAttached(HIGH, 70))
    add(queues, 0)
    entry = queues.next_entry(LOW)
    assert entry is not None
    assert entry.sequence == 71


def test_given_numbers_are_kept_and_never_decrease_in_batch():
    queues = some_queues()
    for name, sequence in [("a", 7), ("b", 9), ("c", 8)]:
        add(queues, 0, name, sequence=sequence)
    add(queues, 0, "d")
    assert written(queues, PARENT) == [["a", "b"], ["c", "d"]]
    assert queues.next_sequence == 11


def test_groups_do_not_share_batch():
    queues = some_queues()
    for name, group in [("a", 1), ("b", 1), ("c", 2)]:
        add(queues, 0, name, group=group)
    assert written(queues, PARENT) == [["a", "b"], ["c"]]


def test_batch_is_bounded_in_bytes():
    queues = some_queues(cut=BatchLimits(bytes_max=5))
    for name, size in [("a", 2), ("b", 3), ("c", 9), ("d", 1)]:
        add(queues, 0, name, size=size)
    assert written(queues, PARENT) == [["a", "b"], ["c"], ["d"]]


def test_layout_that_is_not_newer_changes_nothing():
    queues = some_queues(SPLIT)
    assert queues.handle(LayoutAdvanced(ONE)) == []
    assert queues.handle(LayoutAdvanced(SPLIT)) == []
    assert queues.layout is SPLIT


def test_answers_for_queues_that_are_gone_change_nothing():
    queues = some_queues()
    queues.handle(LayoutAdvanced(SPLIT))
    effects: list[Effect] = [*queues.refused(PARENT, 0, Sealed())]
    for event in (SegmentAttached(PARENT), SegmentDetached(PARENT), SegmentSealed(PARENT)):
        effects += queues.handle(event)
    assert effects == []
    assert queues.stored(PARENT, 0) is None
    assert queues.next_entry(PARENT) is None


def test_plain_topic_keeps_one_queue_and_seal_fails_refused_messages():
    queues = some_queues(synthetic(["persistent://public/default/t"]), follows=False)
    add(queues, 0xFFFF, "a")
    written(queues, PARENT)
    assert queues.handle(SegmentSealed(PARENT)) == []
    assert fates(queues.refused(PARENT, 0, Sealed())) == {"a": SendStatus.FAILED}
    assert queues.queue(PARENT) is not None


def test_partitions_take_keys_as_pulsar_and_rest_by_range():
    topics = [f"persistent://public/default/t-partition-{index}" for index in range(2)]
    queues = some_queues(synthetic(topics))
    assert queues.add("a", KeyRoute(0x0000, 1), size=1, deadline=9.0).segment == SegmentId(1)
    assert queues.add("b", KeyRoute(0xFFFF, 4), size=1, deadline=9.0).segment == SegmentId(0)
    written(queues, SegmentId(1))
    after = migrated(topics, now_ms=1).raised()
    queues.handle(LayoutAdvanced(after))
    assert queues.add("a2", KeyRoute(0x0000, 1), size=1, deadline=9.0).segment == SegmentId(1)
    queues.handle(SegmentAttached(SegmentId(2)))
    queues.handle(SegmentAttached(SegmentId(3)))
    assert written(queues, SegmentId(3)) == []  # any plain topic may hold older messages of its keys
    queues.handle(SegmentDetached(SegmentId(1), certain=True))
    assert written(queues, SegmentId(2)) == [["a", "a2"]]
    assert written(queues, SegmentId(3)) == [["b"]]


def test_partition_slot_does_not_decide_while_rest_is_kept():
    topics = [f"persistent://public/default/t-partition-{index}" for index in range(2)]
    queues = some_queues(synthetic(topics))
    for hash in (1, 4):
        queues.add("old", KeyRoute(0x0000, hash), size=1, deadline=9.0)
    written(queues, SegmentId(0))
    written(queues, SegmentId(1))
    queues.handle(LayoutAdvanced(migrated(topics, now_ms=1).raised()))
    queues.handle(SegmentDetached(SegmentId(1), certain=True))  # the other one may still have older messages
    assert queues.add("odd", KeyRoute(0x0000, 1), size=1, deadline=9.0).segment == SegmentId(2)
    assert queues.add("even", KeyRoute(0x0000, 4), size=1, deadline=9.0).segment == SegmentId(0)
