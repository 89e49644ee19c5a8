"""Which filters of a query a batch reader listens to."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from magnetar.spark.source.options import source_options
from magnetar.spark.values.table import ValueTable
from tests.support.avro_definitions import record, registered

datasource = pytest.importorskip("pyspark.sql.datasource", reason="pyspark is missing: pip install 'magnetar[spark]'")
filters = pytest.importorskip("magnetar.spark.read.filters", reason="its types are PySpark's")

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def wanted(columns):
    from magnetar.spark.source.batch import FilteringReader

    reader = FilteringReader(source_options({"topic": "topic://a/b/c"}, streaming=False), columns)
    asked = [datasource.EqualTo(("key",), b"k"), datasource.GreaterThan(("publish_time",), NOON)]
    assert reader.pushFilters(asked) == asked, "Spark applies all of them again"
    return reader._wanted


def test_filters_on_columns_of_messages_narrow_what_is_read():
    ms = int(NOON.timestamp() * 1000)
    schema = registered(record(("id", "int")))
    for columns in (("key", "publish_time"), ValueTable(schema, ("key", "publish_time", "id"), ("id",))):
        assert wanted(columns) == filters.PushedFilters(first_ms=ms, keys=frozenset([b"k"]))


def test_filter_on_value_field_does_not_filter_message_column():
    moment = {"type": "long", "logicalType": "timestamp-millis"}
    names = ("key", "publish_time")
    schema = registered(record(("key", "bytes"), ("publish_time", moment)))
    assert wanted(ValueTable(schema, names, names)) == filters.PushedFilters()
