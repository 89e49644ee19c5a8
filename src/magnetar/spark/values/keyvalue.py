"""KEY_VALUE values as two columns, kv_key and kv_value: each by its own schema, as a struct if that has fields.

One registered schema contains both definitions, one after the other. Its properties contain their kinds and the
location of the key: before the value in the payload (INLINE), both with a length, or in the key of the message
(SEPARATED). A null part is null in its column, so a tombstone keeps its key if the key is separate. Parts of any kind
are decoded and evolve like topics of that kind. A nested KEY_VALUE is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from magnetar.base.errors import Misuse
from magnetar.spark.read.batch_scanner import Ints
from magnetar.spark.read.columns import cut
from magnetar.spark.values.avro_cursor import RowCursors
from magnetar.spark.values.value_schema import (
    VALUE,
    Column,
    Decode,
    Incompatible,
    Kind,
    RegisteredSchema,
    Unreadable,
    ValueSchema,
    inner,
)

KEY_PART, VALUE_PART = "kv_key", "kv_value"

_ENCODING = "kv.encoding.type"
_PREFIXES = {KEY_PART: "key", VALUE_PART: "value"}  # prefix of each part's properties
_LENGTH_BYTES = 4
_NULL = -1  # length of a null part
_WRONG = (ValueError, TypeError, KeyError)


@dataclass(frozen=True, slots=True)
class Parts:
    """The two schemas inside a registered schema."""

    schemas: dict[str, RegisteredSchema]
    separated: bool


class KeyValue:
    """`form` and `decoder` delegate to the kinds of its parts."""

    single = False

    def __init__(
        self,
        schema: RegisteredSchema,
        form: Callable[[RegisteredSchema], ValueSchema],
        decoder: Callable[[RegisteredSchema, RegisteredSchema, Sequence[str]], Decode],
    ) -> None:
        self._schemas = parts(schema).schemas
        self._forms = {name: _formed(form, name, one) for name, one in self._schemas.items()}
        self._decoder = decoder
        self.columns = tuple(Column(name, _type(one)) for name, one in self._forms.items())

    def decoder(self, written: RegisteredSchema, names: Sequence[str]) -> Decode:
        """From structs of a message's key and value, either of which may be null."""
        halves = parts(written)
        makes = [self._part(name, halves.schemas[name]) for name in names]

        def decode(messages: Any) -> list[Any]:
            keys, values = (messages.field(name) for name in ("key", VALUE))
            both = dict(zip(_PREFIXES, (keys, values) if halves.separated else _apart(values), strict=True))
            return [make(both[name]) for name, make in zip(names, makes, strict=True)]

        return decode

    def _part(self, name: str, written: RegisteredSchema) -> Callable[[Any], Any]:
        form, kind = self._forms[name], _type(self._forms[name])
        try:
            decode = self._decoder(self._schemas[name], written, [one.name for one in form.columns])
        except Incompatible as error:
            raise Incompatible(error.what, _path(name, form, error.field)) from None

        def column(values: Any) -> Any:
            there = np.flatnonzero(np.asarray(values.is_valid()))
            try:
                decoded = decode(values.drop_null())
            except Unreadable as error:
                raise Unreadable(int(there[error.row]), error.what, _path(name, form, error.field)) from None
            whole = decoded[0] if form.single else pa.StructArray.from_arrays(decoded, fields=list(kind))
            return whole if len(there) == len(values) else _spread(whole, there, len(values))

        return column


def parts(schema: RegisteredSchema) -> Parts:
    """`Misuse`: the schema is not KEY_VALUE."""
    properties = dict(schema.properties)
    try:
        data = memoryview(schema.data)
        key, data = _taken(data)
        value, data = _taken(data)
        if data:
            raise ValueError("the schema has extra data after both definitions")
        encoding = properties.get(_ENCODING) or "INLINE"
        if encoding not in ("INLINE", "SEPARATED"):
            raise ValueError(f"{_ENCODING} must be INLINE or SEPARATED, got {encoding[:80]}")
        schemas = {
            name: _registered(schema, properties, prefix, part)
            for (name, prefix), part in zip(_PREFIXES.items(), (key, value), strict=True)
        }
    except _WRONG as error:
        raise Misuse(f"the registered KEY_VALUE schema is invalid: {error}") from None
    return Parts(schemas, encoding == "SEPARATED")


def _taken(data: memoryview) -> tuple[bytes, memoryview]:
    """A length-prefixed definition, and the rest."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "big", signed=True)
    left = data[_LENGTH_BYTES:]
    if len(data) < _LENGTH_BYTES or not _NULL <= length <= len(left):
        raise ValueError("a definition is shorter than its length")
    length = max(length, 0)
    return bytes(left[:length]), left[length:]


def _registered(whole: RegisteredSchema, properties: dict[str, str], prefix: str, data: bytes) -> RegisteredSchema:
    word = properties.get(f"{prefix}.schema.type", "BYTES")
    if word not in ("NONE", *Kind.__members__) or word == Kind.KEY_VALUE.name:
        raise ValueError(f"the {prefix} has the unsupported kind {word[:80]}")
    properties_text = json.loads(properties.get(f"{prefix}.schema.properties") or "{}")
    if not isinstance(properties_text, dict):
        raise ValueError(f"{prefix}.schema.properties must be an object of texts")
    kind = Kind.BYTES if word == "NONE" else Kind[word]
    return RegisteredSchema(
        whole.topic,
        whole.version,
        kind,
        data,
        tuple(sorted((one, str(properties_text[one])) for one in properties_text)),
    )


def _formed(form: Callable[[RegisteredSchema], ValueSchema], name: str, schema: RegisteredSchema) -> ValueSchema:
    try:
        return form(schema)
    except Misuse as error:
        raise Misuse(f"{name}: {error.what}") from None


def _type(form: ValueSchema) -> Any:
    if form.single:
        return form.columns[0].type
    return pa.struct([pa.field(one.name, one.type) for one in form.columns])


def _path(name: str, form: ValueSchema, field: str) -> str:
    return name if form.single or not field else inner(name, field)


def _apart(values: Any) -> tuple[Any, Any]:
    """Keys and values of payloads that contain both; a null payload has neither."""
    rows = np.flatnonzero(np.asarray(values.is_valid()))
    walk = RowCursors(values.drop_null())
    try:
        lengths = [_behind_length(walk, name) for name in _PREFIXES]
        walk.ended()
    except Unreadable as error:
        raise Unreadable(int(rows[error.row]), error.what, error.field) from None
    key, value = (one if len(rows) == len(values) else _spread(one, rows, len(values)) for one in lengths)
    return key, value


def _behind_length(walk: RowCursors, field: str) -> Any:
    rows = walk.everything()
    starts, ends = walk.width(rows, _LENGTH_BYTES, field)
    lengths = walk.numbers(starts, ">i4").astype(np.int64)
    good = (lengths >= _NULL) & (lengths <= walk.ends - ends)
    walk.check(rows, good, "its length exceeds the value", field, lengths)
    walk.at[rows] = ends + np.maximum(lengths, 0)
    return cut(walk.buffer, ends, walk.at, lengths != _NULL)


def _spread(column: Any, rows: Ints, count: int) -> Any:
    """Expands a column to its row positions; the other rows are null."""
    order = np.full(count, -1, np.int64)
    order[rows] = np.arange(len(rows))
    return column.take(pa.array(order, mask=order < 0))
