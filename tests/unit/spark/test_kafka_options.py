"""Kafka's names in the options, and the page that lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.base.errors import Misuse
from magnetar.spark.kafka_options import INSTEAD, instead
from magnetar.spark.sink.options import sink_options
from magnetar.spark.source.options import shown, source_options

TOPIC = "topic://a/b/c"


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("maxOffsetsPerTrigger", "maxMessagesPerTrigger"),
        ("minOffsetsPerTrigger", "minMessagesPerTrigger"),
        ("subscribe", "topic"),
        ("subscribePattern", "namespace"),
        ("assign", "topic"),
        ("kafka.bootstrap.servers", "url"),
        ("startingTimestamp", "startingOffsets"),
        ("kafka.group.id", "subscription"),
        ("includeHeaders", "properties"),
    ],
)
def test_kafka_option_is_answered_with_ours(name, ours):
    with pytest.raises(Misuse, match=rf"option {name} belongs to Spark's Kafka connector; use {ours}|columns, with"):
        source_options({"topic": TOPIC, name.lower(): "x"}, streaming=True)


def test_kafka_option_is_named_before_missing_topic():
    with pytest.raises(Misuse, match="option subscribe belongs to"):
        shown({"subscribe": "events"})
    with pytest.raises(Misuse, match=r"option kafka\.bootstrap\.servers belongs to"):
        sink_options({"kafka.bootstrap.servers": "localhost:9092"}, streaming=True)


def test_option_of_kafka_clients_is_told_to_be_left_out():
    with pytest.raises(Misuse, match="remove it"):
        source_options({"topic": TOPIC, "kafka.fetch.min.bytes": "1"}, streaming=True)
    assert instead("kafka.sasl.jaas.config") is not None
    assert instead("topic") is None


def test_every_kafka_option_is_in_page():
    page = (Path(__file__).parents[3] / "docs" / "SPARK.md").read_text()
    missing = [name for name in INSTEAD if f"`{name}`" not in page]
    assert not missing
