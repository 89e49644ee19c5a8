"""Entry buckets: boundaries, who owns which, and which of them an entry belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import ConsumerAssignError
from magnetar.base.hashes import low16, murmur3
from magnetar.layout.segment import bucket_ranges, bucket_splits
from magnetar.topic.dispatch.entry_buckets import EntryBuckets, check_boundaries, slot_of, span
from tests.unit.topic.world import an_entry

FOUR = bucket_ranges(bucket_splits(4))


def slot(entry: bytes, buckets: int = 4) -> list[int]:
    return list(span(EntryBuckets[str](bucket_ranges(bucket_splits(buckets))).entry_slot(entry, 0, len(entry))))


@given(st.integers(1, 1024))
def test_equal_boundaries_cover_ring(count: int) -> None:
    ranges = bucket_ranges(bucket_splits(count))
    check_boundaries(ranges)
    assert len(ranges) == count


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [(0, 65534)],
        [(1, 65535)],
        [(0, 9), (11, 65535)],
        [(0, 10), (10, 65535)],
        [(0, 0), (1, 65535)],
        [(0, 65536)],
        [(9, 65535), (0, 8)],
    ],
)
def test_boundaries_with_gap_overlap_or_wrong_start_are_refused(
    ranges: list[tuple[int, int]],
) -> None:
    with pytest.raises(ConsumerAssignError):
        check_boundaries(ranges)


def test_whoever_brings_other_boundaries_is_refused_and_changes_nothing() -> None:
    buckets = EntryBuckets[str](FOUR)
    buckets.add("a", "a", 1, FOUR)
    with pytest.raises(ConsumerAssignError):
        buckets.add("b", "b", 2, bucket_ranges(bucket_splits(2)))
    assert [owner for _, _, owner in buckets.ranges()] == ["a"] * 4


@given(st.integers(1, 40), st.permutations([f"c{n}" for n in range(9)]))
def test_spread_does_not_depend_on_who_came_first(count: int, names: list[str]) -> None:
    boundaries = bucket_ranges(bucket_splits(count))
    spread = []
    for order in (names, sorted(names)):
        buckets = EntryBuckets[str](boundaries)
        for number, name in enumerate(order):
            buckets.add(name, name, number, boundaries)
        spread.append([buckets.select(place) for place in range(count)])
        sizes = [spread[-1].count(name) for name in names]
        assert sum(sizes) == count
        assert max(sizes) - min(sizes) <= 1
    assert spread[0] == spread[1]


def test_ordering_key_or_key_decides_bucket_by_low_half() -> None:
    plain = an_entry("x", partition_key="hello")
    assert slot(plain) == [low16(murmur3(b"hello")) * 4 // 65536] == [3]
    assert slot(an_entry("x", partition_key="hello", ordering_key=b"key-1")) == [0]


def test_stamped_entry_is_in_all_buckets_that_its_stamp_touches() -> None:
    assert slot(an_entry("x", entry_hash_min=0x4000, entry_hash_max=0x7FFF, num_messages_in_batch=9)) == [1]
    assert slot(an_entry("x", entry_hash_min=0x3FFF, entry_hash_max=0x8000, num_messages_in_batch=9)) == [0, 1, 2]


def test_entry_with_hidden_or_false_keys_is_in_every_bucket() -> None:
    assert slot(an_entry("x", partition_key="hello", num_messages_in_batch=2)) == [0, 1, 2, 3]
    for low, high in ((9, 3), (0, 65536)):
        assert slot(an_entry("x", entry_hash_min=low, entry_hash_max=high, num_messages_in_batch=2)) == [0, 1, 2, 3]
    assert slot(b"\x0e\x01broken") == [0, 1, 2, 3]


def test_keyless_entries_spread_and_chunks_stay_together() -> None:
    found = {slot(an_entry("x", number))[0] for number in range(40)}
    assert found == {0, 1, 2, 3}
    chunks = [an_entry("x", 7, uuid="u", chunk_id=place, num_chunks_from_msg=3) for place in range(3)]
    assert len({slot(chunk)[0] for chunk in chunks}) == 1


def test_slot_is_stretch_of_buckets() -> None:
    assert list(span(slot_of(3, 3))) == [3]
    assert list(span(slot_of(0, 1023))) == list(range(1024))
