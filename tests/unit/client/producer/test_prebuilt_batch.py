"""Sheaves: many messages as one entry, and as themselves again where segments or numbers are not those they were cut
for."""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.base.ids import SegmentId
from magnetar.base.limits import CLIENT_BATCH_BYTES_MAX
from magnetar.client.producer.batch import Stamp, single_frame
from magnetar.client.producer.fields import keyed
from magnetar.client.producer.prebuilt_batch import BatchingPlan, PrebuiltBatch, Single, by_segments, in_order
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable.encode import pack
from magnetar.client.producer.scalable.queued_messages import SendStatus
from magnetar.client.producer.scalable.segment_queue import BatchLimits
from magnetar.client.producer.scalable.segment_queues import (
    LayoutAdvanced,
    SegmentAttached,
    SegmentDetached,
    SegmentQueues,
)
from magnetar.layout.layout import Layout, initial
from magnetar.layout.plain_layout import synthetic
from magnetar.layout.routing import Routing
from tests.support.segment_queues import HIGH, LOW, MERGED, ONE, PARENT, SPLIT, add, fates, names, some_lanes, written

STAMP = Stamp(7, b"p-seg-1", None, 0, 1 << 20)
SLOTS = (0, 0xFFFF)


def a_sheaf(lanes: SegmentQueues, *rows: str, layout: Layout = ONE) -> PrebuiltBatch:
    """Rows that begin with "a" have the lowest slot, others the highest."""

    def singles() -> Iterable[Single]:
        for row in rows:
            slot = SLOTS[not row.startswith("a")]
            yield row.encode(), keyed(row[0]), KeyRoute(slot, slot)

    return PrebuiltBatch(
        b"|".join(row.encode() for row in rows),
        len(rows),
        lanes.next_sequence,
        value_bytes=sum(map(len, rows)),
        singles=singles,
        key=rows[0][:1].encode(),
        route=KeyRoute(SLOTS[not rows[0].startswith("a")], 0),
        epoch=layout.epoch,
    )


def payloads(lanes: SegmentQueues, segment: SegmentId) -> list[list[tuple[bytes, int]]]:
    found = []
    while (entry := lanes.next_entry(segment)) is not None:
        found.append([(message.item, message.sequence) for message in entry.messages])
    return found


def test_a_sheaf_is_one_entry_and_as_many_messages_as_it_has():
    lanes = some_lanes()
    sheaf = a_sheaf(lanes, "a1", "a2", "a3")
    assert lanes.add_sheaf(sheaf, 10.0) is lanes.lane(PARENT)
    assert (lanes.messages, lanes.next_sequence, lanes.places) == (3, 3, 3)
    entry = lanes.next_entry(PARENT)
    assert entry is not None
    assert (names(entry), entry.sequence, entry.highest) == ([sheaf], 0, 2)
    assert pack(entry, STAMP, 1, chunking=False).frames == [sheaf.frame(STAMP, 1)]
    assert lanes.stored(PARENT, 0) is entry
    assert (lanes.messages, lanes.bytes) == (0, 0)


def test_messages_before_and_behind_a_sheaf_keep_their_places():
    lanes = some_lanes()
    add(lanes, 0, "a1")
    sheaf = a_sheaf(lanes, "a2", "a3")
    lanes.add_sheaf(sheaf, 10.0)
    add(lanes, 0, "a4")
    assert written(lanes, PARENT) == [["a1"], [sheaf], ["a4"]]


def test_a_split_takes_a_sheaf_apart_and_every_message_goes_where_its_key_is():
    lanes = some_lanes(cut=BatchLimits(messages_max=10))
    lanes.add_sheaf(a_sheaf(lanes, "a1", "b1", "a2"), 10.0)
    lanes.add_sheaf(a_sheaf(lanes, "b2", "a3"), 10.0)
    assert len(payloads(lanes, PARENT)) == 2
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(SegmentAttached(LOW))
    lanes.handle(SegmentAttached(HIGH))
    lanes.handle(SegmentDetached(PARENT, certain=True))
    assert payloads(lanes, LOW) == [[(b"a1", 0), (b"a2", 2), (b"a3", 4)]]
    assert payloads(lanes, HIGH) == [[(b"b1", 1), (b"b2", 3)]]
    assert lanes.messages == 5
    lanes.stored(LOW, 0)
    lanes.stored(HIGH, 1)
    assert (lanes.messages, lanes.bytes) == (0, 0)


def test_what_may_be_stored_of_a_sheaf_is_sent_one_by_one_below_what_the_children_know():
    lanes = some_lanes(cut=BatchLimits(messages_max=10))
    lanes.add_sheaf(a_sheaf(lanes, "a1", "a2", "b1"), 10.0)
    payloads(lanes, PARENT)
    lanes.handle(LayoutAdvanced(SPLIT))
    lanes.handle(SegmentDetached(PARENT, certain=False))
    lanes.handle(SegmentAttached(LOW, 2))
    lanes.handle(SegmentAttached(HIGH, -1))
    assert payloads(lanes, LOW) == [[(b"a1", 0)], [(b"a2", 1)]]
    assert payloads(lanes, HIGH) == [[(b"b1", 2)]]
    gone = lanes.expired(99.0)
    assert {message.message.fate for message in gone} == {SendStatus.UNKNOWN}


def test_a_merge_puts_the_messages_of_sheaves_in_the_order_of_sending():
    lanes = some_lanes(SPLIT, cut=BatchLimits(messages_max=10))
    lanes.add_sheaf(a_sheaf(lanes, "a1", "a2", layout=SPLIT), 10.0)
    lanes.add_sheaf(a_sheaf(lanes, "b1", "b2", layout=SPLIT), 10.0)
    add(lanes, 0, "a3")
    lanes.handle(LayoutAdvanced(MERGED))
    lanes.handle(SegmentDetached(LOW, certain=True))
    lanes.handle(SegmentDetached(HIGH, certain=True))
    lanes.handle(SegmentAttached(SegmentId(3)))
    assert payloads(lanes, SegmentId(3)) == [[(b"a1", 0), (b"a2", 1), (b"b1", 2), (b"b2", 3), ("a3", 4)]]


def test_a_sheaf_of_another_layout_or_another_number_is_not_taken():
    lanes = some_lanes()
    older = a_sheaf(lanes, "a1", "a2")
    add(lanes, 0, "a0")
    assert lanes.add_sheaf(older, 10.0) is None  # its numbers were given away
    later = a_sheaf(lanes, "a1", "a2")
    lanes.handle(LayoutAdvanced(SPLIT))
    assert lanes.add_sheaf(later, 10.0) is None
    assert lanes.messages == 1


def test_a_sheaf_is_not_taken_while_a_sealed_segment_keeps_its_keys():
    lanes = some_lanes()
    add(lanes, 0, "a1")
    written(lanes, PARENT)
    lanes.handle(LayoutAdvanced(SPLIT))
    assert lanes.add_sheaf(a_sheaf(lanes, "a2", "a3", layout=SPLIT), 10.0) is None


def test_a_sheaf_written_and_lost_is_the_same_entry_again():
    lanes = some_lanes()
    sheaf = a_sheaf(lanes, "a1", "a2")
    lanes.add_sheaf(sheaf, 10.0)
    first = lanes.next_entry(PARENT)
    lanes.handle(SegmentDetached(PARENT))
    lanes.handle(SegmentAttached(PARENT, 1))
    assert lanes.next_entry(PARENT) is first


def test_a_sheaf_whose_time_is_up_is_told_once():
    lanes = some_lanes()
    sheaf = a_sheaf(lanes, "a1", "a2")
    lanes.add_sheaf(sheaf, 10.0)
    assert fates(lanes.expired(11.0)) == {sheaf: SendStatus.FAILED}
    assert (lanes.messages, lanes.bytes) == (0, 0)


def test_layouts_are_cut_by_ranges_and_buckets_and_plain_topics_are_not():
    layout = initial(2, now_ms=0, buckets=2)
    cutting = by_segments(layout, Routing.LOW16, BatchLimits(), 5)
    assert cutting is not None
    assert cutting.starts == (0, 0x8000)
    assert cutting.splits == tuple(one.bucket_splits for one in layout.active)
    assert cutting.destinations == 4
    assert (cutting.sequence, cutting.bytes_max, cutting.epoch) == (5, CLIENT_BATCH_BYTES_MAX, layout.epoch)
    assert by_segments(synthetic(["persistent://a/b/c"]), Routing.LOW16, BatchLimits(), 0) is None
    assert BatchingPlan(0, 1, 1).destinations == 1


def numbered(numbers: list[int], *, low: bool, layout: Layout = SPLIT) -> PrebuiltBatch:
    """Of one segment of a split, with numbers that its sender gave."""
    slot = SLOTS[not low]

    def singles() -> Iterable[Single]:
        for number in numbers:
            fields = keyed("a" if low else "b")
            fields.sequence = number
            yield b"%d" % number, fields, KeyRoute(slot, slot)

    return PrebuiltBatch(
        b"".join(b"%d" % number for number in numbers),
        len(numbers),
        numbers[0],
        value_bytes=sum(len(str(number)) for number in numbers),
        singles=singles,
        numbers=numbers,
        route=KeyRoute(slot, 0),
        epoch=layout.epoch,
    )


def test_numbers_that_were_given_stay_with_their_holes():
    lanes = some_lanes(SPLIT)
    even, odd = numbered([10, 12, 14], low=True), numbered([11, 13], low=False)
    assert lanes.add_sheaves([even, odd], 10.0) == [lanes.lane(LOW), lanes.lane(HIGH)]
    assert (lanes.messages, lanes.places, lanes.next_sequence) == (5, 5, 15)
    entry = lanes.next_entry(LOW)
    assert entry is not None
    assert (entry.sequence, entry.highest) == (10, 14)
    assert entry.holds(13)
    assert lanes.stored(LOW, 10) is entry
    assert lanes.messages == 2


def test_one_message_of_a_segment_is_an_entry_of_its_own():
    lanes = some_lanes(SPLIT)
    assert lanes.add_sheaves([numbered([10, 12], low=True), numbered([11], low=False)], 10.0)
    assert payloads(lanes, HIGH) == [[(b"11", 11)]]


def test_a_merge_puts_numbers_of_several_segments_in_their_order():
    lanes = some_lanes(SPLIT, cut=BatchLimits(messages_max=10))
    lanes.add_sheaves([numbered([10, 12], low=True), numbered([11, 13], low=False)], 10.0)
    lanes.add_sheaves([numbered([15, 16], low=True), numbered([14], low=False)], 10.0)
    lanes.handle(LayoutAdvanced(MERGED))
    lanes.handle(SegmentDetached(LOW, certain=True))
    lanes.handle(SegmentDetached(HIGH, certain=True))
    lanes.handle(SegmentAttached(SegmentId(3)))
    assert [number for entry in payloads(lanes, SegmentId(3)) for _, number in entry] == list(range(10, 17))


def test_of_several_sheaves_all_are_taken_or_none():
    """One is of another layout, of a segment that is not open yet, or of one whose owner may have some of it."""
    group = [numbered([10, 12], low=True), numbered([11, 13], low=False)]
    older = [numbered([10, 12], low=True), numbered([11, 13], low=False, layout=ONE)]
    assert some_lanes(SPLIT).add_sheaves(older, 10.0) == []
    for last in (11, 10**9):
        known = SegmentQueues()
        known.handle(LayoutAdvanced(SPLIT))
        known.handle(SegmentAttached(LOW, -1))
        known.handle(SegmentAttached(HIGH, last))
        assert known.add_sheaves(group, 10.0) == []
        assert known.messages == 0
    closed = some_lanes()
    closed.handle(LayoutAdvanced(SPLIT))
    closed.handle(SegmentDetached(PARENT, certain=True))
    closed.handle(SegmentAttached(LOW))
    assert closed.add_sheaves(group, 10.0) == []
    closed.handle(SegmentAttached(HIGH))
    assert len(closed.add_sheaves(group, 10.0)) == 2


def test_messages_of_sheaves_come_by_their_numbers_and_one_alone_is_a_plain_entry():
    group = [numbered([10, 12], low=True), numbered([11], low=False)]
    assert [number for number, _, _ in in_order(group)] == [10, 11, 12]
    (_, fields, _) = next(iter(group[1].singles()))
    assert fields is not None
    assert group[1].frame(STAMP, 1) == single_frame(STAMP, b"11", fields, 11, 1)
