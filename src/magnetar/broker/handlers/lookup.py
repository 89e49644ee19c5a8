"""PARTITIONED_METADATA and LOOKUP: the number of partitions of a topic, and the broker that serves it.

A client ignores ERROR here, so failures travel inside the two responses, with `response` always set (SC-A3, SC-A4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.names import topic_name
from magnetar.broker.handlers.requests import Fail, start
from magnetar.broker.handlers.scalable import check_enabled
from magnetar.cluster.lookup import Connect, Failed, Redirect
from magnetar.cluster.topics import Charge
from magnetar.wire import commands
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection


def partitioned_metadata(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.partitionMetadata
    start(connection, _partitions(connection, request), _partitions_failed(request.request_id))


async def _partitions(connection: Connection, request: pb.CommandPartitionedTopicMetadata) -> bytes:
    name = topic_name(request.topic)
    connection.node.allow(connection.principal, "lookup", str(name))
    if name.is_scalable or name.is_segment:
        check_enabled(connection.node)
        return commands.partitions(request.request_id, 0)

    async def look(charge: Charge) -> int:
        async with connection.node.one_lookup():  # not while the request waits for its turn to create the topic
            create = request.metadata_auto_creation_enabled
            return await connection.node.topics.partitions(name, create=create, charge=charge)

    return commands.partitions(request.request_id, await connection.creations.paced(look))


def _partitions_failed(request_id: int) -> Fail:
    return lambda code, text: commands.partitions_failed(request_id, _final(code), text)


def lookup(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.lookupTopic
    start(connection, _lookup(connection, request), _lookup_failed(request.request_id))


async def _lookup(connection: Connection, request: pb.CommandLookupTopic) -> bytes:
    node = connection.node
    name = topic_name(request.topic)
    node.allow(connection.principal, "lookup", str(name))
    if name.is_scalable or name.is_segment:
        check_enabled(node)
    async with node.one_lookup():
        verdict = await node.lookup(name, request.advertised_listener_name, authoritative=request.authoritative)
    match verdict:
        case Connect(url=url, url_tls=url_tls):
            return commands.lookup_connect(request.request_id, url, url_tls)
        case Redirect(url=url, url_tls=url_tls, authoritative=authoritative):
            return commands.lookup_redirect(request.request_id, url, url_tls, authoritative=authoritative)
        case Failed(error=error):
            raise error


def _lookup_failed(request_id: int) -> Fail:
    return lambda code, text: commands.lookup_failed(request_id, _final(code), text)


def _final(code: int) -> int:
    """A final error code: clients repeat InvalidTopicName here until their timeout (SC-A3)."""
    return pb.NotAllowedError if code == pb.InvalidTopicName else code
