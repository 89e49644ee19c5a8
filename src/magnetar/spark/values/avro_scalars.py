"""AVRO values without nested values: numbers, texts, enums, decimals and times, many rows at a time.

Each value is converted to the Arrow type of the reader's schema. If the types differ only in width or unit, the written
type is decoded first and then cast, so that a loss is always detected. A conversion that Avro forbids raises
`Incompatible`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from magnetar.spark.read.batch_scanner import Ints
from magnetar.spark.values.avro_cursor import RowCursors
from magnetar.spark.values.avro_schema import UNITS, EnumType, Fixed, Scalar, arrow_type
from magnetar.spark.values.value_schema import Incompatible, Unreadable

Leaf = Scalar | Fixed | EnumType
Read = Callable[[RowCursors, Ints], Any]

_WIDENS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_NUMERIC = {"int": pa.int32(), "long": pa.int64()}
_FLOATING = {"float": ("<f4", pa.float32()), "double": ("<f8", pa.float64())}
_DECIMAL_BYTES = 16


def leaf(written: Leaf, read: Leaf, path: str) -> Read:
    """Plan from the written type to the column's type."""
    if isinstance(written, EnumType) and isinstance(read, EnumType):
        return _symbols(written, read, path)
    if isinstance(written, Scalar) and isinstance(read, Scalar):
        if not read.logical:
            written = Scalar(written.kind)  # ignores the written logical type
        elif not written.logical and read.kind == written.kind:
            written = read  # only the newer schema has the logical type
    if isinstance(written, Fixed) and isinstance(read, Fixed) and written.size != read.size:
        raise Incompatible(f"fixed of {written.size} bytes cannot be read as one of {read.size}", path)
    reader, kind = _as_written(written, path), arrow_type(read)
    if arrow_type(written) == kind:
        return reader
    if not _fits(written, read):
        raise Incompatible(f"{said(written)} cannot be read as {said(read)}", path)

    def cast(walk: RowCursors, rows: Ints) -> Any:
        values = reader(walk, rows)
        return _row_by_row(values, rows, path, lambda array: array.cast(kind, safe=not pa.types.is_floating(kind)))

    return cast


def passed(written: Leaf, path: str) -> Read:
    """Skips the value."""
    match written:
        case Scalar(kind="int" | "long") | EnumType():
            return lambda walk, rows: _nothing(walk.int64(rows, path))
        case Scalar(kind="bytes" | "string"):
            return lambda walk, rows: _nothing(walk.run(rows, path))
        case Scalar(kind=kind):
            size = {"null": 0, "boolean": 1, "float": 4, "double": 8}[kind]
        case Fixed(size=size):
            pass
    return lambda walk, rows: _nothing(walk.width(rows, size, path))


def _nothing(taken: Any) -> None:
    """Ignores the decoded value."""


def _as_written(node: Leaf, path: str) -> Read:
    match node:
        case EnumType():
            return _symbols(node, node, path)
        case Fixed(size=size, precision=precision):
            if precision:
                return lambda walk, rows: _decimals(walk, rows, walk.width(rows, size, path), node, path)
            return lambda walk, rows: walk.pieces(*walk.width(rows, size, path))
        case Scalar(kind="null"):
            return lambda walk, rows: pa.nulls(len(rows))
        case Scalar(kind="boolean"):
            return lambda walk, rows: _booleans(walk, rows, path)
        case Scalar(kind="int" | "long"):
            return _whole(node, path)
        case Scalar(kind="float" | "double"):
            form, kind = _FLOATING[node.kind]
            size = np.dtype(form).itemsize
            return lambda walk, rows: pa.array(walk.numbers(walk.width(rows, size, path)[0], form), kind)
        case Scalar(kind="bytes", precision=precision) if precision:
            return lambda walk, rows: _decimals(walk, rows, walk.run(rows, path), node, path)
        case Scalar(kind="string"):
            return lambda walk, rows: _texts(walk.pieces(*walk.run(rows, path)), rows, path)
        case Scalar():
            return lambda walk, rows: walk.pieces(*walk.run(rows, path))


def _whole(node: Scalar, path: str) -> Read:
    kind, per = UNITS.get((node.kind, node.logical), (_NUMERIC[node.kind], 0))

    def numbers(walk: RowCursors, rows: Ints) -> Any:
        numbers = walk.int32(rows, path) if node.kind == "int" else walk.int64(rows, path)
        if per > 1:
            limit = ((1 << 63) - 1) // per
            good = (numbers >= -limit) & (numbers <= limit)
            walk.check(rows, good, "a time is outside the range of the column", path, numbers)
            numbers = numbers * per
        elif per < 0:
            numbers = numbers // -per
        if node.kind == "int" and per == 0:
            return pa.array(numbers.astype(np.int32)).cast(kind)
        return pa.array(numbers).cast(kind)

    return numbers


def _booleans(walk: RowCursors, rows: Ints, path: str) -> Any:
    values = walk.buffer[walk.width(rows, 1, path)[0]]
    walk.check(rows, values <= 1, "it must be true or false", path, values)
    return pa.array(values == 1)


def _symbols(written: EnumType, read: EnumType, path: str) -> Read:
    """A symbol that the newer schema lacks becomes its default; without a default it stays unchanged."""
    allowed = set(read.symbols)
    texts = [one if one in allowed or read.default is None else read.default for one in written.symbols]
    symbols = pa.array(texts, pa.string())

    def named(walk: RowCursors, rows: Ints) -> Any:
        indexes = walk.int32(rows, path)
        walk.check(rows, (indexes >= 0) & (indexes < len(texts)), "it must be a symbol of its enum", path, indexes)
        return symbols.take(pa.array(indexes))

    return named


def _decimals(walk: RowCursors, rows: Ints, places: tuple[Ints, Ints], node: Fixed | Scalar, path: str) -> Any:
    """Signed big-endian numbers of up to sixteen bytes, converted to Arrow's little-endian form."""
    starts, ends = places
    walk.check(rows, ends > starts, "a decimal has no bytes", path)
    sign = np.where(walk.buffer[starts] >= 128, np.uint8(255), np.uint8(0))
    lying = np.empty((len(rows), _DECIMAL_BYTES), np.uint8)
    for index in range(_DECIMAL_BYTES):
        at = ends - 1 - index
        lying[:, index] = np.where(at >= starts, walk.buffer[np.maximum(at, 0)], sign)
    for index in range(_DECIMAL_BYTES, int((ends - starts).max(initial=0))):
        at = ends - 1 - index
        walk.check(rows, (at < starts) | (walk.buffer[np.maximum(at, 0)] == sign), "a decimal is too large", path)
    kind = arrow_type(node)
    array = pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(lying.tobytes())])
    return _row_by_row(array, rows, path, _valid)


def _valid(array: Any) -> Any:
    array.validate(full=True)
    return array


def _texts(values: Any, rows: Ints, path: str) -> Any:
    return _row_by_row(values, rows, path, lambda array: array.cast(pa.string()))


def _row_by_row(values: Any, rows: Ints, path: str, convert: Callable[[Any], Any]) -> Any:
    """Converts all rows together; if Arrow fails, searches for the bad row."""
    try:
        return convert(values)
    except pa.ArrowInvalid:
        for index in range(len(values)):
            try:
                convert(values.slice(index, 1))
            except pa.ArrowInvalid as error:
                raise Unreadable(int(rows[index]), str(error).splitlines()[0], path) from None
        raise


def _fits(written: Leaf, read: Leaf) -> bool:
    """Whether Avro allows the conversion."""
    if not isinstance(read, Scalar) or not isinstance(written, Scalar):
        return False
    if written.logical or read.logical:
        return written.logical == read.logical == "decimal"
    return read.kind in _WIDENS.get(written.kind, ())


def said(node: Leaf) -> str:
    if isinstance(node, Scalar):
        return f"{node.kind} ({node.logical})" if node.logical else node.kind
    return f"{type(node).__name__.lower()} {node.name}"
