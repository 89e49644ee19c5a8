"""Messages in columns: cut as they are, and apart again where one of them has to be told from the others."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import Sealed
from magnetar.base.hashes import low16, murmur3
from magnetar.base.limits import BUCKET_WINDOW_S
from magnetar.client.producer.batch import Stamp
from magnetar.client.producer.config import Counters
from magnetar.client.producer.fields import keyed
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable.encode import EncodedEntry, pack
from magnetar.client.producer.scalable.queued_messages import Columns, SendStatus, renumber
from magnetar.client.producer.scalable.results import MessageResults
from magnetar.client.producer.scalable.segment_queue import BatchLimits
from magnetar.client.producer.scalable.segment_queues import (
    LayoutAdvanced,
    SegmentAttached,
    SegmentDetached,
    SegmentQueues,
)
from magnetar.layout.layout import initial
from magnetar.wire.ids import MessageId
from tests.support.segment_queues import HIGH, LOW, ONE, PARENT, SPLIT, add, fates, names, some_queues, written

FOUR = initial(1, now_ms=0, buckets=4)


def gather(queues: SegmentQueues, slot: int, name: str, *, size: int = 1, deadline: float = 10.0, done=None) -> None:
    assert queues.gather(name, keyed(name), done, KeyRoute(slot, murmur3(name.encode())), size, deadline) is not None


def columns(*sizes: int, first: int = 0) -> Columns:
    made = Columns(0, 0)
    for number, size in enumerate(sizes, first):
        made.items.append(b"x" * number)
        made.fields.append(None)
        made.dones.append(None)
        made.routes.append(KeyRoute(number, number))
        made.sequences.append(number)
        made.sizes.append(size)
        made.deadlines.append(float(number))
    return made


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 6), st.integers(1, 80))
def test_pieces_keep_to_both_limits_and_to_order(sizes, messages_max, bytes_max):
    found = columns(*sizes).pieces(messages_max, bytes_max)
    assert [number for piece in found for number in piece.sequences] == list(range(len(sizes)))
    assert [size for piece in found for size in piece.sizes] == sizes
    for piece in found:
        assert len(piece) <= messages_max
        assert len(piece) == 1 or sum(piece.sizes) <= bytes_max
    for piece, following in pairwise(found):  # none could have held one more
        assert len(piece) == messages_max or sum(piece.sizes) + following.sizes[0] > bytes_max


def test_numbers_given_out_anew_grow_and_places_go_with_them():
    first, second = columns(1, 1, 1), columns(1, 1, first=3)
    first.sequences = first.came = [10, 13, 14]
    second.sequences = second.came = [11, 12]
    first.offset = second.offset = 10
    renumber([first, second])
    assert (first.sequences, second.sequences) == ([10, 11, 12], [13, 14])
    assert [(one.sequence, one.place, one.turn) for one in first.singles()] == [(10, 0, 0), (11, 1, 3), (12, 2, 4)]
    assert [(one.sequence, one.place, one.turn) for one in second.singles()] == [(13, 3, 1), (14, 4, 2)]


def test_gathered_messages_are_entry_without_object_for_each():
    queues = some_queues()
    for name in ("a", "b", "c"):
        gather(queues, 0, name)
    entry = queues.next_entry(PARENT)
    assert entry is not None
    assert entry.columns is not None
    assert (entry.sequence, entry.highest, entry.alive, entry.deadline) == (0, 2, True, 10.0)
    assert queues.next_entry(PARENT) is None
    assert (queues.messages, queues.bytes) == (3, 3)
    assert queues.stored(PARENT, 0) is entry
    assert entry.columns is not None
    assert (queues.messages, queues.bytes) == (0, 0)
    assert [one.fate for one in entry.messages] == [SendStatus.STORED] * 3


def test_message_that_waits_alone_goes_behind_those_gathered_before_it():
    queues = some_queues(cut=BatchLimits(messages_max=10))
    gather(queues, 0, "a")
    gather(queues, 0, "b")
    add(queues, 0, "large", alone=True)
    gather(queues, 0, "c")
    assert written(queues, PARENT) == [["a", "b"], ["large"], ["c"]]


def test_number_given_by_sender_separates_columns():
    queues = some_queues(cut=BatchLimits(messages_max=10))
    gather(queues, 0, "a")
    written(queues, PARENT)
    add(queues, 0, "given", sequence=50)
    gather(queues, 0, "b")
    gather(queues, 0, "c")
    found = []
    while (entry := queues.next_entry(PARENT)) is not None:
        found += [(one.item, one.sequence, one.place, one.turn) for one in entry.messages]
    assert found == [("given", 50, 1, 1), ("b", 51, 2, 2), ("c", 52, 3, 3)]


def test_queue_that_is_not_attached_gathers_nothing():
    queues = some_queues()
    queues.handle(SegmentDetached(PARENT))
    assert queues.gather("a", None, None, KeyRoute(0, 0), 1, 10.0) is None
    queues.handle(SegmentAttached(PARENT))
    gather(queues, 0, "a")


def test_nothing_is_gathered_before_every_segment_told_its_number():
    queues = SegmentQueues()
    queues.handle(LayoutAdvanced(ONE))
    assert queues.gather("a", None, None, KeyRoute(0, 0), 1, 10.0) is None


def test_split_moves_gathered_messages_written_or_not_in_order():
    queues = some_queues(cut=BatchLimits(messages_max=3))
    for name, slot in [("a1", 0), ("b1", 0xFFFF), ("a2", 0)]:
        gather(queues, slot, name)
    entry = queues.next_entry(PARENT)
    assert entry is not None
    assert entry.columns is not None
    for name, slot in [("b2", 0xFFFF), ("a3", 0)]:
        gather(queues, slot, name)
    queues.refused(PARENT, 0, Sealed())
    queues.handle(LayoutAdvanced(SPLIT))
    assert queues.gather("a4", None, None, KeyRoute(0, 0), 1, 10.0) is None  # its queue is sealed: behind the rest
    add(queues, 0, "a4")
    queues.handle(SegmentAttached(LOW))
    queues.handle(SegmentAttached(HIGH))
    queues.handle(SegmentDetached(PARENT, certain=True))
    assert written(queues, LOW) == [["a1", "a2", "a3"], ["a4"]]
    assert written(queues, HIGH) == [["b1", "b2"]]


def test_columns_written_to_lost_connection_are_unknown_and_resent():
    queues = some_queues()
    for name in ("a", "b"):
        gather(queues, 0, name)
    first = queues.next_entry(PARENT)
    gather(queues, 0, "c")
    queues.handle(SegmentDetached(PARENT))
    queues.handle(SegmentAttached(PARENT))
    assert queues.next_entry(PARENT) is first
    assert [one.doubt for one in first.messages] == [True, True]
    assert names(queues.next_entry(PARENT)) == ["c"]


def test_gathered_messages_are_given_up_each_at_its_own_deadline():
    queues = some_queues()
    gather(queues, 0, "a", deadline=1.0)
    gather(queues, 0, "b", deadline=2.0)
    queues.next_entry(PARENT)
    gather(queues, 0, "c", deadline=3.0)
    gather(queues, 0, "d", deadline=4.0)
    assert queues.deadline == 1.0
    assert queues.expired(0.5) == []
    assert fates(queues.expired(1.0)) == {"a": SendStatus.UNKNOWN}
    assert queues.deadline == 2.0
    assert fates(queues.expired(3.0)) == {"b": SendStatus.UNKNOWN, "c": SendStatus.FAILED}
    assert (queues.deadline, queues.messages) == (4.0, 1)
    assert written(queues, PARENT) == [["d"]]


@settings(max_examples=60)
@given(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=40), st.integers(1, 8))
def test_bucket_columns_hold_one_bucket_and_keep_key_order(keys, most):
    queues = some_queues(FOUR, cut=BatchLimits(messages_max=most))
    for number, key in enumerate(keys):
        item = f"{key}{number}"
        assert queues.gather(item, keyed(key), None, KeyRoute(0, murmur3(key.encode())), 1, 10.0) is not None
    splits = FOUR.active[0].bucket_splits
    items: list[str] = []
    numbers: list[int] = []
    while (entry := queues.next_entry(PARENT)) is not None:
        assert entry.columns is not None
        hashes = [low16(route.hash) for route in entry.columns.routes]
        assert len({sum(hash >= split for split in splits) for hash in hashes}) == 1
        if len(hashes) > 1:
            assert entry.hashes == (min(hashes), max(hashes))
        items += entry.columns.items
        numbers += entry.columns.sequences
    assert numbers == list(range(len(keys)))
    for key in set(keys):
        own = [item for item in items if item[0] == key]
        assert own == [f"{key}{number}" for number, one in enumerate(keys) if one == key]


def test_keyless_messages_share_one_bucket_in_rotation():
    queues = some_queues(FOUR)
    stamps = []
    for _ in range(5):
        for _ in range(3):
            assert queues.gather("x", None, None, KeyRoute(0, 7), 1, 10.0) is not None
        entry = queues.next_entry(PARENT)
        assert entry is not None
        stamps.append(entry.hashes)
    starts = [0, *FOUR.active[0].bucket_splits]
    assert stamps == [(start, start) for start in [*starts, starts[0]]]


def test_messages_of_different_times_keep_order_despite_buckets():
    queues = some_queues(FOUR, cut=BatchLimits(messages_max=1))
    low, high = KeyRoute(0, 0x0000), KeyRoute(0, 0xFFFF)
    queues.gather("high", keyed("h"), None, high, 1, 10.0)
    queues.gather("low", keyed("l"), None, low, 1, 10.0 + 2 * BUCKET_WINDOW_S)
    assert written(queues, PARENT) == [["high"], ["low"]]


def test_packed_columns_are_bytes_of_their_messages_one_by_one():
    stamp = Stamp(7, b"p-seg-1", None, 0, 1 << 20)
    for count in (1, 2, 20):
        queues = some_queues()
        for number in range(count):
            assert queues.gather(b"%d" % number, keyed("k"), None, KeyRoute(0, 0), 1, 10.0) is not None
        entry = queues.next_entry(PARENT)
        assert entry is not None
        gathered = pack(entry, stamp, 5, chunking=True).frames
        assert len(entry.messages) == count  # apart from here on
        assert pack(entry, stamp, 5, chunking=True).frames == gathered


@pytest.mark.parametrize("apart", [False, True])
def test_receipt_gives_every_column_message_its_position(apart):
    told: list[MessageId | None] = []
    queues, budget = some_queues(), MemoryLimit()
    for number in range(3):
        budget.take(2)
        gather(queues, 0, f"m{number}", done=lambda found, error: told.append(found))

    async def body() -> None:
        fates = MessageResults("t", Counters(), budget)
        entry = queues.next_entry(PARENT)
        assert entry is not None
        entry.frames = EncodedEntry([])
        flush = asyncio.ensure_future(fates.until_over(queues.places - 1, 2))
        await asyncio.sleep(0)
        queues.stored(PARENT, 0)
        if apart:
            assert len(entry.messages) == 3
        fates.stored(PARENT, entry, 5, 6)
        await asyncio.wait_for(flush, 1)

    asyncio.run(body())
    assert told == [MessageId(5, 6, -1, place, 3, segment=PARENT) for place in range(3)]
    assert (budget.bytes, budget.messages) == (0, 0)
