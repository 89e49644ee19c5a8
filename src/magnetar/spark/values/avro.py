"""AVRO values as columns: the writer's and the reader's schema are combined once into a plan, and all rows are decoded
with it together.

Avro's resolution rules apply: fields match by name or alias, unused fields are skipped, numbers widen, text and bytes
convert to each other, and the written branch selects the branch of a union. One rule is wider than Avro's, because
every column may be null: a missing field without a default is null, and a null is accepted where the newer schema has
no null. Names of the records themselves are ignored, because stock clients use different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from magnetar.spark.read.batch_scanner import Ints
from magnetar.spark.values.avro_arrays import ArrayReader, gathered
from magnetar.spark.values.avro_cursor import RowCursors
from magnetar.spark.values.avro_scalars import leaf, passed, said
from magnetar.spark.values.avro_schema import (
    NO_DEFAULT,
    NULL,
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

# Arrow array with one value per requested row; None if the written value is only skipped.
Read = Callable[[RowCursors, Ints], Any]

_KEY = Scalar("string")  # key type of a map


class Avro:
    def __init__(self, schema: RegisteredSchema) -> None:
        self._read = parse(schema.data)
        self.columns = columns_of(self._read)
        self.single = not isinstance(self._read, Record)

    def decoder(self, written: RegisteredSchema, names: Sequence[str]) -> Decode:
        before, after = parse(written.data), self._read
        if not isinstance(after, Record):
            whole = _way(before, after, VALUE)
            return lambda values: [_all(whole, values)]
        if not isinstance(before, Record):
            raise Incompatible("expected a record, because the table has fields")
        fields = _fields(before, after, "", names)
        return lambda values: _all(fields, values)


def columns_of(node: Node) -> tuple[Column, ...]:
    """One column per field. Values that are not records have one column."""
    if isinstance(node, Record):
        return tuple(Column(one.name, arrow_type(one.type)) for one in node.fields)
    return (Column(VALUE, arrow_type(node)),)


def _all(read: Callable[[RowCursors, Ints], Any], values: Any) -> Any:
    walk = RowCursors(values)
    rows_read = read(walk, walk.everything())
    walk.ended()
    return rows_read


def _way(written: Node, read: Node | None, path: str) -> Read:
    """Plan from the written type to the read type; None: skips the value."""
    if isinstance(written, Union):
        return _branches(written, read, path)
    if read is None:
        return _past(written, path)
    if written == NULL:
        return _null(read)
    if isinstance(read, Union):
        return _chosen(written, read, path)
    match written, read:
        case Record(), Record():
            return _record(written, read, path)
        case ArrayType(), ArrayType():
            return _list(_way(written.items, read.items, path), written, arrow_type(read), path)
        case MapType(), MapType():
            return _map(_way(written.values, read.values, path), written, arrow_type(read), path)
        case ((Scalar() | Fixed() | EnumType()), (Scalar() | Fixed() | EnumType())):
            return leaf(written, read, path)
    raise Incompatible(f"{_kind(written)} cannot be read as {_kind(read)}", path)


def _past(written: Node, path: str) -> Read:
    match written:
        case Record(fields=fields):
            ways = [_way(one.type, None, inner(path, one.name)) for one in fields]

            def record(walk: RowCursors, rows: Ints) -> None:
                for way in ways:
                    way(walk, rows)

            return record
        case ArrayType(items=items):
            return ArrayReader([items], _past(items, path), path).passed
        case MapType():
            return _pairs(written, path).passed
        case Scalar() | Fixed() | EnumType():
            return passed(written, path)
        case Union():
            return _branches(written, None, path)


def _fields(
    written: Record, read: Record, path: str, names: Sequence[str] | None = None
) -> Callable[[RowCursors, Ints], list[Any]]:
    """The columns of a record, in read or requested order. The written order determines the decoding order. Fields are
    always matched over both complete records, independent of the requested columns.
    """
    sources = _sources(written, read)
    fields = {one.name: one for one in read.fields}
    chosen = [fields[name] for name in (fields if names is None else names)]
    missing = dict(enumerate(chosen))
    places = {sources[one.name]: place for place, one in missing.items() if one.name in sources}
    steps: list[tuple[int | None, Read]] = []
    for field in written.fields:
        place = places.get(field.name)
        default = None if place is None else missing.pop(place).type
        steps.append((place, _way(field.type, default, inner(path, field.name))))
    absent = [(place, _absent(one, inner(path, one.name))) for place, one in missing.items()]

    def columns(walk: RowCursors, rows: Ints) -> list[Any]:
        arrays: list[Any] = [None] * len(chosen)
        for place, step in steps:
            array = step(walk, rows)
            if place is not None:
                arrays[place] = array
        for place, scalar in absent:
            arrays[place] = pa.repeat(scalar, len(rows))
        return arrays

    return columns


def _sources(written: Record, read: Record) -> dict[str, str]:
    """Maps each read field to its written field: the field of its own name, else of an alias that is not the name or an
    earlier alias of another field.
    """
    there = {field.name for field in written.fields}
    free = there - {field.name for field in read.fields}
    sources: dict[str, str] = {}
    for field in read.fields:
        source = field.name if field.name in there else next((alias for alias in field.aliases if alias in free), None)
        if source is not None:
            free.discard(source)
            sources[field.name] = source
    return sources


def _absent(field: Field, path: str) -> Any:
    kind = arrow_type(field.type)
    return pa.scalar(None, kind) if field.default is NO_DEFAULT else constant(field.type, field.default, path)


def _record(written: Record, read: Record, path: str) -> Read:
    columns, kind = _fields(written, read, path), arrow_type(read)

    def record(walk: RowCursors, rows: Ints) -> Any:
        arrays = columns(walk, rows)
        if not arrays:
            return pa.Array.from_buffers(kind, len(rows), [None])
        return pa.StructArray.from_arrays(arrays, fields=list(kind))

    return record


def _list(item: Read, written: ArrayType, kind: Any, path: str) -> Read:
    items = ArrayReader([written.items], _past(written.items, path), path)

    def listed(walk: RowCursors, rows: Ints) -> Any:
        blocks = items.read(walk, rows, lambda inside, rows: [item(inside, rows)])
        offsets, (elements,) = gathered(blocks, len(rows), [kind.value_type])
        return pa.ListArray.from_arrays(offsets, elements, type=kind)

    return listed


def _map(value: Read, written: MapType, kind: Any, path: str) -> Read:
    key = leaf(_KEY, _KEY, path)
    items = _pairs(written, path)

    def mapped(walk: RowCursors, rows: Ints) -> Any:
        blocks = items.read(walk, rows, lambda inside, rows: [key(inside, rows), value(inside, rows)])
        offsets, (keys, values) = gathered(blocks, len(rows), [kind.key_type, kind.item_type])
        return pa.MapArray.from_arrays(offsets, keys, values, kind)

    return mapped


def _pairs(written: MapType, path: str) -> ArrayReader:
    key, value = passed(_KEY, path), _past(written.values, path)

    def past(walk: RowCursors, rows: Ints) -> None:
        key(walk, rows)
        value(walk, rows)

    return ArrayReader([_KEY, written.values], past, path)


def _branches(written: Union, read: Node | None, path: str) -> Read:
    """Decodes rows by their written branch and restores their order."""
    ways: list[Read] = []
    for alternative in written.branches:
        try:
            ways.append(_way(alternative, read, path))
        except Incompatible as error:
            ways.append(_refused(error, path))
    kind = None if read is None else arrow_type(read)

    def branches(walk: RowCursors, rows: Ints) -> Any:
        branch = walk.int64(rows, path)
        walk.check(rows, (branch >= 0) & (branch < len(ways)), "its branch is not in the union", path, branch)
        if len(rows) and (branch == branch[0]).all():
            return ways[int(branch[0])](walk, rows)
        parts, order = [], np.empty(len(rows), np.int64)
        done = 0
        for number, way in enumerate(ways):
            places = np.flatnonzero(branch == number)
            if places.size:
                parts.append(way(walk, rows[places]))
                order[places] = done + np.arange(places.size)
                done += places.size
        if kind is None:
            return None
        return pa.concat_arrays(parts).take(pa.array(order)) if parts else pa.array([], kind)

    return branches


def _null(read: Node) -> Read:
    kind = arrow_type(read)
    return lambda walk, rows: pa.nulls(len(rows), kind)


def _refused(error: Incompatible, path: str) -> Read:
    def refused(walk: RowCursors, rows: Ints) -> Any:
        raise Unreadable(int(rows[0]), error.what, error.field or path)

    return refused


def _chosen(written: Node, read: Union, path: str) -> Read:
    """The branch of the newer union for a written type: the same type first, else a wider one."""
    others = read.others
    number = united(read)
    if number is not None:
        return _way(written, number, path)
    if len(others) == 1:
        return _way(written, others[0], path)
    names = [place for place, one in enumerate(others) if _kind(one) == _kind(written)]
    for place in [*names, *range(len(others))]:
        try:
            return _member(_way(written, others[place], path), place, arrow_type(read))
        except Incompatible:
            continue
    raise Incompatible(f"{_kind(written)} must be one of {', '.join(map(_kind, others)) or 'null'}", path)


def _member(way: Read, place: int, kind: Any) -> Read:
    def member(walk: RowCursors, rows: Ints) -> Any:
        values = way(walk, rows)
        children = [values if index == place else pa.nulls(len(rows), one.type) for index, one in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind))

    return member


def _kind(node: Node) -> str:
    match node:
        case Scalar() | Fixed() | EnumType():
            return said(node)
        case Record():
            return f"record {node.name}"
        case ArrayType():
            return "array"
        case MapType():
            return "map"
        case Union():
            return "union"
