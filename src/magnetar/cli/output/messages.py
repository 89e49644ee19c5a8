"""Messages as rows with all their fields. The payload is text if it is valid text, else base64."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from magnetar.cli.output.output import Output, Rows
from magnetar.cli.output.values import iso

if TYPE_CHECKING:
    from magnetar.client.admin.messages import PeekedMessage
    from magnetar.client.message import Message

COLUMNS = (
    *("id", "topic", "key", "properties", "publish_time", "event_time", "producer"),
    *("sequence_id", "redelivery_count", "data", "data_base64"),
)


def messages(output: Output) -> Rows:
    return output.rows(
        _text,
        lambda document: " ".join(filter(None, (document["id"], document["key"]))),
        name=lambda document: document["id"],
        columns=COLUMNS,
    )


def _text(document: dict[str, Any]) -> str:
    payload: str = document["data"] if document["data"] is not None else document["data_base64"]
    return payload


def document(message: Message[bytes]) -> dict[str, Any]:
    return {
        "id": str(message.id),
        "topic": message.topic,
        "key": message.key,
        "properties": dict(message.properties),
        "publish_time": iso(message.publish_time_ms),
        "event_time": iso(message.event_time_ms) if message.event_time_ms else None,
        "producer": message.producer_name,
        "sequence_id": message.sequence_id,
        "redelivery_count": message.redelivery_count,
        **_data(message.data),
    }


def peeked(topic: str, message: PeekedMessage) -> dict[str, Any]:
    id = message.id
    batch = f":{id.batchIndex}" if id.batchIndex >= 0 else ""
    return {
        "id": f"{id.ledgerId}:{id.entryId}:{id.partitionIndex}{batch}",
        "topic": topic,
        "key": message.key,
        "properties": dict(message.properties),
        "publish_time": message.publish_time,
        "event_time": message.event_time,
        "producer": message.producer_name,
        "sequence_id": message.sequence_id,
        **_data(message.data),
    }


def _data(data: bytes) -> dict[str, str | None]:
    try:
        return {"data": data.decode(), "data_base64": None}
    except UnicodeDecodeError:
        return {"data": None, "data_base64": b64encode(data).decode()}
