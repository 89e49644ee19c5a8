"""The commands that a broker sends, each as the bytes of its frame.

One function per command. Fields that some clients need although the protocol calls them optional (`response` in
lookups, `message` in errors, `schema_version` only if a schema exists) are set here. SEND_RECEIPT and MESSAGE are in
`broker_frames`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

PROTOCOL_VERSION = 21  # Pulsar's current version; both sides use the smaller of the two
FROM_BROKER = (1 << 64) - 1  # the request id of commands without a request

_Type = pb.BaseCommand
_UNKNOWN_ERROR = 0
_KNOWN_ERRORS = frozenset(pb.ServerError.values())


def connected(
    server_version: str, protocol_version: int, max_message_size: int, flags: pb.FeatureFlags | None = None
) -> bytes:
    command = pb.CommandConnected(
        server_version=server_version, protocol_version=protocol_version, max_message_size=max_message_size
    )
    if flags is not None:
        command.feature_flags.CopyFrom(flags)
    return encode_command(pb.BaseCommand(type=_Type.CONNECTED, connected=command))


PING = encode_command(pb.BaseCommand(type=_Type.PING, ping=pb.CommandPing()))
PONG = encode_command(pb.BaseCommand(type=_Type.PONG, pong=pb.CommandPong()))


def success(request_id: int, *, seeks: int = 0) -> bytes:
    """`seeks`: for peers that support our extensions."""
    success = pb.CommandSuccess(request_id=request_id)
    if seeks:
        success.seeks = seeks
    return encode_command(pb.BaseCommand(type=_Type.SUCCESS, success=success))


def error(request_id: int, code: int, text: str) -> bytes:
    command = pb.CommandError(request_id=request_id, error=_error(code), message=text)
    return encode_command(pb.BaseCommand(type=_Type.ERROR, error=command))


# Lookup


def lookup_connect(
    request_id: int, url: str, url_tls: str = "", *, authoritative: bool = True, through_service_url: bool = False
) -> bytes:
    return _lookup(request_id, pb.CommandLookupTopicResponse.Connect, url, url_tls, authoritative, through_service_url)


def lookup_redirect(request_id: int, url: str, url_tls: str = "", *, authoritative: bool = True) -> bytes:
    return _lookup(request_id, pb.CommandLookupTopicResponse.Redirect, url, url_tls, authoritative, False)


def lookup_failed(request_id: int, code: int, text: str) -> bytes:
    command = pb.CommandLookupTopicResponse(
        request_id=request_id, response=pb.CommandLookupTopicResponse.Failed, error=_error(code), message=text
    )
    return encode_command(pb.BaseCommand(type=_Type.LOOKUP_RESPONSE, lookupTopicResponse=command))


def partitions(request_id: int, count: int) -> bytes:
    command = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id, response=pb.CommandPartitionedTopicMetadataResponse.Success, partitions=count
    )
    return encode_command(pb.BaseCommand(type=_Type.PARTITIONED_METADATA_RESPONSE, partitionMetadataResponse=command))


def partitions_failed(request_id: int, code: int, text: str) -> bytes:
    command = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        response=pb.CommandPartitionedTopicMetadataResponse.Failed,
        error=_error(code),
        message=text,
    )
    return encode_command(pb.BaseCommand(type=_Type.PARTITIONED_METADATA_RESPONSE, partitionMetadataResponse=command))


def topics_of_namespace(
    request_id: int, topics: Iterable[str], *, topics_hash: str = "", filtered: bool = False, changed: bool = True
) -> bytes:
    command = pb.CommandGetTopicsOfNamespaceResponse(
        request_id=request_id, topics=topics, filtered=filtered, changed=changed
    )
    if topics_hash:
        command.topics_hash = topics_hash
    return encode_command(
        pb.BaseCommand(type=_Type.GET_TOPICS_OF_NAMESPACE_RESPONSE, getTopicsOfNamespaceResponse=command)
    )


def watch_topic_list_success(request_id: int, watcher_id: int, topics: Iterable[str], topics_hash: str) -> bytes:
    command = pb.CommandWatchTopicListSuccess(
        request_id=request_id, watcher_id=watcher_id, topic=topics, topics_hash=topics_hash
    )
    return encode_command(pb.BaseCommand(type=_Type.WATCH_TOPIC_LIST_SUCCESS, watchTopicListSuccess=command))


def watch_topic_update(watcher_id: int, new: Iterable[str], deleted: Iterable[str], topics_hash: str) -> bytes:
    command = pb.CommandWatchTopicUpdate(
        watcher_id=watcher_id, new_topics=new, deleted_topics=deleted, topics_hash=topics_hash
    )
    return encode_command(pb.BaseCommand(type=_Type.WATCH_TOPIC_UPDATE, watchTopicUpdate=command))


# Producers


def producer_success(
    request_id: int,
    producer_name: str,
    *,
    last_sequence_id: int = -1,
    schema_version: bytes = b"",
    topic_epoch: int | None = None,
    ready: bool = True,
) -> bytes:
    command = pb.CommandProducerSuccess(
        request_id=request_id, producer_name=producer_name, last_sequence_id=last_sequence_id, producer_ready=ready
    )
    if schema_version:
        command.schema_version = schema_version
    if topic_epoch is not None:
        command.topic_epoch = topic_epoch
    return encode_command(pb.BaseCommand(type=_Type.PRODUCER_SUCCESS, producer_success=command))


def send_error(producer_id: int, sequence_id: int, code: int, text: str) -> bytes:
    command = pb.CommandSendError(producer_id=producer_id, sequence_id=sequence_id, error=_error(code), message=text)
    return encode_command(pb.BaseCommand(type=_Type.SEND_ERROR, send_error=command))


def close_producer(producer_id: int, *, url: str = "", url_tls: str = "") -> bytes:
    """The broker closes a producer. With an url, the client connects there directly, without a lookup."""
    command = pb.CommandCloseProducer(producer_id=producer_id, request_id=FROM_BROKER)
    _assign(command, url, url_tls)
    return encode_command(pb.BaseCommand(type=_Type.CLOSE_PRODUCER, close_producer=command))


# Consumers


def close_consumer(consumer_id: int, *, url: str = "", url_tls: str = "") -> bytes:
    """The broker closes a consumer. With an url, the client connects there directly, without a lookup."""
    command = pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=FROM_BROKER)
    _assign(command, url, url_tls)
    return encode_command(pb.BaseCommand(type=_Type.CLOSE_CONSUMER, close_consumer=command))


def active_consumer_change(consumer_id: int, is_active: bool) -> bytes:
    command = pb.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active)
    return encode_command(pb.BaseCommand(type=_Type.ACTIVE_CONSUMER_CHANGE, active_consumer_change=command))


def reached_end_of_topic(consumer_id: int) -> bytes:
    """Never sent to a client whose version starts with Pulsar-CPP: it would drop the connection (SC-A0)."""
    command = pb.CommandReachedEndOfTopic(consumer_id=consumer_id)
    return encode_command(pb.BaseCommand(type=_Type.REACHED_END_OF_TOPIC, reachedEndOfTopic=command))


def ack_response(consumer_id: int, request_id: int, *, code: int | None = None, text: str = "") -> bytes:
    command = pb.CommandAckResponse(consumer_id=consumer_id, request_id=request_id)
    if code is not None:
        command.error = _error(code)
        command.message = text
    return encode_command(pb.BaseCommand(type=_Type.ACK_RESPONSE, ackResponse=command))


def last_message_id(
    request_id: int,
    last: pb.MessageIdData,
    mark_delete: pb.MessageIdData | None = None,
    *,
    deleted_to: pb.MessageIdData | None = None,
) -> bytes:
    """Contains the consumer's mark-delete position: clients use it to decide whether messages remain. `deleted_to`: the
    last deleted position, for peers that support our own fields.
    """
    command = pb.CommandGetLastMessageIdResponse(request_id=request_id, last_message_id=last)
    if mark_delete is not None:
        command.consumer_mark_delete_position.CopyFrom(mark_delete)
    if deleted_to is not None:
        command.deleted_to.CopyFrom(deleted_to)
    return encode_command(pb.BaseCommand(type=_Type.GET_LAST_MESSAGE_ID_RESPONSE, getLastMessageIdResponse=command))


def consumer_stats(request_id: int, stats: Mapping[str, Any]) -> bytes:
    """`stats` by the field names of CommandConsumerStatsResponse."""
    command = pb.CommandConsumerStatsResponse(request_id=request_id, **stats)
    return encode_command(pb.BaseCommand(type=_Type.CONSUMER_STATS_RESPONSE, consumerStatsResponse=command))


# Schemas


def schema(request_id: int, definition: pb.Schema, version: bytes) -> bytes:
    command = pb.CommandGetSchemaResponse(request_id=request_id, schema=definition, schema_version=version)
    return encode_command(pb.BaseCommand(type=_Type.GET_SCHEMA_RESPONSE, getSchemaResponse=command))


def schema_failed(request_id: int, code: int, text: str) -> bytes:
    command = pb.CommandGetSchemaResponse(request_id=request_id, error_code=_error(code), error_message=text)
    return encode_command(pb.BaseCommand(type=_Type.GET_SCHEMA_RESPONSE, getSchemaResponse=command))


def schema_created(request_id: int, version: bytes) -> bytes:
    command = pb.CommandGetOrCreateSchemaResponse(request_id=request_id, schema_version=version)
    return encode_command(pb.BaseCommand(type=_Type.GET_OR_CREATE_SCHEMA_RESPONSE, getOrCreateSchemaResponse=command))


def schema_not_created(request_id: int, code: int, text: str) -> bytes:
    command = pb.CommandGetOrCreateSchemaResponse(request_id=request_id, error_code=_error(code), error_message=text)
    return encode_command(pb.BaseCommand(type=_Type.GET_OR_CREATE_SCHEMA_RESPONSE, getOrCreateSchemaResponse=command))


def _lookup(
    request_id: int,
    response: pb.CommandLookupTopicResponse.LookupType,
    url: str,
    url_tls: str,
    authoritative: bool,
    through_service_url: bool,
) -> bytes:
    command = pb.CommandLookupTopicResponse(
        request_id=request_id,
        response=response,
        authoritative=authoritative,
        proxy_through_service_url=through_service_url,
    )
    if url:
        command.brokerServiceUrl = url
    if url_tls:
        command.brokerServiceUrlTls = url_tls
    return encode_command(pb.BaseCommand(type=_Type.LOOKUP_RESPONSE, lookupTopicResponse=command))


def _assign(command: pb.CommandCloseProducer | pb.CommandCloseConsumer, url: str, url_tls: str) -> None:
    if url:
        command.assignedBrokerServiceUrl = url
    if url_tls:
        command.assignedBrokerServiceUrlTls = url_tls


def _error(code: int) -> Any:
    """ServerError is a closed enum: a code unknown to the protocol would be lost in transit."""
    return code if code in _KNOWN_ERRORS else _UNKNOWN_ERROR
