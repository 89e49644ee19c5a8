"""Lanes: what a seal does to the messages of one producer, step by step. Random lives are in `test_lanes_machine`."""

from __future__ import annotations

import pytest

from magnetar.base.errors import BadChecksum, Closed, InvalidTransition, Sealed, StorageFailed
from magnetar.base.ids import SegmentId
from magnetar.client.lane import Cut, Entry, Fate, Lane
from magnetar.client.lanes import (
    DropLane,
    Effect,
    LaneClosed,
    LaneOpened,
    Lanes,
    LaneSealed,
    LayoutAdvanced,
    OpenLane,
    ReattachLane,
    Report,
    SeekLayout,
    SettleLane,
    WriteLane,
)
from magnetar.client.router import Route
from magnetar.layout.layout import initial, migrated, synthetic
from tests.unit.client.reshaping import Violation, World

ONE = initial(1, now_ms=0)
SPLIT = ONE.split(SegmentId(0), now_ms=1)
AGAIN = SPLIT.split(SegmentId(1), now_ms=2)
MERGED = SPLIT.merge([SegmentId(1), SegmentId(2)], now_ms=2)

PARENT, LOW, HIGH = SegmentId(0), SegmentId(1), SegmentId(2)


def some_lanes(layout=ONE, *, last: int = -1, **options) -> Lanes:
    lanes = Lanes(**options)
    for effect in lanes.handle(LayoutAdvanced(layout)):
        assert isinstance(effect, OpenLane)
        lanes.handle(LaneOpened(effect.segment, last))
    return lanes


def add(lanes: Lanes, slot: int, name: str = "", *, deadline: float = 10.0, **options) -> SegmentId:
    return lanes.add(name, Route(slot, slot), size=options.pop("size", 1), deadline=deadline, **options)


def names(entry: Entry | None) -> list[str]:
    return [] if entry is None else [message.item for message in entry.messages]


def written(lanes: Lanes, segment: SegmentId) -> list[list[str]]:
    found = []
    while (entry := lanes.next_entry(segment)) is not None:
        found.append(names(entry))
    return found


def fates(effects) -> dict[str, Fate]:
    return {effect.message.item: effect.message.fate for effect in effects if isinstance(effect, Report)}


def test_a_split_moves_the_rest_in_order_and_releases_the_children_only_then():
    lanes = some_lanes(cut=Cut(messages_max=3))
    for name, slot in [("a1", 0), ("b1", 0xFFFF), ("a2", 0)]:
        add(lanes, slot, name)
    assert written(lanes, PARENT) == [["a1", "b1", "a2"]]
    effects = lanes.handle(LayoutAdvanced(SPLIT))
    assert effects == [SettleLane(PARENT), OpenLane(LOW), OpenLane(HIGH)]
    assert lanes.handle(LaneOpened(LOW)) == lanes.handle(LaneOpened(HIGH)) == []
    assert add(lanes, 0, "a3") == PARENT  # behind the rest
    assert written(lanes, LOW) == written(lanes, HIGH) == []
    assert lanes.handle(LaneClosed(PARENT, certain=True)) == [DropLane(PARENT), WriteLane(LOW), WriteLane(HIGH)]
    assert written(lanes, LOW) == [["a1", "a2", "a3"]]
    assert written(lanes, HIGH) == [["b1"]]


def test_what_a_receipt_came_for_while_frozen_is_not_sent_again():
    lanes = some_lanes(cut=Cut(messages_max=1))
    add(lanes, 0, "a1")
    add(lanes, 0, "a2")
    written(lanes, PARENT)
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(LaneOpened(LOW))
    assert names(lanes.stored(PARENT, 0)) == ["a1"]
    lanes.handle(LaneClosed(PARENT, certain=True))
    assert written(lanes, LOW) == [["a2"]]


def test_a_seal_heard_before_the_layout_asks_for_one_and_waits_for_it():
    lanes = some_lanes()
    add(lanes, 0, "a1")
    written(lanes, PARENT)
    assert lanes.refused(PARENT, 0, Sealed()) == [SeekLayout(ONE.epoch), SettleLane(PARENT)]
    assert lanes.handle(LaneClosed(PARENT, certain=True)) == []
    assert lanes.handle(LaneSealed(PARENT)) == []
    lanes.handle(LayoutAdvanced(ONE))
    assert lanes.lane(PARENT) is not None
    assert DropLane(PARENT) in lanes.handle(LayoutAdvanced(SPLIT))


def test_two_generations_that_pass_while_frozen_are_skipped():
    lanes = some_lanes()
    add(lanes, 0, "a1")
    written(lanes, PARENT)
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(LaneOpened(LOW))
    effects = lanes.handle(LayoutAdvanced(AGAIN))
    assert effects == [OpenLane(SegmentId(3)), OpenLane(SegmentId(4)), DropLane(LOW)]
    lanes.handle(LaneOpened(SegmentId(3)))
    assert written(lanes, SegmentId(3)) == []
    lanes.handle(LaneClosed(PARENT, certain=False))
    assert written(lanes, SegmentId(3)) == [["a1"]]


class DoesNotWaitForAllParents(Lanes):
    def _held(self, lane: Lane) -> bool:
        return False


def a_merge_with_one_parent_late(make: type[Lanes]) -> None:
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
    a_merge_with_one_parent_late(Lanes)
    with pytest.raises(Violation):
        a_merge_with_one_parent_late(DoesNotWaitForAllParents)


def test_a_merge_puts_the_rests_in_the_order_of_sending():
    lanes = some_lanes(SPLIT, cut=Cut(messages_max=10))
    for name, slot in [("a1", 0), ("b1", 0xFFFF), ("a2", 0), ("b2", 0xFFFF)]:
        add(lanes, slot, name)
    lanes.next_entry(HIGH)
    lanes.handle(LayoutAdvanced(MERGED))
    lanes.handle(LaneClosed(HIGH))
    lanes.handle(LaneOpened(SegmentId(3)))
    assert written(lanes, SegmentId(3)) == [["a1", "b1", "a2", "b2"]]


def test_what_may_be_below_the_mark_of_a_child_goes_alone():
    lanes = some_lanes(cut=Cut(messages_max=10))
    for name in ["a0", "a1", "a2", "a3"]:
        add(lanes, 0, name)
    written(lanes, PARENT)
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(LaneClosed(PARENT))
    lanes.handle(LaneOpened(LOW, 1))
    assert written(lanes, LOW) == [["a0"], ["a1"], ["a2", "a3"]]


def test_a_message_in_chunks_goes_again_as_a_whole():
    lanes = some_lanes()
    add(lanes, 0, "large", alone=True)
    entry = lanes.next_entry(PARENT)
    assert entry is not None
    entry.parts = 3
    assert lanes.stored(PARENT, 0) is None
    assert lanes.refused(PARENT, 0, Sealed()) == [SeekLayout(ONE.epoch), SettleLane(PARENT)]
    lanes.handle(LaneClosed(PARENT, certain=True))
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(LaneOpened(LOW))
    again = lanes.next_entry(LOW)
    assert names(again) == ["large"]
    assert again is not entry
    assert names(lanes.stored(LOW, 0)) == ["large"]


def test_after_a_lost_connection_the_same_entries_are_written_again_first():
    lanes = some_lanes(cut=Cut(messages_max=2))
    for name in ["a", "b", "c"]:
        add(lanes, 0, name)
    lanes.next_entry(PARENT)
    lanes.handle(LaneClosed(PARENT))
    add(lanes, 0, "d")
    assert lanes.next_entry(PARENT) is None
    assert lanes.handle(LaneOpened(PARENT, 1)) == [WriteLane(PARENT)]
    assert written(lanes, PARENT) == [["a", "b"], ["c", "d"]]


# Outcomes


def test_a_message_that_never_left_fails_for_sure():
    lanes = some_lanes()
    lanes.handle(LaneClosed(PARENT))
    add(lanes, 0, "a", deadline=5.0)
    add(lanes, 0, "b", deadline=6.0)
    assert lanes.deadline == 5.0
    assert fates(lanes.expired(5.0)) == {"a": Fate.FAILED}
    lanes.handle(LaneOpened(PARENT))
    assert written(lanes, PARENT) == [["b"]]


def test_a_message_without_an_answer_may_be_stored():
    lanes = some_lanes()
    add(lanes, 0, "a", deadline=5.0)
    written(lanes, PARENT)
    assert fates(lanes.expired(5.0)) == {"a": Fate.UNKNOWN}
    entry = lanes.stored(PARENT, 0)  # late: its sender was told already
    assert entry is not None
    assert [message.fate for message in entry.messages] == [Fate.UNKNOWN]
    assert lanes.bytes == lanes.messages == 0
    assert lanes.deadline is None


@pytest.mark.parametrize(("certain", "fate"), [(True, Fate.FAILED), (False, Fate.UNKNOWN)])
def test_a_message_that_a_sealed_segment_did_not_answer(certain, fate):
    lanes = some_lanes()
    add(lanes, 0, "a", deadline=5.0)
    written(lanes, PARENT)
    lanes.handle(LaneSealed(PARENT))
    lanes.handle(LaneClosed(PARENT, certain=certain))
    assert fates(lanes.expired(5.0)) == {"a": fate}


def test_a_refused_message_of_a_sealed_segment_fails_for_sure_even_if_the_connection_is_lost():
    lanes = some_lanes(cut=Cut(messages_max=1))
    add(lanes, 0, "a", deadline=5.0)
    add(lanes, 0, "b", deadline=5.0)
    written(lanes, PARENT)
    lanes.refused(PARENT, 0, Sealed())
    lanes.handle(LaneClosed(PARENT))
    assert fates(lanes.expired(5.0)) == {"a": Fate.FAILED, "b": Fate.UNKNOWN}


def test_a_doubt_is_kept_when_the_next_segment_refuses():
    lanes = some_lanes()
    add(lanes, 0, "a")
    written(lanes, PARENT)
    lanes.handle(LaneClosed(PARENT))
    lanes.handle(LaneSealed(PARENT))
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(LaneOpened(LOW))
    written(lanes, LOW)
    assert fates(lanes.refused(LOW, 0, BadChecksum())) == {"a": Fate.UNKNOWN}


def test_a_batch_of_which_one_message_failed_goes_without_it():
    lanes = some_lanes()
    add(lanes, 0, "a", deadline=5.0)
    add(lanes, 0, "b", deadline=6.0)
    entry = lanes.next_entry(PARENT)
    assert entry is not None
    entry.frames = b"made"
    lanes.handle(LaneClosed(PARENT, certain=True))
    assert fates(lanes.expired(5.0)) == {"a": Fate.FAILED}
    lanes.handle(LaneOpened(PARENT))
    again = lanes.next_entry(PARENT)
    assert again is entry
    assert names(again) == ["b"]
    assert again.frames is None


def test_a_refusal_for_good_is_told_and_others_go_on():
    lanes = some_lanes(cut=Cut(messages_max=1))
    add(lanes, 0, "a")
    add(lanes, 0, "b")
    written(lanes, PARENT)
    assert fates(lanes.refused(PARENT, 0, BadChecksum())) == {"a": Fate.FAILED}
    assert names(lanes.stored(PARENT, 1)) == ["b"]


def test_a_refusal_that_leaves_open_what_happened_begins_again():
    lanes = some_lanes()
    add(lanes, 0, "a")
    written(lanes, PARENT)
    assert lanes.refused(PARENT, 0, StorageFailed()) == [ReattachLane(PARENT)]
    lanes.handle(LaneClosed(PARENT))
    lanes.handle(LaneOpened(PARENT))
    assert written(lanes, PARENT) == [["a"]]


def test_closing_tells_every_message_what_became_of_it():
    lanes = some_lanes(cut=Cut(messages_max=1))
    add(lanes, 0, "a")
    lanes.next_entry(PARENT)
    add(lanes, 0, "b")
    effects = lanes.ended(Closed("the producer is closed"))
    assert fates(effects) == {"a": Fate.UNKNOWN, "b": Fate.FAILED}
    assert effects[-1] == DropLane(PARENT)
    assert lanes.stored(PARENT, 0) is None
    assert (lanes.bytes, lanes.messages) == (0, 0)


def test_a_receipt_that_skips_the_oldest_is_not_believed():
    lanes = some_lanes(cut=Cut(messages_max=1))
    add(lanes, 0, "a")
    add(lanes, 0, "b")
    written(lanes, PARENT)
    with pytest.raises(InvalidTransition):
        lanes.stored(PARENT, 1)


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
    lanes = Lanes()
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(LaneOpened(LOW, 40))
    with pytest.raises(InvalidTransition):
        add(lanes, 0)
    lanes.handle(LaneOpened(HIGH, 70))
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
    lanes = some_lanes(cut=Cut(bytes_max=5))
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
    for event in (LaneOpened(PARENT), LaneClosed(PARENT), LaneSealed(PARENT)):
        effects += lanes.handle(event)
    assert effects == []
    assert lanes.stored(PARENT, 0) is None
    assert lanes.next_entry(PARENT) is None


def test_a_plain_topic_is_one_lane_for_ever_and_a_seal_fails_what_it_refused():
    lanes = some_lanes(synthetic(["persistent://public/default/t"]), follows=False)
    add(lanes, 0xFFFF, "a")
    written(lanes, PARENT)
    assert lanes.handle(LaneSealed(PARENT)) == []
    assert fates(lanes.refused(PARENT, 0, Sealed())) == {"a": Fate.FAILED}
    assert lanes.lane(PARENT) is not None


def test_partitions_take_keys_as_pulsar_does_and_their_rest_goes_by_range_after_a_migration():
    topics = [f"persistent://public/default/t-partition-{index}" for index in range(2)]
    lanes = some_lanes(synthetic(topics))
    assert lanes.add("a", Route(0x0000, 1), size=1, deadline=9.0) == SegmentId(1)
    assert lanes.add("b", Route(0xFFFF, 4), size=1, deadline=9.0) == SegmentId(0)
    written(lanes, SegmentId(1))
    after = migrated(topics, now_ms=1).raised()
    lanes.handle(LayoutAdvanced(after))
    assert lanes.add("a2", Route(0x0000, 1), size=1, deadline=9.0) == SegmentId(1)
    lanes.handle(LaneOpened(SegmentId(2)))
    lanes.handle(LaneOpened(SegmentId(3)))
    assert written(lanes, SegmentId(3)) == []  # any plain topic may hold older messages of its keys
    lanes.handle(LaneClosed(SegmentId(1), certain=True))
    assert written(lanes, SegmentId(2)) == [["a", "a2"]]
    assert written(lanes, SegmentId(3)) == [["b"]]
