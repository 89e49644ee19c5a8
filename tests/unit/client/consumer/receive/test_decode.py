"""Entries of the Java clients, and damaged ones, opened as applications see them."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import BadChecksum, Corrupt
from magnetar.client.consumer.ack.acks import all_bits
from magnetar.client.consumer.receive.decode import inflate, open_batch, open_metadata
from magnetar.client.message import Delivery, Message
from magnetar.client.schema import BYTES, STRING
from magnetar.wire import codec
from magnetar.wire.message import batch as wire_batch
from magnetar.wire.proto import pb
from tests.support.broker_entry import with_broker_block
from tests.support.broker_script import batch, single
from tests.support.golden_vectors import sent_frames

PLAIN = [
    frame for frame in sent_frames() if "uuid" not in frame["metadata"] and "encryption_keys" not in frame["metadata"]
]


def opened(data: bytes, unacked: int | None = None, schema=BYTES) -> list[Message]:
    metadata, start = open_metadata(data)
    delivery = Delivery(metadata, "persistent://public/default/t", schema, ledger=3, entry=9, partition=2)
    payload = inflate(metadata, data[start:])
    if not metadata.HasField("num_messages_in_batch"):
        return [Message(payload, delivery)]
    delivery.size = metadata.num_messages_in_batch
    delivery.unacked = all_bits(delivery.size) if unacked is None else unacked
    return open_batch(payload, delivery)


@pytest.mark.parametrize("frame", PLAIN, ids=lambda frame: frame["file"])
def test_recorded_entries(frame):
    messages = opened(frame["bytes"][8 + frame["command_size"] :])
    expected = frame.get("messages", [frame])
    if len(expected) < len(messages):  # of large batches the first and the last few are recorded
        assert len(messages) == frame["metadata"]["num_messages_in_batch"]
        messages = messages[:3] + messages[-2:]
    for message, item in zip(messages, expected, strict=True):
        if "value_hex" in item:
            assert message.data.hex() == item["value_hex"]
        else:
            assert hashlib.sha256(message.data).hexdigest() == item["value_sha256"]
        head = item.get("single_metadata", item.get("metadata", {}))
        assert message.key == head.get("partition_key")
        assert message.event_time_ms == head.get("event_time", 0)
        assert message.is_null == head.get("null_value", False)
        assert dict(message.properties) == {pair["key"]: pair["value"] for pair in head.get("properties", [])}
        assert message.producer_name == frame["metadata"]["producer_name"]
        assert message.publish_time_ms == frame["metadata"]["publish_time"]
        assert (message.id.batch_index >= 0) == ("messages" in frame)


@pytest.mark.parametrize("kind", [codec.NONE, codec.LZ4, codec.ZLIB, codec.ZSTD, codec.SNAPPY])
def test_batches_of_every_codec(kind):
    messages = opened(batch(b"one", b"", b"three" * 100, compression=kind))
    assert [message.data for message in messages] == [b"one", b"", b"three" * 100]
    assert [str(message.id) for message in messages] == ["3:9:2:0", "3:9:2:1", "3:9:2:2"]
    assert [message.id.batch_size for message in messages] == [3, 3, 3]


def test_acknowledged_messages_of_batch_are_left_out():
    assert [message.data for message in opened(batch(b"a", b"b", b"c", b"d"), 0b1010)] == [b"b", b"d"]


def test_what_broker_puts_in_front_is_skipped():
    entry = with_broker_block(single(b"x"), pb.BrokerEntryMetadata(broker_timestamp=1, index=7))
    assert opened(entry)[0].data == b"x"


def test_fields_of_single_message_are_read_when_asked_for():
    [message] = opened(
        single(
            b"x", 5, partition_key="a2V5", partition_key_b64_encoded=True, ordering_key=b"o", schema_version=b"\x01"
        ),
        schema=STRING,
    )
    assert message.value == "x"
    assert (message.key, message.key_bytes, message.ordering_key) == ("a2V5", b"key", b"o")
    assert (message.sequence_id, message.schema_version, message.redelivery_count) == (5, b"\x01", 0)
    assert message.id.topic == "persistent://public/default/t"


def test_null_value_is_none_and_empty_one_is_not():
    [null] = opened(single(b"", null_value=True), schema=STRING)
    [empty] = opened(single(b""), schema=STRING)
    assert (null.value, null.is_null) == (None, True)
    assert (empty.value, empty.is_null) == ("", False)


def test_key_marked_as_base64_by_mistake_is_its_text():
    [message] = opened(single(b"x", partition_key="not base64!", partition_key_b64_encoded=True))
    assert message.key_bytes == b"not base64!"


def test_key_marked_as_base64_by_mistake_may_have_any_characters():
    [message] = opened(single(b"x", partition_key="clé", partition_key_b64_encoded=True))
    assert message.key_bytes == "clé".encode()


def test_invalid_utf_8_of_another_client_is_tolerated():
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, partition_key="kkkk")
    metadata.properties.add(key="pppp", value="vvvv")
    data = metadata.SerializeToString()
    for letter in (b"k", b"p", b"v"):
        data = data.replace(letter * 4, letter + b"\xff\xfe" + letter)
    delivery = Delivery(pb.MessageMetadata.FromString(data), "persistent://public/default/t", BYTES, ledger=3, entry=9)
    message = Message(b"x", delivery)
    assert message.key_bytes == b"k\xff\xfek"
    assert message.key == "k\\xff\\xfek"
    assert message.properties == {"p\\xff\\xfep": "v\\xff\\xfev"}


def test_sequence_ids_of_batch_increase_if_absent():
    assert [message.sequence_id for message in opened(batch(b"a", b"b"))] == [0, 1]


def test_flipped_bit_is_bad_checksum():
    entry = bytearray(single(b"hello"))
    entry[-1] ^= 1
    with pytest.raises(BadChecksum):
        opened(bytes(entry))


def test_entry_cut_short_before_its_payload_is_corrupt():
    entry = single(b"hello")[6:]  # without its checksum
    for cut in range(len(entry) - len(b"hello")):
        with pytest.raises(Corrupt):
            opened(entry[:cut])


@pytest.mark.parametrize("change", [lambda payload: payload[:-1], lambda payload: payload + b"x", lambda payload: b""])
def test_batch_that_is_not_what_it_claims_is_corrupt(change):
    metadata, start = open_metadata(batch(b"a", b"b"))
    payload = batch(b"a", b"b")[start:]
    delivery = Delivery(metadata, "t", BYTES, ledger=1, entry=1)
    delivery.size, delivery.unacked = 2, 3
    with pytest.raises(Corrupt) as error:
        open_batch(change(payload), delivery)
    assert error.value.facts["validation_error"] == 3


SINGLE = st.fixed_dictionaries(
    {"payload_size": st.just(0)},
    optional={
        "partition_key": st.text(max_size=200),
        "properties": st.lists(
            st.builds(pb.KeyValue, key=st.text(max_size=5), value=st.text(max_size=200)), max_size=3
        ),
        "event_time": st.integers(0, 1 << 62),
        "ordering_key": st.binary(max_size=5),
        "sequence_id": st.integers(0, 1 << 62),
        "null_value": st.booleans(),
    },
)


@given(st.lists(st.tuples(SINGLE, st.integers(0, 40_000)), min_size=1, max_size=6))
def test_whatever_producer_writes_beside_size_is_read(items):
    singles = [(pb.SingleMessageMetadata(**fields), b"v" * size) for fields, size in items]
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=9, publish_time=1)
    messages = opened(wire_batch(metadata, singles))
    assert [message.data for message in messages] == [payload for _, payload in singles]
    for message, (single_metadata, _) in zip(messages, singles, strict=True):
        assert message._head == single_metadata


@given(st.binary(max_size=60), st.integers(1, 4))
def test_noise_as_batch_is_corrupt_or_valid_protobuf(noise, size):
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=9, publish_time=1)
    delivery = Delivery(metadata, "t", BYTES, ledger=1, entry=1)
    delivery.size, delivery.unacked = size, all_bits(size)
    try:
        found = open_batch(noise, delivery)
    except Corrupt:
        return
    assert len(found) == size
    assert sum(len(message.data) for message in found) <= len(noise)


def test_metadata_that_cannot_be_read_is_corrupt_when_asked_for():
    message = Message(b"x", Delivery(pb.MessageMetadata(), "t", BYTES, ledger=1, entry=1), b"\x18\x01\x12\x7f", 0)
    with pytest.raises(Corrupt):
        message.key  # noqa: B018


def test_payload_that_does_not_decompress_says_so_to_broker():
    metadata, _ = open_metadata(batch(b"a" * 100, compression=codec.ZSTD))
    with pytest.raises(Corrupt) as error:
        inflate(metadata, b"garbage")
    assert error.value.facts["validation_error"] == 1
