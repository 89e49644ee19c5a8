"""Batches become one entry with the ids, keys and sizes their messages have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import LimitExceeded, Misuse
from magnetar.base.limits import CHUNKED_BYTES_MAX
from magnetar.client.producer.batch import Batch, Batching, Stamp, chunk_frames, single_frame
from magnetar.client.producer.fields import MessageFields, fields_of
from magnetar.wire import codec, message
from magnetar.wire.frames import decode_command, split
from magnetar.wire.proto import pb

STAMP = Stamp(7, b"me", None, codec.NONE, 1 << 20)
NOW = 1_700_000_000_000


def some_fields(**said: object) -> MessageFields:
    asked: dict[str, object] = dict.fromkeys(
        ("key", "ordering_key", "properties", "event_time_ms", "deliver_at_ms", "sequence_id", "replicate_to")
    )
    return fields_of(**{**asked, "null_value": False, **said})  # type: ignore[arg-type]


def opened(frame: bytes) -> tuple[pb.CommandSend, message.Opened]:
    (found,), rest = split(frame, 0, 1 << 26)
    assert rest == len(frame)
    command = decode_command(frame, found[0], found[1])
    assert command is not None
    return command.send, message.open_entry(frame[found[1] :])


def a_batch(*messages: tuple[bytes, MessageFields | None], keyed: bool = False) -> Batch:
    batch = Batch(0.0, keyed=keyed)
    for payload, fields in messages:
        batch.add(payload, fields, None)
    return batch


@given(st.lists(st.binary(max_size=50), min_size=2, max_size=30), st.integers(0, 2**40), st.sampled_from(range(5)))
def test_batch_holds_what_was_added_in_order(payloads, sequence, compression):
    stamp = Stamp(7, b"me", b"\0" * 8, compression, 1 << 20)
    first, highest, frame = a_batch(*[(payload, None) for payload in payloads]).close(stamp, sequence, NOW)
    send, entry = opened(frame)
    assert (first, highest) == (sequence, sequence + len(payloads) - 1)
    assert (send.sequence_id, send.highest_sequence_id, send.num_messages) == (first, highest, len(payloads))
    assert entry.metadata.num_messages_in_batch == len(payloads)
    assert entry.metadata.schema_version == b"\0" * 8
    raw = message.inflate(entry.metadata, entry.payload, 1 << 20)
    found = message.split_batch(raw, len(payloads))
    assert [data for _, data in found] == payloads
    assert [head.sequence_id for head, _ in found] == list(range(sequence, highest + 1))


def test_batch_of_one_is_plain_entry():
    first, highest, frame = a_batch((b"alone", some_fields(key="k", properties={"a": "1"}))).close(STAMP, 5, NOW)
    send, entry = opened(frame)
    assert (first, highest) == (5, 5)
    assert not entry.is_batch
    assert not send.HasField("num_messages")
    assert (entry.metadata.partition_key, entry.payload) == ("k", b"alone")
    assert entry.metadata.properties[0].value == "1"


def test_first_messages_key_is_batchs():
    _, _, frame = a_batch((b"a", some_fields(key=b"\x00\xff")), (b"b", some_fields(key="other"))).close(STAMP, 0, NOW)
    _, entry = opened(frame)
    assert entry.metadata.partition_key == "AP8="
    assert entry.metadata.partition_key_b64_encoded


def test_given_sequence_ids_are_kept_and_must_grow():
    batch = a_batch((b"a", some_fields(sequence_id=10)), (b"b", some_fields(sequence_id=20)))
    assert batch.fits(1, some_fields(sequence_id=21), 1000)
    assert not batch.fits(1, some_fields(sequence_id=20), 1000)
    assert not batch.fits(1, None, 1000), "given and assigned ids do not mix"
    first, highest, frame = batch.close(STAMP, 0, NOW)
    assert (first, highest) == (10, 20)
    _, entry = opened(frame)
    assert [head.sequence_id for head, _ in message.split_batch(entry.payload, 2)] == [10, 20]


def test_ids_given_to_batch_of_one_key_claim_no_range():
    batch = a_batch(
        (b"a", some_fields(key="k", sequence_id=1)), (b"b", some_fields(key="k", sequence_id=4)), keyed=True
    )
    first, highest, frame = batch.close(STAMP, 0, NOW)
    assert (first, highest) == (4, 4)
    _, entry = opened(frame)
    assert [head.sequence_id for head, _ in message.split_batch(entry.payload, 2)] == [1, 4]


def test_full_batch_takes_no_more():
    batch = a_batch((b"x" * 100, None))
    assert batch.fits(100, None, 300)
    assert not batch.fits(200, None, 300)


def test_message_too_large_is_refused_with_its_size():
    with pytest.raises(LimitExceeded):
        single_frame(Stamp(1, b"me", None, codec.NONE, 100), b"x" * 200, MessageFields(), 0, NOW)


def test_large_message_that_compresses_well_is_taken():
    frame = single_frame(Stamp(1, b"me", None, codec.ZSTD, 100), b"x" * 20_000, MessageFields(), 0, NOW)
    _, entry = opened(frame)
    assert message.inflate(entry.metadata, entry.payload, 1 << 20) == b"x" * 20_000


@given(st.integers(1, 4000), st.integers(120, 700), st.sampled_from(range(5)))
def test_chunks_fit_brokers_bound_and_join_to_message(size, bound, compression):
    payload = bytes(range(256)) * (size // 256 + 1)
    payload = payload[:size]
    stamp = Stamp(3, b"me", None, compression, bound)
    frames = chunk_frames(stamp, payload, some_fields(key="k"), 9, NOW)
    entries = [opened(frame) for frame in frames]
    for send, entry in entries:
        assert entry.metadata.ByteSize() + len(entry.payload) <= bound
        assert send.sequence_id == 9
        assert send.is_chunk == (len(frames) > 1)
    if len(frames) > 1:
        packed = b"".join(entry.payload for _, entry in entries)
        assert entries[0][1].metadata.uuid == "me-9"
    else:
        packed = entries[0][1].payload
    assert message.inflate(entries[0][1].metadata, packed, 1 << 20) == payload


def test_metadata_larger_than_bound_cannot_be_chunked():
    with pytest.raises(LimitExceeded):
        chunk_frames(Stamp(1, b"me", None, 0, 100), b"x" * 500, some_fields(properties={"a": "b" * 200}), 0, NOW)


@pytest.mark.parametrize("wrong", [{"messages_max": 0}, {"bytes_max": 0}, {"delay_s": -1}])
def test_batch_without_room_is_misuse(wrong):
    with pytest.raises(Misuse):
        Batching(**wrong)


@pytest.mark.parametrize("frames", [chunk_frames, single_frame])
def test_payload_beyond_what_consumers_take_is_refused_with_bound(frames):
    stamp = Stamp(1, b"me", None, codec.ZLIB, 5_000_000)
    with pytest.raises(LimitExceeded, match=f"bytes_max={CHUNKED_BYTES_MAX}"):
        frames(stamp, bytes(CHUNKED_BYTES_MAX + 1), some_fields(), 0, NOW)
