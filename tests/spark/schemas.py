"""Topics with schemas: producers of any that can be registered, and what a query with schema=registry reads of them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from magnetar import Client
from magnetar.spark.connect import query, run
from magnetar.spark.read.read_task import tables
from magnetar.spark.source.options import source_options
from magnetar.spark.values.registry import newest
from magnetar.spark.values.select import form
from magnetar.spark.values.table import ValueTable
from magnetar.wire.proto import pb
from tests.spark.published import Topic


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


def produce(topic: Topic, schema: Any, values: list[bytes | None]) -> None:
    with Client(topic.server.url) as client, client.create_producer(topic.name, schema=schema) as producer:
        for number, value in enumerate(values):
            producer.send(value, key=f"k{number % 3}")


def read(topic: Topic, **options: str) -> list[dict[str, Any]]:
    """As tasks do, in this process."""
    given = {"url": topic.server.url, "topic": topic.name, "schema": "registry", **options}
    asked = source_options(given, streaming=False)
    schema = newest(asked.url, asked.topic)
    names = tuple(one.name for one in form(schema).columns)
    made = query(asked)
    try:
        tasks = run(asked.url, lambda _: made.whole())
    finally:
        run(asked.url, lambda _: made.close())
    return [
        row for one in tasks for batch in tables(one, ValueTable(schema, names, names)) for row in batch.to_pylist()
    ]
