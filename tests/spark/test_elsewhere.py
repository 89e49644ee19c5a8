"""Source and sink on a real Apache Pulsar 5, which neither plans nor holds nor stages: entries are counted, nothing is
missed, and exactly-once is refused.

What Spark would do is done here without it, in one process, so that one JVM is enough; one case has both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from magnetar import Admin
from magnetar.base.errors import Misuse
from magnetar.spark.connect import query, run
from magnetar.spark.read.read_task import record_batches
from magnetar.spark.source.options import source_options
from magnetar.spark.source.query import ReadTask
from tests.servers.pulsar import POM_5, SCALABLE, Pulsar
from tests.spark.published import Collected, Running, Topic, a_moment, finished, patiently
from tests.spark.schemas import avro, encoded, produce, read, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # its jars may have to be fetched


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pulsar]:
    kept = {
        "defaultRetentionTimeInMinutes": 60,
        "defaultRetentionSizeInMB": 100,
        "brokerDeduplicationEnabled": True,
    }
    with Pulsar(tmp_path_factory.mktemp("pulsar5"), {**SCALABLE, **kept}, pom=POM_5) as running:
        yield running


@pytest.fixture
def admin(elsewhere: Pulsar) -> Iterator[Admin]:
    with Admin(elsewhere.http) as made:
        yield made


def rows(tasks: list[ReadTask]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for one in tasks:
        for batch in record_batches(one, ("key", "value")):
            found += [(row["key"].decode(), row["value"].decode()) for row in batch.to_pylist()]
    return found


def numbers(found: list[tuple[str, str]]) -> list[int]:
    return sorted(int(value.split(" ")[0]) for _, value in found)


def asked(topic: Topic, *, streaming: bool = True, **options: str) -> Any:
    return source_options({"url": topic.server.url, "topic": topic.name, **options}, streaming=streaming)


def test_batches_on_pulsar_5_hold_rows_once_in_order(elsewhere: Pulsar, admin: Admin):
    with Topic(elsewhere, admin, "topic://public/default/spark-turns") as topic:
        admin.scalable.create(topic.name)
        made = query(asked(topic, startingOffsets="earliest", maxMessagesPerTrigger="4"))
        url = elsewhere.url
        at = run(url, lambda _: made.start())
        found: list[tuple[str, str]] = []
        sizes: list[int] = []
        for step in range(500):
            if step < 5:
                topic.publish(40)
            elif len(found) >= topic.sent:
                break
            if step in (1, 3):
                active = topic.active()
                admin.scalable.split(topic.name, active[0])
            if step == 4:
                admin.scalable.merge(topic.name, topic.active()[:2])
            end = run(url, lambda _, at=at: made.latest(at))
            if end is at:  # a layout that is not told yet is waited for
                continue
            again = [run(url, lambda _, at=at, end=end: made.tasks(at, end)) for _ in range(2)]
            assert again[0] == again[1]
            batch = rows(again[0])
            sizes.append(len(batch))
            found += batch
            at = end
        topic.judge(found)
        assert max(sizes) < topic.sent / 2, "limits count entries here, and still limit"


def test_times_and_latest_of_pulsar_5_are_found_by_seeking(elsewhere: Pulsar, admin: Admin):
    with Topic(elsewhere, admin, "topic://public/default/spark-times") as topic:
        admin.scalable.create(topic.name)
        topic.publish(20)
        first = a_moment()
        topic.publish(20)
        admin.scalable.split(topic.name, topic.active()[0])
        topic.publish(20)
        last = a_moment()
        topic.publish(20)
        between = asked(topic, streaming=False, startingOffsets=first.isoformat(), endingOffsets=last.isoformat())
        made = query(between)
        assert numbers(rows(run(elsewhere.url, lambda _: made.whole()))) == list(range(20, 60))
        newest = query(asked(topic))
        at = run(elsewhere.url, lambda _: newest.start())
        topic.publish(5)
        end = run(elsewhere.url, lambda _: newest.latest(at))
        assert numbers(rows(run(elsewhere.url, lambda _: newest.tasks(at, end)))) == list(range(80, 85))


@pytest.mark.parametrize("partitions", [0, 3])
def test_plain_topics_of_pulsar_5_are_read_whole(elsewhere: Pulsar, admin: Admin, partitions: int):
    name = f"persistent://public/default/spark-plain-{partitions}"
    with Topic(elsewhere, admin, name) as topic:
        if partitions:
            path = f"persistent/public/default/spark-plain-{partitions}/partitions"
            elsewhere.admin("PUT", path, partitions)
        topic.publish(50)
        made = query(asked(topic, streaming=False))
        topic.judge(rows(run(elsewhere.url, lambda _: made.whole())))


def test_values_on_pulsar_5_follow_schema_versions_through_split(elsewhere: Pulsar, admin: Admin):
    first, second = record(("id", "long")), record(("id", "long"), ("amount", "double", 1.5))
    with Topic(elsewhere, admin, "topic://public/default/spark-schemas") as topic:
        admin.scalable.create(topic.name)
        with pytest.raises(Misuse, match="option schema: the topic has no registered schema"):
            read(topic)
        produce(topic, avro(first), [encoded(first, {"id": number}) for number in range(10)])
        admin.scalable.split(topic.name, topic.active()[0])
        produce(topic, avro(second), [encoded(second, {"id": number, "amount": 0.5}) for number in range(10, 20)])
        found = sorted((row["id"], row["amount"]) for row in read(topic))
        assert found == [(number, 1.5 if number < 10 else 0.5) for number in range(20)]


def test_what_pulsar_cannot_do_is_said(elsewhere: Pulsar, admin: Admin):
    with Topic(elsewhere, admin, "topic://public/default/spark-holds") as topic:
        admin.scalable.create(topic.name)
        with pytest.raises(Misuse, match="option subscription requires a scalable topic"):
            query(asked(topic, subscription="s"))
        by_time = query(asked(topic, balance="time"))
        at = run(elsewhere.url, lambda _: by_time.start())
        with pytest.raises(Misuse, match="option balance"):
            run(elsewhere.url, lambda _: by_time.latest(at))


def test_spark_reads_topic_of_pulsar_5_while_it_is_reshaped(
    spark: SparkSession, elsewhere: Pulsar, admin: Admin, tmp_path: Path
):
    with Topic(elsewhere, admin, "topic://public/default/spark-live") as topic:
        admin.scalable.create(topic.name)
        kept = Collected()
        writer = topic.stream(spark).writeStream.foreachBatch(kept)
        query = Running(writer.option("checkpointLocation", str(tmp_path)))
        for _ in range(3):
            topic.publish(40)
            topic.reshape()
        topic.publish(40)
        for _ in range(100):
            query.process()
            if len(kept.rows) >= topic.sent:  # a layout that is not told yet is waited for
                break
        query.drain()
        topic.judge(kept.rows)


def everything(topic: Topic) -> list[tuple[str, str]]:
    made = query(asked(topic, streaming=False))
    return rows(run(topic.server.url, lambda _: made.whole()))


def writing(topic: Topic, writer: Any, **options: str) -> Any:
    return writer.format("magnetar").options(url=topic.server.url, topic=topic.name, **options)


@pytest.mark.parametrize("delivery", ["at-least-once", "idempotent"])
@pytest.mark.parametrize("domain", ["topic", "persistent"])
def test_repeated_idempotent_batch_on_pulsar_5_is_stored_once(
    spark: SparkSession, elsewhere: Pulsar, admin: Admin, domain: str, delivery: str
):
    with Topic(elsewhere, admin, f"{domain}://public/default/spark-{domain}-{delivery}") as target:
        if domain == "topic":
            admin.scalable.create(target.name, segments=2)
        said = [(f"k{number % 5}", f"{number} {number // 5}") for number in range(60)]
        frame = spark.createDataFrame(said, "key string, value string").coalesce(1)
        job = writing(target, frame.write, delivery=delivery, txnAppId="job", txnVersion="7").mode("append")
        for _ in range(2):
            patiently(job.save)
        found = everything(target)
        assert sorted(dict.fromkeys(found)) == sorted(said)
        assert len(found) == len(said) if delivery == "idempotent" else len(found) >= 2 * len(said)
        for key in dict(said):
            first = list(dict.fromkeys(value for one, value in found if one == key))
            assert first == [value for one, value in said if one == key]


def test_stream_between_pulsar_5_topics_repeats_no_row(
    spark: SparkSession, elsewhere: Pulsar, admin: Admin, tmp_path: Path
):
    source, target = (f"topic://public/default/spark-{name}" for name in ("from", "to"))
    with Topic(elsewhere, admin, source) as topic, Topic(elsewhere, admin, target) as copy:
        admin.scalable.create(topic.name, segments=2)
        admin.scalable.create(copy.name, segments=2)
        frame = topic.stream(spark).select("key", "value")
        writer = writing(copy, frame.writeStream, delivery="idempotent", checkpointLocation=str(tmp_path))
        for _ in range(2):
            topic.publish(60)
            finished(writer.trigger(availableNow=True))
        last = max(int(one.name) for one in tmp_path.glob("commits/[0-9]*"))
        for name in (f"{last}", f".{last}.crc"):  # as if it had been killed before it was noted
            (tmp_path / "commits" / name).unlink(missing_ok=True)
        finished(writer.trigger(availableNow=True))
        topic.judge(everything(copy))


def test_exactly_once_on_pulsar_5_is_refused_naming_option(spark: SparkSession, elsewhere: Pulsar, admin: Admin):
    with Topic(elsewhere, admin, "topic://public/default/spark-once") as target:
        admin.scalable.create(target.name)
        frame = spark.createDataFrame([("k", "v")], "key string, value string").coalesce(1)
        with pytest.raises(Exception, match=r"does not support stages.*option delivery in Spark\): at-least-once"):
            patiently(writing(target, frame.write).mode("append").save)
        assert everything(target) == []
