"""The data source `magnetar` as PySpark calls it: readers of topics, and the sink's writers.

A thin skin, loaded by Spark at its first look-up of any data source: whatever costs time is imported when it is used.
Options are checked before anything is opened. The names of parameters are Spark's, which calls by keyword.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class MagnetarSource(DataSource):
    """`spark.readStream.format("magnetar").option("topic", "topic://tenant/namespace/name").load()`."""

    @classmethod
    def name(cls) -> str:
        return "magnetar"

    def schema(self) -> str:
        from magnetar.spark.kinds import ddl
        from magnetar.spark.options import columns_of

        return ddl(columns_of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from magnetar.spark.batch import BatchReader, FilteringReader
        from magnetar.spark.kinds import columns
        from magnetar.spark.options import source_options

        asked = source_options(self.options, streaming=False)
        kind = FilteringReader if asked.filters else BatchReader
        return kind(asked, columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from magnetar.spark.kinds import columns
        from magnetar.spark.options import source_options
        from magnetar.spark.stream import StreamReader

        return StreamReader(source_options(self.options, streaming=True), columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from magnetar.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from magnetar.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
