"""Avro definitions and values of them, drawn at random and written by another implementation of Avro."""

from __future__ import annotations

import io
import itertools
import json
import struct
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

from magnetar.spark.values.value_schema import RegisteredSchema, ValueSchema
from magnetar.wire.proto import pb

SCALARS: dict[str, Any] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=200),
    "string": st.text(max_size=80),
}
_numbers = itertools.count()  # of named types, which a definition has once each
_WIDER = {"int": ["long", "double"], "float": ["double"], "string": ["bytes"]}


def record(*fields: Any, name: str = "Row") -> dict[str, Any]:
    """Of names and types, and defaults if there are any."""
    made = [dict(zip(("name", "type", "default"), one, strict=False)) for one in fields]
    return {"type": "record", "name": name, "fields": made}


def registered(definition: Any, kind: int = pb.Schema.Avro, version: int = 0) -> RegisteredSchema:
    return RegisteredSchema("topic://a/b/c", version, kind, json.dumps(definition).encode())


def encoded(definition: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, definition, value)
    return out.getvalue()


def sized(*parts: bytes | None) -> bytes:
    """Each behind its length, as Pulsar joins a key and a value."""
    return b"".join(struct.pack(">i", -1 if one is None else len(one)) + (one or b"") for one in parts)


def pair(key: Any, value: Any, encoding: str = "INLINE", version: int = 0, **more: str) -> RegisteredSchema:
    """A schema of a key and a value: each a kind and a definition, which may be none."""
    said, data = {"kv.encoding.type": encoding, **more}, []
    for prefix, (kind, definition) in (("key", key), ("value", value)):
        said[f"{prefix}.schema.type"] = kind
        data.append(json.dumps(definition).encode() if definition else b"")
    return RegisteredSchema("topic://a/b/c", version, pb.Schema.KeyValue, sized(*data), tuple(sorted(said.items())))


def by_another(written: Any, read: Any, data: bytes) -> Any:
    """What fastavro makes of it."""
    return fastavro.schemaless_reader(io.BytesIO(data), written, read)


def decoded(
    form: ValueSchema, written: RegisteredSchema, values: list[bytes], names: list[str] | None = None
) -> list[dict[str, Any]]:
    """The rows, from columns that are whole and of the types they say."""
    names = [one.name for one in form.columns] if names is None else names
    types = {one.name: one.type for one in form.columns}
    arrays = form.decoder(written, names)(pa.array(values, pa.binary()))
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(name, types[name]) for name in names]))
    batch.validate(full=True)
    return [{name: _maps_as_dicts(row[name], types[name]) for name in names} for row in batch.to_pylist()]


def _maps_as_dicts(value: Any, kind: pa.DataType) -> Any:
    """As `maps_as_pydicts` of pyarrow, which leaves an empty map inside a map as a list before version 22."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        assert len({key for key, _ in value}) == len(value)
        return {key: _maps_as_dicts(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_maps_as_dicts(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _maps_as_dicts(value[field.name], field.type) for field in kind}
    return value


@st.composite
def types(draw: Any, depth: int = 2) -> Any:
    """A type, and a strategy of its values. Records, enums and fixed have names of their own."""
    kinds = ["scalar", "enum", "fixed"] + (["array", "map", "record", "nullable"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    name = f"N{next(_numbers)}"
    if kind == "scalar":
        plain_kind = draw(st.sampled_from(sorted(SCALARS)))
        return plain_kind, SCALARS[plain_kind]
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
    if kind == "fixed":
        size = draw(st.integers(1, 20))
        return {"type": "fixed", "name": name, "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "record":
        fields = draw(records(depth - 1))
        return {**fields[0], "name": name}, fields[1]
    inner, values = draw(types(depth - 1).filter(lambda one: one[0] != "null" and not isinstance(one[0], list)))
    if kind == "nullable":
        return ["null", inner] if draw(st.booleans()) else [inner, "null"], st.none() | values
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=4)
    return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=5), values, max_size=3)


@st.composite
def records(draw: Any, depth: int = 2) -> Any:
    found = draw(st.lists(types(depth), min_size=1, max_size=4))
    definition = record(*((f"f{place}", one) for place, (one, _) in enumerate(found)))
    return definition, st.fixed_dictionaries({f"f{place}": values for place, (_, values) in enumerate(found)})


@st.composite
def newer(draw: Any, definition: Any) -> Any:
    """A later version that can read it: fields left out, in another order, wider, and new ones with defaults."""
    fields = [dict(one) for one in definition["fields"] if draw(st.booleans())]
    for one in fields:
        if isinstance(one["type"], str) and one["type"] in _WIDER and draw(st.booleans()):
            one["type"] = draw(st.sampled_from(_WIDER[one["type"]]))
    added = draw(st.sampled_from([[], [("int", 7)], [("string", "d"), (["null", "long"], None)]]))
    fields += [{"name": f"new{place}", "type": kind, "default": one} for place, (kind, one) in enumerate(added)]
    if not fields:
        fields = [{"name": "only", "type": "double", "default": 0.5}]
    return {**definition, "fields": draw(st.permutations(fields))}
