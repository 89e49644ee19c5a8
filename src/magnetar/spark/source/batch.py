"""The batch reader: reads everything from the starting to the ending offsets, in one plan.

`FilteringReader` also uses the filters of the query, if the session allows this
(`spark.sql.python.filterPushdown.enabled`). Spark rejects such a reader without that setting, so an option selects it.
Filters are only a promise that other rows are not needed: Spark still applies all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from magnetar.spark.connect import planned, query, run
from magnetar.spark.read.filters import PushedFilters, wanted
from magnetar.spark.read.read_task import record_batches, tables
from magnetar.spark.source.options import SourceOptions
from magnetar.spark.source.query import ReadTask
from magnetar.spark.values.table import ValueTable


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: Sequence[str] | ValueTable) -> None:
        self._options = options
        self._columns = columns
        self._wanted = PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        batch_query = query(self._wanted.narrowed(self._options))
        try:
            return [InputPartition(one) for one in planned(self._options, batch_query.whole)]
        finally:  # Spark reuses the process that plans
            run(self._options.url, lambda _: batch_query.close())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        task: ReadTask | None = partition.value
        if task is None:  # Spark creates one partition for an empty list, and reads it
            return iter(())
        if isinstance(self._columns, ValueTable):
            return tables(task, self._columns, self._wanted.keys)
        return record_batches(task, self._columns, self._wanted.keys)


class FilteringReader(BatchReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        names = self._columns.of_messages if isinstance(self._columns, ValueTable) else self._columns
        # a field may have the name of a message column that was not requested
        of_messages = [(name,) for name in names]
        self._wanted = wanted(one for one in filters if getattr(one, "attribute", None) in of_messages)
        return filters
