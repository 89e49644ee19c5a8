"""The work of a Spark task: reads its segment ranges, oldest first, and returns record batches.

It runs in executors, which know only their planned task. The loop's thread fetches entries in runs, and this thread
converts them to columns, without a Python object per row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from magnetar.layout.routing import Routing
from magnetar.spark.connect import entries
from magnetar.spark.source.query import ReadTask
from magnetar.spark.values.registry import registered
from magnetar.spark.values.table import ValueTable


def tables(planned: ReadTask, table: ValueTable, keys: Collection[bytes] | None = None) -> Iterator[Any]:
    """Decodes values with the registered schemas. Each schema version is requested once."""
    from magnetar.spark.values.value_decoder import ValueDecoder

    value_decoder = ValueDecoder(table, lambda version: registered(planned.url, planned.topic, version))
    for batch in record_batches(planned, table.needed, keys if "key" in table.of_messages else None):
        yield value_decoder.made(batch)


def record_batches(planned: ReadTask, columns: Sequence[str], keys: Collection[bytes] | None = None) -> Iterator[Any]:
    """With `keys`, only rows with these keys; the columns must include the key."""
    from magnetar.spark.read import decoder

    routing = Routing(planned.routing)
    for piece, topic in zip(planned.task.pieces, planned.topics, strict=True):
        batch_decoder = decoder.Decoder(columns, topic=planned.topic, piece=piece, routing=routing)
        batches = decoder.record_batches(batch_decoder, entries(planned.url, topic, piece.start, piece.end))
        yield from batches if keys is None or "key" not in columns else _of_keys(batches, keys)


def _of_keys(batches: Iterator[Any], keys: Collection[bytes]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    accepted = pa.array(sorted(keys), pa.binary())
    for batch in batches:
        left = batch.filter(pc.is_in(batch.column("key"), value_set=accepted))
        if left.num_rows:
            yield left
