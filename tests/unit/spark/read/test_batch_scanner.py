"""Messages found in the bytes of a batch, and their fields; what is not as everybody writes it is not guessed at."""

from __future__ import annotations

import numpy as np
import pytest

from magnetar.base.errors import Corrupt
from magnetar.spark.read.batch_scanner import PADDING, MessageColumns, locate, read
from magnetar.wire.proto import pb
from magnetar.wire.send_frames import batch_payload, single_extras, size_index

SIZE = b"\x18\x03"  # of a payload of three bytes


def row(metadata: bytes, payload: bytes = b"abc") -> bytes:
    return len(metadata).to_bytes(4, "big") + metadata + payload


def fields(metadata: bytes) -> MessageColumns:
    """Of one row; what lies behind it must not matter."""
    whole = metadata + b"\x12\x01k" + bytes(PADDING)
    body = np.array([len(metadata)])
    return read(np.frombuffer(whole, np.uint8), np.array([0]), body, body + 3)


@pytest.mark.parametrize("count", [1, 15, 16, 50])
@pytest.mark.parametrize(
    "metadata",
    [
        SIZE,
        b"\x12\x01k" + SIZE,
        b"\x0a\x04\x0a\x00\x12\x00" + SIZE + b"\x40\x07",
        b"\x40\x07" + SIZE,  # another order
        b"\x12\x81\x00k" + SIZE,  # a length in more bytes than it needs
        b"\x18\x83\x00",
        b"\x18\x83\x80\x00",
        b"\x7d\x00\x00\x00\x00\x79\x00\x00\x00\x00\x00\x00\x00\x00" + SIZE,  # fields that nobody knows
        b"\x40\x07\x18\x09" + SIZE,  # the last one counts
    ],
)
def test_messages_are_found_in_whatever_order_their_fields_are(metadata, count):
    data = b"before" + row(metadata) * count
    bodies, ends = locate(data, count, 6)
    assert [data[start:end] for start, end in zip(bodies, ends, strict=True)] == [b"abc"] * count


@pytest.mark.parametrize("good", [0, 20])
@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\x00",
        b"\x00\x00\x00\x02",
        row(SIZE, b"ab"),
        row(SIZE, b"abcd"),
        row(b""),
        row(b"\x12\x01k"),
        row(b"\x12\x09k"),
        b"\x00\x00\x00\x01" + SIZE + b"abc",  # the size lies outside its metadata
        b"\x00\x00\x00\x01\x18\x03ab",
        b"\xff\xff\xff\xff" + SIZE + b"abc",
        row(b"\x40\x07\x18"),
        row(b"\x40\x07\x3a\x09" + SIZE),  # a field that ends outside
        row(b"\x40\x07" + SIZE + b"\x3a\x05"),
        row(b"\x40\x07\x0b" + SIZE),  # a group
        row(b"\x40" + b"\x80" * 11 + b"\x00" + SIZE),
        row(b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),  # a negative size
        row(b"\x18\x83\x80\x80\x80\x10"),
    ],
)
def test_what_is_no_batch_is_corrupt(good, bad):
    with pytest.raises(Corrupt):
        locate(row(SIZE) * good + bad, good + 1)


@pytest.mark.parametrize("count", [-1, 0, 19, 21, 2**31 - 1])
def test_batch_holds_as_many_as_it_claims(count):
    with pytest.raises(Corrupt):
        locate(row(SIZE) * 20, count)


def test_fields_of_row():
    said = pb.SingleMessageMetadata(
        properties=[pb.KeyValue(key="a", value="b"), pb.KeyValue(key="c", value="d")],
        partition_key="key",
        payload_size=3,
        compacted_out=True,
        event_time=2**40,
        partition_key_b64_encoded=True,
        ordering_key=b"order",
        sequence_id=2**64 - 1,
        null_value=True,
        null_partition_key=True,
    ).SerializeToString()
    found = fields(said)
    assert said[found.key_start[0] : found.key_end[0]] == b"key"
    assert said[found.ordering_start[0] : found.ordering_end[0]] == b"order"
    assert (found.event_ms[0], found.sequence[0]) == (2**40, 2**64 - 1)
    for flag in (found.key_base64, found.null, found.null_key, found.compacted, found.sequenced, found.properties):
        assert flag[0]
    assert not found.strange[0]


def test_fields_that_are_not_there():
    found = fields(SIZE)
    assert (found.key_start[0], found.ordering_start[0], found.event_ms[0]) == (-1, -1, 0)
    for flag in (found.key_base64, found.null, found.compacted, found.sequenced, found.properties, found.strange):
        assert not flag[0]


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x40\x07" + SIZE,
        SIZE + b"\x12\x01k",
        b"\x12\x01k\x12\x01l" + SIZE,
        SIZE + b"\x58\x01",
        SIZE + b"\x40",
        SIZE + b"\x40\x80",
        SIZE + b"\x3a\x05ab",
        b"\x12\x05k" + SIZE,
        b"\x12" + b"\xff" * 9 + b"\x01" + SIZE,  # a length beyond everything
        b"\x12\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01" + SIZE,
        SIZE + b"\x40" + b"\x80" * 10 + b"\x00",
        SIZE + b"\x40" + b"\x80" * 10,
        SIZE + b"\x48\x80",
    ],
)
def test_row_that_is_written_otherwise_is_left_to_protobuf(metadata):
    assert fields(metadata).strange[0]


def test_one_strange_row_does_not_disturb_its_neighbours():
    good, bad = b"\x12\x02ab" + SIZE + b"\x40\x85\x01", b"\x12\x7fa" + SIZE
    buffer = np.frombuffer(good + bad + good + bytes(PADDING), np.uint8)
    ends = np.cumsum([len(good), len(bad), len(good)])
    found = read(buffer, ends - [len(good), len(bad), len(good)], ends, ends + 3)
    assert found.strange.tolist() == [False, True, False]
    assert found.sequence.tolist()[::2] == [133, 133]
    assert found.key_start.tolist()[::2] == [2, ends[1] + 2]


UNEVEN = [bytes(size) for size in (0, 1, 127, 128, 3, 300, 70, 70, 2, 9, 11, 5, 64, 1000, 8, 6, 33)]


def told(values: list[bytes], before: bytes = b"") -> tuple[bytes, list[int]]:
    """A batch as our producer writes it, and what each message takes."""
    sizes: list[int] = []
    keys = {place: single_extras(None, b"k" * (place % 5), False, None, 0, False) for place in range(0, len(values), 2)}
    return before + batch_payload(values, 7, None, keys, sizes), sizes


@pytest.mark.parametrize("largest", [b"", bytes(1 << 16)])
@pytest.mark.parametrize("before", [b"", b"metadata"])
def test_rows_are_where_index_states(before, largest):
    data, sizes = told([*UNEVEN, largest], before)
    bodies, ends = locate(data, len(sizes), len(before), size_index(sizes))
    loose_bodies, loose_ends = locate(data, len(sizes), len(before))
    assert isinstance(bodies, np.ndarray)
    assert isinstance(loose_bodies, list)  # it was found by the index, and not by the loop
    assert (bodies.tolist(), ends.tolist()) == (loose_bodies, loose_ends)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda index: b"\x03" + index[1:],
        lambda index: b"\x00",
        lambda index: index[:-1],
        lambda index: index + b"\x00\x00",
        lambda index: index[:1] + b"\x05\x00" + index[3:],
        lambda index: b"\x02" + bytes(len(index) - 1),
    ],
)
def test_index_that_does_not_fit_is_as_good_as_none(spoil):
    data, sizes = told([bytes(1), bytes(200), *UNEVEN])
    found = locate(data, len(sizes), 0, spoil(size_index(sizes)))
    assert [list(one) for one in found] == [list(one) for one in locate(data, len(sizes))]


def test_index_that_fits_and_lies_about_payloads_is_found_out():
    inner = row(b"\x18\x01", b"q")
    first, second = row(b"\x18\x09", b"zz" + inner), row(SIZE)
    bodies, ends = locate(first + second, 2, 0, size_index([len(first) - len(inner), len(inner) + len(second)]))
    assert isinstance(bodies, np.ndarray)
    assert isinstance(ends, np.ndarray)
    heads = np.concatenate([[4], ends[:-1] + 4])
    with pytest.raises(Corrupt):
        read(np.frombuffer(first + second + bytes(PADDING), np.uint8), heads, bodies, ends)
