"""Frames built by hand are, byte for byte, those that protobuf and the released Java client write."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire import message, send_frames
from magnetar.wire.frames import encode_command, split
from magnetar.wire.proto import pb
from tests.support.golden_vectors import sent_frames

uint64 = st.one_of(st.sampled_from([0, 1, 127, 128, 16383, 16384, 2**28, 2**63]), st.integers(0, 2**64 - 1))
some_text = st.text(st.characters(codec="utf-8"), max_size=20)
some_bytes = st.binary(max_size=20)
optional_bytes = st.none() | some_bytes
properties = st.none() | st.dictionaries(some_text, some_text, max_size=3)


def rebuilt(frame: dict[str, Any]) -> bytes | None:
    """The same frame made of what the recording says of it; None for what the client does not send."""
    recorded = frame["bytes"]
    (found,), _ = split(recorded, 0, 1 << 24)
    opened = message.open_entry(recorded[found[1] :])
    metadata = opened.metadata
    if metadata.encryption_keys or metadata.HasField("txnid_least_bits") or metadata.HasField("entry_hash_min"):
        return None
    if metadata.HasField("schema_id") or metadata.null_partition_key:
        return None
    send = frame["send"]
    sequence = metadata.sequence_id
    key = metadata.partition_key.encode() if metadata.HasField("partition_key") else None
    ordering = metadata.ordering_key if metadata.HasField("ordering_key") else None
    version = metadata.schema_version if metadata.HasField("schema_version") else None
    producer = metadata.producer_name.encode()
    if opened.is_batch:
        raw = message.inflate(metadata, opened.payload, 1 << 24)
        parts = message.split_batch(raw, metadata.num_messages_in_batch)
        extras = {
            place: send_frames.single_extras(
                {item.key: item.value for item in head.properties} or None,
                head.partition_key.encode() if head.HasField("partition_key") else None,
                head.partition_key_b64_encoded,
                head.ordering_key if head.HasField("ordering_key") else None,
                head.event_time,
                head.null_value,
            )
            for place, (head, _) in enumerate(parts)
        }
        payload = send_frames.batch_payload(
            [data for _, data in parts], 0, [head.sequence_id for head, _ in parts], extras
        )
        assert payload == raw
        made = send_frames.batch_metadata(
            producer,
            sequence,
            metadata.publish_time,
            count=len(parts),
            highest=metadata.highest_sequence_id,
            key=key,
            key_base64=metadata.partition_key_b64_encoded,
            ordering_key=ordering,
            compression=metadata.compression,
            uncompressed_size=metadata.uncompressed_size,
            schema_version=version,
        )
    else:
        made = send_frames.message_metadata(
            producer,
            sequence,
            metadata.publish_time,
            uncompressed_size=metadata.uncompressed_size,
            compression=metadata.compression,
            properties={item.key: item.value for item in metadata.properties} or None,
            key=key,
            key_base64=metadata.partition_key_b64_encoded,
            replicate_to=[name.encode() for name in metadata.replicate_to] or None,
            event_time=metadata.event_time,
            schema_version=version,
            ordering_key=ordering,
            deliver_at=metadata.deliver_at_time,
            null_value=metadata.null_value,
        )
        if metadata.HasField("uuid"):
            made += send_frames.chunk_fields(
                metadata.uuid.encode(),
                metadata.num_chunks_from_msg,
                metadata.total_chunk_msg_size,
                metadata.chunk_id,
            )
    return send_frames.send_frame(
        send["producer_id"],
        send["sequence_id"],
        made,
        opened.payload,
        count=send.get("num_messages", 1),
        highest=send.get("highest_sequence_id", -1),
        chunk=send.get("is_chunk", False),
    )


CLASSIC = [frame for frame in sent_frames() if frame["file"].startswith("classic-")]


@pytest.mark.parametrize("frame", CLASSIC, ids=lambda frame: frame["file"])
def test_recorded_frames_are_built_again_byte_for_byte(frame):
    made = rebuilt(frame)
    if made is not None:
        assert made == frame["bytes"]


def test_most_recordings_are_of_messages_we_send():
    assert sum(rebuilt(frame) is not None for frame in CLASSIC) > 60


@given(
    st.lists(st.tuples(some_bytes, properties, st.none() | some_text, st.booleans(), optional_bytes, uint64)),
    uint64,
)
def test_batch_is_what_protobuf_writes(messages, first):
    expected = []
    extras = {}
    for place, (data, said, key, base64_key, ordering, event_time) in enumerate(messages):
        head = pb.SingleMessageMetadata(payload_size=len(data), sequence_id=(first + place) % 2**64)
        for name, text in (said or {}).items():
            head.properties.add(key=name, value=text)
        if key is not None:
            head.partition_key = key
            head.partition_key_b64_encoded = base64_key
        if ordering is not None:
            head.ordering_key = ordering
        if event_time:
            head.event_time = event_time
        expected.append((head, data))
        if said is not None or key is not None or ordering is not None or event_time:
            key_bytes = None if key is None else key.encode()
            extras[place] = send_frames.single_extras(said, key_bytes, base64_key, ordering, event_time, False)
    sequences = [(first + place) % 2**64 for place in range(len(messages))]
    payloads = [data for data, *_ in messages]
    assert send_frames.batch_payload(payloads, 0, sequences, extras) == message.join_batch(expected)


@pytest.mark.parametrize("first", [0, 126, 127, 16382, 16384 * 3 - 2, 2**28 - 2, 2**40])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 16384])
def test_plain_batch_counts_through_every_width(first, size):
    payloads = [b"x" * size] * 5 + [b"y"]
    expected = [(pb.SingleMessageMetadata(sequence_id=first + place), data) for place, data in enumerate(payloads)]
    assert send_frames.batch_payload(payloads, first, None, None) == message.join_batch(expected)


@given(uint64, uint64, uint64, properties, st.none() | some_text, optional_bytes, optional_bytes, st.booleans())
def test_metadata_is_what_protobuf_writes(sequence, time, event, said, key, ordering, version, null):
    expected = pb.MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=time, uncompressed_size=7)
    for name, text in (said or {}).items():
        expected.properties.add(key=name, value=text)
    if key is not None:
        expected.partition_key = base64.b64encode(key.encode()).decode()
        expected.partition_key_b64_encoded = True
    if event:
        expected.event_time = event
    if ordering is not None:
        expected.ordering_key = ordering
    if version is not None:
        expected.schema_version = version
    if null:
        expected.null_value = True
    made = send_frames.message_metadata(
        b"p",
        sequence,
        time,
        uncompressed_size=7,
        properties=said,
        key=None if key is None else base64.b64encode(key.encode()),
        key_base64=True,
        event_time=event,
        schema_version=version,
        ordering_key=ordering,
        null_value=null,
    )
    assert made == expected.SerializeToString()


@given(uint64, uint64, st.integers(1, 2**31 - 1), st.one_of(st.just(-1), uint64), st.booleans(), some_bytes)
def test_frame_is_what_protobuf_and_checksum_make_it(producer, sequence, count, highest, chunk, payload):
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1)
    command = pb.BaseCommand(type=pb.BaseCommand.SEND)
    command.send.producer_id = producer
    command.send.sequence_id = sequence
    if count > 1:
        command.send.num_messages = count
    if highest >= 0:
        command.send.highest_sequence_id = highest
    if chunk:
        command.send.is_chunk = True
    made = send_frames.send_frame(
        producer, sequence, metadata.SerializeToString(), payload, count=count, highest=highest, chunk=chunk
    )
    plain = encode_command(command)
    (found,), rest = split(made, 0, 1 << 20)
    assert rest == len(made)
    assert made[found[0] : found[1]] == plain[8:]
    assert made[found[1] :] == message.close_entry(metadata, payload)
