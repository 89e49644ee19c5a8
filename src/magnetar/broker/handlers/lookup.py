"""PARTITIONED_METADATA and LOOKUP: how many parts a topic has, and which broker serves it.

A client ignores ERROR here, so failures travel inside the two responses, with `response` always set (stock-clients A3,
A4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.names import topic_name
from magnetar.broker.handlers.request import Fail, start
from magnetar.cluster.lookup import Connect, Failed, Redirect
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection


def partitioned_metadata(connection: Connection, command: pb.BaseCommand) -> None:
    asked = command.partitionMetadata
    start(connection, _partitions(connection, asked), _partitions_failed(asked.request_id))


async def _partitions(connection: Connection, asked: pb.CommandPartitionedTopicMetadata) -> bytes:
    name = topic_name(asked.topic)
    connection.node.allow(connection.principal, "lookup", str(name))
    async with connection.node.one_lookup():
        partitions = await connection.node.topics.partitions(name, create=asked.metadata_auto_creation_enabled)
    answer = pb.BaseCommand(type=pb.BaseCommand.PARTITIONED_METADATA_RESPONSE)
    response = answer.partitionMetadataResponse
    response.request_id = asked.request_id
    response.response = pb.CommandPartitionedTopicMetadataResponse.Success
    response.partitions = partitions
    return encode_command(answer)


def _partitions_failed(request_id: int) -> Fail:
    def fail(code: int, text: str) -> bytes:
        answer = pb.BaseCommand(type=pb.BaseCommand.PARTITIONED_METADATA_RESPONSE)
        response = answer.partitionMetadataResponse
        response.request_id = request_id
        response.response = pb.CommandPartitionedTopicMetadataResponse.Failed
        # A bad name is final, but clients repeat InvalidTopicName here until their timeout (stock-clients A3): say
        # NotAllowed.
        response.error = pb.NotAllowedError if code == pb.InvalidTopicName else code  # type: ignore[assignment]
        response.message = text
        return encode_command(answer)

    return fail


def lookup(connection: Connection, command: pb.BaseCommand) -> None:
    asked = command.lookupTopic
    start(connection, _lookup(connection, asked), _lookup_failed(asked.request_id))


async def _lookup(connection: Connection, asked: pb.CommandLookupTopic) -> bytes:
    node = connection.node
    name = topic_name(asked.topic)
    node.allow(connection.principal, "lookup", str(name))
    async with node.one_lookup():
        verdict = await node.lookup(name, asked.advertised_listener_name)
    answer = pb.BaseCommand(type=pb.BaseCommand.LOOKUP_RESPONSE)
    response = answer.lookupTopicResponse
    response.request_id = asked.request_id
    match verdict:
        case Connect(url=url, url_tls=url_tls):
            response.response = pb.CommandLookupTopicResponse.Connect
            response.authoritative = True
        case Redirect(url=url, url_tls=url_tls):
            response.response = pb.CommandLookupTopicResponse.Redirect
            response.authoritative = verdict.authoritative
        case Failed(error=error):
            raise error
    response.brokerServiceUrl = url
    if url_tls:
        response.brokerServiceUrlTls = url_tls
    return encode_command(answer)


def _lookup_failed(request_id: int) -> Fail:
    def fail(code: int, text: str) -> bytes:
        answer = pb.BaseCommand(type=pb.BaseCommand.LOOKUP_RESPONSE)
        response = answer.lookupTopicResponse
        response.request_id = request_id
        response.response = pb.CommandLookupTopicResponse.Failed
        response.error = pb.NotAllowedError if code == pb.InvalidTopicName else code  # type: ignore[assignment]
        response.message = text
        return encode_command(answer)

    return fail
