"""The schemas of a topic in the schema registry of its brokers.

A query starts with the newest schema, which the driver requests. Tasks request the versions that messages name. A topic
without a schema is rejected before planning, with the name of the option.
"""

from __future__ import annotations

from typing import Any

from magnetar.base.errors import Misuse, NotFound
from magnetar.base.names import topic_name
from magnetar.client.connection.backoff import persist
from magnetar.client.read_client import ReadClient
from magnetar.spark.connect import run
from magnetar.spark.values.value_schema import RegisteredSchema


def newest(url: str, topic: str) -> RegisteredSchema:
    try:
        return registered(url, topic)
    except NotFound:
        raise Misuse(
            "option schema: the topic has no registered schema: produce with a schema, or remove "
            "schema=registry and read bytes",
            topic=topic,
        ) from None


def registered(url: str, topic: str, version: int | None = None) -> RegisteredSchema:
    """A version of a topic's schema, by default the newest. `NotFound`: it does not exist."""
    version_bytes = None if version is None else version.to_bytes(8, "big")

    async def found(client: ReadClient) -> tuple[Any, bytes]:
        name = topic_name(topic).canonical
        return await persist(
            client.runtime,
            client.operation_timeout_s,
            lambda: client.lookup.schema(name, version_bytes),
            what="schema request",
        )

    schema, number = run(url, found)
    return RegisteredSchema(
        topic,
        int.from_bytes(number, "big") if version is None else version,
        int(schema.type),
        schema.schema_data,
        tuple(sorted((one.key, one.value) for one in schema.properties)),
    )
