"""The client's CONNECT command, the reply that ends each request, and the error in a negative reply.

Brokers answer a request with its own kind of reply or with ERROR (SC-A3); some failures are fields of otherwise
ordinary replies. Tables decide both, without I/O.
"""

from __future__ import annotations

from typing import Any

from magnetar import __version__
from magnetar.base.errors import MagnetarError
from magnetar.client.connection.error_codes import error_of
from magnetar.wire.proto import pb

PROTOCOL_VERSION = 21
EXTENSIONS_VERSION = 1  # of Magnetar's own commands and fields

_K = pb.BaseCommand

# Request kind -> the kind of reply that ends it; ERROR with its id ends any.
ENDS_ON: dict[int, int] = {
    _K.PRODUCER: _K.PRODUCER_SUCCESS,
    _K.SUBSCRIBE: _K.SUCCESS,
    _K.UNSUBSCRIBE: _K.SUCCESS,
    _K.SEEK: _K.SUCCESS,
    _K.CLOSE_PRODUCER: _K.SUCCESS,
    _K.CLOSE_CONSUMER: _K.SUCCESS,
    _K.WATCH_TOPIC_LIST_CLOSE: _K.SUCCESS,
    _K.ACK: _K.ACK_RESPONSE,
    _K.LOOKUP: _K.LOOKUP_RESPONSE,
    _K.PARTITIONED_METADATA: _K.PARTITIONED_METADATA_RESPONSE,
    _K.GET_LAST_MESSAGE_ID: _K.GET_LAST_MESSAGE_ID_RESPONSE,
    _K.GET_TOPICS_OF_NAMESPACE: _K.GET_TOPICS_OF_NAMESPACE_RESPONSE,
    _K.WATCH_TOPIC_LIST: _K.WATCH_TOPIC_LIST_SUCCESS,
    _K.GET_SCHEMA: _K.GET_SCHEMA_RESPONSE,
    _K.GET_OR_CREATE_SCHEMA: _K.GET_OR_CREATE_SCHEMA_RESPONSE,
    _K.CONSUMER_STATS: _K.CONSUMER_STATS_RESPONSE,
    _K.SCALABLE_TOPIC_SUBSCRIBE: _K.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE,
    _K.SCALABLE_TOPIC_UNSUBSCRIBE: _K.SUCCESS,
    _K.BEGIN_STAGE: _K.BEGIN_STAGE_RESPONSE,
    _K.SEAL_STAGE: _K.SEAL_STAGE_RESPONSE,
    _K.COMMIT_STAGES: _K.COMMIT_STAGES_RESPONSE,
    _K.DROP_STAGES: _K.SUCCESS,
    _K.RENEW_STAGE: _K.SUCCESS,
    _K.PLAN: _K.PLAN_RESPONSE,
    _K.HOLD: _K.HOLD_RESPONSE,
    _K.SEEK_SUBSCRIPTION: _K.SUCCESS,
    _K.LAG: _K.LAG_RESPONSE,
}
# Reply kind -> its submessage, and the names of its error fields ("" if it has none).
REPLIES: dict[int, tuple[str, str, str]] = {
    _K.SUCCESS: ("success", "", ""),
    _K.PRODUCER_SUCCESS: ("producer_success", "", ""),
    _K.ACK_RESPONSE: ("ackResponse", "error", "message"),
    _K.LOOKUP_RESPONSE: ("lookupTopicResponse", "error", "message"),
    _K.PARTITIONED_METADATA_RESPONSE: ("partitionMetadataResponse", "error", "message"),
    _K.GET_LAST_MESSAGE_ID_RESPONSE: ("getLastMessageIdResponse", "", ""),
    _K.GET_TOPICS_OF_NAMESPACE_RESPONSE: ("getTopicsOfNamespaceResponse", "", ""),
    _K.WATCH_TOPIC_LIST_SUCCESS: ("watchTopicListSuccess", "", ""),
    _K.GET_SCHEMA_RESPONSE: ("getSchemaResponse", "error_code", "error_message"),
    _K.GET_OR_CREATE_SCHEMA_RESPONSE: ("getOrCreateSchemaResponse", "error_code", "error_message"),
    _K.CONSUMER_STATS_RESPONSE: ("consumerStatsResponse", "error_code", "error_message"),
    _K.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE: ("scalableTopicSubscribeResponse", "error", "message"),
    _K.BEGIN_STAGE_RESPONSE: ("beginStageResponse", "", ""),
    _K.SEAL_STAGE_RESPONSE: ("sealStageResponse", "", ""),
    _K.COMMIT_STAGES_RESPONSE: ("commitStagesResponse", "", ""),
    _K.PLAN_RESPONSE: ("planResponse", "error", "message"),
    _K.HOLD_RESPONSE: ("holdResponse", "error", "message"),
    _K.LAG_RESPONSE: ("lagResponse", "error", "message"),
}


def connect_command(proxied: str) -> pb.BaseCommand:
    """CONNECT with the client's version and features; `proxied` is the broker's host and port behind a proxy."""
    command = pb.BaseCommand(type=_K.CONNECT)
    command.connect.client_version = f"Magnetar-{__version__}"
    command.connect.protocol_version = PROTOCOL_VERSION
    command.connect.auth_method_name = "none"
    flags = command.connect.feature_flags
    flags.supports_auth_refresh = True
    flags.supports_broker_entry_metadata = True
    flags.supports_partial_producer = True
    flags.supports_topic_watchers = True
    flags.magnetar_extensions = EXTENSIONS_VERSION
    if proxied:
        command.connect.proxy_to_broker_url = proxied
    return command


def reply_id(reply: pb.BaseCommand) -> int:
    """The id of the request that a reply answers, -1 if the command is not a reply."""
    if reply.type == _K.ERROR:
        return reply.error.request_id
    reply_fields = REPLIES.get(reply.type)
    if reply_fields is None:
        return -1
    id: int = getattr(reply, reply_fields[0]).request_id
    return id


def answers(kind: int, reply: pb.BaseCommand) -> bool:
    return reply.type == _K.ERROR or ENDS_ON.get(kind) == reply.type


def refusal(reply: pb.BaseCommand) -> MagnetarError | None:
    """The error in a reply, None if the reply is positive."""
    if reply.type == _K.ERROR:
        return error_of(reply.error.error, reply.error.message)
    name, code_field, text_field = REPLIES[reply.type]
    body: Any = getattr(reply, name)
    if code_field and body.HasField(code_field):
        return error_of(getattr(body, code_field), getattr(body, text_field))
    if reply.type == _K.LOOKUP_RESPONSE and body.response == pb.CommandLookupTopicResponse.Failed:
        return error_of(0, body.message)
    if (
        reply.type == _K.PARTITIONED_METADATA_RESPONSE
        and body.response == pb.CommandPartitionedTopicMetadataResponse.Failed
    ):
        return error_of(0, body.message)
    return None


def unfinished(reply: pb.BaseCommand) -> bool:
    """Whether a producer was queued for exclusive access: the broker answers the same request id again on its turn."""
    return reply.type == _K.PRODUCER_SUCCESS and not reply.producer_success.producer_ready
