"""Rows that name their topics by a column: each once in its own topic, also when a run ends between two commits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from magnetar import Client
from magnetar.aio import Client as AioClient
from magnetar.client.process_client import run
from magnetar.runtime.system_runtime import RealRuntime
from magnetar.spark.sink.options import SinkOptions, sink_options
from tests.servers.standalone import Standalone
from tests.spark.published import Topic, drained
from tests.spark.test_sink import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'magnetar[spark]'")

from magnetar.spark.sink.commits import TaskCommit, commit  # noqa: E402
from magnetar.spark.sink.writers import WriteTask  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_numbers = itertools.count(1)


class Ended(Exception):
    """A driver, between the commits of two topics."""


@pytest.fixture
def targets(server: Standalone) -> Iterator[list[Target]]:
    """Of scalable, plain and partitioned kind there is one each."""
    number = next(_numbers)
    names = [f"topic://public/default/rows-{number}-a", f"persistent://public/default/rows-{number}-b"]
    with Client(server.url) as client:
        yield [Target(server, client, name) for name in names]


def values(target: Target, count: int) -> list[str]:
    return sorted(message.data.decode() for message in target.read(count))


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "idempotent"])
def test_rows_of_batch_write_go_to_topics_that_they_name(
    spark: SparkSession, server: Standalone, delivery: str
) -> None:
    names = [f"topic://public/default/named-{next(_numbers)}" for _ in range(3)]
    rows = [(names[number % 3], f"k{number % 5}", str(number)) for number in range(90)]
    frame = spark.createDataFrame(rows, "topic string, key string, value string").repartition(3, "key")
    options = {"url": server.url, "delivery": delivery, "txnAppId": f"job-{names[0]}", "txnVersion": "1"}
    for _ in range(2 if delivery == "exactly-once" else 1):  # the second write repeats the first
        frame.write.format("magnetar").options(**options).mode("append").save()
    with Client(server.url) as client:
        for place, name in enumerate(names):
            found = [message.data.decode() for message in Target(server, client, name).read(30)]
            assert sorted(found, key=int) == [str(number) for number in range(place, 90, 3)]


def test_rows_of_stream_go_to_topics_that_they_name(
    spark: SparkSession, server: Standalone, topic: Topic, tmp_path: Path
) -> None:
    topic.publish(200)
    named = f"concat('{topic.name}-', crc32(key) % 2) AS topic"
    frame = topic.stream(spark, maxMessagesPerTrigger=50).selectExpr("key", "value", named)
    writer = frame.writeStream.format("magnetar").option("url", server.url).option("checkpointLocation", str(tmp_path))
    drained(writer.trigger(availableNow=True).start())
    with Client(server.url) as client:
        found = []
        for number in range(2):
            name = f"{topic.name}-{number}"
            count = sum(one.messages for one in client.plan(name).stretches.values())
            found += Target(server, client, name).read(count)
    topic.judge([(message.key or "", message.data.decode()) for message in found])


def test_option_topic_wins_over_column(spark: SparkSession, server: Standalone, targets: list[Target]) -> None:
    frame = spark.createDataFrame([("topic://public/default/not-used", "1"), (None, "2")], "topic string, value string")
    targets[0].options(frame.write).mode("append").save()
    assert values(targets[0], 2) == ["1", "2"]


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("cast(NULL AS string)", r"column topic is null in row 0 of partition 0"),
        ("'kafka://a/b/c'", r"column topic is 'kafka://a/b/c' in row 0 of partition 0"),
        ("'topic://public/nowhere/rows'", r"column topic: topic://public/nowhere/rows does not exist"),
        ("1", r"column topic is int"),
    ],
)
def test_row_that_names_no_topic_ends_write(spark: SparkSession, server: Standalone, named: str, words: str) -> None:
    frame = spark.sql(f"SELECT 'v' AS value, {named} AS topic")
    with pytest.raises(Exception, match=words):
        frame.write.format("magnetar").option("url", server.url).mode("append").save()


class Batch:
    """The same rows for two topics, as often as they are written. As tasks and a driver do it, in this process."""

    def __init__(self, targets: list[Target], name: str) -> None:
        self.asked: SinkOptions = sink_options(
            {"url": targets[0].server.url, "sinkId": name}, streaming=True, topic_column=True
        )
        self._rows = pa.record_batch(
            [pa.array([targets[number % 2].name for number in range(40)]), pa.array([str(n) for n in range(40)])],
            names=["topic", "value"],
        )
        self._name = name

    def written(self, run: str) -> list[TaskCommit]:
        halves = (self._rows.slice(0, 20), self._rows.slice(20))
        return [
            WriteTask(self.asked, ["topic", "value"], self._name, 0, part, query="q", ran=run).write(iter([half]))
            for part, half in enumerate(halves)
        ]


def end_after(url: str, commits: int) -> None:
    """The next commit of a batch ends behind that of so many topics; 0: none does."""
    left = itertools.count(commits, -1)

    def heard(name: str, facts: Mapping[str, object]) -> None:
        if name == "sink.committed" and next(left) == 1:
            raise Ended

    async def watched(client: AioClient) -> None:
        runtime = client.runtime
        assert isinstance(runtime, RealRuntime)
        runtime.marks[:] = [heard]

    run(AioClient, url, watched)


def test_batch_ended_between_two_commits_is_completed_by_next_run(targets: list[Target]) -> None:
    batch = Batch(targets, f"ended-{next(_numbers)}")
    url = batch.asked.url
    first = batch.written("one")
    end_after(url, 1)
    with pytest.raises(Ended):
        commit(batch.asked, first, 0)
    second = batch.written("two")
    end_after(url, 0)
    staged = {topic: stage for one in second for topic, stage in one.stages}
    committed = min(staged)  # topics are committed in the order of their names
    assert [bool(stage) for topic, stage in sorted(staged.items())] == [False, True]
    commit(batch.asked, second, 0)
    commit(batch.asked, second, 0)
    for number, target in enumerate(targets):
        assert values(target, 20) == sorted(str(row) for row in range(number, 40, 2)), (target.name, committed)


def test_driver_that_comes_back_late_adds_nothing(targets: list[Target]) -> None:
    batch = Batch(targets, f"late-{next(_numbers)}")
    url = batch.asked.url
    first = batch.written("one")
    end_after(url, 1)
    with pytest.raises(Ended):
        commit(batch.asked, first, 0)
    second = batch.written("two")
    end_after(url, 0)
    commit(batch.asked, first, 0)  # it did not die, it was slow
    commit(batch.asked, second, 0)
    for number, target in enumerate(targets):
        assert values(target, 20) == sorted(str(row) for row in range(number, 40, 2))


def test_missing_stage_ends_commit_before_any_topic_has_batch(targets: list[Target]) -> None:
    batch = Batch(targets, f"gone-{next(_numbers)}")
    url = batch.asked.url
    end_after(url, 0)
    written = batch.written("one")
    last = max(topic for topic, _ in written[0].stages)

    async def dropped(client: Any) -> None:
        from magnetar.client.staged_sink import StagedSink

        stages = [stage for one in written for topic, stage in one.stages if topic == last]
        await StagedSink(client, last, written[0].sink).abort(stages)

    run(AioClient, url, dropped)
    with pytest.raises(Exception, match="is gone"):
        commit(batch.asked, written, 0)
    commit(batch.asked, batch.written("two"), 0)
    for number, target in enumerate(targets):
        assert values(target, 20) == sorted(str(row) for row in range(number, 40, 2))
