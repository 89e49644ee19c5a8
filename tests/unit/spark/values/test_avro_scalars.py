"""Times, decimals and enums of AVRO: in the units they were written in, and never beyond what a column holds."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from magnetar.spark.values.avro import Avro
from magnetar.spark.values.value_schema import Unreadable
from tests.support.avro_definitions import decoded, encoded, record, registered


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def number(written, value, read=None, kind="long"):
    """A number that was written without a meaning, read with one."""
    data = encoded(record(("f", kind)), {"f": value})
    (row,) = decoded(Avro(registered(record(("f", read or written)))), registered(record(("f", written))), [data])
    return row["f"]


def cents(digits, scale=2, size=None):
    if size is None:
        return logical("bytes", "decimal", precision=digits, scale=scale)
    return {**cents(digits, scale), "type": "fixed", "name": "D", "size": size}


def decimal(kind, data):
    written = record(("f", kind))
    prefix = b"" if kind["type"] == "fixed" else bytes([2 * len(data)])
    (row,) = decoded(Avro(registered(written)), registered(written), [prefix + data])
    return row["f"]


NOON = datetime(2026, 1, 31, 12, 0, 0, 1000, tzinfo=UTC)
NOON_MS = 1_769_860_800_001


@pytest.mark.parametrize(
    ("written", "value", "found", "kind"),
    [
        (logical("long", "timestamp-millis"), NOON_MS, NOON, "long"),
        (logical("long", "timestamp-micros"), NOON_MS * 1000, NOON, "long"),
        (logical("long", "timestamp-nanos"), NOON_MS * 1_000_000 + 999, NOON, "long"),
        (logical("long", "local-timestamp-millis"), NOON_MS, NOON.replace(tzinfo=None), "long"),
        (logical("int", "date"), -1, date(1969, 12, 31), "int"),
        (logical("int", "time-millis"), 1, timedelta(milliseconds=1), "int"),
        (logical("long", "time-micros"), 1, timedelta(microseconds=1), "long"),
    ],
)
def test_time_is_of_unit_it_was_written_in(written, value, found, kind):
    assert number(written, value, kind=kind) == found


def test_newer_definition_in_another_unit_moves_no_moment():
    millis, micros = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
    assert number(millis, NOON_MS, micros) == NOON
    assert number(micros, NOON_MS * 1000, millis) == NOON


def test_changed_logical_type_follows_newer_definition():
    millis = logical("long", "timestamp-millis")
    assert number("long", NOON_MS, millis) == NOON
    assert number(millis, NOON_MS, "long") == NOON_MS


def test_time_beyond_all_that_column_holds_is_unreadable():
    for value in ((1 << 63) - 1, -(1 << 63)):
        with pytest.raises(Unreadable, match="a time is outside the range"):
            number(logical("long", "timestamp-millis"), value)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x04\xd2", "12.34"),
        (b"\xfb\x2e", "-12.34"),
        (b"\x00", "0.00"),
        (b"\xff" * 20, "-0.01"),  # with more bytes than it needs
        (b"\x00" * 20 + b"\x01", "0.01"),
    ],
)
def test_decimal_keeps_sign_and_scale_at_any_width(data, found):
    assert decimal(cents(9), data) == Decimal(found)
    assert decimal(cents(9, size=len(data)), data) == Decimal(found)


def test_largest_decimals_fit():
    for value in (10**38 - 1, -(10**38) + 1):
        assert decimal(cents(38), value.to_bytes(16, "big", signed=True)) == Decimal(f"{value}E-2")


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"", "no bytes"), (b"\x7f" * 17, "too large"), ((10**9).to_bytes(5, "big"), "does not fit")],
)
def test_decimal_that_is_none_or_too_large_is_unreadable(data, said):
    with pytest.raises(Unreadable, match=said):
        decimal(cents(9), data)


def test_decimal_widens_and_does_not_narrow():
    small, large = record(("f", cents(9))), record(("f", cents(12, 4)))
    assert decoded(Avro(registered(large)), registered(small), [b"\x04\x04\xd2"]) == [{"f": Decimal("12.3400")}]
    with pytest.raises(Unreadable):
        decoded(Avro(registered(small)), registered(large), [b"\x04\x04\xd2"])  # 0.1234 has no two places


def test_symbol_that_newer_enum_lacks_is_its_default_or_stays():
    def kind(*symbols, **more):
        return record(("f", {"type": "enum", "name": "E", "symbols": list(symbols), **more}))

    written, values = kind("A", "B"), [b"\x00", b"\x02"]
    assert decoded(Avro(registered(kind("B", "C", default="C"))), registered(written), values) == [
        {"f": "C"},
        {"f": "B"},
    ]
    assert decoded(Avro(registered(kind("B"))), registered(written), values) == [{"f": "A"}, {"f": "B"}]
    for strange in (b"\x04", b"\x01"):
        with pytest.raises(Unreadable, match="it must be a symbol of its enum"):
            decoded(Avro(registered(written)), registered(written), [strange])


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("int", b"\xfe\xff\xff\xff\x1f", "does not fit into 32 bits"),
        ("boolean", b"\x02", "it must be true or false"),
        ("string", b"\x02\xff", "UTF8|UTF-8"),
        ("string", b"\x01", "its length exceeds the value"),
        ("long", b"\xff" * 10, "a number does not end|ends too early"),
        ("long", b"\xff" * 12, "a number does not end"),
        (["null", "int"], b"\x04", "its branch is not in the union"),
    ],
)
def test_bytes_that_are_no_such_value_are_unreadable(kind, data, said):
    written = record(("f", kind))
    with pytest.raises(Unreadable, match=said) as told:
        decoded(Avro(registered(written)), registered(written), [data])
    assert told.value.field == "f"
