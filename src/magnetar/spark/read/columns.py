"""The columns of a topic for Spark: their names, their Arrow types, and their construction from rows of many entries.

Only requested columns are built, without a Python object per row: Arrow copies keys and values from their positions,
numpy copies numbers. Texts are plain (no dictionaries, no large types), because Arrow and Spark require equal types.
Trusts `decoder` that all rows are inside the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magnetar.base.errors import Misuse
from magnetar.spark.read.batch_scanner import Bools, Bytes, Ints, MessageColumns

TIME = pa.timestamp("us", tz="UTC")
PROPERTIES = pa.map_(pa.string(), pa.string())

TYPES: dict[str, Any] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "publish_time": TIME,
    "event_time": TIME,
    "properties": PROPERTIES,
    "sequence_id": pa.int64(),
    "producer_name": pa.string(),
    "__segment": pa.int64(),
    "__position": pa.string(),
    "__order": pa.binary(),
    "__key_hash": pa.int32(),
    "__schema_version": pa.int64(),
}

_MS_MAX = (1 << 63) // 1000 - 1  # latest time that fits in microseconds; a later time is shown as this one
_VERSION_BYTES = 8
_ORDER = np.dtype([("segment", ">u8"), ("ledger", ">u8"), ("entry", ">u8"), ("row", ">u4")])


def schema(names: Sequence[str]) -> Any:
    """The Arrow schema of some columns; `Misuse` lists the existing ones."""
    for name in names:
        if name not in TYPES:
            raise Misuse(f"unknown column {name}: expected some of {', '.join(TYPES)}", columns=", ".join(names))
    if len(set(names)) != len(names) or not names:
        raise Misuse("columns must contain at least one name, each once", columns=", ".join(names))
    return pa.schema([(name, TYPES[name]) for name in names])


@dataclass(slots=True)
class EntryRows:
    """The rows of many entries, with the fields that rows share with their entry."""

    topic: str
    segment: int
    buffer: bytes = field(repr=False)
    rows: MessageColumns
    entry: Ints  # index of the row's entry below
    place: Ints  # index in the batch, 0 for a single message
    ledgers: Ints
    entries: Ints
    publish_ms: Ints
    sequences: Ints  # of the entry: its messages count up from this value
    metadata: list[Any] = field(repr=False)  # per entry
    keys: dict[int, bytes | None] = field(repr=False)  # keys that are not contiguous raw bytes in the buffer
    slots: Ints | None  # -1 for a row without a key
    properties: Callable[[int], list[tuple[str, str]]]
    buckets: Ints | None = None  # the hashes for entry buckets, if tasks are split by buckets

    def __len__(self) -> int:
        return len(self.entry)


def table(names: Sequence[str], gathered: EntryRows, chosen: Ints) -> Any:
    """A record batch with these columns of the chosen rows, in their order."""
    arrays = [_MADE[name](gathered, chosen) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(names))


def empty(names: Sequence[str]) -> Any:
    return pa.RecordBatch.from_pylist([], schema=schema(names))


def _key(gathered: EntryRows, chosen: Ints) -> Any:
    rows = gathered.rows
    lying = cut(gathered.buffer, rows.key_start[chosen], rows.key_end[chosen], rows.key_start[chosen] >= 0)
    moved = (
        [(place, gathered.keys[row]) for place, row in enumerate(chosen.tolist()) if row in gathered.keys]
        if gathered.keys
        else []
    )
    if not moved:
        return lying
    index = np.arange(len(chosen))
    index[[place for place, _ in moved]] = len(chosen) + np.arange(len(moved))
    others = pa.array([key for _, key in moved], pa.binary())
    return pa.concat_arrays([lying, others]).take(pa.array(index))


def _value(gathered: EntryRows, chosen: Ints) -> Any:
    rows = gathered.rows
    return cut(gathered.buffer, rows.value_start[chosen], rows.value_end[chosen], ~rows.null[chosen])


def _topic(gathered: EntryRows, chosen: Ints) -> Any:
    return pa.repeat(pa.scalar(gathered.topic, pa.string()), len(chosen))


def _publish_time(gathered: EntryRows, chosen: Ints) -> Any:
    return _times(gathered.publish_ms[gathered.entry[chosen]], None)


def _event_time(gathered: EntryRows, chosen: Ints) -> Any:
    times = gathered.rows.event_ms[chosen]
    return _times(np.minimum(times, np.uint64(_MS_MAX)).astype(np.int64), times == 0)


def _properties(gathered: EntryRows, chosen: Ints) -> Any:
    """Rows without properties, the usual case, cost no work."""
    sizes = np.zeros(len(chosen) + 1, np.int64)
    names: list[str] = []
    texts: list[str] = []
    for place in np.flatnonzero(gathered.rows.properties[chosen]).tolist():
        pairs = gathered.properties(int(chosen[place]))
        sizes[place + 1] = len(pairs)
        names += [name for name, _ in pairs]
        texts += [text for _, text in pairs]
    offsets = pa.array(np.cumsum(sizes).astype(np.int32))
    return pa.MapArray.from_arrays(offsets, pa.array(names, pa.string()), pa.array(texts, pa.string()), PROPERTIES)


def _sequence_id(gathered: EntryRows, chosen: Ints) -> Any:
    rows = gathered.rows
    counted = gathered.sequences[gathered.entry[chosen]] + gathered.place[chosen]
    return pa.array(np.where(rows.sequenced[chosen], rows.sequence[chosen].astype(np.int64), counted))


def _producer_name(gathered: EntryRows, chosen: Ints) -> Any:
    names = [text_of(one.producer_name) for one in gathered.metadata]
    return pa.array(names, pa.string()).take(pa.array(gathered.entry[chosen]))


def _segment(gathered: EntryRows, chosen: Ints) -> Any:
    return pa.array(np.full(len(chosen), gathered.segment, np.int64))


def _position(gathered: EntryRows, chosen: Ints) -> Any:
    entry = gathered.entry[chosen]
    parts = [
        pa.array(numbers).cast(pa.string())
        for numbers in (gathered.ledgers[entry], gathered.entries[entry], gathered.place[chosen])
    ]
    return pc.binary_join_element_wise(*parts, ":")


def _order(gathered: EntryRows, chosen: Ints) -> Any:
    """Bytes whose order is that of the rows of a key: segment ids increase with creation."""
    orders = np.zeros(len(chosen), _ORDER)
    entry = gathered.entry[chosen]
    orders["segment"] = gathered.segment
    orders["ledger"], orders["entry"], orders["row"] = (
        gathered.ledgers[entry],
        gathered.entries[entry],
        gathered.place[chosen],
    )
    offsets = np.arange(len(chosen) + 1, dtype=np.int32) * _ORDER.itemsize
    return pa.Array.from_buffers(
        pa.binary(), len(chosen), [None, pa.py_buffer(offsets), pa.py_buffer(orders.tobytes())]
    )


def _key_hash(gathered: EntryRows, chosen: Ints) -> Any:
    slots = np.full(len(gathered), -1, np.int64) if gathered.slots is None else gathered.slots
    return pa.array(slots[chosen].astype(np.int32), mask=slots[chosen] < 0)


def _schema_version(gathered: EntryRows, chosen: Ints) -> Any:
    """Null if a message has no schema version. Brokers write the number in eight bytes."""
    versions = [one.schema_version for one in gathered.metadata]
    numbers = [int.from_bytes(one, "big", signed=True) if len(one) == _VERSION_BYTES else None for one in versions]
    return pa.array(numbers, pa.int64()).take(pa.array(gathered.entry[chosen]))


_MADE: dict[str, Callable[[EntryRows, Ints], Any]] = {
    "key": _key,
    "value": _value,
    "topic": _topic,
    "publish_time": _publish_time,
    "event_time": _event_time,
    "properties": _properties,
    "sequence_id": _sequence_id,
    "producer_name": _producer_name,
    "__segment": _segment,
    "__position": _position,
    "__order": _order,
    "__key_hash": _key_hash,
    "__schema_version": _schema_version,
}


def cut(buffer: bytes | Bytes, starts: Ints, ends: Ints, there: Bools) -> Any:
    """Pieces of a buffer as a binary column, copied by Arrow. Offsets alternate between wanted pieces and gaps, and
    only the wanted pieces are taken. Positions increase; pieces that are not `there` become null.
    """
    count = len(starts)
    if not there.all():
        before = np.maximum.accumulate(np.where(there, ends, 0))  # an empty piece after the previous one
        starts, ends = np.where(there, starts, before), np.where(there, ends, before)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    if not count:
        return pa.array([], pa.binary())
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])
    indexes = np.arange(0, 2 * count, 2, dtype=np.int32)
    return pieces.take(pa.array(indexes, mask=None if there.all() else ~there))


def text_of(value: str | bytes) -> str:
    """Protobuf returns text as str, or as bytes if it is not UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _times(ms: Ints, absent: Bools | None) -> Any:
    return pa.array(ms * 1000, mask=absent).cast(TIME)
