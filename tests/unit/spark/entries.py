"""Entries as producers write them, and the rows that the client's own decoder finds in them."""

from __future__ import annotations

from typing import Any

from magnetar.client.consumer.ack.acks import all_bits
from magnetar.client.consumer.receive.decode import inflate, open_batch, open_metadata
from magnetar.client.message import Delivery, Message
from magnetar.client.schema import BYTES
from magnetar.layout.routing import Routing, segment_hash
from magnetar.wire import message as wire
from magnetar.wire.proto import pb
from magnetar.wire.send_frames import batch_metadata, batch_payload, single_extras

TOPIC = "segment://a/b/c/0000-ffff-0"
ALL = (
    "key", "value", "topic", "publish_time", "event_time", "properties", "sequence_id", "producer_name",
    "__segment", "__position", "__order", "__key_hash",
)  # fmt: skip


def head(**fields: Any) -> pb.MessageMetadata:
    return pb.MessageMetadata(**{"producer_name": "p", "sequence_id": 7, "publish_time": 1000, **fields})


def single(value: bytes, compression: int = 0, **fields: Any) -> bytes:
    return wire.single(head(**fields), value, compression)


def batch(rows: list[tuple[dict[str, Any], bytes]], compression: int = 0, **fields: Any) -> bytes:
    made = [(pb.SingleMessageMetadata(payload_size=len(value), **one), value) for one, value in rows]
    return wire.batch(head(**fields), made, compression)


def keyed(values: list[bytes], keys: list[bytes], sequence: int = 0) -> bytes:
    """A batch as our own producer writes it."""
    extras = {place: single_extras(None, key, False, None, 0, False) for place, key in enumerate(keys)}
    payload = batch_payload(values, sequence, None, extras)
    count = len(values)
    said = batch_metadata(b"p", sequence, 1000, count=count, highest=sequence + count - 1)
    return wire.close_entry(pb.MessageMetadata.FromString(said), payload)


def by_client(ledger: int, entry: int, data: bytes, routing: Routing = Routing.HIGH16) -> list[dict[str, Any]]:
    """The rows of an entry as a consumer would see them."""
    metadata, start = open_metadata(data)
    delivery = Delivery(metadata, TOPIC, BYTES, ledger=ledger, entry=entry)
    payload = inflate(metadata, data[start:])
    messages: list[Message[Any]] = [Message(payload, delivery)]
    if metadata.HasField("num_messages_in_batch"):
        delivery.size = metadata.num_messages_in_batch
        delivery.unacked = all_bits(delivery.size)
        messages = open_batch(payload, delivery)
    return [_row(one, routing) for one in messages if not getattr(one._head, "compacted_out", False)]


def _row(one: Message[Any], routing: Routing) -> dict[str, Any]:
    place = max(one.batch_index, 0)
    hashed = one.ordering_key if one.ordering_key is not None else one.key_bytes
    delivery = one._delivery
    return {
        "key": one.key_bytes,
        "value": None if one.is_null else one.data,
        "topic": TOPIC,
        "publish_time": one.publish_time_ms,
        "event_time": one.event_time_ms or None,
        "properties": dict(one.properties),
        "sequence_id": one.sequence_id,
        "producer_name": one.producer_name,
        "__segment": 3,
        "__position": f"{delivery.ledger}:{delivery.entry}:{place}",
        "__order": b"".join(number.to_bytes(8, "big") for number in (3, delivery.ledger, delivery.entry))
        + place.to_bytes(4, "big"),
        "__key_hash": None if hashed is None else segment_hash(hashed, routing),
    }


def rows_of(batches: list[Any]) -> list[dict[str, Any]]:
    """Of record batches, with times in milliseconds and properties as a dict."""
    found = []
    for one in batches:
        one.validate(full=True)
        for row in one.to_pylist():
            for name in ("publish_time", "event_time"):
                if row.get(name) is not None:
                    row[name] = round(row[name].timestamp() * 1000)
            if "properties" in row:
                row["properties"] = dict(row["properties"])
            found.append(row)
    return found
