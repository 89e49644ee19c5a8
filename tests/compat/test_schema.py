"""Schemas of the stock client, as opaque versions: counted from zero, found again, the same for every partition."""

from __future__ import annotations

import pulsar
from pulsar import InitialPosition
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String, StringSchema

from tests.compat.conftest import Connect, Start
from tests.compat.driving import take
from tests.servers.standalone import Standalone


class One(Record):
    a = String()
    b = Integer()


class Two(Record):
    a = String()
    b = Integer()
    c = String(default="none", required_default=True)


def test_strings_pass(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=StringSchema())
    producer = client.create_producer(topic, schema=StringSchema())
    producer.send("wörd")
    assert take(consumer, 1)[0].value() == "wörd"


def test_json_and_avro_records_pass(client: pulsar.Client, topic: str) -> None:
    for kind in (JsonSchema, AvroSchema):
        name = f"{topic}-{kind.__name__}"
        consumer = client.subscribe(name, "s", schema=kind(One))
        producer = client.create_producer(name, schema=kind(One))
        producer.send(One(a="x", b=7))
        value = take(consumer, 1)[0].value()
        assert (value.a, value.b) == ("x", 7)


def test_first_version_is_zero_and_same_schema_gets_it_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=AvroSchema(One))
    for _ in range(2):
        producer = client.create_producer(topic, schema=AvroSchema(One))
        producer.send(One(a="x", b=1))
        producer.close()
    assert [message._message.schema_version() for message in take(consumer, 2)] == ["\0" * 8] * 2


def test_readers_resolve_version_message_was_written_with(
    broker: Standalone, client: pulsar.Client, namespace: str
) -> None:
    broker.ask("PUT", f"/admin/v2/namespaces/{namespace}/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    topic = f"persistent://{namespace}/t"
    first = client.create_producer(topic, schema=AvroSchema(One))
    second = client.create_producer(topic, schema=AvroSchema(Two))
    consumer = client.subscribe(topic, "s", schema=AvroSchema(Two), initial_position=InitialPosition.Earliest)
    first.send(One(a="old", b=1))
    second.send(Two(a="new", b=2, c="more"))
    old, new = (message.value() for message in take(consumer, 2))
    assert (old.a, old.c) == ("old", "none")
    assert (new.a, new.c) == ("new", "more")


def test_versions_survive_kill(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url)
    client.create_producer(topic, schema=AvroSchema(One)).send(One(a="x", b=1))
    broker.restart(kill=True)
    client = connect(broker.url)
    client.create_producer(topic, schema=AvroSchema(One)).send(One(a="y", b=2))
    consumer = client.subscribe(topic, "s", schema=AvroSchema(One), initial_position=InitialPosition.Earliest)
    one, two = take(consumer, 2)
    assert one.schema_version() == two.schema_version()
    assert [message.value().a for message in (one, two)] == ["x", "y"]


def test_partitions_share_schema_of_their_topic(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    broker.admin("PUT", f"{topic.replace('://', '/')}/partitions", 3)
    consumer = client.subscribe(topic, "s", schema=AvroSchema(One))
    producer = client.create_producer(topic, schema=AvroSchema(One))
    for number in range(9):
        producer.send(One(a="x", b=number))
    messages = take(consumer, 9)
    assert sorted(message.value().b for message in messages) == list(range(9))
    assert len({message.schema_version() for message in messages}) == 1


def test_bytes_producers_are_let_in_beside_schema(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, schema=AvroSchema(One))
    client.create_producer(topic).send(b"raw")
