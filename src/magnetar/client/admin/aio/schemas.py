"""Schemas over REST: read, list, add, find, delete. A schema belongs to a topic's name, in every domain."""

from __future__ import annotations

from magnetar.client.admin import paths
from magnetar.client.admin.aio.resource import AdminResource
from magnetar.client.documents.schemas import AllSchemas, PostedSchema, PostSchema, SchemaInfo, Version


class Schemas(AdminResource):
    async def get(self, topic: str, version: int | None = None) -> SchemaInfo:
        """The newest schema, or one version."""
        tail = "" if version is None else f"/{version}"
        return await self._exchange.read(f"{paths.schema(topic)}/schema{tail}", SchemaInfo)

    async def versions(self, topic: str) -> list[SchemaInfo]:
        document = await self._exchange.read(f"{paths.schema(topic)}/schemas", AllSchemas)
        return document.getSchemaResponses

    async def add(self, topic: str, schema: PostSchema) -> int:
        """Add a schema; returns its version."""
        return (await self._exchange.ask("POST", f"{paths.schema(topic)}/schema", PostedSchema, schema)).version.version

    async def find(self, topic: str, schema: PostSchema) -> int:
        """The version of this schema, -1 if it does not exist."""
        return (await self._exchange.ask("POST", f"{paths.schema(topic)}/version", Version, schema)).version

    async def delete(self, topic: str, *, force: bool = False) -> int:
        """Delete the schema; returns the version of the deletion, -1 if there was no schema."""
        path, query = f"{paths.schema(topic)}/schema", {"force": force or None}
        return (await self._exchange.ask("DELETE", path, Version, query=query)).version
