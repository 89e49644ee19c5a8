"""Entries answer the broker's questions as protobuf would, without their payload being touched."""

from __future__ import annotations

import struct
from base64 import b64encode

import google_crc32c
import mmh3
import pytest

from magnetar.base.errors import Corrupt
from magnetar.base.limits import CHUNK_UUID_BYTES_MAX
from magnetar.wire import entry
from magnetar.wire.metadata import by_protobuf
from magnetar.wire.proto import pb
from tests.fuzz.reference import METADATA_FIELDS
from tests.support.golden_vectors import sent_frames


def an_entry(
    payload: bytes = b"payload", *, broker_block: bytes | None = None, checksum: bool = True, **fields
) -> bytes:
    given = {"producer_name": "me", "sequence_id": 7, "publish_time": 1_700_000_000_000, **fields}
    return around(pb.MessageMetadata(**given).SerializeToString(), payload, broker_block, checksum)


def around(metadata: bytes, payload: bytes = b"", broker_block: bytes | None = None, checksum: bool = True) -> bytes:
    covered = struct.pack(">I", len(metadata)) + metadata + payload
    block = b"" if broker_block is None else b"\x0e\x02" + struct.pack(">I", len(broker_block)) + broker_block
    return block + (b"\x0e\x01" + struct.pack(">I", google_crc32c.value(covered)) if checksum else b"") + covered


def recorded() -> list[bytes]:
    return [frame["bytes"][8 + frame["command_size"] :] for frame in sent_frames()]


@pytest.mark.parametrize("frame", sent_frames(), ids=lambda frame: frame["file"])
def test_recorded_entries_are_read_as_protobuf_reads_them(frame):
    data = frame["bytes"][8 + frame["command_size"] :]
    metadata = frame["metadata"]
    assert entry.verify(data)
    first, last = entry.metadata_bounds(data)
    assert data[first:last].hex() == frame["metadata_hex"]
    message = pb.MessageMetadata.FromString(data[first:last])
    assert entry.counts(data) == metadata.get("num_messages_in_batch", 1)
    assert entry.is_batch(data) == ("num_messages_in_batch" in metadata)
    assert entry.publish_time(data) == metadata["publish_time"]
    assert entry.deliver_at(data) == metadata.get("deliver_at_time", 0)
    assert entry.is_null(data) == metadata.get("null_value", False)
    assert entry.marker(data) == entry.NO_MARKER
    highest = metadata.get("highest_sequence_id", metadata["sequence_id"])
    assert entry.producer_and_sequence(data) == (metadata["producer_name"], metadata["sequence_id"], highest)
    if "uuid" in metadata:
        assert entry.chunk(data) == (metadata["uuid"], metadata["chunk_id"], metadata["num_chunks_from_msg"])
    else:
        assert entry.chunk(data) is None
    stamped = (message.entry_hash_min, message.entry_hash_max) if message.HasField("entry_hash_min") else None
    assert entry.stamps(data) == stamped
    scanned, parsed = entry.read(data), by_protobuf(data, first, last)
    for name in METADATA_FIELDS:
        assert getattr(scanned, name) == getattr(parsed, name)


def test_some_recorded_entries_carry_what_is_rare():
    found = [entry.read(data) for data in recorded()]
    assert any(item.deliver_at for item in found)
    assert any(item.ordering_key for item in found)
    assert any(item.key_is_base64 for item in found)
    assert any(item.encrypted for item in found)
    assert any(item.hash_min >= 0 for item in found) or all(entry.stamps(data) is None for data in recorded())


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("block", [None, b"", pb.BrokerEntryMetadata(broker_timestamp=1, index=2).SerializeToString()])
def test_blocks_before_metadata_are_stepped_over(block, checksum):
    data = an_entry(broker_block=block, checksum=checksum, num_messages_in_batch=3)
    assert entry.counts(data) == 3
    assert entry.verify(data)
    assert entry.counts(b"before" + data + b"after", 6, 6 + len(data)) == 3
    assert entry.verify(b"before" + data + b"after", 6, 6 + len(data))


def test_damaged_byte_is_noticed_wherever_checksum_reaches():
    data = an_entry(broker_block=b"\x08\x01")
    for place in range(len(data)):
        damaged = data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :]
        if place >= 8 + 2:
            try:
                assert not entry.verify(damaged)
            except Corrupt:
                pass


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"ordering_key": b"o", "partition_key": "p"}, b"o"),
        ({"ordering_key": b""}, b""),
        ({"partition_key": "päöü"}, "päöü".encode()),
        ({"partition_key": b64encode(b"\x00\xff").decode(), "partition_key_b64_encoded": True}, b"\x00\xff"),
        ({"partition_key": "no base64!", "partition_key_b64_encoded": True}, b"no base64!"),
        ({"partition_key": ""}, b""),
        ({}, b"me-7"),
    ],
)
def test_sticky_key_prefers_ordering_key_then_key_then_producer(fields, key):
    data = an_entry(**fields)
    assert entry.sticky_key(data) == key
    assert entry.key_hash(data) == mmh3.hash(key, 0, signed=False)


def test_entry_without_anything_to_hash_has_hash_all_same():
    data = around(b"")
    assert entry.sticky_key(data) is None
    assert entry.key_hash(data) == mmh3.hash(b"NONE_KEY", 0, signed=False)
    with pytest.raises(Corrupt):
        entry.producer_and_sequence(data)


def test_stamps_need_both_ends():
    assert entry.stamps(an_entry(entry_hash_min=0, entry_hash_max=65535)) == (0, 65535)
    assert entry.stamps(an_entry(entry_hash_min=2**32 - 1, entry_hash_max=2**32 - 1)) == (2**32 - 1, 2**32 - 1)
    assert entry.stamps(an_entry(entry_hash_min=5)) is None
    assert entry.stamps(an_entry(partition_key_b64_encoded=True)) is None


def test_batch_is_what_carries_count_even_of_one():
    assert entry.is_batch(an_entry(num_messages_in_batch=1))
    assert entry.counts(an_entry(num_messages_in_batch=-5)) == 1
    assert not entry.is_batch(an_entry(partition_key="X"))  # X is the byte of the tag


def test_markers_and_tombstones():
    assert entry.marker(an_entry(marker_type=21)) == 21
    assert entry.is_null(an_entry(null_value=True))
    assert not entry.is_null(an_entry(null_value=False))


@pytest.mark.parametrize(
    "metadata",
    [
        b"\x88\x80\x80\x80\x00\x01",  # a tag in five bytes
        b"\xd8\x00\x05",  # num_messages_in_batch with an overlong tag
        b"\x58\x85\x80\x80\x80\x80\x80\x80\x80\x80\x00",  # an overlong five
        b"\x58\xff\xff\xff\xff\x1f",  # cut to 32 bits
        b"\x3b\x08\x01\x3c\x58\x02",  # a group in between
        b"\x0d\0\0\0\0\x09\0\0\0\0\0\0\0\0\x58\x02",  # fixed-width strangers
        b"\x58\x02\x58\x07",  # said twice
        b"\x5a\x01\x00\x58\x09",  # the number as another type
        b"\x40\x63\x58\x02",  # an unknown compression
    ],
)
def test_unusual_encodings_are_read_as_protobuf_reads_them(metadata):
    data = around(metadata)
    message = pb.MessageMetadata.FromString(metadata)
    assert entry.counts(data) == max(message.num_messages_in_batch, 1)
    assert entry.read(data).compression == message.compression


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\1",
        b"\x0e\x01\0\0\0\0",
        b"\x0e\x02\xff\xff\xff\xff",
        b"\x0e\x02\0\0\0\0\x0e\x01\0\0\0\0\0\0\0\1",
        around(b"\x58"),
        around(b"\x58\x80"),
        around(b"\x58\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
        around(b"\x0a\x05abXd"),
        around(b"\x00\x58"),
        around(b"\x5f\x01"),
        around(b"\x5b\x01"),
        around(b"\xd8"),
    ],
)
def test_garbage_is_corrupt(data):
    with pytest.raises(Corrupt):
        entry.read(data)


def test_broker_block_that_looks_like_checksum_is_none():
    assert entry.verify(an_entry(broker_block=b"\x0e\x01\0\0\0\0", checksum=False))


def test_invalid_text_is_corrupt_only_for_its_users():
    data = around(b"\x0a\x01\xff\x10\x01")
    assert entry.sticky_key(data) == b"\xff-1"
    with pytest.raises(Corrupt):
        entry.producer_and_sequence(data)


def test_long_uuid_of_chunk_is_kept_as_digest():
    def uuid_of(uuid: str) -> str:
        found = entry.chunk(an_entry(uuid=uuid, chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=2))
        assert found is not None
        return found[0]

    edge = "u" * CHUNK_UUID_BYTES_MAX
    assert uuid_of(edge) == edge
    long = "u" * 5_000_000
    assert len(uuid_of(long)) < 100
    assert uuid_of(long) == uuid_of(long) != uuid_of(long + "u")
