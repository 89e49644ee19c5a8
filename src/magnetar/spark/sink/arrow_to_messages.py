"""Converts Arrow batches to messages: the columns key, value, event_time and properties.

Arrow converts whole columns; only the creation of producer messages is per row. An unsupported schema is rejected
before the first row, with the column and the remedy. It knows neither Spark nor brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magnetar.base.errors import Misuse
from magnetar.client.producer.fields import MessageFields, fields_of, keyed

COLUMNS = ("key", "value", "event_time", "properties")
TOPIC = "topic"  # the column with the row's topic; not part of the message
Outgoing = tuple[bytes, MessageFields | None]

_TYPES = {
    "key": ("string or binary", ("string", "binary")),
    "value": ("string or binary", ("string", "binary")),
    "event_time": ("timestamp", ("timestamp", "timestamp_ntz")),
    "properties": ("map<string,string>", ("map<string,string>",)),
    TOPIC: ("string", ("string",)),
}


def check_columns(schema: Sequence[tuple[str, str]]) -> None:
    """`schema`: names and types in Spark's notation (`dataType.simpleString()`). Misuse names the required change."""
    names = [name for name, _ in schema]
    if "value" not in names:
        have = ", ".join(names) or "none"
        raise Misuse(
            f"column value is missing (found: {have}): select the message as value, for example "
            "to_json(struct(*)) AS value"
        )
    for name, kind in schema:
        if name not in _TYPES:
            raise Misuse(
                f"column {name} cannot be written: a message has {', '.join(COLUMNS)}, and {TOPIC} names its "
                "topic; drop the column, or put it into value"
            )
        expected, kinds = _TYPES[name]
        if kind not in kinds:
            advice = {"key": "cast it to string", "value": "cast it to string, or use to_json"}.get(name, "cast it")
            raise Misuse(f"column {name} is {kind}, but must be {expected}: {advice}")


def messages(batch: pa.RecordBatch, names: Sequence[str], *, first: int = -1) -> Iterator[Outgoing]:
    """One message per row, in order. `first`: the sequence id of the first row, if rows are numbered."""
    columns: dict[str, pa.Array] = dict(zip(names, batch.columns, strict=True))
    values = columns["value"].cast(pa.binary()).to_pylist()
    keys = _keys(columns["key"]) if "key" in columns else [None] * len(values)
    if first < 0 and "event_time" not in columns and "properties" not in columns and None not in values:
        for value, key in zip(values, keys, strict=True):  # the usual case
            yield value, keyed(key) if type(key) is str else None if key is None else fields(key)
        return
    times = times_of(columns["event_time"]).to_pylist() if "event_time" in columns else [None] * len(values)
    properties = columns["properties"].to_pylist() if "properties" in columns else [None] * len(values)
    rows = zip(values, keys, times, properties, strict=True)
    for index, (value, key, time, pairs) in enumerate(rows):
        sequence = first + index if first >= 0 else None
        yield value or b"", fields(key, time, pairs_of(pairs), sequence, null=value is None)


def largest(batch: pa.RecordBatch, names: Sequence[str]) -> tuple[int, int]:
    """For a batch with rows: the size of its largest row in value, key and properties, and the row's index."""
    columns: dict[str, pa.Array] = dict(zip(names, batch.columns, strict=True))
    sizes = np.zeros(batch.num_rows, np.int64)
    for name in ("value", "key"):
        if name in columns:
            sizes += _lengths(columns[name])
    if "properties" in columns:
        pairs = columns["properties"].take(pa.array(np.arange(batch.num_rows)))  # removes the offsets of a slice
        ends = np.concatenate([[0], np.cumsum(_lengths(pairs.keys) + _lengths(pairs.items))])
        sizes += np.diff(ends[pairs.offsets.to_numpy()])
    row = int(np.argmax(sizes))
    return int(sizes[row]), row


def _lengths(column: pa.Array) -> Any:
    return pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def fields(
    key: str | bytes | None = None,
    event_time_ms: int | None = None,
    properties: dict[str, str] | None = None,
    sequence_id: int | None = None,
    *,
    null: bool = False,
) -> MessageFields:
    return fields_of(
        key=key,
        ordering_key=None,
        properties=properties,
        event_time_ms=event_time_ms,
        deliver_at_ms=None,
        sequence_id=sequence_id,
        replicate_to=None,
        null_value=null,
    )


def _keys(column: pa.Array) -> list[Any]:
    """Text keys as text, so that a copied topic keeps its keys. Other keys as bytes."""
    if not pa.types.is_binary(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    try:
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    except pa.ArrowInvalid:
        return [key if key is None else _key(key) for key in column.to_pylist()]


def _key(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def times_of(column: pa.Array) -> pa.Array:
    """In milliseconds."""
    return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())


def pairs_of(pairs: list[tuple[str, str | None]] | None) -> dict[str, str] | None:
    return {name: text or "" for name, text in pairs} if pairs else None
