"""What a field is where nobody wrote it: the default of its definition, as a value of the column."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from magnetar.spark.values.avro_schema import parse
from magnetar.spark.values.defaults import constant
from magnetar.spark.values.value_schema import Incompatible
from tests.support.avro_definitions import record

CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIXED = {"type": "fixed", "name": "F", "size": 2}
INNER = record(("x", "int", 5), ("y", "string"), ("z", ["null", "int"], None))


def made(kind, default):
    return constant(parse(json.dumps(kind).encode()), default, "f").as_py()


@pytest.mark.parametrize(
    ("kind", "default", "found"),
    [
        ("boolean", True, True),
        ("long", 7, 7),
        ("double", 7, 7.0),
        ("string", "é", "é"),
        ("bytes", "\u00ff\u0000", b"\xff\x00"),
        (FIXED, "ab", b"ab"),
        ({**CENTS, "type": "fixed", "name": "F", "size": 2}, "\u0004\u00d2", Decimal("12.34")),
        (CENTS, "\u0004\u00d2", Decimal("12.34")),
        ({**CENTS, "precision": 38}, "\x7f" * 15, Decimal(f"{int.from_bytes(bytes([127] * 15), 'big')}E-2")),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1, datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)),
        ({"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A", "A"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "map", "values": "int"}, {"a": 1}, [("a", 1)]),
        (INNER, {"y": "t"}, {"x": 5, "y": "t", "z": None}),
        (["null", "int"], None, None),
        (["int", "null"], 5, 5),
        (["null", "int"], 5, 5),  # not of the first branch, which Avro wants and people forget
        (["int", "long"], 5, 5),
        (["int", "string"], "x", {"member0": None, "member1": "x"}),
    ],
)
def test_default_is_value_of_its_column(kind, default, found):
    assert made(kind, default) == found


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "7"),
        ("int", True),
        ("int", 1 << 40),
        ("string", 7),
        ("bytes", "\u2026"),
        (CENTS, "\x01" * 5000),
        (FIXED, "abc"),
        (FIXED, 7),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "array", "items": "int"}, 7),
        ({"type": "map", "values": "int"}, []),
        ("null", 7),
        (["null", "int"], "x"),
    ],
)
def test_default_of_another_type_is_fault_of_its_definition(kind, default):
    with pytest.raises(Incompatible, match="its default must match its type") as told:
        made(kind, default)
    assert told.value.field == "f"
