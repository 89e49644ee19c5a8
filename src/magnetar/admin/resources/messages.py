"""Single messages for people: by number in a backlog or topic, by id, by time. Read only; nothing is acknowledged.

The body is the decompressed payload; X-Pulsar-* headers contain the metadata of the producer and the broker. A batch is
returned whole; a header marks the messages that a subscription has not acknowledged. An encrypted payload is returned
as stored. A few compressed bytes can become gigabytes, so one response decompresses a bounded size, and all responses
together hold a bounded size. Metadata that does not fit into headers is refused before anything is made of it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from magnetar.admin.answer_memory import ByteBudget, held
from magnetar.admin.monitoring.stats import moment
from magnetar.admin.request import JSON, Request, Response, header_bytes, shown
from magnetar.admin.resolve import check_namespace, not_partitioned, stored, subscription
from magnetar.admin.resources.subscriptions import nth_unacked
from magnetar.admin.route import Route, get
from magnetar.base.errors import Corrupt, Misuse, NotFound, Refused
from magnetar.base.ids import Position
from magnetar.base.limits import HTTP_MESSAGE_BYTES_MAX, HTTP_METADATA_BYTES_MAX, HTTP_PIECE_BYTES
from magnetar.client.documents.topics import MessageId
from magnetar.wire.codec import inflated_max
from magnetar.wire.message import Opened, inflate, open_entry
from magnetar.wire.proto import pb, text

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.topic.topic import Topic


UNACKNOWLEDGED = "X-Magnetar-Unacknowledged"  # of a batch: a bit for each message, the lowest first, as base64


async def peek(node: Node, request: Request) -> Response:
    number = request.number("position")
    await not_partitioned(node, request.topic, "Peek messages on a partitioned topic is not allowed")
    topic = await stored(node, request, "Peek messages")
    return await unacknowledged(node, topic, request.parts["subscription"], number)


async def unacknowledged(node: Node, topic: Topic, name: str, number: int) -> Response:
    """The n-th entry that a subscription has not acknowledged, from 1."""
    existing = subscription(topic, name)
    if number < 1:
        raise Misuse("the position must be 1 or more")
    if number > existing.cursor.backlog:
        raise NotFound("Message not found")
    position = nth_unacked(existing, number)
    answer = await _message(node, topic, position, "Message not found")
    words = existing.cursor.bits(position)
    if words is None:
        return answer
    bits = b"".join(word.to_bytes(8, "little", signed=True) for word in words)
    return replace(answer, headers={**answer.headers, UNACKNOWLEDGED: base64.b64encode(bits).decode()})


async def examine(node: Node, request: Request) -> Response:
    words = (
        "Examine messages on a partitioned topic is not allowed, please try examine message on specific topic partition"
    )
    await check_namespace(node, request.topic)
    await not_partitioned(node, request.topic, words)
    topic = await stored(node, request, "Examine messages")
    managed, number = topic.managed, max(1, request.number("messagePosition", 1))
    if not managed.entries:
        raise Misuse("Could not examine messages due to the total message is zero")
    number = min(number, managed.entries)
    earliest = request.query.get("initialPosition", "latest") == "earliest"
    return await _message(node, topic, managed.chain.nth(number - 1 if earliest else managed.entries - number), "gone")


async def by_id(node: Node, request: Request) -> Response:
    position = Position(request.number("ledger"), request.number("entry"))
    topic = await stored(node, request, "Get message by id")
    if not topic.managed.has(position):
        raise NotFound("Message id not found")
    return await _message(node, topic, position, "Message id not found")


async def id_by_time(node: Node, request: Request) -> Response:
    stamp = request.number("timestamp")
    await check_namespace(node, request.topic)
    words = "Get message ID by timestamp on a partitioned topic is not allowed"
    await not_partitioned(node, request.topic, f"{words}, please try do it on specific topic partition")
    topic = await stored(node, request, "Get message ID by timestamp")
    position = await topic.managed.find(stamp)
    return shown(MessageId(position.ledger, position.entry, topic.partition))


async def _message(node: Node, topic: Topic, position: Position, missing: str) -> Response:
    run = await topic.managed.read(position, 1, 1)
    if run is None:
        raise NotFound(missing)
    try:
        opened = open_entry(bytes(run.entry(0)))
    except Corrupt as error:  # the producer's bytes, stored as they came
        raise Refused(f"the message cannot be read: {error.what}", http_status=422) from error
    size = opened.metadata.ByteSize()
    if size > HTTP_METADATA_BYTES_MAX:
        raise Refused(
            f"the metadata of the message has {size} bytes; REST returns at most {HTTP_METADATA_BYTES_MAX} in headers: "
            "read it with a consumer",
            http_status=413,
        )
    headers = {name: _header(value) for name, value in _described(run.position(0), opened).items()}
    headers = {"content-type": JSON, "x-content-type-options": "nosniff", **headers}
    beside = header_bytes(headers)
    payload = _payload(held(node), opened, beside)
    if len(payload) + beside <= HTTP_PIECE_BYTES:
        return Response(200, payload, headers)
    return Response(200, held(node).body(payload, beside), {**headers, "content-length": str(len(payload))})


def _payload(held: ByteBudget, opened: Opened, beside: int) -> bytes:
    """`beside`: bytes of the headers, which are held as long as the payload."""
    metadata, stored = opened.metadata, opened.payload
    held.check(len(stored) + beside)
    if metadata.encryption_keys or metadata.HasField("chunk_id") or not metadata.compression:
        return stored
    size = metadata.uncompressed_size
    if HTTP_MESSAGE_BYTES_MAX < size <= inflated_max(metadata.compression, len(stored)):
        raise Refused(
            f"the message has {size} bytes when decompressed; REST returns at most {HTTP_MESSAGE_BYTES_MAX}: "
            "read it with a consumer",
            http_status=413,
        )
    held.check(size + beside)
    try:
        return inflate(metadata, stored, HTTP_MESSAGE_BYTES_MAX)
    except Corrupt:
        return stored  # not what it says it is: shown as it is stored


def _described(position: Position, opened: Opened) -> dict[str, str]:
    metadata = opened.metadata
    headers = {
        "X-Pulsar-Message-ID": str(position),
        "X-Pulsar-PROPERTY": json.dumps(_properties(metadata), separators=(",", ":")),
        "X-Pulsar-publish-time": moment(metadata.publish_time),
        "X-Pulsar-Is-Encrypted": "true" if metadata.encryption_keys else "false",
        "X-Pulsar-producer-name": text(metadata.producer_name),
        "X-Pulsar-sequence-id": str(metadata.sequence_id),
        "X-Pulsar-txn-uncommitted": "false",
    }
    if metadata.event_time:
        headers["X-Pulsar-event-time"] = moment(metadata.event_time)
    if opened.is_batch:
        headers["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
        headers["X-Pulsar-batch-size"] = str(len(opened.payload))
    if metadata.HasField("partition_key"):
        headers["X-Pulsar-partition-key"] = text(metadata.partition_key)
    if metadata.partition_key_b64_encoded:
        headers["X-Pulsar-partition-key-b64-encoded"] = "true"
    if metadata.compression:
        headers["X-Pulsar-compression"] = pb.CompressionType.Name(metadata.compression)
        headers["X-Pulsar-uncompressed-size"] = str(metadata.uncompressed_size)
    if metadata.schema_version:
        headers["X-Pulsar-Base64-schema-version"] = base64.b64encode(metadata.schema_version).decode()
    if metadata.deliver_at_time:
        headers["X-Pulsar-deliver-at-time"] = moment(metadata.deliver_at_time)
    if metadata.null_value:
        headers["X-Pulsar-null-value"] = "true"
    return headers


def _properties(metadata: pb.MessageMetadata) -> dict[str, str]:
    return {text(pair.key): text(pair.value) for pair in metadata.properties}


def _header(text: str) -> str:
    """The text with all characters percent-encoded that a header must not contain."""
    return text if text.isascii() and text.isprintable() else quote(text)


def _routes(domain: str) -> list[Route]:
    topic = f"/admin/v2/{domain}/{{tenant}}/{{namespace}}/{{topic}}"
    prefix = f"{topic}/subscription/{{subscription}}"
    return [
        get(f"{prefix}/position/{{position}}", peek, "The n-th unacknowledged entry", bytes),
        get(f"{topic}/examinemessage", examine, "The n-th entry from either end", bytes),
        get(f"{topic}/ledger/{{ledger}}/entry/{{entry}}", by_id, "One entry by ledger id and entry id", bytes),
        get(
            f"{topic}/messageid/{{timestamp}}",
            id_by_time,
            "The id of the first message published at or after a time",
            MessageId,
        ),
    ]


ROUTES = _routes("persistent") + _routes("non-persistent")
