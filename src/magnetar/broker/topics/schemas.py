"""Schemas on the wire, over the registry: a version of eight bytes for the schema of a producer, a consumer or a
client.

Schemas are opaque here: equal ones share a version, others get the next. The compatibility of a new schema is not
checked yet.
"""

from __future__ import annotations

from typing import Any

from magnetar.base.errors import IncompatibleSchema, NotFound, TopicNotFound
from magnetar.base.names import TopicName
from magnetar.schema.registry import Registry, Schema
from magnetar.topic.nonpersistent import NonPersistentTopic
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb

AUTO_CONSUME = 21  # a client's request to read any schema; never stored
NO_SCHEMA = 0


class Schemas:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def producer_schema(self, topic: Topic | NonPersistentTopic, schema: pb.Schema) -> bytes:
        return await self.add(topic.name, schema)

    async def consumer_schema(self, topic: Topic | NonPersistentTopic, schema: pb.Schema) -> None:
        """The schema is added to an unused topic; otherwise it applies to this consumer only."""
        if int(schema.type) in (AUTO_CONSUME, NO_SCHEMA) and not schema.schema_data:
            return
        if await self._registry.latest(topic.name.schema_name) is None:
            if isinstance(topic, Topic) and (topic.managed.entries or len(topic.producers)):
                if int(schema.type) in (AUTO_CONSUME, NO_SCHEMA):
                    return
                raise IncompatibleSchema(
                    "the topic holds messages without a schema: subscribe without one", topic=str(topic.name)
                )
            await self.add(topic.name, schema)

    async def add(self, name: TopicName, schema: pb.Schema) -> bytes:
        if int(schema.type) == AUTO_CONSUME:
            return b""
        version = await self._registry.add(
            name.schema_name,
            int(schema.type),
            schema.schema_data,
            _properties(schema),
        )
        return version.to_bytes(8, "big")

    async def get(self, name: TopicName, version: bytes) -> tuple[bytes, pb.Schema]:
        try:
            number = int.from_bytes(version, "big") if version else None
            stored = await self._registry.get(name.schema_name, number)
        except NotFound as error:
            raise TopicNotFound(f"Topic not found or no-schema: {error.what}") from error
        return stored.version.to_bytes(8, "big"), _wire(name, stored)


def _properties(schema: pb.Schema) -> dict[str, str]:
    items: Any = schema.properties  # the generated stub takes KeyValue for the schema type of that name
    return {item.key: item.value for item in items}


def _wire(name: TopicName, schema: Schema) -> pb.Schema:
    message = pb.Schema(name=name.local_name, type=schema.type, schema_data=schema.data)  # type: ignore[arg-type]
    for key, value in sorted(schema.properties.items()):
        message.properties.add(key=key, value=value)
    return message
