"""What protobuf alone says about SEND, ACK and FLOW: the readers of `wire.frames` must say the same, and refuse the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError, Message

from magnetar.base.errors import Corrupt
from magnetar.wire.proto import pb

REFUSED = "refused"

# What `wire.metadata.Metadata` holds; a compiled class does not tell.
METADATA_FIELDS = (
    *("producer", "sequence_id", "highest_sequence_id", "publish_time", "key", "key_is_base64", "ordering_key"),
    *("messages", "deliver_at", "marker", "compression", "uncompressed_size", "encrypted", "null_value"),
    *("uuid", "chunks", "chunk_id", "txn_least", "txn_most", "hash_min", "hash_max"),
)


def outcome(read: Callable[..., Any], *arguments: Any) -> Any:
    """A value, or that it was refused; any other exception is a finding."""
    try:
        return read(*arguments)
    except Corrupt:
        return REFUSED


def send(data: bytes) -> Any:
    command = whole_command(data, pb.BaseCommand.SEND, "send")
    if command is None:
        return REFUSED
    found = command.send
    return (
        found.producer_id,
        found.sequence_id,
        found.num_messages,
        optional(found, "highest_sequence_id"),
        found.is_chunk,
        found.marker,
        optional(found, "txnid_least_bits"),
        optional(found, "txnid_most_bits"),
        message_id(found.message_id) if found.HasField("message_id") else None,
    )


def ack(data: bytes) -> Any:
    command = whole_command(data, pb.BaseCommand.ACK, "ack")
    if command is None:
        return REFUSED
    found = command.ack
    return (
        found.consumer_id,
        found.ack_type,
        [message_id(item) for item in found.message_id],
        optional(found, "validation_error"),
        optional(found, "request_id"),
        optional(found, "txnid_least_bits"),
        optional(found, "txnid_most_bits"),
        [(item.key, item.value) for item in found.properties],
    )


def flow(data: bytes) -> Any:
    command = whole_command(data, pb.BaseCommand.FLOW, "flow")
    return REFUSED if command is None else (command.flow.consumer_id, command.flow.messagePermits)


def kind(data: bytes) -> Any:
    try:
        command = pb.BaseCommand.FromString(data)
    except DecodeError:
        return REFUSED
    return command.type if command.HasField("type") else 0


def whole_command(data: bytes, kind: int, name: str) -> pb.BaseCommand | None:
    try:
        command = pb.BaseCommand.FromString(data)
    except DecodeError:
        return None
    if not command.HasField("type") or command.type != kind:
        return None
    if not command.IsInitialized() or not command.HasField(name) or not all_text(command):
        return None
    return command


def optional(message: Any, name: str) -> int:
    value: int = getattr(message, name) if message.HasField(name) else -1
    return value


def message_id(data: pb.MessageIdData) -> Any:
    words = list(data.ack_set)
    return data.ledgerId, data.entryId, words or None, data.batch_index, data.batch_size, data.partition


def all_text(message: Message) -> bool:
    for field, value in message.ListFields():
        for item in value if field.is_repeated else (value,):
            if isinstance(item, Message) and not all_text(item):
                return False
            if field.type == field.TYPE_STRING and isinstance(item, bytes):
                return False
    return True
