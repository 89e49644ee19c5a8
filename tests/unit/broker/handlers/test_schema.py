"""Versions of schemas over the wire: equal ones share a number, failures are inside the responses."""

from __future__ import annotations

from typing import Any

from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, World, settle

_T = pb.BaseCommand


def schema(text: bytes = b"null", kind: int = pb.Schema.String) -> dict[str, Any]:
    return {"name": "s", "type": kind, "schema_data": text}


def version(number: int) -> bytes:
    return number.to_bytes(8, "big")


async def test_equal_schemas_share_version_and_others_get_next(world: World) -> None:
    client = world.client()
    first = await client.produce(1, schema=schema())
    again = await client.produce(2, schema=schema())
    other = await client.produce(3, schema=schema(b'{"type":"record"}', pb.Schema.Json))
    found = [answer.producer_success.schema_version for answer in (first, again, other)]
    assert found == [version(0), version(0), version(1)]


async def test_partitions_share_schema_of_their_topic(world: World) -> None:
    client = world.client()
    await client.ask("GET_OR_CREATE_SCHEMA", topic=TOPIC, schema=schema())
    said = await client.ask("GET_SCHEMA", topic=f"{TOPIC}-partition-3")
    assert said.getSchemaResponse.schema_version == version(0)


async def test_schema_is_found_by_version_or_as_latest(world: World) -> None:
    client = world.client()
    for text in (b"one", b"two"):
        await client.ask("GET_OR_CREATE_SCHEMA", topic=TOPIC, schema=schema(text))
    latest = (await client.ask("GET_SCHEMA", topic=TOPIC)).getSchemaResponse
    assert (latest.schema.schema_data, latest.schema_version) == (b"two", version(1))
    first = (await client.ask("GET_SCHEMA", topic=TOPIC, schema_version=version(0))).getSchemaResponse
    assert (first.schema.schema_data, first.schema.type) == (b"one", pb.Schema.String)


async def test_failures_are_inside_responses(world: World) -> None:
    client = world.client()
    missing = await client.ask("GET_SCHEMA", topic=TOPIC)
    assert missing.type == _T.GET_SCHEMA_RESPONSE
    assert missing.getSchemaResponse.error_code == pb.TopicNotFound
    await client.ask("GET_OR_CREATE_SCHEMA", topic=TOPIC, schema=schema())
    for number in (version(9), b"\xff" * 8, b"\xff" * 30):
        said = await client.ask("GET_SCHEMA", topic=TOPIC, schema_version=number)
        assert said.getSchemaResponse.error_code == pb.TopicNotFound
    bad = await client.ask("GET_OR_CREATE_SCHEMA", topic="persistent://x", schema=schema())
    assert bad.getOrCreateSchemaResponse.error_code == pb.InvalidTopicName


async def test_consumer_brings_its_schema_to_untouched_topic_only(world: World) -> None:
    client = world.client()
    assert (await client.subscribe(1, schema=schema())).type == _T.SUCCESS
    assert (await client.ask("GET_SCHEMA", topic=TOPIC)).getSchemaResponse.schema_version == version(0)
    other = "persistent://public/default/plain"
    await client.produce(1, topic=other)
    client.send(0)
    await settle()
    refused = await client.subscribe(2, topic=other, schema=schema())
    assert refused.error.error == pb.IncompatibleSchema


async def test_consumer_that_takes_whatever_there_is_stores_nothing(world: World) -> None:
    client = world.client()
    assert (await client.subscribe(1, schema=schema(b"", pb.Schema.AutoConsume))).type == _T.SUCCESS
    missing = await client.ask("GET_SCHEMA", topic=TOPIC)
    assert missing.getSchemaResponse.error_code == pb.TopicNotFound
