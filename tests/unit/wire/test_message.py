"""Recorded entries of the Java clients are taken apart to the last byte, and ours are built the same way."""

from __future__ import annotations

import hashlib
from itertools import groupby

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from magnetar.base.errors import BadChecksum, Corrupt
from magnetar.wire import codec, entry, message
from magnetar.wire.message import Opened
from magnetar.wire.proto import pb
from tests.support.broker_entry import with_broker_block
from tests.support.golden_vectors import sent_frames

LIMIT = 1 << 23


def the_entry(frame: dict) -> bytes:
    return frame["bytes"][8 + frame["command_size"] :]


def decrypted(frame: dict) -> Opened:
    opened = message.open_entry(the_entry(frame))
    assert len(opened.payload) == frame["payload_size"]
    if "data_key_hex" not in frame:
        assert not opened.metadata.encryption_keys
        return opened
    key = AESGCM(bytes.fromhex(frame["data_key_hex"]))
    plain = key.decrypt(opened.metadata.encryption_param, opened.payload, None)
    assert len(plain) == frame["decrypted_size"]
    return Opened(opened.metadata, plain)


def check_value(value: bytes, expected: dict) -> None:
    if "value_hex" in expected:
        assert value.hex() == expected["value_hex"]
    else:
        assert len(value) == expected["value_size"]
        assert hashlib.sha256(value).hexdigest() == expected["value_sha256"]
        assert value.startswith(bytes.fromhex(expected["value_head_hex"]))


def as_recorded(item: pb.SingleMessageMetadata) -> dict:
    found = {}
    for field, value in item.ListFields():
        if field.name == "properties":
            found["properties"] = [{"key": pair.key, "value": pair.value} for pair in value]
        else:
            found[field.name] = value.hex() if isinstance(value, bytes) else value
    return found


PLAIN = [frame for frame in sent_frames() if "uuid" not in frame["metadata"]]
CHUNKED = [frame for frame in sent_frames() if "uuid" in frame["metadata"]]


@pytest.mark.parametrize("frame", PLAIN, ids=lambda frame: frame["file"])
def test_recorded_single_messages_and_batches(frame):
    opened = decrypted(frame)
    value = message.inflate(opened.metadata, opened.payload, LIMIT)
    if not opened.is_batch:
        check_value(value, frame)
        return
    assert hashlib.sha256(value).hexdigest() == frame["uncompressed_sha256"]
    items = message.split_batch(value, opened.metadata.num_messages_in_batch)
    assert len(items) == frame["messages_count"]
    assert message.join_batch(items) == value
    if "messages_are" in frame:
        assert frame["messages_are"] == "first 3 and last 2"
        items = items[:3] + items[-2:]
    for (metadata, payload), expected in zip(items, frame["messages"], strict=True):
        assert as_recorded(metadata) == expected["single_metadata"]
        check_value(payload, expected)


def test_recorded_chunks_are_joined():
    assembled = 0
    for _, group in groupby(CHUNKED, key=lambda frame: (frame["client"], frame["case"], frame["metadata"]["uuid"])):
        frames = list(group)
        parts = [decrypted(frame) for frame in frames]
        assert [len(part.payload) for part in parts] == [frame["chunk_data_size"] for frame in frames]
        whole = b"".join(part.payload for part in parts)
        check_value(message.inflate(parts[0].metadata, whole, LIMIT), frames[-1]["assembled"])
        assembled += 1
    assert assembled == sum("assembled" in frame for frame in sent_frames())


@pytest.mark.parametrize("frame", sent_frames(), ids=lambda frame: frame["file"])
def test_recorded_entries_are_closed_again_byte_for_byte(frame):
    opened = message.open_entry(the_entry(frame))
    assert message.close_entry(opened.metadata, opened.payload) == the_entry(frame)


def some_metadata() -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="me", sequence_id=7, publish_time=1)


@pytest.mark.parametrize("kind", range(5))
def test_built_entries_are_taken_apart(kind):
    text = b"the quick brown fox " * 40
    opened = message.open_entry(message.single(some_metadata(), text, kind))
    assert not opened.is_batch
    assert opened.metadata.uncompressed_size == len(text)
    assert message.inflate(opened.metadata, opened.payload, LIMIT) == text

    items = [(pb.SingleMessageMetadata(payload_size=0, partition_key=str(place)), text[:place]) for place in range(9)]
    opened = message.open_entry(message.batch(some_metadata(), items, kind))
    assert opened.is_batch
    assert opened.metadata.HasField("uncompressed_size") == (kind != codec.NONE)
    payload = message.inflate(opened.metadata, opened.payload, LIMIT)
    assert message.split_batch(payload, 9) == items

    pieces = [message.open_entry(data) for data in message.chunks(some_metadata(), text, 10, kind)]
    assert all(len(piece.payload) <= 10 for piece in pieces)
    assert message.inflate(pieces[0].metadata, b"".join(piece.payload for piece in pieces), LIMIT) == text


def test_broker_block_is_read_and_does_not_disturb_checksum():
    data = message.single(some_metadata(), b"x")
    broker = pb.BrokerEntryMetadata(broker_timestamp=5, index=9)
    opened = message.open_entry(with_broker_block(data, broker))
    assert (opened.broker, opened.payload) == (broker, b"x")
    assert message.open_entry(data).broker is None
    assert entry.verify(with_broker_block(data, broker))


def test_damage_is_bad_checksum():
    data = message.single(some_metadata(), b"payload")
    with pytest.raises(BadChecksum):
        message.open_entry(data[:-1] + b"X")


@pytest.mark.parametrize("metadata", [b"", b"\x0a\x01a\x10\x01", b"\x0a\x05a"])
def test_metadata_that_is_none_is_corrupt(metadata):
    with pytest.raises(Corrupt):
        message.open_entry(len(metadata).to_bytes(4, "big") + metadata)


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"", 1),
        (b"\0\0\0", 1),
        (b"\0\0\0\2\x18\1", 1),
        (b"\0\0\0\2\x18\1ab", 1),
        (b"\0\0\0\2\x18\1a", 2),
        (b"\0\0\0\2\x18\1a\0\0\0\2\x18\1b", 1),
        (b"\0\0\0\5\x18\1a", 1),
        (b"\0\0\0\0", 1),
        (b"\0\0\0\1\xffa", 1),
        (b"\0\0\0\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 1),
        (b"\xff\xff\xff\xff", 1),
    ],
)
def test_batch_that_lies_is_corrupt(payload, count):
    with pytest.raises(Corrupt):
        message.split_batch(payload, count)
