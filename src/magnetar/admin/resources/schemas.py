"""Schemas: read, list, post, delete, find. They are opaque: the compatibility of a new schema is not checked yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import Request, Response, shown
from magnetar.admin.route import Route, delete, get, post
from magnetar.base.errors import Misuse, NotBuilt, NotFound
from magnetar.base.names import TopicName, topic_name
from magnetar.client.documents.schemas import AllSchemas, PostedSchema, PostSchema, SchemaInfo, Version
from magnetar.schema.registry import Schema
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.node import Node

# Pulsar's names where they are not those of the wire.
_NAMES = {
    "NoSchema": "NONE",
    "String": "STRING",
    "Json": "JSON",
    "Protobuf": "PROTOBUF",
    "Avro": "AVRO",
    "Bool": "BOOLEAN",
    "Int8": "INT8",
    "Int16": "INT16",
    "Int32": "INT32",
    "Int64": "INT64",
    "Float": "FLOAT",
    "Double": "DOUBLE",
    "Date": "DATE",
    "Time": "TIME",
    "Timestamp": "TIMESTAMP",
    "KeyValue": "KEY_VALUE",
    "Instant": "INSTANT",
    "LocalDate": "LOCAL_DATE",
    "LocalTime": "LOCAL_TIME",
    "LocalDateTime": "LOCAL_DATE_TIME",
    "ProtobufNative": "PROTOBUF_NATIVE",
    "External": "EXTERNAL",
}
TYPES = {_NAMES[name]: number for name, number in pb.Schema.Type.items() if name in _NAMES} | {"BYTES": 0}
NAMES = {number: _NAMES[name] for name, number in pb.Schema.Type.items() if name in _NAMES}


async def read(node: Node, request: Request) -> Response:
    return shown(_info(await node.schema_registry.get(_name(request).schema_name)))


async def read_version(node: Node, request: Request) -> Response:
    try:
        version = request.number("version")
    except NotFound:
        raise Misuse("the schema version must be an integer", http_status=400) from None
    return shown(_info(await node.schema_registry.get(_name(request).schema_name, version)))


async def versions(node: Node, request: Request) -> Response:
    schemas = await node.schema_registry.versions(_name(request).schema_name)
    return shown(AllSchemas([_info(schema) for schema in schemas]))


async def create(node: Node, request: Request) -> Response:
    name = _name(request)
    if not await node.namespaces.exists(name.namespace):
        raise NotFound("Namespace not found")
    posted = _posted(request)
    data = (posted.schema or "").encode()
    version = await node.schema_registry.add(name.schema_name, _type(posted), data, posted.properties)
    return shown(PostedSchema(Version(version)))


async def find(node: Node, request: Request) -> Response:
    posted = _posted(request)
    data = (posted.schema or "").encode()
    return shown(Version(await node.schema_registry.find(_name(request).schema_name, _type(posted), data)))


async def remove(node: Node, request: Request) -> Response:
    """The version that records the deletion; -1 if there was no schema, which is not an error."""
    try:
        version = await node.schema_registry.delete(_name(request).schema_name, force=request.flag("force"))
    except NotFound:
        version = -1
    return shown(Version(version))


async def compatibility(node: Node, request: Request) -> Response:
    raise NotBuilt("compatibility checks of schemas are not supported by this version of Magnetar")


def _name(request: Request) -> TopicName:
    """A schema belongs to the name of the topic, independent of its domain."""
    parts = request.parts
    try:
        return topic_name(f"persistent://{parts['tenant']}/{parts['namespace']}/{parts['topic']}")
    except Misuse as error:
        raise Misuse("Topic name is not valid", why=error.what) from error


def _posted(request: Request) -> PostSchema:
    posted = request.need(PostSchema)
    if posted.schema is None:
        raise Misuse("the body must contain a schema", http_status=422)
    return posted


def _type(posted: PostSchema) -> int:
    type = TYPES.get(posted.type)
    if type is None:
        raise Misuse(f"unknown schema type {posted.type}; expected one of {', '.join(sorted(TYPES))}", http_status=422)
    return type


def _info(schema: Schema) -> SchemaInfo:
    return SchemaInfo(
        version=schema.version,
        type=NAMES.get(schema.type, str(schema.type)),
        timestamp=schema.timestamp_ms,
        data=schema.data.decode(errors="replace"),
        properties=schema.properties,
    )


def _routes() -> list[Route]:
    topic = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
    return [
        get(f"{topic}/schema", read, "The newest schema of a topic", SchemaInfo),
        get(f"{topic}/schema/{{version}}", read_version, "One schema version of a topic", SchemaInfo),
        get(f"{topic}/schemas", versions, "All schema versions of a topic", AllSchemas),
        post(f"{topic}/schema", create, "Add a schema", PostSchema, PostedSchema),
        post(f"{topic}/version", find, "The version of a schema, -1 for none", PostSchema, Version),
        post(f"{topic}/compatibility", compatibility, "Not built: compatibility checks", PostSchema),
        delete(f"{topic}/schema", remove, "Delete the schema of a topic", Version),
    ]


ROUTES = _routes()
