"""Producers with any schema that can be registered: values are bytes already, and the broker is told what they are."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from magnetar.wire.proto import pb


class Told:
    """A schema of the client that sends bytes as they are."""

    def __init__(self, kind: int, data: bytes = b"", **properties: str) -> None:
        self._info = pb.Schema(name="told", type=kind, schema_data=data)  # type: ignore[arg-type]
        for key, value in properties.items():
            self._info.properties.add(key=key, value=value)

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, data: bytes) -> bytes:
        return data

    def info(self) -> pb.Schema | None:
        return self._info


def avro(definition: dict[str, Any]) -> Told:
    return Told(pb.Schema.Avro, json.dumps(definition).encode())


def record(*fields: Any, name: str = "Order") -> dict[str, Any]:
    """Of names and types, and defaults if there are any."""
    made = [dict(zip(("name", "type", "default"), one, strict=False)) for one in fields]
    return {"type": "record", "name": name, "fields": made}


def encoded(definition: dict[str, Any], value: Any) -> bytes:
    """As another implementation of Avro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(definition), value)
    return out.getvalue()
