"""The columns of a query with schema=registry: whose they are, their types in Spark, and names that clash."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.spark.values.table import table, table_type
from magnetar.spark.values.value_schema import RegisteredSchema
from magnetar.wire.proto import pb
from tests.support.avro_definitions import pair, record, registered

types = pytest.importorskip("pyspark.sql.types", reason="pyspark is missing: pip install 'magnetar[spark]'")

ORDER = registered(
    record(("id", "long"), ("at", {"type": "long", "logicalType": "local-timestamp-millis"}), ("topic", "string"))
)
ASKED = ("key", "value", "publish_time")


def struct(**columns):
    return types.StructType([types.StructField(name, kind) for name, kind in columns.items()])


def test_fields_stand_where_value_stood():
    assert table_type(ORDER, ASKED).simpleString() == (
        "struct<key:binary,id:bigint,at:timestamp_ntz,topic:string,publish_time:timestamp>"
    )


def test_message_columns_keep_their_types_without_schema():
    from magnetar.spark.read.spark_types import KINDS

    number = RegisteredSchema("t", 0, pb.Schema.Int32)
    found = {one.name: one.dataType.simpleString() for one in table_type(number, tuple(KINDS)).fields}
    assert found == {**KINDS, "value": "int"}


def test_spark_takes_arrow_of_every_type_back_to_same():
    from pyspark.sql.pandas.types import to_arrow_schema

    from magnetar.spark.values.select import form

    inner = record(("x", "int"), name="Inner")
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    everything = registered(
        record(
            ("clock", {"type": "long", "logicalType": "time-micros"}),
            ("moment", {"type": "long", "logicalType": "timestamp-millis"}),
            ("many", {"type": "array", "items": {"type": "map", "values": inner}}),
            ("price", decimal),
            ("either", ["int", "string"]),
            ("nothing", "null"),
        )
    )
    arrow = to_arrow_schema(table_type(everything, ("value",)), timezone="UTC")
    assert [(one.name, one.type) for one in arrow] == [(one.name, one.type) for one in form(everything).columns]


def test_name_of_both_message_and_value_is_refused():
    with pytest.raises(Misuse, match="both the values and the messages have a field topic: omit the"):
        table_type(ORDER, ("value", "topic"))
    with pytest.raises(Misuse, match="both the values and the messages have a field key"):
        table_type(registered(record(("KEY", "int"))), ("key", "value"))
    with pytest.raises(Misuse, match="option columns: unknown column offset"):
        table_type(ORDER, ("value", "offset"))


def test_requested_name_is_message_column_else_field():
    given = struct(topic=types.StringType(), key=types.BinaryType(), id=types.LongType(), __order=types.BinaryType())
    found = table(given, ORDER, ("key", "value"))
    assert found.fields == ("topic", "id")
    assert found.of_messages == ("key", "__order")
    assert found.needed == ("key", "__order", "value", "__schema_version")


def test_key_value_is_two_columns_using_message_key():
    both = pair(("STRING", None), ("AVRO", record(("id", "long"))))
    assert table_type(both, ASKED).simpleString() == (
        "struct<key:binary,kv_key:string,kv_value:struct<id:bigint>,publish_time:timestamp>"
    )
    found = table(struct(kv_key=types.StringType()), both, ASKED)
    assert (found.fields, found.of_messages) == (("kv_key",), ())
    assert found.needed == ("key", "value", "__schema_version", "__order")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (struct(id=types.IntegerType()), "column id must be bigint, not int: cast it after load"),
        (struct(key=types.StringType()), "column key must be binary, not string"),
        (struct(price=types.IntegerType()), "unknown column price: the fields of the values are id, at, topic"),
        (struct(value=types.BinaryType()), "unknown column value: the fields of the values are"),
        (struct(), "the schema must have at least one column"),
    ],
)
def test_impossible_user_schema_is_refused_by_column(given, said):
    with pytest.raises(Misuse, match=said):
        table(given, ORDER, ASKED)
