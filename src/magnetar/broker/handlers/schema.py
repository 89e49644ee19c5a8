"""GET_SCHEMA and GET_OR_CREATE_SCHEMA: the versions of a topic's schema. Failures travel inside the responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.names import topic_name
from magnetar.broker.handlers.request import Fail, start
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection


def get_schema(connection: Connection, command: pb.BaseCommand) -> None:
    asked = command.getSchema
    start(connection, _get(connection, asked), _get_failed(asked.request_id))


async def _get(connection: Connection, asked: pb.CommandGetSchema) -> bytes:
    name = topic_name(asked.topic)
    connection.node.allow(connection.principal, "consume", str(name))
    version, schema = await connection.node.schemas.get(name, asked.schema_version)
    answer = pb.BaseCommand(type=pb.BaseCommand.GET_SCHEMA_RESPONSE)
    response = answer.getSchemaResponse
    response.request_id = asked.request_id
    response.schema.CopyFrom(schema)
    response.schema_version = version
    return encode_command(answer)


def _get_failed(request_id: int) -> Fail:
    def fail(code: int, text: str) -> bytes:
        answer = pb.BaseCommand(type=pb.BaseCommand.GET_SCHEMA_RESPONSE)
        answer.getSchemaResponse.request_id = request_id
        answer.getSchemaResponse.error_code = code  # type: ignore[assignment]
        answer.getSchemaResponse.error_message = text
        return encode_command(answer)

    return fail


def get_or_create_schema(connection: Connection, command: pb.BaseCommand) -> None:
    asked = command.getOrCreateSchema
    start(connection, _get_or_create(connection, asked), _get_or_create_failed(asked.request_id))


async def _get_or_create(connection: Connection, asked: pb.CommandGetOrCreateSchema) -> bytes:
    name = topic_name(asked.topic)
    connection.node.allow(connection.principal, "produce", str(name))
    version = await connection.node.schemas.add(name, asked.schema)
    answer = pb.BaseCommand(type=pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE)
    answer.getOrCreateSchemaResponse.request_id = asked.request_id
    answer.getOrCreateSchemaResponse.schema_version = version
    return encode_command(answer)


def _get_or_create_failed(request_id: int) -> Fail:
    def fail(code: int, text: str) -> bytes:
        answer = pb.BaseCommand(type=pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE)
        answer.getOrCreateSchemaResponse.request_id = request_id
        answer.getOrCreateSchemaResponse.error_code = code  # type: ignore[assignment]
        answer.getOrCreateSchemaResponse.error_message = text
        return encode_command(answer)

    return fail
