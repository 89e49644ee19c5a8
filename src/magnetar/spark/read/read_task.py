"""What a task of Spark does: read its pieces, oldest first, and hand on record batches.

Runs in executors, which know nothing but the planned task they were sent. Entries come in runs from the loop's thread
and are turned into columns here; no Python object is made for a row.
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
    """With the values decoded by the schemas of the registry, which is asked once for each version."""
    from magnetar.spark.values.value_decoder import ValueDecoder

    made = ValueDecoder(table, lambda version: registered(planned.url, planned.topic, version))
    for batch in record_batches(planned, table.needed, keys if "key" in table.of_messages else None):
        yield made.made(batch)


def record_batches(planned: ReadTask, columns: Sequence[str], keys: Collection[bytes] | None = None) -> Iterator[Any]:
    """Of some keys only, if they are given: then the column must be among them."""
    from magnetar.spark.read import decoder

    routing = Routing(planned.routing)
    for piece, topic in zip(planned.task.pieces, planned.topics, strict=True):
        made = decoder.Decoder(columns, topic=planned.topic, piece=piece, routing=routing)
        found = decoder.record_batches(made, entries(planned.url, topic, piece.start, piece.end))
        yield from found if keys is None or "key" not in columns else _of_keys(found, keys)


def _of_keys(batches: Iterator[Any], keys: Collection[bytes]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted(keys), pa.binary())
    for batch in batches:
        left = batch.filter(pc.is_in(batch.column("key"), value_set=wanted))
        if left.num_rows:
            yield left
