"""The sink's writers as PySpark calls them: Arrow in, messages out, each row once whatever Spark repeats.

Exactly-once is staged: a task writes its rows to a stage of the broker and returns its id, the driver's commit names
the ids that count, and the broker publishes them. A batch that was committed before is drained and not written, or
refused where its rows are others. Nobody reads the log of a task: what is odd is carried to the driver's stderr. Spark
builds a writer anew for `commit` and `abort`, so all they know comes in the tasks' messages; and it calls `abort` after
a commit that failed, although it may have happened: abort forgets what was not chosen, and undoes nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from magnetar.base.errors import Corrupt, LimitExceeded, Misuse, TopicNotFound
from magnetar.base.limits import SPARK_SEQUENCE_ROW_BITS, SPARK_SHEAF_ROWS_MIN, SPARK_STAGE_WRITE_S
from magnetar.base.names import SINK_PREFIX, topic_name
from magnetar.client.client import Client
from magnetar.client.process import run
from magnetar.client.producer import Producer
from magnetar.client.stages import Stage, StagedSink, single_job
from magnetar.spark.outgoing import Outgoing, check_columns, largest, messages
from magnetar.spark.sheaves import sheaves
from magnetar.spark.sinkoptions import Delivery, SinkOptions, sink_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

T = TypeVar("T")

BATCH_ID = "streaming.sql.batchId"  # what Spark tells its tasks of the batch that they belong to
QUERY_ID = "sql.streaming.queryId"  # the same over restarts: it is in the checkpoint
RUN_ID = "spark.jobGroup.id"  # another one at every restart


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task did. No stage: it had no rows, the batch is committed, or rows are not staged."""

    sink: str
    batch: int
    stage: str = ""
    rows: int = 0
    once: bool = False
    warning: str = ""  # for whoever runs the driver


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    return StreamWriter(sink_options(options, streaming=True, overwrite=overwrite), _columns(schema))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    return BatchWriter(sink_options(options, streaming=False, overwrite=overwrite), _columns(schema))


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, asked: SinkOptions, columns: Sequence[str]) -> None:
        self._asked = asked
        self._columns = tuple(columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        batch, query, ran = (
            context.getLocalProperty(name) if context else None for name in (BATCH_ID, QUERY_ID, RUN_ID)
        )
        if batch is None or (query is None and not self._asked.sink):
            raise Misuse(
                f"Spark did not say which batch this is (local property {BATCH_ID}): nobody tried this version of it; "
                "use foreachBatch with txnAppId and txnVersion"
            )
        part = context.partitionId() if context else 0
        sink = self._asked.sink or query or ""
        task = Task(self._asked, self._columns, sink, int(batch), part, query=query or "", ran=ran or "")
        return task.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        commit(self._asked, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abort(self._asked, messages)


class BatchWriter(DataSourceArrowWriter):
    """Of one job. Without txnAppId nobody can tell a repeated job from another one: each has a sink of its own."""

    def __init__(self, asked: SinkOptions, columns: Sequence[str]) -> None:
        self._asked = asked
        self._columns = tuple(columns)
        self._sink = asked.sink or single_job()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        part = context.partitionId() if context else 0
        once = self._asked.batch < 0
        task = Task(self._asked, self._columns, self._sink, max(self._asked.batch, 0), part, once=once)
        return task.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self._asked, messages, max(self._asked.batch, 0), wait=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort(self._asked, messages)


class Task:
    """The rows of one partition on their way."""

    def __init__(
        self,
        asked: SinkOptions,
        columns: Sequence[str],
        sink: str,
        batch: int,
        part: int,
        *,
        once: bool = False,
        query: str = "",
        ran: str = "",
    ) -> None:
        self._asked = asked
        self._columns = columns
        self._sink = sink
        self._batch = batch
        self._part = part
        self._once = once
        self._query = query  # what the checkpoint calls it
        self._ran = ran  # which run of it asks
        self._largest = (0, 0)  # of the rows so far: bytes, and which row

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        first = next((batch for batch in iterator if batch.num_rows), None)
        if first is None:
            return Written(self._sink, self._batch, once=self._once)
        batches = self._measured(chain([first], iterator))
        try:
            if self._asked.delivery is Delivery.EXACTLY_ONCE:
                return self._staged(batches)
            return self._straight(batches)
        except LimitExceeded as error:
            raise self._too_large(error) from None

    def _measured(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            if batch.num_rows:
                size, row = largest(batch, self._columns)
                self._largest = max(self._largest, (size, rows + row))
            rows += batch.num_rows
            yield batch

    def _too_large(self, error: LimitExceeded) -> LimitExceeded:
        """A producer knows the size of what it cannot send, and not which row it was: the largest is one of them."""
        size, row = self._largest
        most = error.facts.get("bytes_max")
        if most is None:
            return error
        return LimitExceeded(
            "a row is larger than a message may be, and the sink does not cut rows into chunks: "
            f"row {row} of partition {self._part}, both counted from 0, has {size} bytes in value, key and properties, "
            f"and the brokers take {most} in all: put less into value, store what is large elsewhere and write where "
            "it is, or raise maxMessageSize of the brokers",
            topic=self._asked.topic,
            batch=self._batch,
        )

    def _staged(self, batches: Iterator[pa.RecordBatch]) -> Written:
        url = self._asked.url
        stage, warning = run(Client, url, self._begin)
        if stage is None:
            for _ in batches:  # drained: Spark does not like a task that leaves its input
                pass
            return Written(self._sink, self._batch, once=self._once, warning=warning)
        rows = 0
        try:
            for batch in batches:
                run(Client, url, lambda _, batch=batch: post(stage.producer, batch, self._columns))  # type: ignore[misc]
                rows += batch.num_rows
            count = run(Client, url, lambda _: stage.seal())
            if count != rows:
                raise Corrupt(f"{rows} rows were written and the stage holds {count}: it is not used", stage=stage.id)
        except BaseException:
            run(Client, url, lambda _: stage.drop())
            raise
        return Written(self._sink, self._batch, stage.id, count, once=self._once, warning=warning)

    def _straight(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Numbered rows go one by one: a batch that a second try cuts elsewhere would be neither new nor known."""
        url, numbered = self._asked.url, self._asked.delivery is Delivery.IDEMPOTENT
        options: dict[str, Any] = (
            {"name": f"{SINK_PREFIX}{self._sink}-{self._part}", "batching": None} if numbered else {}
        )
        producer = run(
            Client, url, lambda client: found(self._asked, client.create_producer(self._asked.topic, **options))
        )
        rows = 0
        try:
            for batch in batches:
                first = (self._batch << SPARK_SEQUENCE_ROW_BITS) + rows if numbered else -1
                run(Client, url, lambda _, batch=batch, first=first: post(producer, batch, self._columns, first))  # type: ignore[misc]
                rows += batch.num_rows
            run(Client, url, lambda _: producer.close())
        except BaseException:
            run(Client, url, lambda _: producer.close(flush=False))
            raise
        return Written(self._sink, self._batch, rows=rows, once=self._once)

    async def _begin(self, client: Client) -> tuple[Stage | None, str]:
        asked = self._asked
        sink = StagedSink(client, asked.topic, self._sink, query=self._query, run=self._ran, once=self._once)
        return await found(asked, sink.begin(self._batch)), sink.warning


async def found(asked: SinkOptions, call: Coroutine[Any, Any, T]) -> T:
    """The first call about a topic: here it turns out that it is not there and that nobody may make it."""
    try:
        return await call
    except TopicNotFound as error:
        raise TopicNotFound(
            f"option topic: there is no {asked.topic} at {asked.url}, and the broker makes none: make it (magnetar "
            f"topic create {asked.topic}; its namespace first, if that is missing: magnetar namespace create "
            f"{topic_name(asked.topic).namespace}), or mend the option",
            told=str(error),
        ) from None


async def post(producer: Producer[bytes], batch: pa.RecordBatch, columns: Sequence[str], first: int = -1) -> None:
    """All rows to the producer, waiting for room only. What cannot be stored is told when it is closed."""
    cutting = producer.cutting() if first < 0 else None
    if cutting is not None and batch.num_rows >= cutting.destinations * SPARK_SHEAF_ROWS_MIN:
        for sheaf in sheaves(batch, columns, cutting):
            async with asyncio.timeout(SPARK_STAGE_WRITE_S):
                await producer.admit_sheaf(sheaf)
    else:
        await _post_each(producer, messages(batch, columns, first=first))
    producer.hurry()


async def _post_each(producer: Producer[bytes], rows: Iterator[Outgoing]) -> None:
    for payload, fields in rows:
        if not producer.admit(payload, fields, None):
            async with asyncio.timeout(SPARK_STAGE_WRITE_S):
                await producer.admit_later(payload, fields, None)


def commit(asked: SinkOptions, told: Sequence[WriterCommitMessage | None], batch: int, *, wait: bool = False) -> None:
    """The stages of the tasks that count, once. `wait`: until their rows can be read, as whoever writes a batch
    expects."""
    written = _told(told)
    if asked.delivery is not Delivery.EXACTLY_ONCE or not written:
        return
    stages = [one.stage for one in written if one.stage]
    for warning in sorted({one.warning for one in written if one.warning}):
        _tell(warning)

    async def committed(client: Client) -> None:
        sink = StagedSink(client, asked.topic, written[0].sink, once=written[0].once)
        told = await sink.commit(batch, stages)
        if told.warning:
            _tell(told.warning)
        if wait and not await sink.published(batch):  # committed is committed: a job that fails now would be run again
            _tell(
                f"batch {batch} of sink {sink.name} is committed and cannot be read yet; the broker goes on with it, "
                f"and magnetar sink show tells what is left and why: topic {asked.topic}"
            )

    if stages or asked.batch >= 0 or not wait:
        run(Client, asked.url, committed)


def abort(asked: SinkOptions, told: Sequence[WriterCommitMessage | None]) -> None:
    """What was not chosen is forgotten; what cannot be said now is said by the end of its lease."""
    written = _told(told)
    stages = [one.stage for one in written if one.stage]
    if stages:
        run(Client, asked.url, lambda client: StagedSink(client, asked.topic, written[0].sink).forget(stages))


def _tell(warning: str) -> None:
    sys.stderr.write(f"magnetar: {warning}\n")


def _told(told: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [one for one in told if isinstance(one, Written)]


def _columns(schema: StructType) -> list[str]:
    check_columns([(one.name, one.dataType.simpleString()) for one in schema.fields])
    return [one.name for one in schema.fields]
