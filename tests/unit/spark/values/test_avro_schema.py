"""Avro definitions: names that stand for types, what becomes which column, and what no table can hold."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from magnetar.base.errors import Misuse
from magnetar.spark.values.avro_schema import INSTANT, LOCAL, TIME_OF_DAY, arrow_type, parse
from tests.support.avro_definitions import record


def typed(definition):
    return arrow_type(parse(json.dumps(definition).encode()))


@pytest.mark.parametrize(
    ("definition", "found"),
    [
        ("null", pa.null()),
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": {"type": "string"}}, pa.string()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, TIME_OF_DAY),
        ({"type": "long", "logicalType": "timestamp-micros"}, INSTANT),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, LOCAL),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "string", "logicalType": "date"}, pa.string()),  # does not fit, so it is as if it were not there
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 2)),
        ({"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 9}, pa.decimal128(9, 0)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, pa.binary()),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string()),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int32())),
        ({"type": "array", "items": "int"}, pa.list_(pa.field("element", pa.int32()))),
        (["null", "int"], pa.int32()),
        (["int"], pa.int32()),
        (["null"], pa.null()),
        (["int", "null", "long"], pa.int64()),
        (["float", "double"], pa.float64()),
        (["int", "string"], pa.struct([("member0", pa.int32()), ("member1", pa.string())])),
        (record(("a", "int"), ("b", ["null", "string"])), pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ],
)
def test_type_is_column(definition, found):
    assert typed(definition) == found


def test_logical_type_that_stands_beside_its_type_is_seen():
    field = {"name": "at", "type": "long", "logicalType": "timestamp-millis"}
    assert typed({"type": "record", "name": "R", "fields": [field]}) == pa.struct([("at", INSTANT)])


def test_name_is_what_was_defined_under_it_in_its_namespace():
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
    other = {"type": "enum", "name": "b.In", "symbols": ["A"]}
    fields = [("one", inner), ("two", other), ("three", "In"), ("four", "b.In"), ("five", "a.In")]
    found = typed({**record(*fields), "namespace": "a"})
    struct = pa.struct([("x", pa.int32())])
    assert [one.type for one in found] == [struct, pa.string(), struct, pa.string(), struct]


def doubled(levels):
    """A few lines that mean two fields, each of two, and so on."""
    made = [("f0", record(("a", "int"), ("b", "int"), name="R0"))]
    for level in range(1, levels):
        below = f"R{level - 1}"
        made.append((f"f{level}", record(("a", below), ("b", below), name=f"R{level}")))
    return made


def test_repeated_named_types_are_accepted_within_limit():
    assert typed(record(*doubled(6))).num_fields == 6


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (b"{", "must be Avro in JSON"),
        (b'"\xff"', "must be Avro in JSON"),
        (b"[" * 100_000, "must be Avro in JSON"),
        (b"7", "it is not a type"),
        (b'"Elsewhere"', "undefined type: Elsewhere"),
        (json.dumps(record(("a", "No"))).encode(), "field a has an undefined type: No"),
        (json.dumps(record(("a", "int"), ("a", "int"))).encode(), "it must have each field once, as a record"),
        (b'{"type":"record","name":"R"}', "it must have fields, as a record"),
        (b'{"type":"record","fields":[]}', "it must have a name, as a named type"),
        (b'{"type":"enum","name":"E"}', "it must have symbols, as an enum"),
        (b'{"type":"fixed","name":"F","size":-1}', "it must have a size, as fixed"),
        (b'{"type":"record","name":"R","fields":[{"type":"int"}]}', "it has a field without a name"),
        (b'{"type":"record","name":"R","fields":[{"name":"f"}]}', "field f must have a type"),
        (json.dumps(record(*doubled(16))).encode(), "too many fields"),
        (json.dumps(record(("next", ["null", "Row"]))).encode(), r"field next contains itself \(Row\)"),
    ],
)
def test_what_no_table_can_hold_is_refused_by_its_field(definition, said):
    with pytest.raises(Misuse, match=said):
        parse(definition)
