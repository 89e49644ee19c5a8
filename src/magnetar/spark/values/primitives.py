"""Values of Pulsar's primitive schemas as one typed column: text, boolean, numbers and times as the Java client encodes
them.

Numbers have a fixed width in big-endian order, so a whole column is decoded together. DATE, TIMESTAMP and INSTANT
become TIMESTAMP, times of day become intervals since midnight, and nanoseconds are truncated to Spark's microseconds. A
number can be read as a wider type of a newer version; other conversions are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from magnetar.spark.read.batch_scanner import Ints
from magnetar.spark.values.avro_cursor import RowCursors
from magnetar.spark.values.avro_schema import INSTANT, LOCAL, TIME_OF_DAY
from magnetar.spark.values.value_schema import (
    VALUE,
    Column,
    Decode,
    Incompatible,
    Kind,
    RegisteredSchema,
    Unreadable,
    said,
)

_US = 1_000_000
_DAY_US = 86_400 * _US
_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class _Wide:
    """Values of fixed width: their encoding and their column type."""

    form: Any
    type: Any
    made: Callable[[Any], Any]


class _OutOfRange(Exception):
    """The first row out of range, with its value."""

    def __init__(self, good: Any, actual: Any) -> None:
        self.row = int(np.argmin(good))
        self.found = int(actual[self.row])


def _plain(numbers: Any) -> Any:
    return numbers.astype(numbers.dtype.newbyteorder("="))


def _scaled(numbers: Ints, per: int) -> Ints:
    """Times that a column can hold."""
    limit = _INT64_MAX // per - 1  # leaves room for the fraction of a unit
    return _checked(numbers, -limit, limit) * per


def _checked(numbers: Ints, least: int, most: int) -> Ints:
    good = (numbers >= least) & (numbers <= most)
    if not good.all():
        raise _OutOfRange(good, numbers)
    return numbers


def _milliseconds(numbers: Any) -> Any:
    return _scaled(_plain(numbers), 1000)


def _instants(both: Any) -> Any:
    return _scaled(_plain(both["seconds"]), _US) + _checked(_plain(both["nanos"]), 0, _US * 1000 - 1) // 1000


def _days(numbers: Any) -> Any:
    return _checked(_plain(numbers), 1 - (1 << 31), (1 << 31) - 1).astype(np.int32)


def _date_times(both: Any) -> Any:
    return _scaled(_plain(both["days"]), _DAY_US) + _checked(_plain(both["nanos"]), 0, _DAY_US * 1000 - 1) // 1000


def _truth(numbers: Any) -> Any:
    return numbers != 0


def _since_midnight(numbers: Any) -> Any:
    return _plain(numbers) // 1000


_WIDE: dict[int, _Wide] = {
    Kind.BOOLEAN: _Wide(np.dtype("u1"), pa.bool_(), _truth),
    Kind.INT8: _Wide(np.dtype("i1"), pa.int8(), _plain),
    Kind.INT16: _Wide(np.dtype(">i2"), pa.int16(), _plain),
    Kind.INT32: _Wide(np.dtype(">i4"), pa.int32(), _plain),
    Kind.INT64: _Wide(np.dtype(">i8"), pa.int64(), _plain),
    Kind.FLOAT: _Wide(np.dtype(">f4"), pa.float32(), _plain),
    Kind.DOUBLE: _Wide(np.dtype(">f8"), pa.float64(), _plain),
    Kind.DATE: _Wide(np.dtype(">i8"), INSTANT, _milliseconds),
    Kind.TIME: _Wide(np.dtype(">i8"), TIME_OF_DAY, _milliseconds),
    Kind.TIMESTAMP: _Wide(np.dtype(">i8"), INSTANT, _milliseconds),
    Kind.INSTANT: _Wide(np.dtype([("seconds", ">i8"), ("nanos", ">i4")]), INSTANT, _instants),
    Kind.LOCAL_DATE: _Wide(np.dtype(">i8"), pa.date32(), _days),
    Kind.LOCAL_TIME: _Wide(np.dtype(">i8"), TIME_OF_DAY, _since_midnight),
    Kind.LOCAL_DATE_TIME: _Wide(np.dtype([("days", ">i8"), ("nanos", ">i8")]), LOCAL, _date_times),
}
_TEXT: dict[int, Any] = {Kind.BYTES: pa.binary(), Kind.STRING: pa.string()}
_WHOLE: list[int] = [Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64]
_FLOATING: list[int] = [Kind.FLOAT, Kind.DOUBLE]
MOMENTS = (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT)

KINDS = (*_WIDE, *_TEXT)


class Primitive:
    single = True

    def __init__(self, schema: RegisteredSchema) -> None:
        self._kind = schema.kind
        self._type = _type(schema.kind)
        self.columns: tuple[Column, ...] = (Column(VALUE, self._type),)

    def decoder(self, written: RegisteredSchema, names: Sequence[str]) -> Decode:
        if not _fits(written.kind, self._kind):
            raise Incompatible(f"{said(written.kind)} cannot be read as {said(self._kind)}", VALUE)
        make = _wide(_WIDE[written.kind]) if written.kind in _WIDE else _texts
        return lambda values: [make(values, self._type)]


def _type(kind: int) -> Any:
    return _WIDE[kind].type if kind in _WIDE else _TEXT[kind]


def _fits(written: int, read: int) -> bool:
    if written == read or (written in _TEXT and read in _TEXT):
        return True
    if written in MOMENTS and read in MOMENTS:
        return True
    return any(written in line and read in line[line.index(written) :] for line in (_WHOLE, _FLOATING))


def _wide(lying: _Wide) -> Callable[[Any, Any], Any]:
    def column(values: Any, kind: Any) -> Any:
        walk = RowCursors(values)
        size = lying.form.itemsize
        lengths = walk.ends - walk.at
        wrong = np.flatnonzero(lengths != size)
        if wrong.size:
            row = int(wrong[0])
            raise Unreadable(row, f"it must have {size} bytes, got {int(lengths[row])}", VALUE)
        if not len(values):
            return pa.array([], kind)
        try:
            return pa.array(lying.made(walk.numbers(walk.at, lying.form))).cast(lying.type).cast(kind)
        except _OutOfRange as error:
            why = f"a time is outside the range of the column: {error.found}"
            raise Unreadable(error.row, why, VALUE) from None

    return column


def _texts(values: Any, kind: Any) -> Any:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        for row, value in enumerate(values.to_pylist()):
            try:
                value.decode()
            except UnicodeDecodeError as error:
                raise Unreadable(row, f"it must be text in UTF-8: {error.reason}", VALUE) from None
        raise
