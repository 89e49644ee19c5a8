"""One batch for each entry bucket: whole keys change places, numbers still grow, and the stamp says what is inside."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.hashes import low16, murmur3
from magnetar.base.ids import SegmentId
from magnetar.base.limits import BUCKETS_FILLED_MAX
from magnetar.base.ranges import FULL
from magnetar.client.producer.batch import Stamp
from magnetar.client.producer.config import Counters
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable.encode import EncodedEntry, pack
from magnetar.client.producer.scalable.entry_buckets import BucketSorter, hash_of
from magnetar.client.producer.scalable.queued_messages import QueuedMessage, SendStatus
from magnetar.client.producer.scalable.results import MessageResults
from magnetar.client.producer.scalable.segment_queue import BatchLimits, QueuedEntry, SegmentQueue
from magnetar.client.producer.scalable.segment_queues import Effect, SegmentQueues
from magnetar.layout.layout import Layout
from magnetar.layout.segment import Segment, bucket_splits
from magnetar.wire import entry
from tests.support.segment_owner_model import Violation
from tests.unit.client.producer.scalable.test_segment_queues_machine import live

SPLITS = bucket_splits(4)


def some_fields(**said: object) -> MessageFields:
    fields = MessageFields()
    for name, value in said.items():
        setattr(fields, name, value)
    return fields


def message(place: int, key: str | None, *, sequence: int = -1, deadline: float = 9.0) -> QueuedMessage:
    fields = None if key is None and sequence < 0 else some_fields(key=key, sequence=sequence)
    route = KeyRoute(0, 0 if key is None else murmur3(key.encode()))
    return QueuedMessage(
        f"{key}".encode(), route, place, place if sequence < 0 else sequence, 1, deadline, fields=fields
    )


def a_queue(*messages: QueuedMessage) -> SegmentQueue:
    queue = SegmentQueue(Segment(SegmentId(0), FULL, bucket_splits=SPLITS), 0)
    queue.attached(-1)
    queue.messages = deque(messages)
    return queue


def entries(queue: SegmentQueue, cut: BatchLimits | None = None) -> list[list[QueuedMessage]]:
    found = []
    while (one := queue.next_entry(cut or BatchLimits())) is not None:
        found.append(one.messages)
    return found


@settings(max_examples=60)
@given(st.lists(st.one_of(st.none(), st.sampled_from("abcdefghij")), min_size=1, max_size=40), st.integers(1, 8))
def test_batches_hold_one_bucket_and_keep_key_order(keys: list[str | None], most: int) -> None:
    messages = [message(place, key) for place, key in enumerate(keys)]
    before = {key: [one for one in messages if one.fields and one.fields.key == key] for key in set(keys) - {None}}
    queue = a_queue(*messages)
    cut = entries(queue, BatchLimits(messages_max=most))
    flat = [one for batch in cut for one in batch]
    assert sorted(map(id, flat)) == sorted(map(id, messages))
    assert [one.sequence for one in flat] == [one.place for one in flat] == list(range(len(keys)))
    for key, wanted in before.items():
        assert [one for one in flat if one.fields and one.fields.key == key] == wanted
    if most > 1:
        for batch in cut:
            assert len({sum(split <= hash_of(one) for split in SPLITS) for one in batch if one.fields}) <= 1


def test_stamp_covers_its_messages_and_lies_within_their_bucket() -> None:
    queue = a_queue(
        *(message(place, key) for place, key in enumerate(["a", "hello", "a", "key-1", "hello", None, None]))
    )
    stamps = []
    while (one := queue.next_entry(BatchLimits())) is not None:
        stamps.append((one.hashes, [m.item for m in one.messages]))
    for stamp, items in stamps:
        if len(items) > 1:
            assert stamp is not None
            hashes = [low16(murmur3(item)) for item in items if item != b"None"]
            assert all(stamp[0] <= hash <= stamp[1] for hash in hashes)
            assert sum(split <= stamp[0] for split in SPLITS) == sum(split <= stamp[1] for split in SPLITS)


def test_queue_collects_all_buckets_before_cutting_entries() -> None:
    assert BucketSorter((100, 200, 300)).room == 4 * 0.8
    assert BucketSorter((30000,)).room == 1.6
    assert BucketSorter(tuple(range(1, 200))).room == BUCKETS_FILLED_MAX * 0.8


def test_messages_without_key_take_buckets_in_turn() -> None:
    found = []
    queue = a_queue()
    for turn in range(4):
        queue.messages.extend(message(2 * turn + place, None) for place in range(2))
        one = queue.next_entry(BatchLimits())
        assert one is not None
        assert one.hashes is not None
        found.append(sum(split <= one.hashes[0] for split in SPLITS))
    assert found == [0, 1, 2, 3]


def test_given_numbers_stay_and_stamp_covers_batch() -> None:
    queue = a_queue(*(message(place, key, sequence=10 + place) for place, key in enumerate(["hello", "key-1", "a"])))
    (batch,) = entries(queue)
    assert [one.item for one in batch] == [b"hello", b"key-1", b"a"]
    assert queue.pending[0].hashes == (low16(murmur3(b"key-1")), low16(murmur3(b"hello")))


def test_earlier_messages_and_much_later_ones_keep_order() -> None:
    doubtful = message(0, "hello")
    doubtful.doubt = True
    assert entries(a_queue(doubtful, message(1, "key-1")))[0][0] is doubtful
    late = message(1, "key-1", deadline=60.0)
    assert [one.item for batch in entries(a_queue(message(0, "hello"), late)) for one in batch] == [b"hello", b"key-1"]


def test_what_is_hashed_is_what_owner_hashes() -> None:
    plain = QueuedMessage(b"", KeyRoute(0, murmur3(b"k")), 0, 0, 1, 9.0, fields=some_fields(key="k"))
    ordered = QueuedMessage(b"", KeyRoute(0, 7), 0, 0, 1, 9.0, fields=some_fields(key="k", ordering_key=b"o"))
    raw = QueuedMessage(b"", KeyRoute(0, 7), 0, 0, 1, 9.0, fields=some_fields(key="AAE=", key_base64=True))
    assert hash_of(plain) == low16(murmur3(b"k"))
    assert hash_of(ordered) == low16(murmur3(b"o"))
    assert hash_of(raw) == low16(murmur3(b"\x00\x01"))
    assert hash_of(QueuedMessage(b"", KeyRoute(0, 7), 0, 0, 1, 9.0)) == -1


def test_stamp_is_on_entry_where_broker_reads_it() -> None:
    queue = a_queue(message(0, "a"), message(1, "a"))
    one = queue.next_entry(BatchLimits())
    assert one is not None
    (frame,) = pack(one, Stamp(1, b"p", None, 0, 1 << 20), 1, chunking=False).frames
    start = 8 + int.from_bytes(frame[4:8], "big")
    assert entry.stamps(frame, start, len(frame)) == (low16(murmur3(b"a")), low16(murmur3(b"a")))


def lives_with_buckets(count: int, make: type[SegmentQueues] = SegmentQueues) -> None:
    for seed in range(count):
        live(seed, make, buckets=4)


def test_lives_with_entry_buckets_keep_every_promise() -> None:
    lives_with_buckets(300)


class KeepsItsNumbers(BucketSorter):
    """Other places with the old numbers: batches whose numbers lie between each other's (H-E4)."""

    __slots__ = ()

    def _reorder(
        self, messages: deque[QueuedMessage], window: list[QueuedMessage], ordered: list[QueuedMessage]
    ) -> None:
        for one, place in zip(ordered, [one.place for one in window], strict=True):
            one.place = place
            messages.popleft()
        messages.extendleft(reversed(ordered))


class KeepsNumbers(SegmentQueues):
    def _advance(self, layout: Layout) -> list[Effect]:
        effects = super()._advance(layout)
        for queue in self._queues.values():
            if type(queue.buckets) is BucketSorter:
                queue.buckets = KeepsItsNumbers(queue.buckets._splits)
        return effects


def test_batches_with_interleaved_numbers_lose_messages_at_seal() -> None:
    with pytest.raises(Violation):
        lives_with_buckets(400, KeepsNumbers)


@pytest.mark.real_clock
async def test_flush_waits_for_earlier_messages_after_reordering() -> None:
    """A later message that goes first in its bucket's batch is none of those that the flush is about."""

    budget = MemoryLimit()
    fates = MessageResults("t", Counters(), budget)
    earlier, later = message(0, "a"), message(1, next(key for key in "bcdefghij" if _before(key, "a")))
    flushing = asyncio.ensure_future(fates.until_over(1, 1))
    await asyncio.sleep(0)
    first, second = entries(a_queue(earlier, later))
    assert first == [later]
    for batch, over in ((first, False), (second, True)):
        for one in batch:
            one.fate = SendStatus.STORED
        entry = QueuedEntry(batch)
        entry.frames = EncodedEntry([b""])
        fates.stored(SegmentId(0), entry, 1, 0)
        await asyncio.sleep(0)
        assert flushing.done() is over


def _before(key: str, other: str) -> bool:
    """Is it in a bucket that goes first?"""
    buckets = [sum(split <= hash_of(message(0, one)) for split in SPLITS) for one in (key, other)]
    return buckets[0] < buckets[1]
