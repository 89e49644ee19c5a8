"""A received message sent on: what its sender said of it stays, where it came from does not."""

from __future__ import annotations

from magnetar.client.consumer.ack.message_copy import copied
from magnetar.client.message import Delivery, Message
from magnetar.client.schema import BYTES
from magnetar.wire.proto import pb


def delivered(**fields: object) -> Delivery:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=4, publish_time=9, **fields)  # type: ignore[arg-type]
    return Delivery(metadata, "persistent://t/n/x", BYTES, ledger=1, entry=2)


def test_everything_sender_may_say_is_kept() -> None:
    single = pb.SingleMessageMetadata(
        payload_size=1,
        partition_key="aGk=",
        partition_key_b64_encoded=True,
        ordering_key=b"o",
        event_time=7,
        properties=[pb.KeyValue(key="a", value="b")],
    )
    payload, fields = copied(Message(b"v", delivered(), single.SerializeToString(), 0), 41)
    assert payload == b"v"
    assert (fields.key, fields.key_base64, fields.ordering_key) == ("aGk=", True, b"o")
    assert (fields.properties, fields.event_time, fields.sequence) == ({"a": "b"}, 7, 41)
    assert not fields.null_value


def test_what_was_not_said_is_not_made_up() -> None:
    _, fields = copied(Message(b"", delivered(null_value=True)), 0)
    assert (fields.key, fields.ordering_key, fields.properties, fields.event_time) == (None, None, None, 0)
    assert fields.null_value
