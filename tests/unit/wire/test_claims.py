"""A batch is believed as far as its bytes have room for it."""

from __future__ import annotations

import pytest

from magnetar.base.limits import BATCH_MESSAGE_BYTES_MIN, BATCH_MESSAGES_MAX
from magnetar.wire import claims, codec, message
from magnetar.wire.proto import pb
from tests.support.golden_vectors import sent_frames

KINDS = [codec.NONE, codec.LZ4, codec.ZLIB, codec.ZSTD, codec.SNAPPY]


def a_batch(count: int, payload: bytes = b"", *, compression: int = codec.NONE, claim: int = 0) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    inside = message.join_batch([(pb.SingleMessageMetadata(), payload) for _ in range(count)])
    metadata.num_messages_in_batch = claim or count
    if compression:
        metadata.compression = compression
        metadata.uncompressed_size = len(inside)
    return message.close_entry(metadata, codec.compress(compression, inside))


def refused(entry: bytes, count: int) -> str:
    return claims.refusal(entry, 0, len(entry), count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, 1_000, 50_000])
def test_smallest_true_batch_of_every_codec_is_believed(kind, count):
    assert refused(a_batch(count, compression=kind), count) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_claim_beyond_bytes_is_refused_with_both_numbers(kind):
    entry = a_batch(2, compression=kind, claim=900_000)
    assert str(900_000 * BATCH_MESSAGE_BYTES_MIN) in refused(entry, 900_000)


def test_false_size_before_compression_makes_no_room():
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, num_messages_in_batch=900_000)
    metadata.compression, metadata.uncompressed_size = codec.LZ4, 1 << 31
    assert refused(message.close_entry(metadata, b"x" * 20), 900_000)


def test_claim_beyond_limit_is_refused_naming_it():
    entry = a_batch(2, compression=codec.ZSTD, claim=BATCH_MESSAGES_MAX + 1)
    assert str(BATCH_MESSAGES_MAX) in refused(entry, BATCH_MESSAGES_MAX + 1)


def test_counts_of_command_and_metadata_that_differ_are_refused():
    assert "3" in refused(a_batch(2), 3)
    assert refused(message.single(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), b"x" * 99), 9)


def test_metadata_that_cannot_be_parsed_is_refused():
    assert refused(b"\0\0\0\3\x0a\x7fx" + b"x" * 99, 2)
    assert refused(b"", 2)


@pytest.mark.parametrize("frame", sent_frames(), ids=lambda frame: frame["file"])
def test_recorded_entries_of_java_clients_are_believed(frame):
    count = frame["metadata"].get("num_messages_in_batch", 1)
    if count > 1:
        assert refused(frame["bytes"][8 + frame["command_size"] :], count) == ""
