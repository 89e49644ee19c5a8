"""The sink in a real Spark: what is written comes once, with all that its columns say; what cannot be is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from magnetar import Client, InitialPosition
from magnetar.base.errors import LimitExceeded, MagnetarError
from magnetar.spark.sink.options import sink_options
from tests.servers.standalone import Standalone
from tests.spark.published import Topic, drained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'magnetar[spark]'")

from magnetar.spark.sink.writers import WriteTask  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WAIT_S = 60.0
_numbers = itertools.count(1)


class Target:
    """A topic that is written to, and what is in it."""

    def __init__(self, server: Standalone, client: Client, name: str) -> None:
        self.server = server
        self.name = name
        self._client = client

    def options(self, writer: Any, **more: object) -> Any:
        writer = writer.format("magnetar").option("url", self.server.url).option("topic", self.name)
        for name, value in more.items():
            writer = writer.option(name, str(value))
        return writer

    def read(self, count: int) -> list[Any]:
        """So many messages, and whatever comes behind them."""
        found = []
        consumer = self._client.stream_consumer(
            self.name, f"check-{next(_numbers)}", initial_position=InitialPosition.EARLIEST
        )
        while len(found) < count:
            found.append(consumer.receive(WAIT_S))
        try:
            while True:
                found.append(consumer.receive(0.5))
        except MagnetarError:
            consumer.close()
        return found


@pytest.fixture
def target(server: Standalone) -> Iterator[Target]:
    with Client(server.url) as client:
        yield Target(server, client, f"topic://public/default/sink-{next(_numbers)}")


def judged(topic: Topic, *targets: Target, counts: Sequence[int] = ()) -> None:
    """All rows, once, in the targets together. `counts`: of each; one target has all."""
    found = [one.read(count) for one, count in zip(targets, counts or [topic.sent], strict=True)]
    topic.judge([(message.key or "", message.data.decode()) for each in found for message in each])


def test_batch_write_is_readable_once_finished(spark: SparkSession, target: Target) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    rows = [("k", b"v", at, {"a": "b"}), (None, b"w", None, None), ("gone", None, None, None)]
    frame = spark.createDataFrame(rows, "key string, value binary, event_time timestamp, properties map<string,string>")
    target.options(frame.coalesce(1).write).mode("append").save()
    one, two, three = target.read(3)
    said = (one.key, one.data, one.event_time_ms, dict(one.properties))
    assert said == ("k", b"v", round(at.timestamp() * 1000), {"a": "b"})
    assert (two.key, two.data, two.event_time_ms, dict(two.properties)) == (None, b"w", 0, {})
    assert (three.key, three.is_null) == ("gone", True)


def test_keys_of_bytes_are_text_where_they_are_text(spark: SparkSession, target: Target) -> None:
    frame = spark.createDataFrame([(b"text", "1"), (b"\xff\xfe", "2")], "key binary, value string").coalesce(1)
    target.options(frame.write).mode("append").save()
    one, two = sorted(target.read(2), key=lambda message: message.data)
    assert (one.key, one.key_bytes, two.key_bytes) == ("text", b"text", b"\xff\xfe")


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "idempotent"])
def test_stream_from_topic_to_topic_keeps_every_key_in_order(
    spark: SparkSession, topic: Topic, target: Target, tmp_path: Path, delivery: str
) -> None:
    frame = topic.stream(spark, maxMessagesPerTrigger=100).select("key", "value")
    writer = target.options(frame.writeStream, delivery=delivery, checkpointLocation=tmp_path)
    query = writer.start()
    with topic.live(rounds=4, rows=60):
        pass
    drained(query)
    judged(topic, target)


def test_rows_behind_shuffle_come_once(spark: SparkSession, topic: Topic, target: Target, tmp_path: Path) -> None:
    topic.publish(300)
    frame = topic.stream(spark, maxMessagesPerTrigger=100).select("key", "value").repartition(3, "key")
    writer = target.options(frame.writeStream, checkpointLocation=tmp_path)
    drained(writer.trigger(availableNow=True).start())
    judged(topic, target)


def test_foreach_batch_with_version_writes_each_batch_once(
    spark: SparkSession, topic: Topic, target: Target, tmp_path: Path
) -> None:
    def write(frame: Any, batch: int) -> None:
        for _ in range(2):  # as if the first try had failed behind its commit
            one = frame.select("key", "value").coalesce(1).write
            target.options(one, txnAppId="job", txnVersion=batch).mode("append").save()

    topic.publish(120)
    query = topic.stream(spark, maxMessagesPerTrigger=50).writeStream.foreachBatch(write)
    drained(query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start())
    judged(topic, target)


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("'v' AS text", {}, "column value is missing"),
        ("1 AS value", {}, "column value is int"),
        ("'v' AS value, 'x' AS partition", {}, "column partition cannot be written"),
        ("'v' AS value", {"delivery": "perhaps"}, "option delivery must be one of exactly-once"),
        ("'v' AS value", {"deliverry": "exactly-once"}, "did you mean delivery"),
        ("'v' AS value", {"txnAppId": "job"}, "option txnVersion is missing"),
        ("'v' AS value", {"sinkId": "mine"}, "option sinkId is only for writeStream"),
        ("'v' AS value", {"startingOffsets": "latest"}, "belongs to the source"),
        ("'v' AS value", {"topic": "persistent://x"}, "option topic"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(
    spark: SparkSession, target: Target, columns: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        target.options(spark.sql(f"SELECT {columns}").write, **options).mode("append").save()


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "idempotent"])
def test_row_above_message_limit_is_named_with_size_and_remedy(target: Target, delivery: str) -> None:
    """As a task writes it, in this process."""
    options = {"url": target.server.url, "topic": target.name, "delivery": delivery}
    asked = sink_options({**options, "txnAppId": "large", "txnVersion": "1"}, streaming=False)
    small = pa.record_batch([pa.array(["k"] * 50), pa.array([b"v"] * 50)], names=["key", "value"])
    large = pa.record_batch([pa.array(["k", "k"]), pa.array([b"v", bytes(6_000_000)])], names=["key", "value"])
    task = WriteTask(asked, ["key", "value"], f"large-{delivery}", 1, 3)
    with pytest.raises(
        LimitExceeded, match=r"Row 101 of partition 3 .* has 6000001 bytes .* accept 5242880 in total. Make"
    ):
        task.write(iter([small, small.slice(0, 0), small, large]))


def test_topic_is_not_overwritten(spark: SparkSession, target: Target) -> None:
    with pytest.raises(Exception, match="cannot be overwritten"):
        target.options(spark.sql("SELECT 'v' AS value").write).mode("overwrite").save()


def test_new_checkpoint_with_foreign_sink_is_refused(
    spark: SparkSession, topic: Topic, target: Target, tmp_path: Path
) -> None:
    """One batch each: the second query finds its own committed, as a restart does, and would leave out its rows."""

    def written(copy: str) -> Any:
        frame = topic.stream(spark).select("key", "value")
        writer = target.options(frame.writeStream, sinkId="shared", checkpointLocation=tmp_path / copy)
        return writer.trigger(availableNow=True).start()

    topic.publish(100)
    drained(written("one"))
    with pytest.raises(Exception, match=r"another checkpoint.*option sinkId.*option checkpointLocation"):
        drained(written("two"))
    commits = tmp_path / "one" / "commits"
    for file in commits.iterdir():  # as if the driver had died behind the sink's commit: Spark runs the batch again
        file.unlink()
    drained(written("one"))
    assert any(commits.iterdir())
    judged(topic, target)


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_topic_in_missing_namespace_is_refused_with_remedy(spark: SparkSession, target: Target, delivery: str) -> None:
    frame = spark.sql("SELECT 'v' AS value")
    writer = target.options(frame.write, delivery=delivery).option("topic", "topic://public/nowhere/rows")
    with pytest.raises(Exception, match=r"option topic: .*magnetar namespace create public/nowhere"):
        writer.mode("append").save()


def test_spark_tells_tasks_their_batch_query_and_run(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """Internal names of Spark: if this fails on a new version, the sink must learn them another way."""
    from magnetar.spark.sink.writers import BATCH_ID, QUERY_ID, RUN_ID

    said: dict[int, set[tuple[Any, ...]]] = {}

    def look(frame: Any, batch: int) -> None:
        def properties(_: Any) -> Iterator[tuple[Any, ...]]:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            yield tuple(context.getLocalProperty(name) for name in (BATCH_ID, QUERY_ID, RUN_ID))

        said[batch] = set(frame.rdd.mapPartitions(properties).collect())

    topic.publish(60)
    query = topic.stream(spark, maxMessagesPerTrigger=30).writeStream.foreachBatch(look)
    running = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    drained(running)
    assert len(said) >= 2
    for batch, tasks in said.items():
        assert tasks == {(str(batch), str(running.id), str(running.runId))}
