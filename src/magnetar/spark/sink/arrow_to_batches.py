"""Encodes whole Arrow columns as batch payloads: splits rows by the destination of their keys and encodes them
together, without an object per row.

The result is byte for byte that of the client for the same rows one by one (`wire.publishing`). numpy computes the
parts of all rows, and Arrow joins them. Rows of one key keep their order. Decoding the batches gives the messages that
`arrow_to_messages` makes of the rows, and both reject the same input. It knows neither Spark nor brokers.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from magnetar.base.errors import Misuse
from magnetar.base.limits import SPARK_SHEAVES_BYTES_MAX
from magnetar.client.producer.prebuilt_batch import BatchingPlan, PrebuiltBatch, Single
from magnetar.client.producer.router import KeyRoute
from magnetar.layout.routing import Routing
from magnetar.spark.hashing import murmurs
from magnetar.spark.read.batch_scanner import Bools, Bytes, Ints
from magnetar.spark.sink.arrow_to_messages import fields, messages, pairs_of, times_of

_INDEXED_MIN = 16  # minimum number of messages with an index of sizes, as in the client
_SIZE, _EVENT_TIME, _BASE64, _SEQUENCE, _KEY, _NULL = 0x18, 0x28, 0x30, 0x40, 0x12, 0x48
_NOTHING = pa.scalar(b"", pa.binary())

# One byte of every row, and the rows that have it (None: all).
_Column = tuple[Bytes | int, Bools | None]


def sheaves(
    batch: pa.RecordBatch, names: Sequence[str], cutting: BatchingPlan, *, bytes_max: int = SPARK_SHEAVES_BYTES_MAX
) -> Iterator[PrebuiltBatch]:
    """All rows of a batch with these columns, in sending order. `bytes_max` bounds the rows copied together."""
    if batch.nbytes > bytes_max and batch.num_rows > 1:
        half = batch.num_rows // 2
        later = replace(cutting, sequence=cutting.sequence + half)
        yield from sheaves(batch.slice(0, half), names, cutting, bytes_max=bytes_max)
        yield from sheaves(batch.slice(half), names, later, bytes_max=bytes_max)
    elif batch.num_rows:
        yield from _Rows(batch, names, cutting).sheaves()


class _Rows:
    def __init__(self, batch: pa.RecordBatch, names: Sequence[str], cutting: BatchingPlan) -> None:
        columns: dict[str, pa.Array] = dict(zip(names, batch.columns, strict=True))
        self._batch = batch
        self._names = names
        self._cutting = cutting
        self._count = batch.num_rows
        self._value = columns["value"].cast(pa.binary())
        self._sizes = _lengths(self._value)
        self._key: pa.Array | None = None
        self._base64: Bools | None = None
        if "key" in columns:
            self._key, self._base64 = _wire_keys(columns["key"])
        self._hash, self._keyed = self._hashes(columns.get("key"))
        self._times = _times(columns["event_time"]) if "event_time" in columns else None
        self._properties = _properties(columns["properties"]) if "properties" in columns else None
        self._segment, self._bucket = self._destinations()

    def sheaves(self) -> Iterator[PrebuiltBatch]:
        cutting = self._cutting
        group = self._segment * (max(len(one) for one in cutting.splits) + 1) + self._bucket
        order = np.argsort(group, kind="stable")
        moved = bool((np.diff(group) < 0).any())
        joined = self._joined(order)
        if moved:
            joined = joined.take(pa.array(order))
        offsets = _offsets(joined)
        data = memoryview(joined.buffers()[2])
        values = np.concatenate(([0], np.cumsum(self._sizes[order])))
        for first, last in _runs(group[order], offsets, cutting):
            yield self._sheaf(
                order[first:last], first, data, offsets[first : last + 1], int(values[last] - values[first])
            )

    def _sheaf(self, rows: Ints, first: int, data: memoryview, offsets: Ints, value_bytes: int) -> PrebuiltBatch:
        cutting, row = self._cutting, int(rows[0])
        segment, bucket = int(self._segment[row]), int(self._bucket[row])
        key = None if self._key is None else self._key[row].as_py()
        return PrebuiltBatch(
            bytes(data[offsets[0] : offsets[-1]]),
            len(rows),
            cutting.sequence + first,
            value_bytes=value_bytes,
            singles=lambda: self._singles(rows),
            index=_index(np.diff(offsets)) if len(rows) >= _INDEXED_MIN else b"",
            key=key,
            key_base64=key is not None and self._base64 is not None and bool(self._base64[row]),
            hashes=self._stamp(rows, cutting.splits[segment], bucket),
            route=self._route(row),
            epoch=cutting.epoch,
        )

    def _stamp(self, rows: Ints, splits: tuple[int, ...], bucket: int) -> tuple[int, int] | None:
        """The lowest and the highest hash, for a segment with entry buckets; rows without keys fit the whole bucket."""
        if not splits:
            return None
        hashes = self._hash[rows][self._keyed[rows]] & np.uint32(0xFFFF)
        if not hashes.size:
            any_of_it = splits[bucket - 1] if bucket else 0
            return any_of_it, any_of_it
        return int(hashes.min()), int(hashes.max())

    def _singles(self, rows: Ints) -> Iterable[Single]:
        each = messages(self._batch.take(pa.array(rows)), self._names)
        return [(*one, self._route(row)) for one, row in zip(each, rows.tolist(), strict=True)]

    def _route(self, row: int) -> KeyRoute:
        if self._keyed[row]:
            hash = int(self._hash[row])
            return KeyRoute(_slot(hash, self._cutting.routing), hash)
        return KeyRoute(self._cutting.starts[int(self._segment[row])], 0)

    # Where rows go

    def _hashes(self, column: pa.Array | None) -> tuple[NDArray[np.uint32], Bools]:
        """Hashes of the raw keys, in any wire form; computed only if they affect the result."""
        hashes = np.zeros(self._count, np.uint32)
        if column is None or self._cutting.epoch < 0:
            return hashes, np.zeros(self._count, np.bool_)
        raw = column.cast(pa.binary())
        keyed = _there(raw)
        rows = np.flatnonzero(keyed)
        if rows.size:
            offsets = _offsets(raw)
            buffer = np.frombuffer(raw.buffers()[2] or b"", np.uint8)
            hashes[rows] = murmurs(buffer, offsets[rows], offsets[rows + 1])
        return hashes, keyed

    def _destinations(self) -> tuple[Ints, Ints]:
        """The index of each row's segment among the active ones, and the row's bucket in it."""
        cutting = self._cutting
        segment, bucket = np.zeros(self._count, np.int64), np.zeros(self._count, np.int64)
        if cutting.destinations == 1:
            return segment, bucket
        starts = np.array(cutting.starts, np.int64)
        segment = np.searchsorted(starts, _slot(self._hash, cutting.routing).astype(np.int64), "right") - 1
        buckets = np.array([len(one) + 1 for one in cutting.splits], np.int64)
        for splits in dict.fromkeys(one for one in cutting.splits if one):
            rows = np.flatnonzero(np.array([one == splits for one in cutting.splits])[segment])
            bucket[rows] = np.searchsorted(np.array(splits, np.int64), self._hash[rows] & np.uint32(0xFFFF), "right")
        loose = np.flatnonzero(~self._keyed)  # rows without key rotate, in groups of one entry
        if loose.size:
            turn = (cutting.sequence + np.arange(loose.size)) // cutting.messages_max
            segment[loose] = turn % len(starts)
            bucket[loose] = turn // len(starts) % buckets[segment[loose]]
        return segment, bucket

    # What they are

    def _joined(self, order: Ints) -> pa.Array:
        """The encoding of each row in a batch, in row order."""
        number = np.empty(self._count, np.int64)
        number[order] = np.arange(self._cutting.sequence, self._cutting.sequence + self._count)
        there = None if self._key is None else _there(self._key)
        there = None if there is None or there.all() else there
        key_lengths = np.zeros(self._count, np.int64) if self._key is None else _lengths(self._key)
        before: list[_Column] = [] if self._key is None else _number(_KEY, key_lengths, there)
        after = _number(_SIZE, self._sizes)
        if self._times is not None:
            after += _number(_EVENT_TIME, self._times, self._times > 0)
        if self._key is not None:
            after += [(_BASE64, there), (0 if self._base64 is None else self._base64.view(np.uint8), there)]
        after += _number(_SEQUENCE, number)
        if self._value.null_count:
            null = ~_there(self._value)
            after += [(_NULL, null), (1, null)]
        opening, ending = _text(before, self._count), _text(after, self._count)
        lengths = _lengths(opening) + key_lengths + _lengths(ending)
        parts = [opening, self._key, ending, self._value] if self._key is not None else [ending, self._value]
        if self._properties is not None:
            lengths += _lengths(self._properties)
            parts.insert(0, self._properties)
        parts.insert(0, _fixed(lengths.astype(">u4").tobytes(), self._count, 4))
        return pc.binary_join_element_wise(*parts, _NOTHING, null_handling="replace", null_replacement="")


def _runs(group: Ints, offsets: Ints, cutting: BatchingPlan) -> Iterator[tuple[int, int]]:
    """The begin and end of entries: one destination each, and about equal sizes."""
    edges = [*(np.flatnonzero(np.diff(group)) + 1).tolist(), len(group)]
    first = 0
    for edge in edges:
        while first < edge:
            entries = -(-(edge - first) // cutting.messages_max)
            most = first + -(-(edge - first) // entries)
            fits = int(np.searchsorted(offsets, offsets[first] + cutting.bytes_max, "right")) - 1
            last = min(most, max(fits, first + 1))
            yield first, last
            first = last


def _slot(hash: Any, routing: Routing) -> Any:
    """The slot of one hash or of many."""
    return hash & 0xFFFF if routing is Routing.LOW16 else hash >> 16


def _wire_keys(column: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Keys as text if they are text, else in base64, and a mask of the latter."""
    raw = column.cast(pa.binary())
    try:
        raw.cast(pa.string())
    except pa.ArrowInvalid:
        keys = raw.to_pylist()
        odd = [key is not None and not _is_text(key) for key in keys]
        wire_keys = [b64encode(key) if strange else key for key, strange in zip(keys, odd, strict=True)]
        return pa.array(wire_keys, pa.binary()), np.array(odd, np.bool_)
    return raw, None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _times(column: pa.Array) -> Ints:
    """Milliseconds, 0 if not set."""
    times: Ints = times_of(column).fill_null(0).to_numpy()
    if times.size and int(times.min()) < 0:
        raise Misuse("column event_time is out of range for milliseconds in 64 bits", value=int(times.min()))
    return times


def _properties(column: pa.Array) -> pa.Array:
    """Properties in their wire encoding."""
    encoded = (fields(properties=pairs_of(pairs)) if pairs else None for pairs in column.to_pylist())
    return pa.array([b"" if one is None else one.extras()[0] for one in encoded], pa.binary())


# Columns of bytes


def _number(tag: int, values: Ints, there: Bools | None = None) -> list[_Column]:
    """A number field in each row."""
    parts: list[_Column] = [(tag, there)]
    left = values
    has = there
    while True:
        rest = left >> 7
        more = rest > 0
        parts.append((((left & 127) | np.where(more, 128, 0)).astype(np.uint8), has))
        if not more.any():
            return parts
        has = None if has is None and more.all() else more if has is None else more & has
        left = rest


def _text(columns: list[_Column], count: int) -> pa.Array:
    table = np.empty((count, len(columns)), np.uint8)
    for index, (values, _) in enumerate(columns):
        table[:, index] = values
    if all(there is None for _, there in columns):
        return _fixed(table.tobytes(), count, len(columns))
    kept = np.ones(table.shape, np.bool_)
    for index, (_, there) in enumerate(columns):
        if there is not None:
            kept[:, index] = there
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(kept.sum(1), out=offsets[1:])
    return _binary(offsets, table[kept].tobytes(), count)


def _fixed(data: bytes, count: int, width: int) -> pa.Array:
    return _binary(np.arange(count + 1, dtype=np.int32) * np.int32(width), data, count)


def _binary(offsets: NDArray[np.int32], data: bytes, count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _offsets(column: pa.Array) -> Ints:
    if not len(column):
        return np.zeros(1, np.int64)
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    return offsets.astype(np.int64)


def _lengths(column: pa.Array) -> Ints:
    """0 for null."""
    lengths: Ints = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
    return lengths


def _there(column: pa.Array) -> Bools:
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _index(sizes: Ints) -> bytes:
    """Equal to `wire.publishing.size_index`."""
    least, most = int(sizes.min()), int(sizes.max())
    if least == most:
        return b""
    return b"\x02" + sizes.astype("<u2").tobytes() if most < 1 << 16 else b"\x04" + sizes.astype("<u4").tobytes()
