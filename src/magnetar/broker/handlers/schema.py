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
    asked = command.getSchema
    start(connection, _get(connection, asked), partial(commands.schema_failed, asked.request_id))


async def _get(connection: Connection, asked: pb.CommandGetSchema) -> bytes:
    name = topic_name(asked.topic)
    connection.node.allow(connection.principal, "consume", str(name))
    version, schema = await connection.node.schemas.get(name, asked.schema_version)
    return commands.schema(asked.request_id, schema, version)


def get_or_create_schema(connection: Connection, command: pb.BaseCommand) -> None:
    asked = command.getOrCreateSchema
    start(connection, _get_or_create(connection, asked), partial(commands.schema_not_created, asked.request_id))


async def _get_or_create(connection: Connection, asked: pb.CommandGetOrCreateSchema) -> bytes:
    name = topic_name(asked.topic)
    connection.node.allow(connection.principal, "produce", str(name))
    version = await connection.node.schemas.add(name, asked.schema)
    return commands.schema_created(asked.request_id, version)
