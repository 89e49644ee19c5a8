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
    def __init__(self, asked: SourceOptions, columns: Sequence[str] | ValueTable) -> None:
        self._asked = asked
        self._columns = columns
        self._made: AnyQuery | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_asked": self._asked, "_columns": self._columns, "_made": None}

    def initialOffset(self) -> dict[str, Any]:
        made = self._query()
        found: dict[str, Any] = planned(self._asked, made.start).document()
        return found

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark supports one limit at a time; the planner applies the others."""
        limits = self._asked.limits
        if limits.messages is not None:
            return ReadMaxRows(limits.messages)
        if limits.bytes is not None:
            return ReadMaxBytes(limits.bytes)
        if limits.messages_min:
            return ReadMinRows(limits.messages_min)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        made = self._query()
        given = made.offset(start)
        everything = isinstance(limit, ReadAllAvailable)
        end = planned(self._asked, lambda: made.latest(given, unlimited=everything))
        return start if end is given else end.document()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        made = self._query()
        found = run(self._asked.url, lambda _: made.report())
        return None if found is None else found.document()

    def prepareForTriggerAvailableNow(self) -> None:
        self._query().freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        made = self._query()
        first, last = made.offset(start), made.offset(end)
        return [InputPartition(one) for one in run(self._asked.url, lambda _: made.tasks(first, last))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        task: ReadTask = partition.value
        if isinstance(self._columns, ValueTable):
            return tables(task, self._columns)
        return record_batches(task, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        made = self._query()
        last = made.offset(end)
        run(self._asked.url, lambda _: made.committed(last))

    def _query(self) -> AnyQuery:
        if self._made is None:
            self._made = query(self._asked)
        return self._made
