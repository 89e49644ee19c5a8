"""Schemas as REST shows them: the posted document, the stored one, and its version."""

from __future__ import annotations

import msgspec


class PostSchema(msgspec.Struct, frozen=True):
    type: str = "NONE"
    schema: str | None = None
    properties: dict[str, str] = {}


class SchemaInfo(msgspec.Struct, frozen=True):
    version: int
    type: str
    timestamp: int
    data: str = ""
    properties: dict[str, str] = {}


class AllSchemas(msgspec.Struct, frozen=True):
    getSchemaResponses: list[SchemaInfo]


class Version(msgspec.Struct, frozen=True):
    version: int


class PostedSchema(msgspec.Struct, frozen=True):
    version: Version
