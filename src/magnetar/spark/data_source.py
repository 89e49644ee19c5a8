"""The data source `magnetar` as PySpark calls it: readers of topics, and the writers of the sink.

A thin layer, which Spark loads at its first look-up of any data source. Expensive imports happen at first use. Options
are checked before any connection. Parameter names are Spark's, which calls by keyword.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

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

    from magnetar.spark.source.options import ColumnOptions, SourceOptions
    from magnetar.spark.values.table import ValueTable
    from magnetar.spark.values.value_schema import RegisteredSchema


class MagnetarSource(DataSource):
    """`spark.readStream.format("magnetar").option("topic", "topic://tenant/namespace/name").load()`."""

    @classmethod
    def name(cls) -> str:
        return "magnetar"

    _schema: RegisteredSchema | None = None  # Spark sends the source on unchanged after it has asked for the columns

    def schema(self) -> StructType | str:
        """Called by `load()`, where a person waits: errors appear here, with no more traceback than Spark adds."""
        from magnetar.base.errors import MagnetarError

        try:
            return self._schema_of_rows()
        except MagnetarError as error:
            raise error.with_traceback(None) from None

    def _schema_of_rows(self) -> StructType | str:
        from magnetar.spark.catalog import is_table, table_metadata
        from magnetar.spark.connect import check
        from magnetar.spark.read.spark_types import ddl, struct_type
        from magnetar.spark.source.options import Values, default_url, shown

        options = shown(self.options, url=default_url(os.environ))
        columns = ddl(options.columns) if options.values is Values.BYTES else ""
        check(options.url, options.target)
        schema = columns or self._registered(options)
        if not is_table(self.options):
            return schema
        row_type = struct_type((name, None) for name in options.columns) if isinstance(schema, str) else schema
        row_type.fields[0].metadata = table_metadata(self.options)
        return row_type

    def _registered(self, options: ColumnOptions) -> StructType:
        from magnetar.spark.values.registry import newest
        from magnetar.spark.values.table import table_type

        self._schema = newest(options.url, options.topic)
        return table_type(self._schema, options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from magnetar.spark.source.batch import BatchReader, FilteringReader
        from magnetar.spark.source.options import default_url, source_options

        options = source_options(self.options, streaming=False, metadata=_metadata(schema), url=default_url(os.environ))
        kind = FilteringReader if options.filters else BatchReader
        return kind(options, self._columns(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from magnetar.spark.source.options import default_url, source_options
        from magnetar.spark.source.stream import StreamReader

        options = source_options(self.options, streaming=True, metadata=_metadata(schema), url=default_url(os.environ))
        return StreamReader(options, self._columns(options, schema))

    def _columns(self, options: SourceOptions, schema: StructType) -> Sequence[str] | ValueTable:
        from magnetar.spark.source.options import Values

        if options.values is Values.BYTES:
            from magnetar.spark.read.spark_types import columns

            return columns(schema)
        from magnetar.spark.values.registry import newest
        from magnetar.spark.values.table import table

        return table(schema, self._schema or newest(options.url, options.topic), options.columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from magnetar.spark.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from magnetar.spark.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite)


def _metadata(schema: StructType) -> dict[str, Any]:
    return dict(schema.fields[0].metadata or {}) if schema.fields else {}
