"""Options and mistakes in a real Spark: times and keys, subscriptions, plain topics, and errors that say what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from magnetar import Admin, Client
from magnetar.layout.routing import DEFAULT, segment_hash
from tests.servers.standalone import Standalone
from tests.spark.published import Collected, Running, Topic, a_moment, finished, patiently, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def numbers(rows: Any) -> list[int]:
    return sorted(int(value.split(" ")[0]) for _, value in texts(rows))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maxMessagePerTrigger": "5"}, "did you mean maxMessagesPerTrigger?"),
        ({"keyOrder": "strict"}, "option keyOrder: it must be chain or barrier or relaxed"),
        ({"startingOffsets": "yesterday"}, "option startingOffsets"),
        ({"startingOffsets": '{"v":9}'}, "a newer version of magnetar wrote the offset"),
        ({"endingOffsets": "latest"}, "option endingOffsets has no effect on a stream"),
        ({"columns": "key,offset"}, "option columns: unknown column offset"),
        ({"topic": "non-persistent://public/default/x"}, "option topic"),
        (
            {"topic": "topic://public/default/nobody-made-this"},
            "(magnetar topic create topic://public/default/nobody-made-this), or correct",
        ),
        (
            {"topic": "persistent://public/default/nor-this"},
            "option topic: persistent://public/default/nor-this does not exist at pulsar://",
        ),
        ({"maxOffsetsPerTrigger": "5"}, "use maxMessagesPerTrigger"),
    ],
)
def test_mistake_is_named_with_what_to_do(
    spark: SparkSession, topic: Topic, tmp_path: Path, options: dict[str, str], said: str
):
    from pyspark.errors import PySparkException

    def start() -> None:
        frame = topic.stream(spark, **options)
        finished(frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)))

    with pytest.raises(PySparkException) as told:
        patiently(start)
    assert said.lower() in str(told.value).lower(), str(told.value)


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"topic": "topic://public/default/nope"}, ["option topic: topic://", "why: ", "do: create it ("]),
        ({"topic": "topic://public/nope/x"}, ["namespace public/nope of", "why: ", "magnetar namespace create public"]),
        ({"url": "pulsar://127.0.0.1:1"}, ["no broker answers at pulsar://127.0.0.1:1", "why: ", "do: start a broker"]),
    ],
)
def test_load_tells_what_is_missing_in_three_lines(
    spark: SparkSession, topic: Topic, options: dict[str, str], lines: list[str]
):
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as told:
        topic.stream(spark, **options)
    said = str(told.value).splitlines()
    place = next(number for number, line in enumerate(said) if lines[0] in line)
    assert [expected in line for expected, line in zip(lines, said[place:], strict=False)] == [True] * 3
    assert len(said) < 10, "a page of traceback"


def test_table_of_catalog_is_read_by_sql(spark: SparkSession, topic: Topic, tmp_path: Path):
    topic.publish(20)
    kept = Collected()
    options = f"url '{topic.server.url}', topic '{topic.name}', columns 'key,value', startingOffsets 'earliest'"
    patiently(lambda: spark.sql(f"CREATE TABLE ev USING magnetar OPTIONS ({options}) LOCATION '{tmp_path}/ev'"))
    try:
        topic.judge(patiently(lambda: texts(spark.sql("SELECT * FROM ev").collect())))
        writer = spark.readStream.table("ev").writeStream.foreachBatch(kept)
        finished(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True))
        topic.judge(kept.rows)
    finally:
        spark.sql("DROP TABLE ev")


def test_schema_with_wrong_type_says_which(spark: SparkSession, topic: Topic):
    from pyspark.errors import PySparkException

    reader = spark.read.format("magnetar").option("url", topic.server.url).option("topic", topic.name)
    with pytest.raises(PySparkException, match="column key must be binary, not string"):
        patiently(lambda: reader.schema("key string").load().collect())


def test_rows_between_two_times_are_read_and_no_others(spark: SparkSession, topic: Topic):
    topic.publish(20)
    first = a_moment()
    topic.publish(20)
    topic.reshape()
    topic.publish(20)
    last = a_moment()
    topic.publish(20)
    frame = topic.batch(spark, startingOffsets=first.isoformat(), endingOffsets=last.isoformat())
    assert numbers(patiently(frame.collect)) == list(range(20, 60))


def test_filters_on_time_and_key_are_pushed_down_and_right(spark: SparkSession, topic: Topic):
    from pyspark.sql.functions import col, lit

    topic.publish(40)
    first = a_moment()
    topic.publish(40)
    frame = topic.batch(spark, filterPushdown="true")
    found = frame.filter((col("publish_time") >= lit(first)) & (col("key") == lit(b"k3")))
    assert numbers(patiently(found.collect)) == [43, 63]
    assert numbers(patiently(frame.filter(col("key").isin([b"k1", b"k2"])).collect)) == [1, 2, 21, 22, 41, 42, 61, 62]


@pytest.mark.parametrize("partitions", [0, 3])
def test_plain_and_partitioned_topics_are_read_too(spark: SparkSession, topic: Topic, tmp_path: Path, partitions: int):
    topic.name = topic.name.replace("topic://", "persistent://") + "-plain"  # the other one is there
    if partitions:
        topic.server.admin("PUT", f"persistent/{topic.name.removeprefix('persistent://')}/partitions", partitions)
    topic.publish(60)
    topic.judge(patiently(lambda: texts(topic.batch(spark).collect())))
    kept = Collected()
    writer = topic.stream(spark, maxMessagesPerTrigger=3).writeStream.foreachBatch(kept)
    query = Running(writer.option("checkpointLocation", str(tmp_path)))
    topic.publish(30)
    query.drain()
    topic.judge(kept.rows)


def test_by_time_keeps_segments_together_in_publish_time(topic: Topic):
    from magnetar.spark.connect import query, run
    from magnetar.spark.read.read_task import record_batches
    from magnetar.spark.source.options import source_options

    lower = [key for key in map(str, range(200)) if segment_hash(key, DEFAULT) < 1 << 15]
    upper = [key for key in map(str, range(200)) if segment_hash(key, DEFAULT) >= 1 << 15]
    with Client(topic.server.url) as client, client.create_producer(topic.name) as producer:
        for keys in (lower, upper):
            for number in range(60):
                producer.send(b"", key=keys[number % len(keys)])
            a_moment()

    def first_batch(balance: str) -> list[str]:
        options = {"startingOffsets": "earliest", "maxMessagesPerTrigger": "40", "balance": balance}
        made = query(source_options({"url": topic.server.url, "topic": topic.name, **options}, streaming=True))
        at = run(topic.server.url, lambda _: made.start())
        end = run(topic.server.url, lambda _: made.latest(at))
        tasks = run(topic.server.url, lambda _: made.tasks(at, end))
        found = [batch for one in tasks for batch in record_batches(one, ("key",))]
        return [key.decode() for batch in found for key in batch.column("key").to_pylist()]

    assert set(first_batch("time")) <= set(lower)
    assert set(first_batch("backlog")) & set(upper)


def test_subscription_keeps_unread_messages_and_follows_query(spark: SparkSession, topic: Topic, tmp_path: Path):
    def held() -> dict[str, str]:
        with Client(topic.server.url) as client:
            return {str(id): str(place) for id, place in client.hold(topic.name, "daily").places.items()}

    topic.publish(30)
    frame = topic.stream(spark, subscription="daily")
    query = Running(frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)))
    query.process()  # the next call asks for a batch behind it, and moves the hold
    query.drain()
    offsets = sorted((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    last = json.loads(offsets[-1].read_text().splitlines()[-1])
    assert held() == last["seg"]


def test_second_query_of_subscription_is_refused_until_first_ends(spark: SparkSession, topic: Topic, tmp_path: Path):
    from pyspark.errors import PySparkException

    topic.publish(10)
    kept = Collected()

    def start(folder: str) -> Running:
        writer = topic.stream(spark, subscription="mine").writeStream.foreachBatch(kept)
        return Running(writer.option("checkpointLocation", str(tmp_path / folder)))

    first = start("a")
    first.process()
    with pytest.raises(PySparkException, match=r"mine of topic.* is in use by another query"):
        start("b").drain()
    first.drain()
    topic.publish(10)
    start("a").drain()
    topic.judge(kept.rows)


def test_deleted_data_fails_query_or_is_skipped_by_option(spark: SparkSession, tmp_path: Path):
    from pyspark.errors import PySparkException

    settings = {
        "managedLedgerMaxEntriesPerLedger": 50,
        "managedLedgerMinLedgerRolloverTimeMinutes": 0,
        "defaultRetentionTimeInMinutes": 0,
        "defaultRetentionSizeInMB": 0,
    }
    name = "topic://public/default/short-lived"
    with (
        Standalone(tmp_path / "broker", settings) as server,
        Admin(server.http) as admin,
        Topic(server, admin, name) as topic,
    ):
        admin.scalable.create(topic.name, segments=1)
        kept = Collected()

        def run(**options: str) -> None:
            writer = topic.stream(spark, **options).writeStream.foreachBatch(kept)
            finished(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True))

        topic.publish(2, batch=1)
        run()
        assert len(kept.rows) == 2
        topic.publish(60)
        until_trimmed(topic, last_offset(tmp_path / "c"))
        topic.publish(2)  # in a ledger that is not full: they stay
        with pytest.raises(PySparkException, match="failOnDataLoss"):
            run()
        told: list[str] = []
        warn_of_deleted(topic, told)
        assert "magnetar namespace set public/default --retention-minutes" in told[0]
        run(failOnDataLoss="false")
        assert {int(value.split(" ")[0]) for _, value in kept.rows} >= {0, 1, 62, 63}
        assert len(kept.rows) < 64
        assert last_offset(tmp_path / "c", gaps=True)


def warn_of_deleted(topic: Topic, told: list[str]) -> None:
    """What a query that begins at the earliest message says."""
    from magnetar.spark.connect import facts, run
    from magnetar.spark.source.options import source_options
    from magnetar.spark.source.query import Query

    async def start(client: Any) -> None:
        known = await facts(client, topic.name)
        asked = source_options({"topic": topic.name, "startingOffsets": "earliest"}, streaming=True)
        await Query(asked, known, client.runtime.monotonic, told.append).start()
        await known.close()

    run(topic.server.url, start)


def last_offset(checkpoint: Path, *, gaps: bool = False) -> Any:
    """What the newest offset of a query says; or whether any of them says that something was skipped."""
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    found = [json.loads(path.read_text().splitlines()[-1]) for path in files]
    return any("gap" in one for one in found) if gaps else found[-1]


def until_trimmed(topic: Topic, offset: dict[str, Any]) -> None:
    """Until the broker says that messages behind an offset are gone."""
    from magnetar.spark.connect import facts, run
    from magnetar.spark.source.offset import from_document

    frontier = from_document(offset)

    async def lost(client: Any) -> bool:
        found = await facts(client, topic.name)
        try:
            return bool(await found.lost(frontier.places))
        finally:
            await found.close()

    for _ in range(600):
        if run(topic.server.url, lost):
            return
        time.sleep(0.1)
    raise AssertionError("nothing was trimmed")


def test_offset_of_another_topic_is_refused(spark: SparkSession, topic: Topic, tmp_path: Path):
    from pyspark.errors import PySparkException

    def run() -> None:
        writer = topic.stream(spark).writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        finished(writer.trigger(availableNow=True))

    topic.publish(5)
    run()
    topic.name += "-other"
    topic.admin.scalable.create(topic.name, segments=1)
    with pytest.raises(PySparkException, match="another topic"):
        run()


def test_workers_with_wrong_interpreter_are_found_by_doctor(server: Standalone):
    """Spark itself says no more than that a worker did not come back."""
    done = subprocess.run(
        [sys.executable, "-m", "magnetar.cli.main", "spark", "doctor", "--url", server.url, "--check", "-o", "json"],
        env={**os.environ, "PYSPARK_PYTHON": "/bin/sh"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {one["check"]: one for one in json.loads(done.stdout)}
    assert done.returncode == 1
    assert found["workers"]["ok"] is False
    assert "PYSPARK_PYTHON" in found["workers"]["do"]
    assert all(one["ok"] for name, one in found.items() if name != "workers"), found


def test_offsets_and_lag_are_told_from_checkpoint(spark: SparkSession, topic: Topic, tmp_path: Path):
    topic.publish(20)
    writer = topic.stream(spark).writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    finished(writer.trigger(availableNow=True))
    topic.publish(13)

    def told(verb: str) -> Any:
        words = ["spark", verb, str(tmp_path), "--url", topic.server.url, "-o", "json"]
        done = subprocess.run(
            [sys.executable, "-m", "magnetar.cli.main", *words], capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    assert told("offsets")["offsets"][0]["topic"] == topic.name
    assert sum(one["messages"] for one in told("lag")) == 13


def test_batch_waits_for_minimum_number_of_messages(spark: SparkSession, topic: Topic, tmp_path: Path):
    kept = Collected()
    frame = topic.stream(spark, minMessagesPerTrigger=50, maxTriggerDelay="1h")
    query = Running(frame.writeStream.foreachBatch(kept).option("checkpointLocation", str(tmp_path)))
    topic.publish(30)
    query.process()
    assert kept.rows == []
    topic.publish(30)
    query.drain()
    topic.judge(kept.rows)


def test_byte_limit_makes_many_batches_and_hold_follows_commits(spark: SparkSession, topic: Topic, tmp_path: Path):
    topic.publish(60)
    kept = Collected()
    frame = topic.stream(spark, maxBytesPerTrigger="1kb", subscription="bytes", cursorAdvance="commit")
    query = Running(frame.writeStream.foreachBatch(kept).option("checkpointLocation", str(tmp_path)))
    query.drain()
    topic.judge(kept.rows)
    assert len(kept.batches) > 1
    with Client(topic.server.url) as client:
        held = {str(id): str(place) for id, place in client.hold(topic.name, "bytes").places.items()}
    offsets = [path.read_text().splitlines()[-1] for path in (tmp_path / "offsets").glob("[0-9]*")]
    assert held in [json.loads(one)["seg"] for one in offsets]
