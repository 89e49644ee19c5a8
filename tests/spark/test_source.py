"""The source in a real Spark: batch and stream, every key in order while the topic is split and merged."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from magnetar import Client
from tests.spark.published import Collected, Running, Topic, finished, patiently, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EVERY = (
    "key,value,topic,publish_time,event_time,properties,sequence_id,producer_name,__segment,__position,__order,"
    "__key_hash"
)


def test_batch_read_has_every_row_once_over_splits_and_merges(spark: SparkSession, topic: Topic):
    for _ in range(4):
        topic.publish(50)
        topic.reshape()
    topic.publish(50)
    topic.judge(patiently(lambda: texts(topic.batch(spark).collect())))


def test_every_column_arrives_with_its_own_type(spark: SparkSession, topic: Topic):
    with Client(topic.server.url) as client, client.create_producer(topic.name, name="me") as producer:
        producer.send(b"v", key="k", properties={"a": "b"}, event_time_ms=1_700_000_000_000)
    frame = patiently(lambda: topic.batch(spark, columns=EVERY))
    assert ",".join(frame.columns) == EVERY
    row = patiently(frame.collect)[0].asDict()
    assert (bytes(row["key"]), bytes(row["value"]), row["topic"]) == (b"k", b"v", topic.name)
    assert row["properties"] == {"a": "b"}
    assert row["event_time"] == datetime.fromtimestamp(1_700_000_000, UTC).replace(tzinfo=None)
    assert row["producer_name"].startswith("me")
    assert row["__segment"] in topic.active()
    assert len(row["__order"]) == 28


def test_only_columns_of_schema_of_ones_own_are_read(spark: SparkSession, topic: Topic):
    topic.publish(5)
    reader = spark.read.format("magnetar").option("url", topic.server.url).option("topic", topic.name)
    frame = patiently(reader.schema("value binary, `__segment` long").load)
    assert frame.columns == ["value", "__segment"]
    assert patiently(frame.count) == 5


def test_batch_read_that_finds_nothing_has_no_rows(spark: SparkSession, topic: Topic):
    assert patiently(topic.batch(spark).collect) == []
    topic.publish(5)
    assert patiently(topic.batch(spark, startingOffsets="latest").collect) == []
    past = topic.batch(spark, startingOffsets="2001-01-01T00:00:00+00:00", endingOffsets="2001-01-02T00:00:00+00:00")
    assert patiently(past.collect) == []


@pytest.mark.parametrize("order", ["chain", "barrier"])
def test_foreach_batch_keeps_key_order_while_topic_is_reshaped(
    spark: SparkSession, topic: Topic, tmp_path: Path, order: str
):
    collected = Collected()
    frame = topic.stream(spark, keyOrder=order, maxMessagesPerTrigger=120)
    query = Running(frame.writeStream.foreachBatch(collected).option("checkpointLocation", str(tmp_path)))
    with topic.live(rounds=8, rows=60):
        pass
    query.drain()
    topic.judge(collected.rows)


def test_relaxed_order_loses_nothing(spark: SparkSession, topic: Topic, tmp_path: Path):
    collected = Collected()
    frame = topic.stream(spark, keyOrder="relaxed")
    query = Running(frame.writeStream.foreachBatch(collected).option("checkpointLocation", str(tmp_path)))
    with topic.live(rounds=4, rows=60):
        pass
    query.drain()
    assert sorted(int(value.split(" ")[0]) for _, value in collected.rows) == list(range(topic.sent))


def test_available_now_ends_with_existing_data_and_next_run_resumes(spark: SparkSession, topic: Topic, tmp_path: Path):
    collected: list[tuple[str, str]] = []
    for _ in range(3):
        topic.publish(60)
        topic.reshape()
        topic.publish(10)
        kept = Collected()
        frame = topic.stream(spark, maxMessagesPerTrigger=25)
        writer = frame.writeStream.foreachBatch(kept).option("checkpointLocation", str(tmp_path))
        finished(writer.trigger(availableNow=True))
        collected += kept.rows
        assert len(kept.batches) > 1
    topic.judge(collected)


def test_limit_is_kept_and_lag_is_in_progress(spark: SparkSession, topic: Topic, tmp_path: Path):
    from magnetar.spark.listener import LagListener
    from magnetar.spark.progress.report import Lag

    topic.publish(100, batch=1)
    kept = Collected()
    writer = topic.stream(spark, maxMessagesPerTrigger=30).writeStream.foreachBatch(kept)
    told: list[Lag] = []
    listener = LagListener(told.append)
    spark.streams.addListener(listener)
    try:
        query = finished(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True))
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(120_000)
    finally:
        spark.streams.removeListener(listener)
    topic.judge(kept.rows)
    read = {batch: sum(len(kept.batches[one]) for one in kept.batches if one <= batch) for batch in kept.batches}
    assert [one.messages for one in told if one.batch in read] == [100 - read[batch] for batch in sorted(read)]
    assert {one.query for one in told} == {str(query.id)}
    assert max(map(len, kept.batches.values())) <= 30
    sources = [json.loads(one.json)["sources"][0] for one in query.recentProgress]
    assert all(one["latestOffset"]["seg"] == sources[-1]["endOffset"]["seg"] for one in sources)


def test_once_takes_everything_and_goes_on_behind_it(spark: SparkSession, topic: Topic, tmp_path: Path):
    rows: list[tuple[str, str]] = []
    for _ in range(2):
        topic.publish(40)
        kept = Collected()
        writer = topic.stream(spark, maxMessagesPerTrigger=5).writeStream.foreachBatch(kept)
        finished(writer.option("checkpointLocation", str(tmp_path)).trigger(once=True))
        rows += kept.rows
    topic.judge(rows)


def test_stream_starts_at_end_unless_told_otherwise(spark: SparkSession, topic: Topic, tmp_path: Path):
    topic.publish(10)
    kept = Collected()
    frame = topic.stream(spark, startingOffsets="latest")
    query = Running(frame.writeStream.foreachBatch(kept).option("checkpointLocation", str(tmp_path)))
    query.process()
    assert kept.rows == []
    topic.publish(10)
    query.drain()
    assert sorted(int(value.split(" ")[0]) for _, value in kept.rows) == list(range(10, 20))


def test_topics_of_namespace_are_one_stream_and_later_ones_join(spark: SparkSession, topic: Topic, tmp_path: Path):
    def rows(batches: list[tuple[str, str, str]], name: str) -> list[tuple[str, str]]:
        return [(key, value) for found, key, value in batches if found == name]

    admin, space = topic.admin, f"public/{topic.name.rpartition('/')[2]}"
    admin.namespaces.create(space)
    names = [f"topic://{space}/{name}" for name in ("a", "b", "later")]
    one, two, later = (Topic(topic.server, admin, name) for name in names)
    for each in (one, two):
        admin.scalable.create(each.name, segments=2)
        each.publish(40)
    kept: dict[int, list[tuple[str, str, str]]] = {}

    def collect(frame: Any, batch: int) -> None:
        kept[batch] = [(row["topic"], row["key"].decode(), row["value"].decode()) for row in frame.collect()]

    def run() -> None:
        reader = spark.readStream.format("magnetar").option("url", topic.server.url).option("namespace", space)
        reader = reader.option("startingOffsets", "earliest").option("columns", "topic,key,value")
        frame = patiently(reader.option("maxMessagesPerTrigger", "50").load)
        writer = frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path / "c"))
        finished(writer.trigger(availableNow=True))

    run()
    admin.scalable.create(later.name, segments=1)
    later.publish(20)
    one.reshape()
    one.publish(20)
    run()
    for each in (one, two, later):
        with each:
            each.judge(rows([row for batch in sorted(kept) for row in kept[batch]], each.name))
    words = ["spark", "lag", str(tmp_path / "c"), "--url", topic.server.url, "-o", "json"]
    said = subprocess.run(
        [sys.executable, "-m", "magnetar.cli.main", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line["topic"] for line in json.loads(said.stdout)} == set(names)
    assert sum(line["messages"] for line in json.loads(said.stdout)) == 0


def test_more_tasks_than_segments_read_every_row_in_order(spark: SparkSession, topic: Topic):
    for segment in topic.active():
        topic.admin.scalable.rebucket(topic.name, segment, 4)
    topic.publish(200)

    def tasks(**options: object) -> int:
        frame = topic.batch(spark, **options)
        topic.judge(patiently(lambda: texts(frame.collect())))
        return frame.rdd.getNumPartitions()

    assert tasks(minPartitions=6) == 6
    assert tasks() == 2
    frame = topic.batch(spark, minPartitions=6, keyOrder="relaxed")
    found = patiently(lambda: texts(frame.collect()))
    assert sorted(int(value.split(" ")[0]) for _, value in found) == list(range(200))
    assert frame.rdd.getNumPartitions() >= 6
