"""The stored form of an entry with its counts: equal to protobuf's bytes, and safe against any bytes."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Corrupt, InvalidRange
from magnetar.base.limits import ENSEMBLE_MAX
from magnetar.ledger.bookkeeper.engine.counted_entry import (
    BLOCK_BYTES_MAX,
    UNCOUNTED,
    decode_entries,
    decode_entry,
    encode_entries,
)
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.store import Quorum
from magnetar.wire.entry import metadata_bounds
from magnetar.wire.message import close_entry
from magnetar.wire.proto import pb
from tests.support.broker_entry import with_broker_block

RUNS = st.lists(st.tuples(st.binary(max_size=300), st.integers(1, 2**31 - 1)), min_size=1, max_size=8)


def block_of(stored: bytes) -> pb.BrokerEntryMetadata:
    assert stored[:2] == b"\x0e\x02"
    return pb.BrokerEntryMetadata.FromString(stored[6 : 6 + int.from_bytes(stored[2:6], "big")])


def test_first_entry_has_these_bytes() -> None:
    assert encode_entries(run_of([b"payload"]), 0, 0) == [
        b"\x0e\x02\x00\x00\x00\x0a\x10\x00\xc8\xf1\x04\x01\xd0\xf1\x04\x07payload"
    ]


def test_entry_behind_others_has_these_bytes() -> None:
    (stored,) = encode_entries(run_of([b"xy"], [300]), 1_000_000, 5_000_000_000)
    index, own, size = b"\x10\xeb\x86\x3d", b"\xc8\xf1\x04\xac\x02", b"\xd0\xf1\x04\x82\xe4\x97\xd0\x12"
    assert stored == pack(">HI", 0x0E02, 17) + index + own + size + b"xy"


@given(RUNS, st.integers(0, 2**62), st.integers(0, 2**62))
def test_block_is_what_protobuf_writes(entries: list[tuple[bytes, int]], messages: int, size: int) -> None:
    run = run_of([body for body, _ in entries], [count for _, count in entries])
    for stored, (body, count) in zip(encode_entries(run, messages, size), entries, strict=True):
        messages += count
        size += len(body)
        block = pb.BrokerEntryMetadata(index=messages - 1, messages=count, bytes=size)
        assert stored == with_broker_block(body, block)
        assert decode_entry(stored) == (len(stored) - len(body), count, messages, size)
        assert len(stored) - len(body) <= BLOCK_BYTES_MAX


@given(RUNS, st.integers(0, 7))
def test_run_of_slice_comes_back(entries: list[tuple[bytes, int]], start: int) -> None:
    whole = run_of([body for body, _ in entries], [count for _, count in entries])
    run = whole.slice(min(start, len(whole) - 1), len(whole))
    back = decode_entries(encode_entries(run, 5, 6), 3, 9)
    assert (back.ledger, back.first, back.counts, back.messages) == (3, 9, run.counts, run.messages)
    assert [back.entry(index) for index in range(len(back))] == [run.entry(index) for index in range(len(run))]


def test_entries_beyond_size_are_left_out_but_never_first() -> None:
    stored = encode_entries(run_of([b"12345", b"", b"678", b"9"], [2, 1, 1, 5]), 0, 0)
    for bytes_max, expected in ((0, [2]), (4, [2]), (5, [2, 1]), (7, [2, 1]), (8, [2, 1, 1]), (9, [2, 1, 1, 5])):
        run = decode_entries(stored, 1, 0, bytes_max=bytes_max)
        assert (run.counts, run.size) == (expected, len(run.body))


def test_largest_counts_fit_longest_block() -> None:
    run = Run(b"", [0, 0], [2**32 - 1], 2**32 - 1)
    assert len(encode_entries(run, 2**64 - 2**32, 2**64 - 1)[0]) == BLOCK_BYTES_MAX


def test_entry_that_begins_like_block_is_stored_behind_its_own() -> None:
    tricky = with_broker_block(b"rest", pb.BrokerEntryMetadata(index=7, messages=2, bytes=90))
    (stored,) = encode_entries(run_of([tricky]), 0, 0)
    assert decode_entries([stored], 1, 0).entry(0) == tricky


def test_entries_of_stock_pulsar_decode_without_counts() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, num_messages_in_batch=12)
    plain = close_entry(metadata, b"payload")
    stock = with_broker_block(plain, pb.BrokerEntryMetadata(broker_timestamp=5, index=70_000))
    for stored in (plain, stock):
        start, *counts = decode_entry(stored)
        assert counts == [UNCOUNTED] * 3
        assert stored[start:] == plain

    def count_of(entry: bytes) -> int:
        first, last = metadata_bounds(entry)
        return pb.MessageMetadata.FromString(entry[first:last]).num_messages_in_batch

    run = decode_entries([plain, stock], 4, 0, count_of=count_of)
    assert (run.counts, run.messages, run.entry(1)) == ([12, 12], 24, plain)
    assert decode_entries([plain, stock], 4, 0).counts == [1, 1]


def test_fields_of_later_versions_are_skipped() -> None:
    (stored,) = encode_entries(run_of([b"abc"], [4]), 10, 20)
    more = b"\x08\x05" + b"\xf9\xff\x04" + bytes(8) + b"\xfa\xff\x04\x02hi" + b"\xfd\xff\x04" + bytes(4)
    block = stored[6:-3] + more
    assert decode_entry(pack(">HI", 0x0E02, len(block)) + block + b"abc") == (6 + len(block), 4, 14, 23)


@pytest.mark.parametrize(
    ("block", "body"),
    [
        (b"\x10", b""),  # a tag without a value
        (b"\x10\x80", b""),  # a number that does not end
        (b"\x13\x00", b""),  # a group
        (b"\x00\x00", b""),  # field 0, a varint: skipped by none
        (b"\x12\x7f", b""),  # a field longer than the block
        (b"\x10\x00\xc8\xf1\x04\x02\xd0\xf1\x04\x01", b"x"),  # two messages, one so far
        (b"\x10\x00\xc8\xf1\x04\x00\xd0\xf1\x04\x01", b"x"),  # no message
        (b"\xc8\xf1\x04\x01\xd0\xf1\x04\x01", b"x"),  # no index
        (b"\x10\x00\xc8\xf1\x04\x01\xd0\xf1\x04\x01", b"xy"),  # more bytes than the ledger
    ],
)
def test_block_that_contradicts_itself_is_corrupt(block: bytes, body: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_entry(pack(">HI", 0x0E02, len(block)) + block + body)


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_corrupt(tail: bytes) -> None:
    for stored in (tail, b"\x0e\x02" + tail, b"\x0e\x02" + len(tail).to_bytes(4, "big") + tail):
        try:
            start, _, _, _ = decode_entry(stored)
        except Corrupt:
            continue
        assert 0 <= start <= len(stored)


def test_cut_block_is_corrupt_or_without_counts() -> None:
    (stored,) = encode_entries(run_of([b""], [3]), 0, 0)
    for end in range(2, len(stored)):
        with pytest.raises(Corrupt):
            decode_entry(stored[:end])
    assert block_of(stored).messages == 3


@pytest.mark.parametrize("numbers", [(3, 2, 2), (1, 1, 1), (ENSEMBLE_MAX, ENSEMBLE_MAX, 1)])
def test_quorum_with_growing_numbers_is_valid(numbers: tuple[int, int, int]) -> None:
    quorum = Quorum(*numbers)
    assert (quorum.ensemble, quorum.write, quorum.ack) == numbers


@pytest.mark.parametrize(
    "numbers", [(2, 3, 2), (3, 2, 3), (3, 3, 0), (ENSEMBLE_MAX + 1, 1, 1), (0, 0, 0), (-1, -1, -1)]
)
def test_quorum_that_cannot_be_met_is_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidRange, match="expected 1 <= ack quorum"):
        Quorum(*numbers)
