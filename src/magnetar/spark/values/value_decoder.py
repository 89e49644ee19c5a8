"""Decodes record batches with values as bytes into those of a table: each value by the schema version that its message
names, all into the columns of the version at the start of the query.

A decoder lives as long as a task. It requests each version once, at its first message. A message without a version uses
the table's. A null value is null in all its columns, except a separately stored key. An unreadable value ends the query
with an error that names its position and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magnetar.base.errors import Corrupt, Misuse, NotFound
from magnetar.spark.read.batch_scanner import Ints
from magnetar.spark.values.select import decoder, form
from magnetar.spark.values.table import KEY, ORDER, VERSION, ValueTable
from magnetar.spark.values.value_schema import VALUE, Decode, Incompatible, RegisteredSchema, Unreadable

_INSTEAD = "remove schema=registry and decode the bytes in the query, or start after this message (startingOffsets)"
_ORDER = np.dtype([("segment", ">u8"), ("ledger", ">u8"), ("entry", ">u8"), ("row", ">u4")])


class ValueDecoder:
    """`ask` requests a version of the topic's schema."""

    def __init__(self, table: ValueTable, ask: Callable[[int], RegisteredSchema]) -> None:
        self._table = table
        self._ask = ask
        types = {one.name: one.type for one in form(table.schema).columns}
        self._types = [types[name] for name in table.fields]
        self._decoders: dict[int, Decode] = {}

    def made(self, batch: Any) -> Any:
        values = batch.column(VALUE)
        valid = np.asarray(values.is_valid())
        if self._table.keyed:
            keys = batch.column(KEY)
            values, valid = (
                pa.StructArray.from_arrays([keys, values], [KEY, VALUE]),
                valid | np.asarray(keys.is_valid()),
            )
        there = np.flatnonzero(valid)
        versions = np.asarray(pc.fill_null(batch.column(VERSION), self._table.schema.version))
        columns = dict(zip(self._table.fields, self._columns(batch, values, there, versions), strict=True))
        arrays = [columns[name] if name in columns else batch.column(name) for name in self._table.names]
        return pa.RecordBatch.from_arrays(arrays, names=list(self._table.names))

    def _columns(self, batch: Any, values: Any, there: Ints, versions: Ints) -> list[Any]:
        if not self._table.fields:
            return []
        distinct = np.unique(versions[there]).tolist()
        if len(distinct) == 1 and len(there) == len(values):
            return self._decoded(batch, distinct[0], values, there)
        parts: list[list[Any]] = [[] for _ in self._types]
        order = np.full(len(values), -1, np.int64)
        done = 0
        for version in distinct:
            rows = there[versions[there] == version]
            for part, column in zip(
                parts, self._decoded(batch, version, values.take(pa.array(rows)), rows), strict=True
            ):
                part.append(column)
            order[rows] = done + np.arange(len(rows))
            done += len(rows)
        places = pa.array(order, mask=order < 0)
        return [
            pa.concat_arrays(part).take(places) if part else pa.nulls(len(values), kind)
            for part, kind in zip(parts, self._types, strict=True)
        ]

    def _decoded(self, batch: Any, version: int, values: Any, rows: Ints) -> list[Any]:
        try:
            return self._decoder(version)(values)
        except Unreadable as error:
            raise Corrupt(
                f"option schema: {_field(error.field)}a value does not match its schema: {error.what}: {_INSTEAD}",
                topic=self._table.schema.topic,
                version=version,
                position=_position(batch, int(rows[error.row])),
            ) from None

    def _decoder(self, version: int) -> Decode:
        decoder = self._decoders.get(version)
        if decoder is None:
            decoder = self._decoders[version] = self._found(version)
        return decoder

    def _found(self, version: int) -> Decode:
        schema = self._table.schema
        try:
            written = schema if version == schema.version else self._ask(version)
            return decoder(schema, written, self._table.fields)
        except Incompatible as error:
            raise Misuse(
                f"option schema: messages of version {version} of the schema cannot be read into the table, which is "
                f"of version {schema.version}: {_field(error.field)}{error.what}: {_INSTEAD}",
                topic=schema.topic,
                version=version,
            ) from None
        except NotFound:
            raise Misuse(
                f"option schema: messages use version {version} of the schema, which the registry does not "
                f"contain any more: register it again, or {_INSTEAD}",
                topic=schema.topic,
                version=version,
            ) from None


def _field(name: str) -> str:
    return f"field {name}: " if name else ""


def _position(batch: Any, row: int) -> str:
    at = np.frombuffer(batch.column(ORDER)[row].as_py(), _ORDER)[0]
    return f"{at['ledger']}:{at['entry']}:{at['row']} of segment {at['segment']}"
