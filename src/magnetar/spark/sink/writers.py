"""The sink's writers as PySpark calls them: Arrow in, messages out, each row stored once although Spark repeats tasks.

Exactly-once is staged: a task writes its rows to a stage of the broker and returns its id. The driver's commit names
the chosen ids, and the broker publishes them. If the batch was committed before, its rows are read and dropped, or
rejected if they differ. Rows with a topic column are staged and committed per topic. If the driver dies between two
commits, Spark repeats the batch, and topics that have it skip it. Users do not read task logs: warnings go to the
driver's stderr. Spark creates a new writer for `commit` and `abort`, so both use only the messages of tasks. Spark also
calls `abort` after a failed commit that may have taken effect: abort discards stages that were not chosen, and undoes
no commit.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from magnetar.base.errors import Corrupt, LimitExceeded, Misuse, TopicNotFound
from magnetar.base.limits import (
    SPARK_SEQUENCE_ROW_BITS,
    SPARK_SHEAF_ROWS_MIN,
    SPARK_STAGE_WRITE_S,
)
from magnetar.base.names import SINK_PREFIX, topic_name
from magnetar.client.client import Client
from magnetar.client.process_client import run
from magnetar.client.producer.producer import Producer
from magnetar.client.staged_sink import Stage, StagedSink, single_job
from magnetar.spark.sink.arrow_to_batches import sheaves
from magnetar.spark.sink.arrow_to_messages import TOPIC, Outgoing, check_columns, largest, messages
from magnetar.spark.sink.commits import TaskCommit, abort, all_of, commit
from magnetar.spark.sink.options import Delivery, SinkOptions, sink_options
from magnetar.spark.sink.targets import Targets
from magnetar.spark.source.options import default_url

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

T = TypeVar("T")
Pieces = list[tuple[str, "pa.RecordBatch"]]  # per batch: topics and their rows

BATCH_ID = "streaming.sql.batchId"  # Spark's local property with the batch number
QUERY_ID = "sql.streaming.queryId"  # stable across restarts: it is stored in the checkpoint
RUN_ID = "spark.jobGroup.id"  # new at every restart


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    return StreamWriter(*asked_for(options, schema, overwrite, streaming=True))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    return BatchWriter(*asked_for(options, schema, overwrite, streaming=False))


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self._asked = options
        self._columns = tuple(columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        batch, query, ran = (
            context.getLocalProperty(name) if context else None for name in (BATCH_ID, QUERY_ID, RUN_ID)
        )
        if batch is None or (query is None and not self._asked.sink):
            raise Misuse(
                f"Spark did not set the batch id (local property {BATCH_ID}): this version of Spark is not "
                "supported; use foreachBatch with txnAppId and txnVersion"
            )
        part = context.partitionId() if context else 0
        sink = self._asked.sink or query or ""
        task = WriteTask(self._asked, self._columns, sink, int(batch), part, query=query or "", ran=ran or "")
        return task.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        commit(self._asked, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abort(self._asked, messages)


class BatchWriter(DataSourceArrowWriter):
    """The writer of one job. Without txnAppId, a repeated job looks like a new one: each job has its own sink."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self._asked = options
        self._columns = tuple(columns)
        self._sink = options.sink or single_job()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        part = context.partitionId() if context else 0
        once = self._asked.batch < 0
        task = WriteTask(self._asked, self._columns, self._sink, max(self._asked.batch, 0), part, once=once)
        return task.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self._asked, messages, max(self._asked.batch, 0), wait=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort(self._asked, messages)


class WriteTask:
    """Writes the rows of one partition."""

    def __init__(
        self,
        options: SinkOptions,
        columns: Sequence[str],
        sink: str,
        batch: int,
        part: int,
        *,
        once: bool = False,
        query: str = "",
        ran: str = "",
    ) -> None:
        self._asked = options
        self._columns = columns
        self._targets = Targets(options, columns, part)
        self._sink = sink
        self._batch = batch
        self._part = part
        self._once = once
        self._query = query  # query id of the checkpoint
        self._ran = ran  # id of the run
        self._largest = (0, 0)  # largest row so far: size and index

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        first = next((batch for batch in iterator if batch.num_rows), None)
        if first is None:
            return TaskCommit(self._sink, self._batch, once=self._once)
        pieces = self._pieces(chain([first], iterator))
        try:
            if self._asked.delivery is Delivery.EXACTLY_ONCE:
                return self._staged(pieces)
            return self._straight(pieces)
        except LimitExceeded as error:
            raise self._too_large(error) from None

    def _pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Pieces]:
        """For each batch, the topics and their rows."""
        rows = 0
        for batch in batches:
            if batch.num_rows:
                size, row = largest(batch, self._columns)
                self._largest = max(self._largest, (size, rows + row))
            rows += batch.num_rows
            yield list(self._targets.pieces(batch))

    def _too_large(self, error: LimitExceeded) -> LimitExceeded:
        """A producer reports the size of a message that it cannot send, but not its row: the error names the largest
        row.
        """
        size, row = self._largest
        most = error.facts.get("bytes_max")
        if most is None:
            return error
        return LimitExceeded(
            f"a row exceeds the maximum message size, and the sink does not split rows into chunks. Row {row} "
            f"of partition {self._part} (both from 0) has {size} bytes in value, key and properties, and the "
            f"brokers accept {most} in total. Make value smaller, store large data elsewhere and write its "
            "location, or raise maxMessageSize of the brokers",
            topic=self._asked.topic or "in the column topic",
            batch=self._batch,
        )

    def _staged(self, batches: Iterator[Pieces]) -> TaskCommit:
        """Writes a stage per topic. If the batch is already committed, the task still reads all its rows: Spark fails a
        task that does not read its input.
        """
        stages: dict[str, Stage | None] = {}
        rows: Counter[str] = Counter()
        warnings: list[str] = []
        try:
            for pieces in batches:
                if new := [topic for topic, _ in pieces if topic not in stages]:
                    warnings += self._run(partial(self._begin, new, stages))
                for topic, batch in pieces:
                    stage = stages[topic]
                    if stage is not None:
                        self._run(partial(self._post, stage.producer, batch, -1))
                        rows[topic] += batch.num_rows
            written = {stage: rows[topic] for topic, stage in stages.items() if stage is not None}
            self._run(partial(self._seal, written))
        except BaseException:
            self._run(partial(self._drop, [stage for stage in stages.values() if stage is not None]))
            raise
        pairs = tuple((topic, "" if stage is None else stage.id) for topic, stage in stages.items())
        return TaskCommit(self._sink, self._batch, pairs, rows.total(), once=self._once, warnings=tuple(warnings))

    def _straight(self, batches: Iterator[Pieces]) -> TaskCommit:
        """Numbered rows are sent one by one: a retry could cut batches differently, and the broker could not recognize
        them.
        """
        numbered = self._asked.delivery is Delivery.IDEMPOTENT
        producers: dict[str, Producer[bytes]] = {}
        rows: Counter[str] = Counter()
        try:
            for topic, batch in chain.from_iterable(batches):
                if topic not in producers:
                    producers[topic] = self._run(partial(self._producer, topic))
                first = (self._batch << SPARK_SEQUENCE_ROW_BITS) + rows[topic] if numbered else -1
                self._run(partial(self._post, producers[topic], batch, first))
                rows[topic] += batch.num_rows
            self._run(partial(self._close, list(producers.values()), flush=True))
        except BaseException:
            self._run(partial(self._close, list(producers.values()), flush=False))
            raise
        return TaskCommit(self._sink, self._batch, rows=rows.total(), once=self._once)

    def _run(self, call: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        return run(Client, self._asked.url, call)

    async def _begin(self, topics: Sequence[str], stages: dict[str, Stage | None], client: Client) -> list[str]:
        """Begins a stage for each topic and stores it in `stages`, also if a later one fails. Returns warnings."""

        async def one(topic: str) -> str:
            sink = StagedSink(client, topic, self._sink, query=self._query, run=self._ran, once=self._once)
            stages[topic] = await found(self._asked, topic, sink.begin(self._batch))
            return sink.warning

        return [warning for warning in await all_of([partial(one, topic) for topic in topics]) if warning]

    async def _post(self, producer: Producer[bytes], batch: pa.RecordBatch, first: int, _: Client) -> None:
        await post(producer, batch, self._targets.names, first)

    async def _seal(self, written: Mapping[Stage, int], _: Client) -> None:
        async def one(stage: Stage, rows: int) -> None:
            count = await stage.seal()
            if count != rows:
                raise Corrupt(
                    f"{rows} rows were written, but the stage holds {count}: the stage is not used", stage=stage.id
                )

        await all_of([partial(one, stage, rows) for stage, rows in written.items()])

    async def _drop(self, stages: Sequence[Stage], _: Client) -> None:
        for stage in stages:
            await stage.drop()

    async def _producer(self, topic: str, client: Client) -> Producer[bytes]:
        numbered = self._asked.delivery is Delivery.IDEMPOTENT
        options: dict[str, Any] = (
            {"name": f"{SINK_PREFIX}{self._sink}-{self._part}", "batching": None} if numbered else {}
        )
        return await found(self._asked, topic, client.create_producer(topic, **options))

    async def _close(self, producers: Sequence[Producer[bytes]], _: Client, *, flush: bool) -> None:
        for producer in producers:
            await producer.close(flush=flush)


async def found(options: SinkOptions, topic: str, call: Awaitable[T]) -> T:
    """Runs the first request for a topic, and explains the error if the topic does not exist and cannot be created."""
    try:
        return await call
    except TopicNotFound as error:
        where, mend = ("option topic", "the option") if options.topic else ("column topic", "the rows")
        raise TopicNotFound(
            f"{where}: {topic} does not exist at {options.url}, and the broker does not create it. Create it "
            f"(magnetar topic create {topic}), or correct {mend}. If its namespace is missing, create it first: "
            f"magnetar namespace create {topic_name(topic).namespace}",
            told=str(error),
        ) from None


async def post(producer: Producer[bytes], batch: pa.RecordBatch, columns: Sequence[str], first: int = -1) -> None:
    """Sends all rows to the producer; waits only for buffer space. Errors appear when the producer is closed."""
    cutting = producer._cutting() if first < 0 else None
    if cutting is not None and batch.num_rows >= cutting.destinations * SPARK_SHEAF_ROWS_MIN:
        for sheaf in sheaves(batch, columns, cutting):
            async with asyncio.timeout(SPARK_STAGE_WRITE_S):
                await producer._admit_sheaf(sheaf)
    else:
        await _post_each(producer, messages(batch, columns, first=first))
    producer._hurry()


async def _post_each(producer: Producer[bytes], rows: Iterator[Outgoing]) -> None:
    for payload, fields in rows:
        if not producer._admit(payload, fields, None):
            async with asyncio.timeout(SPARK_STAGE_WRITE_S):
                await producer._admit_later(payload, fields, None)


def asked_for(
    options: Mapping[str, str], schema: StructType, overwrite: bool, *, streaming: bool
) -> tuple[SinkOptions, list[str]]:
    columns = [one.name for one in schema.fields]
    parsed = sink_options(
        options,
        streaming=streaming,
        overwrite=overwrite,
        url=default_url(os.environ),
        topic_column=TOPIC in columns,
    )
    check_columns([(one.name, one.dataType.simpleString()) for one in schema.fields])
    return parsed, columns
