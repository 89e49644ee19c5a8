"""Messages in REST answers: a body, and X-Pulsar-* headers with the fields of its producer and broker.

The server returns a batch as a whole entry; this module splits it into its messages, and leaves out acknowledged ones
if the server names them. Encrypted messages stay encrypted. Times are as the server wrote them, ISO-8601 in UTC.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

import msgspec

from magnetar.base.errors import Corrupt
from magnetar.client.documents.topics import MessageId


@dataclass(frozen=True, slots=True)
class PeekedMessage:
    """A message that was read for inspection and not received: it cannot be acknowledged."""

    id: MessageId
    data: bytes = field(repr=False)
    key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    producer_name: str = ""
    sequence_id: int = 0
    publish_time: str = ""
    event_time: str | None = None
    encrypted: bool = False


def messages_of(headers: Mapping[str, str], body: bytes) -> list[PeekedMessage]:
    """The messages of the entry in one answer."""
    named = {name.lower().removeprefix("x-pulsar-"): value for name, value in headers.items()}
    entry = _entry(named, body)
    count = _number(named.get("num-batch-message", "0"))
    if not count or entry.encrypted:
        return [entry]
    left = _bits(named.get("x-magnetar-unacknowledged", ""))
    return [one for one in _messages(entry, count, body) if left is None or left >> one.id.batchIndex & 1]


def _bits(text: str) -> int | None:
    """The unacknowledged messages of a batch; None: all."""
    try:
        return int.from_bytes(base64.b64decode(text, validate=True), "little") if text else None
    except ValueError as error:
        raise Corrupt("the server sent an invalid ack set for a batch", text=text) from error


def _entry(named: Mapping[str, str], body: bytes) -> PeekedMessage:
    ledger, _, number = named.get("message-id", "").partition(":")
    return PeekedMessage(
        id=MessageId(_number(ledger), _number(number.split(":")[0])),
        data=body,
        key=_text(named["partition-key"]) if "partition-key" in named else None,
        properties=_properties(named.get("property", "{}")),
        producer_name=_text(named.get("producer-name", "")),
        sequence_id=_number(named.get("sequence-id", "0")),
        publish_time=named.get("publish-time", ""),
        event_time=named.get("event-time"),
        encrypted=named.get("is-encrypted") == "true",
    )


def _messages(entry: PeekedMessage, count: int, body: bytes) -> list[PeekedMessage]:
    from magnetar.wire.message import split_batch  # imports protobuf only for a batch

    messages: list[PeekedMessage] = []
    for index, (single, data) in enumerate(split_batch(body, count)):
        if single.compacted_out:
            continue
        messages.append(
            replace(
                entry,
                id=MessageId(entry.id.ledgerId, entry.id.entryId, batchIndex=index, batchSize=count),
                data=data,
                key=single.partition_key if single.HasField("partition_key") else None,
                properties={pair.key: pair.value for pair in single.properties},
                sequence_id=single.sequence_id if single.HasField("sequence_id") else entry.sequence_id + index,
                event_time=moment(single.event_time) if single.event_time else entry.event_time,
            )
        )
    return messages


def moment(stamp_ms: int) -> str:
    """Milliseconds since 1970 as ISO-8601 in UTC."""
    from datetime import UTC, datetime, timedelta

    try:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stamp_ms)
    except OverflowError:
        return str(stamp_ms)  # not a valid time: show the number
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _properties(text: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(_text(text), type=dict[str, str])
    except msgspec.DecodeError as error:
        raise Corrupt("the properties of a message cannot be parsed", text=text) from error


def _text(header: str) -> str:
    """Headers are ASCII; Magnetar's server escapes all other characters."""
    return unquote(header) if "%" in header else header


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Corrupt("the server sent an invalid number for a message", text=text) from None
