"""Saying no to a request with the kind of reply that ends it.

Clients match replies by kind: an ERROR for a lookup or a schema request is ignored, and the caller waits for its
timeout (stock-clients A3). So one table says how each request ends; what nobody waits for has no refusal.
"""

from __future__ import annotations

from typing import Any

from magnetar.wire import commands
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

# Requests that end on ERROR with their request_id.
_BY_ERROR = {
    pb.BaseCommand.PRODUCER,
    pb.BaseCommand.SUBSCRIBE,
    pb.BaseCommand.UNSUBSCRIBE,
    pb.BaseCommand.SEEK,
    pb.BaseCommand.CLOSE_PRODUCER,
    pb.BaseCommand.CLOSE_CONSUMER,
    pb.BaseCommand.GET_LAST_MESSAGE_ID,
    pb.BaseCommand.GET_TOPICS_OF_NAMESPACE,
    pb.BaseCommand.WATCH_TOPIC_LIST,
    pb.BaseCommand.WATCH_TOPIC_LIST_CLOSE,
}

# Requests whose reply has the fields error and message, and the same id under the same name.
_BY_OWN_REPLY: dict[int, tuple[int, str]] = {
    pb.BaseCommand.TC_CLIENT_CONNECT_REQUEST: (pb.BaseCommand.TC_CLIENT_CONNECT_RESPONSE, "request_id"),
    pb.BaseCommand.NEW_TXN: (pb.BaseCommand.NEW_TXN_RESPONSE, "request_id"),
    pb.BaseCommand.ADD_PARTITION_TO_TXN: (pb.BaseCommand.ADD_PARTITION_TO_TXN_RESPONSE, "request_id"),
    pb.BaseCommand.ADD_SUBSCRIPTION_TO_TXN: (pb.BaseCommand.ADD_SUBSCRIPTION_TO_TXN_RESPONSE, "request_id"),
    pb.BaseCommand.END_TXN: (pb.BaseCommand.END_TXN_RESPONSE, "request_id"),
    pb.BaseCommand.END_TXN_ON_PARTITION: (pb.BaseCommand.END_TXN_ON_PARTITION_RESPONSE, "request_id"),
    pb.BaseCommand.END_TXN_ON_SUBSCRIPTION: (pb.BaseCommand.END_TXN_ON_SUBSCRIPTION_RESPONSE, "request_id"),
    pb.BaseCommand.SCALABLE_TOPIC_LOOKUP: (pb.BaseCommand.SCALABLE_TOPIC_UPDATE, "session_id"),
    pb.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE: (pb.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE, "request_id"),
    pb.BaseCommand.WATCH_SCALABLE_TOPICS: (pb.BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE, "watch_id"),
    pb.BaseCommand.WATCH_TC_ASSIGNMENTS: (pb.BaseCommand.WATCH_TC_ASSIGNMENTS_UPDATE, "watch_id"),
}


def refusal(command: pb.BaseCommand, code: int, text: str) -> bytes | None:
    """The frame that ends this request, None if its sender waits for nothing."""
    kind = command.type
    request: Any = getattr(command, _field(kind))
    if kind in _BY_ERROR:
        return commands.error(request.request_id, code, text)
    if kind == pb.BaseCommand.LOOKUP:
        return commands.lookup_failed(request.request_id, code, text)
    if kind == pb.BaseCommand.PARTITIONED_METADATA:
        return commands.partitions_failed(request.request_id, code, text)
    if kind == pb.BaseCommand.GET_SCHEMA:
        return commands.schema_failed(request.request_id, code, text)
    if kind == pb.BaseCommand.GET_OR_CREATE_SCHEMA:
        return commands.schema_not_created(request.request_id, code, text)
    if kind == pb.BaseCommand.CONSUMER_STATS:
        return commands.consumer_stats(request.request_id, {"error_code": code, "error_message": text})
    if kind == pb.BaseCommand.SEND:
        return commands.send_error(request.producer_id, request.sequence_id, code, text)
    if kind == pb.BaseCommand.ACK:
        if not request.HasField("request_id"):
            return None
        return commands.ack_response(request.consumer_id, request.request_id, code=code, text=text)
    if kind in _BY_OWN_REPLY:
        return _by_own_reply(kind, request, code, text)
    return None


def _by_own_reply(kind: int, request: Any, code: int, text: str) -> bytes:
    reply_kind, key = _BY_OWN_REPLY[kind]
    answer = pb.BaseCommand()
    answer.type = reply_kind  # type: ignore[assignment]
    reply: Any = getattr(answer, _field(reply_kind))
    setattr(reply, key, getattr(request, key))
    for name in ("txnid_least_bits", "txnid_most_bits"):
        if name in request.DESCRIPTOR.fields_by_name and name in reply.DESCRIPTOR.fields_by_name:
            setattr(reply, name, getattr(request, name))
    reply.error = code
    reply.message = text
    return encode_command(answer)


def _field(kind: int) -> str:
    """A command's submessage has the number of its type."""
    name: str = pb.BaseCommand.DESCRIPTOR.fields_by_number[kind].name
    return name
