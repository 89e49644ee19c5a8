"""Which filters of a query a batch reader listens to."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from magnetar.spark.filters import Wanted
from magnetar.spark.options import source_options
from magnetar.spark.table import Table
from tests.unit.spark.values.defined import record, registered

datasource = pytest.importorskip("pyspark.sql.datasource", reason="pyspark is missing: pip install 'magnetar[spark]'")

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def wanted(columns):
    from magnetar.spark.batch import FilteringReader

    reader = FilteringReader(source_options({"topic": "topic://a/b/c"}, streaming=False), columns)
    filters = [datasource.EqualTo(("key",), b"k"), datasource.GreaterThan(("publish_time",), NOON)]
    assert reader.pushFilters(filters) == filters, "Spark applies all of them again"
    return reader._wanted


def test_filters_on_columns_of_messages_narrow_what_is_read():
    ms = int(NOON.timestamp() * 1000)
    schema = registered(record(("id", "int")))
    for columns in (("key", "publish_time"), Table(schema, ("key", "publish_time", "id"), ("id",))):
        assert wanted(columns) == Wanted(first_ms=ms, keys=frozenset([b"k"]))


def test_a_filter_on_a_field_that_is_called_as_a_column_of_messages_says_nothing_of_them():
    moment = {"type": "long", "logicalType": "timestamp-millis"}
    names = ("key", "publish_time")
    schema = registered(record(("key", "bytes"), ("publish_time", moment)))
    assert wanted(Table(schema, names, names)) == Wanted()
