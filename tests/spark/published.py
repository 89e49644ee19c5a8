"""A topic with numbered rows in it, published and reshaped by a test, and the judge of what a query made of them.

A row's value is its number and its place among the rows of its key: `17 3` is the fourth row of its key. So loss,
repetition and order can be told from what arrived alone.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from magnetar import Admin, Batching, Client
from tests.servers.standalone import Standalone
from tests.spark.beside import Beside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

T = TypeVar("T")

TRIES = 6
NOT_STARTED = ("failed to connect back", "to connect back after")


class Topic:
    def __init__(self, server: Standalone, admin: Admin, name: str) -> None:
        self.server = server
        self.admin = admin
        self.name = name
        self.counts: Counter[str] = Counter()
        self.sent = 0
        self._client = Client(server.url)
        self._producer: Any = None
        self._reshapes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def publish(self, count: int, *, keys: int = 20, batch: int = 7) -> None:
        """So many rows more, round the keys, in batches of about so many."""
        if self._producer is None:
            self._producer = self._client.create_producer(self.name, batching=Batching(messages_max=batch))
        for _ in range(count):
            key = f"k{self.sent % keys}"
            self._producer.post(b"%d %d" % (self.sent, self.counts[key]), key=key)
            self.counts[key] += 1
            self.sent += 1
        self._producer.flush()

    def active(self) -> list[int]:
        return [one.segmentId for one in self._segments()]

    def reshape(self) -> None:
        """A split of the widest or a merge in turn: it can go on for ever."""
        active = self.active()
        self._reshapes += 1
        if len(active) < 5 and self._reshapes % 3:
            widest = max(self._segments(), key=lambda one: one.hashRange.end - one.hashRange.start)
            self.admin.scalable.split(self.name, widest.segmentId)
        else:
            lower = self._reshapes % (len(active) - 1)
            self.admin.scalable.merge(self.name, active[lower : lower + 2])

    def _segments(self) -> list[Any]:
        found = self.admin.scalable.metadata(self.name).segments.values()
        return sorted((one for one in found if one.state == "ACTIVE"), key=lambda one: one.hashRange.start)

    def live(self, rounds: int, rows: int) -> Live:
        """Rows and reshapes in turn, in a thread of their own, until `rounds` are over."""
        return Live(self, rounds, rows)

    # In Spark

    def stream(self, spark: SparkSession, **options: object) -> DataFrame:
        return patiently(self._asked(spark.readStream, {"startingOffsets": "earliest", **options}).load)

    def batch(self, spark: SparkSession, **options: object) -> DataFrame:
        return patiently(self._asked(spark.read, options).load)

    def _asked(self, reader: Any, options: dict[str, Any]) -> Any:
        reader = reader.format("magnetar").option("url", self.server.url).option("topic", self.name)
        for key, value in options.items():
            reader = reader.option(key, value)
        return reader

    def judge(self, rows: Iterable[tuple[str, str]]) -> None:
        """All rows that were published, each once, and each key's in order."""
        arrived: dict[str, list[int]] = defaultdict(list)
        numbers: list[int] = []
        for key, value in rows:
            number, place = value.split(" ")
            numbers.append(int(number))
            arrived[key].append(int(place))
        assert len(numbers) == len(set(numbers)), f"{len(numbers) - len(set(numbers))} rows came twice"
        assert sorted(numbers) == list(range(self.sent)), f"{self.sent - len(numbers)} rows of {self.sent} are missing"
        for key, places in arrived.items():
            assert places == sorted(places), f"the rows of {key} are out of order"


class Live(Beside):
    def __init__(self, topic: Topic, rounds: int, rows: int) -> None:
        super().__init__()
        self._topic = topic
        self._rounds = rounds
        self._rows = rows

    def work(self) -> None:
        for _ in range(self._rounds):
            self._topic.publish(self._rows)
            self._topic.reshape()


class Collected:
    """A foreachBatch that keeps what it was given, in the order of tasks and batches; a batch that is run again takes
    the place of the first.
    """

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[str, str]]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self.batches[batch] = texts(frame.collect())

    @property
    def rows(self) -> list[tuple[str, str]]:
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]


def patiently(work: Callable[[], T]) -> T:
    """Spark gives its Python processes ten seconds to start and to come back, which a loaded machine does not always
    keep: that is none of ours, and tried again.
    """
    from pyspark.errors import PySparkException

    for _ in range(TRIES):
        try:
            return work()
        except PySparkException as error:
            if not any(word in str(error) for word in NOT_STARTED):
                raise
    return work()


class Running:
    """A query that goes on until it is drained."""

    def __init__(self, writer: DataStreamWriter) -> None:
        self._writer = writer
        self._query = writer.start()
        self._runs = [str(self._query.runId)]

    def process(self) -> None:
        """Everything that was published before this call."""
        patiently(self._process)

    def drain(self) -> None:
        self.process()
        self._query.stop()

    def spilled(self, spark: SparkSession) -> int:
        """Bytes that its shuffles and sorts put on disk."""
        jvm: Any = spark.sparkContext._jsc.sc()
        jvm.listenerBus().waitUntilEmpty(120_000)  # what ended is told later
        tracker, store = spark.sparkContext.statusTracker(), jvm.statusStore()
        jobs = [tracker.getJobInfo(job) for run in self._runs for job in tracker.getJobIdsForGroup(run)]
        stages = [stage for job in jobs if job is not None for stage in job.stageIds]
        return sum(int(store.lastStageAttempt(stage).diskBytesSpilled()) for stage in stages)

    def _process(self) -> None:
        if not self._query.isActive:
            self._query = self._writer.start()
            self._runs.append(str(self._query.runId))
        self._query.processAllAvailable()


def finished(writer: DataStreamWriter) -> StreamingQuery:
    """A query that ends by itself, ended."""

    def once() -> StreamingQuery:
        query = writer.start()
        query.awaitTermination()
        return query

    return patiently(once)


def drained(query: StreamingQuery) -> None:
    """Everything that was published before this call is processed; then the query is over."""
    query.processAllAvailable()
    query.stop()


def texts(rows: Iterable[Any]) -> list[tuple[str, str]]:
    """Key and value of collected rows."""
    return [(bytes(row.key).decode(), bytes(row.value).decode()) for row in rows]


def a_moment() -> datetime:
    """A millisecond behind all that was published: messages are not stamped more finely."""
    time.sleep(0.02)
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)
