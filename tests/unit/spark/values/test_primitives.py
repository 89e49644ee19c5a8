"""Pulsar's primitives, in the bytes that its Java client writes."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from magnetar.spark.values.primitives import KINDS, Primitive
from magnetar.spark.values.value_schema import Incompatible, RegisteredSchema, Unreadable
from magnetar.wire.proto import pb
from tests.support.avro_definitions import decoded

T = pb.Schema
NOON_MS = 1_769_860_800_001
NOON = datetime(2026, 1, 31, 12, 0, 0, 1000, tzinfo=UTC)
DAYS = 20_484
HALF_DAY_NS = 43_200 * 10**9


def schema(kind):
    return RegisteredSchema("topic://a/b/c", 0, kind)


def read(kind, *values, table=None):
    form = Primitive(schema(kind if table is None else table))
    return [row["value"] for row in decoded(form, schema(kind), list(values))]


CASES = [
    (T.NoSchema, b"\xff\x00", b"\xff\x00", pa.binary()),
    (T.String, "é".encode(), "é", pa.string()),
    (T.Bool, b"\x01", True, pa.bool_()),
    (T.Bool, b"\x00", False, pa.bool_()),
    (T.Int8, b"\xff", -1, pa.int8()),
    (T.Int16, b"\x80\x00", -(1 << 15), pa.int16()),
    (T.Int32, b"\x00\x00\x01\x00", 256, pa.int32()),
    (T.Int64, b"\xff" * 8, -1, pa.int64()),
    (T.Float, struct.pack(">f", 0.5), 0.5, pa.float32()),
    (T.Double, struct.pack(">d", -0.1), -0.1, pa.float64()),
    (T.Date, struct.pack(">q", NOON_MS), NOON, pa.timestamp("us", tz="UTC")),
    (T.Time, struct.pack(">q", 1), timedelta(milliseconds=1), pa.duration("us")),
    (T.Timestamp, struct.pack(">q", -1), datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), None),
    (T.Instant, struct.pack(">qi", NOON_MS // 1000, 1_000_999), NOON, pa.timestamp("us", tz="UTC")),
    (T.LocalDate, struct.pack(">q", DAYS), date(2026, 1, 31), pa.date32()),
    (T.LocalTime, struct.pack(">q", HALF_DAY_NS), timedelta(hours=12), pa.duration("us")),
    (T.LocalDateTime, struct.pack(">qq", DAYS, HALF_DAY_NS), datetime(2026, 1, 31, 12), pa.timestamp("us")),
]


@pytest.mark.parametrize(("kind", "data", "value", "type"), CASES)
def test_primitive_is_one_column_of_its_type(kind, data, value, type):
    assert read(kind, data, data) == [value, value]
    (column,) = Primitive(schema(kind)).columns
    assert column.name == "value"
    assert type is None or column.type == type


def test_every_primitive_is_tried():
    assert set(KINDS) == {kind for kind, *_ in CASES}


@pytest.mark.parametrize(
    ("kind", "data", "value", "type"), [one for one in CASES if one[0] not in (T.NoSchema, T.String)]
)
def test_value_of_another_width_is_unreadable(kind, data, value, type):
    for wrong in (data + b"\0", data[:-1], b""):
        with pytest.raises(Unreadable, match=f"it must have {len(data)} bytes, got {len(wrong)}") as told:
            read(kind, data, wrong)
        assert told.value.row == 1


def test_text_that_is_none_is_unreadable():
    with pytest.raises(Unreadable, match="must be text in UTF-8") as told:
        read(T.String, b"a", b"\xff")
    assert told.value.row == 1


@pytest.mark.parametrize(
    ("kind", "data", "found"),
    [
        (T.Timestamp, struct.pack(">q", -(1 << 63)), -(1 << 63)),
        (T.Instant, struct.pack(">qi", 1 << 62, 0), 1 << 62),
        (T.Instant, struct.pack(">qi", ((1 << 63) - 1) // 10**6, 999_999_999), ((1 << 63) - 1) // 10**6),
        (T.Instant, struct.pack(">qi", 1, 10**9), 10**9),
        (T.LocalDate, struct.pack(">q", 1 << 40), 1 << 40),
        (T.LocalDateTime, struct.pack(">qq", -(1 << 63), 0), -(1 << 63)),
        (T.LocalDateTime, struct.pack(">qq", 1, -1), -1),
    ],
)
def test_time_beyond_all_that_column_holds_is_unreadable(kind, data, found):
    with pytest.raises(Unreadable, match=f"a time is outside the range of the column: {found}$") as told:
        read(kind, bytes(len(data)), data)
    assert told.value.row == 1


def test_older_versions_widen_to_numbers_and_timestamps():
    assert read(T.Int8, b"\xff", table=T.Int64) == [-1]
    assert read(T.Float, struct.pack(">f", 0.5), table=T.Double) == [0.5]
    assert read(T.Timestamp, struct.pack(">q", NOON_MS), table=T.Instant) == [NOON]
    assert read(T.String, b"a", table=T.NoSchema) == [b"a"]
    for kind, table in ((T.Int64, T.Int8), (T.Int32, T.Float), (T.String, T.Int32), (T.LocalDate, T.Date)):
        with pytest.raises(Incompatible, match="cannot be read as"):
            read(kind, table=table)


def test_no_rows_are_no_rows():
    assert all(read(kind) == [] for kind in KINDS)
