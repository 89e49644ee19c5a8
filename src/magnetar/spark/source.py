"""The data source `magnetar` as PySpark calls it: readers of topics, and the sink's writers.

A thin skin, loaded by Spark at its first look-up of any data source: whatever costs time is imported when it is used.
Options are checked before anything is opened. The names of parameters are Spark's, which calls by keyword.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from magnetar.spark.options import SourceOptions
    from magnetar.spark.table import Table
    from magnetar.spark.values.form import Registered


class MagnetarSource(DataSource):
    """`spark.readStream.format("magnetar").option("topic", "topic://tenant/namespace/name").load()`."""

    @classmethod
    def name(cls) -> str:
        return "magnetar"

    _schema: Registered | None = None  # Spark sends the source on as it is when it has told its columns

    def schema(self) -> StructType | str:
        from magnetar.spark.kinds import ddl
        from magnetar.spark.options import Values, shown

        asked = shown(self.options)
        if asked.values is Values.BYTES:
            return ddl(asked.columns)
        from magnetar.spark.registry import newest
        from magnetar.spark.table import table_type

        self._schema = newest(asked.url, asked.topic)
        return table_type(self._schema, asked.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from magnetar.spark.batch import BatchReader, FilteringReader
        from magnetar.spark.options import source_options

        asked = source_options(self.options, streaming=False)
        kind = FilteringReader if asked.filters else BatchReader
        return kind(asked, self._columns(asked, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from magnetar.spark.options import source_options
        from magnetar.spark.stream import StreamReader

        asked = source_options(self.options, streaming=True)
        return StreamReader(asked, self._columns(asked, schema))

    def _columns(self, asked: SourceOptions, schema: StructType) -> Sequence[str] | Table:
        from magnetar.spark.options import Values

        if asked.values is Values.BYTES:
            from magnetar.spark.kinds import columns

            return columns(schema)
        from magnetar.spark.registry import newest
        from magnetar.spark.table import table

        return table(schema, self._schema or newest(asked.url, asked.topic), asked.columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from magnetar.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from magnetar.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
