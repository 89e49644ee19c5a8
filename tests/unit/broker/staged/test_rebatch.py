"""Batches of a stage cut anew: what is stored is what a producer would have stored that sent each message by itself,
whatever is split or merged meanwhile, and however often it is tried."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.hashes import java_string_hash, masked
from magnetar.base.ids import SegmentId
from magnetar.broker.staged.rebatch import StageRebatcher
from magnetar.client.producer.batch import Batch
from magnetar.client.producer.prebuilt_batch import BatchingPlan, PrebuiltBatch
from magnetar.client.producer.scalable.segment_queue import BatchLimits, SegmentQueue
from magnetar.client.producer.scalable.segment_queues import SegmentQueues
from magnetar.layout.routing import Routing
from magnetar.wire.message import join_batch
from magnetar.wire.proto import pb
from tests.support.search_effort import examples
from tests.support.stage_owners import FIRST, PRODUCER, STAMP, Row, World, batch_of, expected, stored

KEYS = [f"key-{n}" for n in range(7)]
ROWS = st.builds(
    Row,
    st.none() | st.sampled_from(KEYS) | st.sampled_from([b"\xff\x00", b"\x80"]),
    st.none() | st.binary(max_size=40),
    st.none() | st.dictionaries(st.sampled_from(["a", "bb"]), st.text(max_size=5), min_size=1),
    st.none() | st.integers(1, 1 << 40),
)


def sizes(count: int, entry: int) -> list[int]:
    return [min(entry, count - first) for first in range(0, count, entry)]


@settings(max_examples=examples(80), deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=40),
    entry=st.integers(1, 40),
    segments=st.integers(1, 4),
    buckets=st.sampled_from([1, 4]),
    routing=st.sampled_from(Routing),
)
def test_whole_entries_equal_messages_sent_one_by_one(
    rows: list[Row], entry: int, segments: int, buckets: int, routing: Routing
) -> None:
    found = []
    for whole in (False, True):
        world = World(rows, segments=segments, buckets=1 if routing is Routing.LOW16 else buckets)
        world.routing = routing
        world.begin()
        if whole:
            world.pour(world.sheaves(0, sizes(len(rows), entry)))
            assert world.whole
        else:
            world.pour_each(0, len(rows))
        found.append(list(world.frames()))
    assert found[0] == found[1]


@settings(max_examples=examples(40), deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=40), entry=st.integers(1, 40), partitions=st.integers(0, 3))
def test_so_are_those_of_plain_and_partitioned_topics(rows: list[Row], entry: int, partitions: int) -> None:
    decanter = StageRebatcher(BatchingPlan(FIRST, 1_000, 1 << 17), PRODUCER, first=FIRST, partitions=partitions)
    first = 0
    for size in sizes(len(rows), entry):
        assert decanter.take(batch_of(rows[first : first + size], first), size, FIRST + first)
        first += size
    batches: dict[int, Batch] = {}
    for place, row in enumerate(rows):
        fields = row.fields(FIRST + place)
        chosen = place if fields.key is None else masked(java_string_hash(fields.key))
        batch = batches.setdefault(chosen % partitions if partitions else -1, Batch(0.0))
        batch.add(row.value or b"", fields, None)
    found = {sheaf.partition: sheaf.frame(STAMP, 1) for sheaf in decanter.sheaves()}
    assert found == {place: batch.close(STAMP, 0, 1)[2] for place, batch in batches.items()}


def all_told(sheaves: list[PrebuiltBatch]) -> list[list[int]]:
    return [list(sheaf.numbers) for sheaf in sheaves]


def test_entries_keep_to_limits_of_messages_and_bytes() -> None:
    rows = [Row("k", b"v" * 50)] * 10
    many = World(rows, cut=BatchLimits(messages_max=4))
    assert [sheaf.count for sheaf in many.sheaves(0, [10])] == [4, 3, 3]
    large = World(rows, cut=BatchLimits(bytes_max=200))
    assert all(len(sheaf.payload) <= 200 for sheaf in large.sheaves(0, [10]))
    huge = World(rows, cut=BatchLimits(bytes_max=10))
    assert [sheaf.count for sheaf in huge.sheaves(0, [10])] == [1] * 10


def test_rest_of_batch_goes_on_with_its_numbers() -> None:
    rows = [Row("k", b"%d" % place) for place in range(5)]
    decanter = World(rows).decanter()
    assert decanter.take(batch_of(rows, 0), 5, FIRST + 3, skip=3)
    [sheaf] = decanter.sheaves()
    assert stored(sheaf.frame(STAMP, 1))[1] == [expected(rows[place], FIRST + place) for place in (3, 4)]
    assert decanter.sheaves() == []


def test_batch_that_is_not_taken_leaves_nothing_behind() -> None:
    world = World([Row("k", b"1")] * 3, segments=2)
    decanter = world.decanter()
    odd = [
        (pb.SingleMessageMetadata(sequence_id=3, partition_key="x"), b"v"),
        (pb.SingleMessageMetadata(sequence_id=4, partition_key="a", partition_key_b64_encoded=True), b"v"),
    ]
    assert decanter.take(batch_of(world.rows, 0), 3, FIRST)
    assert not decanter.take(join_batch(odd), 2, FIRST + 3)
    assert sorted(number for told in all_told(decanter.sheaves()) for number in told) == [FIRST, FIRST + 1, FIRST + 2]


def test_new_layout_is_cut_by_its_own_segments() -> None:
    rows = [Row(f"key-{n}", b"v") for n in range(20)]
    world = World(rows)
    decanter = world.decanter()
    assert decanter.take(batch_of(rows, 0), 20, FIRST)
    assert len(decanter.sheaves()) == 1
    world.reshape(world.layout.split(SegmentId(0), now_ms=1))
    decanter.renew(world.decanter().cutting)
    assert decanter.take(batch_of(rows, 0), 20, FIRST)
    low, high = decanter.sheaves()
    assert {low.epoch, high.epoch} == {world.layout.epoch}
    assert low.count + high.count == 20


def test_merge_orders_messages_of_segments_by_number() -> None:
    """Numbers of one segment lie between those of another: one after the other, the owner would drop the second."""
    rows = [Row(f"key-{n}", b"v") for n in range(20)]
    world = World(rows, segments=2)
    world.pour(world.sheaves(0, [20]))
    assert world.whole
    world.reshape(world.layout.merge([SegmentId(0), SegmentId(1)], now_ms=1))
    world.calm()
    world.check()


def test_what_owner_may_have_goes_one_by_one() -> None:
    rows = [Row(f"key-{n}", b"v") for n in range(20)]
    world = World(rows, segments=2)
    world.pour(world.sheaves(0, [20]))
    world.calm()
    world.begin()
    world.pour(world.sheaves(0, [20]))  # another leader was faster
    assert world.whole == 1
    world.calm()
    world.check()


def live(seed: int, make: type[SegmentQueues] = SegmentQueues) -> int:
    """One stage on its way while all sorts of things happen; in how many groups of whole entries it went."""
    chance = random.Random(seed)
    rows = [Row(chance.choice([*KEYS, b"\xff\x00", None, None]), b"%d" % n) for n in range(chance.randint(1, 80))]
    cut = BatchLimits(messages_max=chance.choice([2, 5, 1_000]))
    world = World(rows, segments=chance.randint(1, 3), buckets=chance.choice([1, 4]), cut=cut, make=make)
    at = 0
    while at < len(rows):
        group = [chance.randint(1, 12) for _ in range(chance.randint(1, 3))]
        if at + sum(group) > len(rows) or chance.random() < 0.1:
            group = [1]
            world.pour_each(at, at + 1)
        else:
            world.pour(world.sheaves(at, group))
        at += sum(group)
        if chance.random() < 0.7:
            world.write()
        for segment in sorted(world.owners):
            world.arrive(segment, chance.randint(0, 4))
            world.answer(segment, chance.randint(0, 4))
        match chance.randrange(8):
            case 0 if len(world.owners) < 5:
                world.reshape(world.layout.split(chance.choice(sorted(world.owners)), now_ms=1))
            case 1 if len(world.owners) > 1:
                lower = chance.randrange(len(world.owners) - 1)
                world.reshape(world.layout.merge([one.id for one in world.layout.active[lower : lower + 2]], now_ms=1))
            case 2:  # all that was on its way is lost with the leader; the next one tries again from the beginning
                at = max(0, min(world.begin(BatchLimits(1, 1)) - FIRST + 1, len(rows)))
                world.pour_each(0, at)
                world.calm()
                world.begin()
    world.calm()
    world.check()
    return world.whole


def test_rows_are_stored_once_in_order_through_reshapes_and_crashes() -> None:
    assert sum(live(seed) for seed in range(examples(300))) > 300


class PutsSheavesOneAfterTheOther(SegmentQueues):
    """As if places had nothing to do with numbers."""

    def _bind(self, sheaf: PrebuiltBatch, place: int, deadline: float) -> SegmentQueue:
        self.places += 1_000
        return super()._bind(sheaf, self.places, deadline)


class IgnoresTheMarkOfTheOwner(SegmentQueues):
    def add_sheaves(self, sheaves: Sequence[PrebuiltBatch], deadline: float) -> list[SegmentQueue]:
        for segment in SegmentId(0), SegmentId(1), SegmentId(2):
            queue = self.queue(segment)
            if queue is not None:
                queue.mark = -1
        return super().add_sheaves(sheaves, deadline)


@pytest.mark.parametrize("make", [PutsSheavesOneAfterTheOther, IgnoresTheMarkOfTheOwner])
def test_queues_that_forget_what_sheaves_need_are_found_out(make: type[SegmentQueues]) -> None:
    def lives() -> None:
        for seed in range(200):
            live(seed, make)

    with pytest.raises(AssertionError):
        lives()
