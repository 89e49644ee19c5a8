"""JSON values by the definition of their table: what is missing, what is too much, and what is something else."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from magnetar.base.errors import Misuse
from magnetar.spark.values.json_values import JsonValues
from magnetar.spark.values.value_schema import Incompatible, Unreadable
from magnetar.wire.proto import pb
from tests.support.avro_definitions import decoded, record, registered

CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
INNER = record(("x", "int"), ("y", "string", "none"), name="Inner")


def read(definition, *values, names=None):
    schema = registered(definition, pb.Schema.Json)
    given = [one if isinstance(one, bytes) else json.dumps(one, indent=1).encode() for one in values]
    return decoded(JsonValues(schema), schema, given, names)


def test_missing_decimal_takes_default_in_avro_form():
    assert read(record(("f", CENTS, "\u0001")), {}) == [{"f": Decimal("0.01")}]


@pytest.mark.parametrize(("kind", "value"), [("float", 1e300), (CENTS, "1.255")])
def test_number_that_its_column_cannot_hold_names_row_and_field(kind, value):
    with pytest.raises(Unreadable) as told:
        read(record(("e", "int"), ("f", kind)), {"e": 1, "f": None}, {"e": 1, "f": value})
    assert (told.value.row, told.value.field) == (1, "f")


def field(kind, value):
    (row,) = read(record(("f", kind)), {"f": value})
    return row["f"]


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        ("boolean", True, True),
        ("int", -5, -5),
        ("long", (1 << 63) - 1, (1 << 63) - 1),
        ("float", 1, 1.0),
        ("double", 0.1, 0.1),
        ("double", "-Infinity", -math.inf),
        ("string", "é\n", "é\n"),
        ("bytes", "q83v", "q83v"),  # as it stands: clients differ in what it means
        ({"type": "fixed", "name": "F", "size": 2}, "ab", "ab"),
        ("null", None, None),
        (CENTS, 12.34, Decimal("12.34")),
        (CENTS, "12.34", Decimal("12.34")),
        ({**CENTS, "type": "fixed", "name": "F", "size": 2}, 1, Decimal("1.00")),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A", "A"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, 1, "1"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1, datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)),
        (["null", {"type": "array", "items": "long"}], [1, None, 2], [1, None, 2]),
        (["null", {"type": "array", "items": "long"}], None, None),
        ({"type": "map", "values": INNER}, {"a": {"x": 1}, "b": None}, {"a": {"x": 1, "y": "none"}, "b": None}),
        (["null", INNER], None, None),
        (["int", "long"], 1 << 40, 1 << 40),
        (record(name="Empty"), {"a": 1}, {}),
    ],
)
def test_value_is_of_type_of_its_column(kind, value, found):
    assert field(kind, value) == found


def test_number_that_is_none_comes_through():
    assert math.isnan(field("double", "NaN"))


def test_missing_field_takes_default_and_extra_field_is_dropped():
    definition = record(("a", "int", 7), ("b", "string"), ("c", {"type": "array", "items": "int"}, [1]), ("d", INNER))
    rows = read(definition, {}, {"a": 1, "b": "x", "c": [], "d": {"x": 2, "z": {}}, "e": [{}]}, {"a": None})
    assert rows == [
        {"a": 7, "b": None, "c": [1], "d": None},
        {"a": 1, "b": "x", "c": [], "d": {"x": 2, "y": "none"}},
        {"a": None, "b": None, "c": [1], "d": None},
    ]


def test_only_fields_that_are_asked_for_are_looked_at():
    definition = record(("a", "int"), ("b", "int"))
    assert read(definition, {"a": "not a number", "b": 1}, names=["b"]) == [{"b": 1}]


@pytest.mark.parametrize(
    ("value", "said", "field"),
    [
        (b"", "must be JSON", ""),
        (b"{", "must be JSON", ""),
        (b"{}{}", "must be JSON", ""),
        (b'{"s":"\xff"}', "must be JSON", ""),
        (b"[]", "Expected `object`, got `array`", ""),
        (b"null", "Expected `object`, got `null`", ""),
        (b'{"n":{"x":"1"}}', r"Expected `int \| null`, got `str`", "n.x"),
        (b'{"n":{"x":9999999999}}', "Expected `int` <= 2147483647", "n.x"),
        (b'{"l":[1,"x"]}', "got `str`", "l[1]"),
        (b'{"d":12345}', "it is outside the range of the column", "d"),
        (b'{"t":9223372036854775807}', "it is outside the range of the column", "t"),
    ],
)
def test_unfitting_value_names_row_and_field(value, said, field):
    time = {"type": "long", "logicalType": "timestamp-millis"}
    listed = {"type": "array", "items": "int"}
    definition = record(("s", "string"), ("n", INNER), ("l", listed), ("d", CENTS), ("t", time))
    with pytest.raises(Unreadable, match=said) as told:
        read(definition, {}, value, {})
    assert (told.value.row, told.value.field) == (1, field)


def test_union_of_several_types_is_refused_with_what_to_do():
    with pytest.raises(Misuse, match=r"field n\.f is a union of several types.*without schema=registry"):
        JsonValues(registered(record(("n", record(("f", ["int", "string"]), name="N"))), pb.Schema.Json))


def test_default_of_another_type_is_named():
    with pytest.raises(Incompatible, match="its default must match its type") as told:
        read(record(("f", "int", "x")), {})
    assert told.value.field == "f"


def test_definition_that_is_no_record_is_one_column():
    assert read("long", 5, 7) == [{"value": 5}, {"value": 7}]
    with pytest.raises(Incompatible, match="expected a record"):
        JsonValues(registered(record(("f", "int")), pb.Schema.Json)).decoder(registered("long", pb.Schema.Json), ["f"])


def test_fields_may_have_any_name():
    assert read(record(("class", "int"), ("a-b", "int"), ("f1", "int")), {"class": 1, "a-b": 2, "f1": 3}) == [
        {"class": 1, "a-b": 2, "f1": 3}
    ]
