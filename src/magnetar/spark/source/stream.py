"""The streaming reader that Spark drives: offsets on the driver, entries in the tasks.

On the driver, it lives as long as a run of its query and holds the query's state. In tasks, it is an unpickled copy
that only reads. It holds no open resource and opens none before it is called. The only guaranteed order of Spark's
`commit`: everything before the `start` of a batch is finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from magnetar.spark.connect import planned, query, run
from magnetar.spark.read.read_task import record_batches, tables
from magnetar.spark.source.options import SourceOptions
from magnetar.spark.source.query import AnyQuery, ReadTask
from magnetar.spark.values.table import ValueTable


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, columns: Sequence[str] | ValueTable) -> None:
        self._options = options
        self._columns = columns
        self._cached_query: AnyQuery | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns, "_cached_query": None}

    def initialOffset(self) -> dict[str, Any]:
        query = self._query()
        offset: dict[str, Any] = planned(self._options, query.start).document()
        return offset

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark supports one limit at a time; the planner applies the others."""
        limits = self._options.limits
        if limits.messages is not None:
            return ReadMaxRows(limits.messages)
        if limits.bytes is not None:
            return ReadMaxBytes(limits.bytes)
        if limits.messages_min:
            return ReadMinRows(limits.messages_min)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        query = self._query()
        offset = query.offset(start)
        everything = isinstance(limit, ReadAllAvailable)
        end = planned(self._options, lambda: query.latest(offset, unlimited=everything))
        return start if end is offset else end.document()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        query = self._query()
        offset = run(self._options.url, lambda _: query.report())
        return None if offset is None else offset.document()

    def prepareForTriggerAvailableNow(self) -> None:
        self._query().freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        query = self._query()
        first, last = query.offset(start), query.offset(end)
        return [InputPartition(one) for one in run(self._options.url, lambda _: query.tasks(first, last))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        task: ReadTask = partition.value
        if isinstance(self._columns, ValueTable):
            return tables(task, self._columns)
        return record_batches(task, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        query = self._query()
        last = query.offset(end)
        run(self._options.url, lambda _: query.committed(last))

    def _query(self) -> AnyQuery:
        if self._cached_query is None:
            self._cached_query = query(self._options)
        return self._cached_query
