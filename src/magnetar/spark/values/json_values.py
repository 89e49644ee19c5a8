"""JSON values as columns: each value is read with the types of the newest definition, and columns are built from the
results.

JSON is self-describing, so the writer's version is irrelevant. A missing field gets its default, else null. A field
unknown to the table is skipped. A field of another type raises `Unreadable` with its name. Bytes stay text as in JSON,
because clients encode them differently (base64 in Java, plain in Python): the query can apply unbase64(). Unions of
several types are ambiguous in JSON and are rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain
from typing import Annotated, Any, Literal, Optional

import msgspec
import numpy as np
import pyarrow as pa

from magnetar.base.errors import Misuse
from magnetar.spark.values.avro_schema import (
    DIGITS_MAX,
    NO_DEFAULT,
    UNITS,
    ArrayType,
    EnumType,
    Field,
    Fixed,
    MapType,
    Node,
    Record,
    Scalar,
    Union,
    arrow_type,
    parse,
    united,
)
from magnetar.spark.values.defaults import constant
from magnetar.spark.values.value_schema import VALUE, Column, Decode, Incompatible, RegisteredSchema, Unreadable, inner

Build = Callable[[list[Any]], Any]  # a column from decoded values, None for null

_DIGITS_MAX = 2 * DIGITS_MAX  # digits of a written decimal; Arrow rejects values with too many significant digits
FLOAT_MAX = float(np.finfo(np.float32).max)
_TEXT = Scalar("string")
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")  # as Jackson writes them
_TYPES: dict[str, Any] = {
    "null": None,
    "boolean": bool,
    "int": Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)],
    "long": Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)],
    "float": float | Literal["NaN", "Infinity", "-Infinity"],
    "double": float | Literal["NaN", "Infinity", "-Infinity"],
    "string": str,
}


class JsonValues:
    def __init__(self, schema: RegisteredSchema) -> None:
        self._read = _plain(parse(schema.data), "")
        self.single = not isinstance(self._read, Record)
        fields = self._read.fields if isinstance(self._read, Record) else (Field(VALUE, self._read),)
        self.columns = tuple(Column(one.name, arrow_type(one.type)) for one in fields)

    def decoder(self, written: RegisteredSchema, names: Sequence[str]) -> Decode:
        read = self._read
        if isinstance(read, Record):
            if not isinstance(parse(written.data), Record):
                raise Incompatible("expected a record, because the table has fields")
            read = Record(read.name, tuple(one for name in names for one in read.fields if one.name == name))
        build = _columns(read)
        decode = msgspec.json.Decoder(_type(read, "")).decode
        return lambda values: _built(build, _read(decode, values.to_pylist()))


def _plain(node: Node, path: str) -> Node:
    """The JSON form of a type: bytes are text, and no union has two types."""
    match node:
        case Scalar(kind="bytes", precision=0) | Fixed(precision=0):
            return _TEXT
        case Fixed(precision=precision, scale=scale):
            return Scalar("bytes", "decimal", precision, scale)
        case ArrayType(items=items):
            return ArrayType(_plain(items, path))
        case MapType(values=values):
            return MapType(_plain(values, path))
        case Record(name=name, fields=fields):
            return Record(
                name,
                tuple(Field(one.name, _plain(one.type, inner(path, one.name)), one.default) for one in fields),
            )
        case Union(others=others):
            number = united(node)
            if number is None and len(others) > 1:
                raise Misuse(
                    f"field {path} is a union of several types, which is ambiguous in JSON: read the topic "
                    "without schema=registry, and the field with from_json or get_json_object"
                )
            return number or (_plain(others[0], path) if others else Scalar("null"))
    return node


def _type(node: Node, path: str) -> Any:
    """The type for msgspec. Every field is nullable."""
    match node:
        case Scalar(precision=precision) if precision:
            return Decimal
        case Scalar(kind=kind):
            return _TYPES[kind]
        case EnumType():
            return str | int  # the stock Python client writes the number of the Python enum member
        case ArrayType(items=items):
            return list[_or_null(_type(items, path))]  # type: ignore[misc]
        case MapType(values=values):
            return dict[str, _or_null(_type(values, path))]  # type: ignore[misc]
        case Record(fields=fields):
            types = [(f"f{index}", *_field(one, inner(path, one.name))) for index, one in enumerate(fields)]
            rename = {f"f{index}": one.name for index, one in enumerate(fields)}
            return msgspec.defstruct("Row", types, rename=rename, gc=False)
    raise AssertionError(node)


def _or_null(kind: Any) -> Any:
    return Optional[kind]  # noqa: UP045


def _field(field: Field, path: str) -> tuple[Any, Any]:
    kind = _or_null(_type(field.type, path))
    if field.default is NO_DEFAULT or field.default is None:
        return kind, None
    if isinstance(field.type, Scalar) and field.type.precision:
        return kind, constant(field.type, field.default, path).as_py()  # bytes as text, as in Avro's defaults
    try:
        default = msgspec.convert(field.default, kind)
    except msgspec.ValidationError as error:
        raise Incompatible(f"its default must match its type: {error}", path) from None
    if isinstance(default, list | dict | msgspec.Struct):
        return kind, msgspec.field(default_factory=lambda: msgspec.convert(field.default, kind))
    return kind, default


def _built(columns: list[tuple[str, Build]], rows: list[Any]) -> list[Any]:
    """Builds columns; a number that does not fit its column is reported with its first row."""
    built: list[Any] = []
    for name, build in columns:
        try:
            built.append(build(rows))
        except (pa.ArrowException, OverflowError):
            for index, row in enumerate(rows):
                try:
                    build([row])
                except (pa.ArrowException, OverflowError) as error:
                    raise Unreadable(index, f"it is outside the range of the column: {error}", name) from None
            raise
    return built


def _read(decode: Callable[[bytes], Any], values: list[bytes]) -> list[Any]:
    try:
        return [decode(value) for value in values]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        for row, value in enumerate(values):
            try:
                decode(value)
            except msgspec.ValidationError as error:
                why, _, where = str(error).partition(" - at `")
                raise Unreadable(row, why, where.strip("`").removeprefix("$").lstrip(".")) from None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise Unreadable(row, f"it must be JSON: {error}") from None
            except RecursionError:
                raise Unreadable(row, "it is nested too deeply") from None
        raise


def _columns(read: Node) -> list[tuple[str, Build]]:
    """Name and builder of each column."""
    if not isinstance(read, Record):
        return [("", _build(read))]
    return [(one.name, _of(f"f{index}", _build(one.type))) for index, one in enumerate(read.fields)]


def _of(attribute: str, build: Build) -> Build:
    return lambda rows: build([getattr(row, attribute) for row in rows])


def _build(node: Node) -> Build:
    kind = arrow_type(node)
    match node:
        case Record(fields=fields):
            builds = [(f"f{index}", _build(one.type)) for index, one in enumerate(fields)]

            def record(rows: list[Any]) -> Any:
                arrays = [
                    build([None if row is None else getattr(row, name) for row in rows]) for name, build in builds
                ]
                if not arrays:
                    return pa.array([None if row is None else {} for row in rows], kind)
                absent = pa.array([row is None for row in rows], pa.bool_())
                return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=absent)

            return record
        case ArrayType(items=items):
            item = _build(items)
            return lambda rows: pa.ListArray.from_arrays(
                _offsets(rows), item(list(chain.from_iterable(row for row in rows if row))), type=kind
            )
        case MapType(values=values):
            value = _build(values)
            return lambda rows: pa.MapArray.from_arrays(
                _offsets(rows),
                pa.array(list(chain.from_iterable(row for row in rows if row)), pa.string()),
                value(list(chain.from_iterable(row.values() for row in rows if row))),
                kind,
            )
        case EnumType():
            return lambda rows: pa.array([None if row is None else str(row) for row in rows], kind)
        case Scalar(precision=precision) if precision:
            return lambda rows: pa.array([None if row is None else _exact(row) for row in rows], kind)
        case Scalar(kind="float" | "double"):
            return lambda rows: _floats(rows, kind)
        case Scalar(kind="int" | "long") if (node.kind, node.logical) in UNITS:
            return lambda rows: _times(rows, node)
    return lambda rows: pa.array(rows, kind)


def _offsets(rows: list[Any]) -> Any:
    """The start of each row's items; a null row has none and is marked as null."""
    ends = np.cumsum([0, *(len(row) if row else 0 for row in rows)])
    return pa.array(ends.astype(np.int32), mask=np.array([*(row is None for row in rows), False]))


def _exact(number: Decimal) -> Decimal:
    """Checks a decimal before Arrow gets it: Arrow crashes on an exponent far below its range."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or abs(exponent) > _DIGITS_MAX or len(digits) > _DIGITS_MAX:
        raise OverflowError(f"{str(number)[:80]} is not a valid decimal")
    return number


def _floats(rows: list[Any], kind: Any) -> Any:
    if kind == pa.float32() and any(type(row) is float and FLOAT_MAX < abs(row) < math.inf for row in rows):
        raise OverflowError("a number is too large for a float")
    try:
        return pa.array(rows, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([float(row) if row in _NOT_NUMBERS else row for row in rows], kind)


def _times(rows: list[Any], node: Scalar) -> Any:
    kind, per = UNITS[node.kind, node.logical]
    if per == 0:
        return pa.array(rows, pa.int32()).cast(kind)
    moved = [None if row is None else row * per if per > 0 else row // -per for row in rows]
    return pa.array(moved, pa.int64()).cast(kind)
