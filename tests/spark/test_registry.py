"""schema=registry in a real Spark: values become columns, versions of their schema one table, and errors say what to
do.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulsar
import pulsar.schema as stock
import pytest

from magnetar import Client
from magnetar.base.errors import Corrupt, Misuse
from magnetar.wire.proto import pb
from tests.spark.published import Running, Topic, patiently
from tests.spark.schemas import Told, avro, encoded, produce, read, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FIRST = record(("id", "int"), ("customer", "string"), ("old", "string"))
FEWER = [("id", "long"), ("tags", {"type": "array", "items": "string"})]
SECOND = record(
    ("id", "long"), ("customer", ["null", "string"]), ("amount", "double", 1.5), ("note", ["null", "string"])
)


class Stock(stock.Record):
    a = stock.String()
    n = stock.Integer()
    many = stock.Array(stock.Double())
    on = stock.String()
    named = stock.Map(stock.Bytes())


def both_versions(topic: Topic) -> list[tuple[Any, ...]]:
    """Messages of two versions of a schema through a split; the rows that they are in the table of the second."""
    produce(topic, avro(FIRST), [encoded(FIRST, {"id": n, "customer": f"c{n}", "old": "x"}) for n in range(10)])
    topic.reshape()
    second = [{"id": n, "customer": None, "amount": n / 2, "note": f"n{n}"} for n in range(10, 20)]
    produce(topic, avro(SECOND), [encoded(SECOND, one) for one in second])
    return [
        *((n, f"c{n}", 1.5, None) for n in range(10)),
        *((n, None, n / 2, f"n{n}") for n in range(10, 20)),
    ]


def test_two_schema_versions_are_one_table_through_split(spark: SparkSession, topic: Topic, tmp_path: Path):
    expected = both_versions(topic)
    frame = topic.batch(spark, schema="registry", columns="key,value,__schema_version")
    assert frame.columns == ["key", "id", "customer", "amount", "note", "__schema_version"]
    found = sorted(patiently(frame.collect))
    assert [tuple(row)[1:5] for row in sorted(found, key=lambda row: row.id)] == expected
    assert {(row.id < 10, row["__schema_version"]) for row in found} == {(True, 0), (False, 1)}

    kept: dict[int, list[Any]] = {}

    def keep(batch: Any, number: int) -> None:
        kept[number] = [(row.id, row.amount) for row in batch.collect()]

    stream = topic.stream(spark, schema="registry", maxMessagesPerTrigger=12)
    running = Running(stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path)))
    running.process()
    # A version that came after the query began: what it added is left out, what it lacks is its default.
    third = record(("id", "long"), ("more", "string"))
    produce(topic, avro(third), [encoded(third, {"id": n, "more": "x"}) for n in range(20, 24)])
    running.drain()
    rows = sorted(row for batch in kept.values() for row in batch)
    assert rows == [(row[0], row[2]) for row in expected] + [(n, 1.5) for n in range(20, 24)]


def test_every_type_of_column_is_one_that_spark_takes(spark: SparkSession, topic: Topic):
    logical = [
        ("day", {"type": "int", "logicalType": "date"}),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("here", {"type": "long", "logicalType": "local-timestamp-micros"}),
        ("clock", {"type": "long", "logicalType": "time-micros"}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    ]
    inner = record(("x", "int"), ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}), name="Inner")
    definition = record(
        *logical,
        ("yes", "boolean"),
        ("small", "float"),
        ("raw", "bytes"),
        ("nothing", "null"),
        ("inner", inner),
        ("many", {"type": "array", "items": ["null", "Inner"]}),
        ("named", {"type": "map", "values": {"type": "array", "items": "long"}}),
        ("either", ["null", "string", {"type": "array", "items": "int"}]),
        ("voids", {"type": "array", "items": "null"}),
        ("empties", {"type": "array", "items": record(name="Empty")}),
    )
    value = {
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "here": datetime(2026, 1, 31, 12, 0, 0, 5),
        "clock": 3_600_000_001,
        "price": Decimal("-12.34"),
        "yes": True,
        "small": 0.5,
        "raw": b"\xff\x00",
        "nothing": None,
        "inner": {"x": 1, "kind": "B"},
        "many": [{"x": 2, "kind": "A"}, None],
        "named": {"a": [1, 2], "b": []},
        "either": [7],
        "voids": [None] * 3,
        "empties": [{}, {}],
    }
    plain = {**value, "clock": (datetime.min + timedelta(microseconds=3_600_000_001)).time()}
    produce(topic, avro(definition), [encoded(definition, plain), None])
    frame = topic.batch(spark, schema="registry", columns="value")
    first, second = sorted(patiently(frame.collect), key=lambda row: row.yes is None)
    found = first.asDict(recursive=True)
    assert found.pop("clock") == timedelta(microseconds=3_600_000_001)
    at = found.pop("at")  # in the zone of this machine, without saying so
    assert at.astimezone(UTC) == value["at"]
    assert found.pop("either") == {"member0": None, "member1": [7]}
    assert found == {
        name: bytearray(one) if type(one) is bytes else one for name, one in value.items() if name in found
    }
    assert all(one is None for one in second)


def test_table_schema_is_fixed_at_load_or_given_by_user(spark: SparkSession, topic: Topic):
    definition = json.dumps(record(FEWER[0], ("customer", "string"), FEWER[1]))
    values = [b'{"id": %d, "customer": "c", "tags": ["a"], "more": 1}' % number for number in range(5)]
    produce(topic, Told(pb.Schema.Json, definition.encode()), values)
    reader = spark.read.format("magnetar").option("url", topic.server.url).option("topic", topic.name)
    reader = reader.option("schema", "registry").option("columns", "value")
    whole = patiently(reader.load)
    some = patiently(reader.schema("tags array<string>, id bigint").load)
    # A table is that of load(), and one of one's own needs no more than its fields.
    produce(topic, Told(pb.Schema.Json, json.dumps(record(*FEWER)).encode()), [b'{"id": 5, "tags": []}'])
    expected = [*((["a"], number) for number in range(5)), ([], 5)]
    assert sorted(map(tuple, patiently(some.collect)), key=lambda row: row[1]) == expected
    found = sorted(map(tuple, patiently(whole.collect)))
    assert found == [(number, None if number == 5 else "c", tags) for tags, number in expected]


def test_topic_without_schema_is_refused_with_what_to_do(spark: SparkSession, topic: Topic):
    from pyspark.errors import PySparkException

    topic.publish(3)
    with pytest.raises(PySparkException, match="option schema: the topic has no registered schema: produce with"):
        topic.batch(spark, schema="registry")


def test_version_that_table_cannot_hold_is_named_with_its_field(topic: Topic):
    other = record(("id", "string"), ("customer", "string"))
    produce(topic, avro(other), [encoded(other, {"id": "one", "customer": "c"})])
    produce(topic, avro(FIRST), [encoded(FIRST, {"id": 1, "customer": "c", "old": ""})])
    with pytest.raises(Misuse, match=r"messages of version 0 .* of version 1: field id: string cannot be read as int"):
        read(topic)


def test_value_that_is_not_what_its_schema_says_is_found(topic: Topic):
    produce(topic, avro(FIRST), [encoded(FIRST, {"id": 1, "customer": "c", "old": ""}), b"\x02\x7f"])
    with pytest.raises(
        Corrupt, match=r"field customer: a value does not match its schema.*position=\d+:\d+:0 of segment"
    ):
        read(topic)


@pytest.mark.parametrize("encoding", ["INLINE", "SEPARATED"])
def test_keys_with_values_are_two_columns_wherever_key_lies(spark: SparkSession, topic: Topic, encoding: str):
    """The stock Python client has no such schemas: bytes as the Java client writes them."""
    definition = json.dumps(FIRST).encode()
    told = {"kv.encoding.type": encoding, "key.schema.type": "INT32", "value.schema.type": "AVRO"}
    schema = Told(pb.Schema.KeyValue, bytes(4) + len(definition).to_bytes(4, "big") + definition, **told)
    rows = [{"id": number, "customer": f"c{number}", "old": ""} for number in range(5)]
    with Client(topic.server.url) as client, client.create_producer(topic.name, schema=schema) as producer:
        for row in rows:
            key, value = row["id"].to_bytes(4, "big"), encoded(FIRST, row)
            inline = b"".join(len(one).to_bytes(4, "big") + one for one in (key, value))
            producer.send(value if encoding == "SEPARATED" else inline, key=key)
        producer.send(None, key=(9).to_bytes(4, "big"))
    frame = topic.batch(spark, schema="registry", columns="value,key")
    found = sorted(patiently(frame.collect), key=lambda row: bytes(row.key))
    assert [(row.kv_key, row.kv_value.asDict(), bytes(row.key)) for row in found[:5]] == [
        (row["id"], row, row["id"].to_bytes(4, "big")) for row in rows
    ]
    assert tuple(found[5])[:2] == (9 if encoding == "SEPARATED" else None, None)


def test_what_stock_client_writes_with_its_schemas_is_read(topic: Topic):
    """Its AVRO, its JSON (on several lines), its text and its descriptors; on a partitioned topic too."""
    base = topic.name.replace("topic://", "persistent://")
    rows = [{"a": f"x{n}", "n": n, "many": [0.5] * n, "on": None, "named": {"k": b"v"}} for n in range(5)]
    client = pulsar.Client(topic.server.url)
    try:
        for kind, found in ((stock.AvroSchema, b"v"), (stock.JsonSchema, "v")):
            topic.name = f"{base}-{kind.__name__}"
            topic.server.admin("PUT", f"persistent/{topic.name.removeprefix('persistent://')}/partitions", 2)
            producer = client.create_producer(topic.name, schema=kind(Stock))
            for row in rows:
                producer.send(Stock(**row), partition_key=row["a"])
            expected = [{**row, "named": [("k", found)]} for row in rows]
            assert sorted(read(topic), key=lambda row: row["n"]) == expected
        topic.name = f"{base}-text"
        client.create_producer(topic.name, schema=stock.StringSchema()).send("wörd")
        assert read(topic) == [{"value": "wörd"}]
        topic.name = f"{base}-native"
        native = client.create_producer(topic.name, schema=stock.ProtobufNativeSchema(pb.SingleMessageMetadata))
        native.send(pb.SingleMessageMetadata(payload_size=3, properties=[pb.KeyValue(key="a", value="b")]))
        (row,) = read(topic)
        assert (row["payload_size"], row["properties"]) == (3, [{"key": "a", "value": "b"}])
        assert (row["partition_key"], row["event_time"], row["null_value"]) == (None, 0, False)  # two have a default
    finally:
        client.close()
