"""GET_SCHEMA and GET_OR_CREATE_SCHEMA: the versions of a topic's schema. Failures travel inside the responses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.names import topic_name
from magnetar.broker.handlers.requests import start
from magnetar.wire import commands
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection


def get_schema(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.getSchema
    start(connection, _get(connection, request), partial(commands.schema_failed, request.request_id))


async def _get(connection: Connection, request: pb.CommandGetSchema) -> bytes:
    name = topic_name(request.topic)
    connection.node.allow(connection.principal, "consume", str(name))
    version, schema = await connection.node.schemas.get(name, request.schema_version)
    return commands.schema(request.request_id, schema, version)


def get_or_create_schema(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.getOrCreateSchema
    start(connection, _get_or_create(connection, request), partial(commands.schema_not_created, request.request_id))


async def _get_or_create(connection: Connection, request: pb.CommandGetOrCreateSchema) -> bytes:
    name = topic_name(request.topic)
    connection.node.allow(connection.principal, "produce", str(name))
    version = await connection.node.schemas.add(name, request.schema)
    return commands.schema_created(request.request_id, version)
