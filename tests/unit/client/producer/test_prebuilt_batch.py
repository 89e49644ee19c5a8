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
from tests.support.segment_queues import HIGH, LOW, MERGED, ONE, PARENT, SPLIT, add, fates, names, some_queues, written

STAMP = Stamp(7, b"p-seg-1", None, 0, 1 << 20)
SLOTS = (0, 0xFFFF)


def a_sheaf(queues: SegmentQueues, *rows: str, layout: Layout = ONE) -> PrebuiltBatch:
    """Rows that begin with "a" have the lowest slot, others the highest."""

    def singles() -> Iterable[Single]:
        for row in rows:
            slot = SLOTS[not row.startswith("a")]
            yield row.encode(), keyed(row[0]), KeyRoute(slot, slot)

    return PrebuiltBatch(
        b"|".join(row.encode() for row in rows),
        len(rows),
        queues.next_sequence,
        value_bytes=sum(map(len, rows)),
        singles=singles,
        key=rows[0][:1].encode(),
        route=KeyRoute(SLOTS[not rows[0].startswith("a")], 0),
        epoch=layout.epoch,
    )


def payloads(queues: SegmentQueues, segment: SegmentId) -> list[list[tuple[bytes, int]]]:
    found = []
    while (entry := queues.next_entry(segment)) is not None:
        found.append([(message.item, message.sequence) for message in entry.messages])
    return found


def test_prebuilt_batch_is_one_entry_with_all_messages():
    queues = some_queues()
    sheaf = a_sheaf(queues, "a1", "a2", "a3")
    assert queues.add_sheaf(sheaf, 10.0) is queues.queue(PARENT)
    assert (queues.messages, queues.next_sequence, queues.places) == (3, 3, 3)
    entry = queues.next_entry(PARENT)
    assert entry is not None
    assert (names(entry), entry.sequence, entry.highest) == ([sheaf], 0, 2)
    assert pack(entry, STAMP, 1, chunking=False).frames == [sheaf.frame(STAMP, 1)]
    assert queues.stored(PARENT, 0) is entry
    assert (queues.messages, queues.bytes) == (0, 0)


def test_messages_before_and_behind_sheaf_keep_their_places():
    queues = some_queues()
    add(queues, 0, "a1")
    sheaf = a_sheaf(queues, "a2", "a3")
    queues.add_sheaf(sheaf, 10.0)
    add(queues, 0, "a4")
    assert written(queues, PARENT) == [["a1"], [sheaf], ["a4"]]


def test_split_divides_prebuilt_batch_by_keys():
    queues = some_queues(cut=BatchLimits(messages_max=10))
    queues.add_sheaf(a_sheaf(queues, "a1", "b1", "a2"), 10.0)
    queues.add_sheaf(a_sheaf(queues, "b2", "a3"), 10.0)
    assert len(payloads(queues, PARENT)) == 2
    queues.handle(LayoutAdvanced(SPLIT))
    queues.handle(SegmentAttached(LOW))
    queues.handle(SegmentAttached(HIGH))
    queues.handle(SegmentDetached(PARENT, certain=True))
    assert payloads(queues, LOW) == [[(b"a1", 0), (b"a2", 2), (b"a3", 4)]]
    assert payloads(queues, HIGH) == [[(b"b1", 1), (b"b2", 3)]]
    assert queues.messages == 5
    queues.stored(LOW, 0)
    queues.stored(HIGH, 1)
    assert (queues.messages, queues.bytes) == (0, 0)


def test_uncertain_part_of_prebuilt_batch_is_sent_one_by_one():
    queues = some_queues(cut=BatchLimits(messages_max=10))
    queues.add_sheaf(a_sheaf(queues, "a1", "a2", "b1"), 10.0)
    payloads(queues, PARENT)
    queues.handle(LayoutAdvanced(SPLIT))
    queues.handle(SegmentDetached(PARENT, certain=False))
    queues.handle(SegmentAttached(LOW, 2))
    queues.handle(SegmentAttached(HIGH, -1))
    assert payloads(queues, LOW) == [[(b"a1", 0)], [(b"a2", 1)]]
    assert payloads(queues, HIGH) == [[(b"b1", 2)]]
    gone = queues.expired(99.0)
    assert {message.message.fate for message in gone} == {SendStatus.UNKNOWN}


def test_merge_puts_messages_of_sheaves_in_order_of_sending():
    queues = some_queues(SPLIT, cut=BatchLimits(messages_max=10))
    queues.add_sheaf(a_sheaf(queues, "a1", "a2", layout=SPLIT), 10.0)
    queues.add_sheaf(a_sheaf(queues, "b1", "b2", layout=SPLIT), 10.0)
    add(queues, 0, "a3")
    queues.handle(LayoutAdvanced(MERGED))
    queues.handle(SegmentDetached(LOW, certain=True))
    queues.handle(SegmentDetached(HIGH, certain=True))
    queues.handle(SegmentAttached(SegmentId(3)))
    assert payloads(queues, SegmentId(3)) == [[(b"a1", 0), (b"a2", 1), (b"b1", 2), (b"b2", 3), ("a3", 4)]]


def test_sheaf_of_another_layout_or_another_number_is_not_taken():
    queues = some_queues()
    older = a_sheaf(queues, "a1", "a2")
    add(queues, 0, "a0")
    assert queues.add_sheaf(older, 10.0) is None  # its numbers were given away
    later = a_sheaf(queues, "a1", "a2")
    queues.handle(LayoutAdvanced(SPLIT))
    assert queues.add_sheaf(later, 10.0) is None
    assert queues.messages == 1


def test_sheaf_is_not_taken_while_sealed_segment_keeps_its_keys():
    queues = some_queues()
    add(queues, 0, "a1")
    written(queues, PARENT)
    queues.handle(LayoutAdvanced(SPLIT))
    assert queues.add_sheaf(a_sheaf(queues, "a2", "a3", layout=SPLIT), 10.0) is None


def test_sheaf_written_and_lost_is_same_entry_again():
    queues = some_queues()
    sheaf = a_sheaf(queues, "a1", "a2")
    queues.add_sheaf(sheaf, 10.0)
    first = queues.next_entry(PARENT)
    queues.handle(SegmentDetached(PARENT))
    queues.handle(SegmentAttached(PARENT, 1))
    assert queues.next_entry(PARENT) is first


def test_sheaf_whose_time_is_up_is_told_once():
    queues = some_queues()
    sheaf = a_sheaf(queues, "a1", "a2")
    queues.add_sheaf(sheaf, 10.0)
    assert fates(queues.expired(11.0)) == {sheaf: SendStatus.FAILED}
    assert (queues.messages, queues.bytes) == (0, 0)


def test_layouts_cut_by_ranges_and_buckets_except_plain_topics():
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
    queues = some_queues(SPLIT)
    even, odd = numbered([10, 12, 14], low=True), numbered([11, 13], low=False)
    assert queues.add_sheaves([even, odd], 10.0) == [queues.queue(LOW), queues.queue(HIGH)]
    assert (queues.messages, queues.places, queues.next_sequence) == (5, 5, 15)
    entry = queues.next_entry(LOW)
    assert entry is not None
    assert (entry.sequence, entry.highest) == (10, 14)
    assert entry.holds(13)
    assert queues.stored(LOW, 10) is entry
    assert queues.messages == 2


def test_one_message_of_segment_is_entry_of_its_own():
    queues = some_queues(SPLIT)
    assert queues.add_sheaves([numbered([10, 12], low=True), numbered([11], low=False)], 10.0)
    assert payloads(queues, HIGH) == [[(b"11", 11)]]


def test_merge_puts_numbers_of_several_segments_in_their_order():
    queues = some_queues(SPLIT, cut=BatchLimits(messages_max=10))
    queues.add_sheaves([numbered([10, 12], low=True), numbered([11, 13], low=False)], 10.0)
    queues.add_sheaves([numbered([15, 16], low=True), numbered([14], low=False)], 10.0)
    queues.handle(LayoutAdvanced(MERGED))
    queues.handle(SegmentDetached(LOW, certain=True))
    queues.handle(SegmentDetached(HIGH, certain=True))
    queues.handle(SegmentAttached(SegmentId(3)))
    assert [number for entry in payloads(queues, SegmentId(3)) for _, number in entry] == list(range(10, 17))


def test_of_several_sheaves_all_are_taken_or_none():
    """One is of another layout, of a segment that is not open yet, or of one whose owner may have some of it."""
    group = [numbered([10, 12], low=True), numbered([11, 13], low=False)]
    older = [numbered([10, 12], low=True), numbered([11, 13], low=False, layout=ONE)]
    assert some_queues(SPLIT).add_sheaves(older, 10.0) == []
    for last in (11, 10**9):
        known = SegmentQueues()
        known.handle(LayoutAdvanced(SPLIT))
        known.handle(SegmentAttached(LOW, -1))
        known.handle(SegmentAttached(HIGH, last))
        assert known.add_sheaves(group, 10.0) == []
        assert known.messages == 0
    closed = some_queues()
    closed.handle(LayoutAdvanced(SPLIT))
    closed.handle(SegmentDetached(PARENT, certain=True))
    closed.handle(SegmentAttached(LOW))
    assert closed.add_sheaves(group, 10.0) == []
    closed.handle(SegmentAttached(HIGH))
    assert len(closed.add_sheaves(group, 10.0)) == 2


def test_prebuilt_messages_are_ordered_and_single_one_is_plain():
    group = [numbered([10, 12], low=True), numbered([11], low=False)]
    assert [number for number, _, _ in in_order(group)] == [10, 11, 12]
    (_, fields, _) = next(iter(group[1].singles()))
    assert fields is not None
    assert group[1].frame(STAMP, 1) == single_frame(STAMP, b"11", fields, 11, 1)
