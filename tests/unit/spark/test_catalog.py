"""The options of tables in Spark's catalog: what it adds, what it drops, and what is kept for it."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.spark.catalog import is_table, own_options, table_metadata, with_table
from magnetar.spark.sink.options import sink_options
from magnetar.spark.source.options import shown, source_options

TOPIC = "topic://a/b/c"
CREATED = {  # as Spark 4.3 passes them when a table is created
    "provider": "magnetar",
    "owner": "root",
    "option.url": "pulsar://b:1",
    "url": "pulsar://b:1",
    "option.topic": TOPIC,
    "topic": TOPIC,
    "maxmessagespertrigger": "5",
    "option.maxmessagespertrigger": "5",
    "endingoffsets": "latest",
}


def test_what_catalog_adds_is_passed_over():
    given = {"topic": TOPIC, "path": "file:/warehouse/ev", "serialization.format": "1"}
    assert source_options(given, streaming=False).topic == TOPIC
    assert shown(CREATED).topic == TOPIC
    assert sink_options(given, streaming=False).topic == TOPIC
    assert own_options(given) == {"topic": TOPIC}


def test_table_is_told_from_ordinary_read():
    assert is_table(CREATED)
    assert not is_table({"topic": TOPIC, "path": "x"})


def test_read_without_options_takes_those_of_its_table():
    asked = source_options({}, streaming=False, metadata=table_metadata(CREATED))
    assert (asked.topic, asked.url) == (TOPIC, "pulsar://b:1")


def test_option_of_query_wins_over_table():
    given = {"URL": "pulsar://other:1"}
    asked = source_options(given, streaming=True, metadata=table_metadata(CREATED))
    assert asked.url == "pulsar://other:1"
    assert asked.limits.messages == 5
    assert with_table({"Topic": "x"}, table_metadata({"topic": "y"})) == {"Topic": "x"}


def test_insert_into_table_says_how_to_write():
    with pytest.raises(Misuse, match="INSERT into a table of the catalog is not supported"):
        sink_options({}, streaming=False)
