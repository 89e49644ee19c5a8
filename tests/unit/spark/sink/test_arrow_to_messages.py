"""Arrow columns as messages: every row with all that it says, and a schema that cannot be written refused by name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'magnetar[spark]'")

from magnetar.base.errors import Misuse  # noqa: E402
from magnetar.spark.sink.arrow_to_messages import check_columns, largest, messages  # noqa: E402


def rows(first: int = -1, **columns: Any) -> list[tuple[bytes, Any]]:
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    return list(messages(batch, list(columns), first=first))


def test_key_and_value_are_all_most_rows_have() -> None:
    found = rows(key=pa.array(["a", None, ""]), value=pa.array([b"1", b"2", b""]))
    assert [(value, fields and fields.key) for value, fields in found] == [(b"1", "a"), (b"2", None), (b"", "")]


def test_text_is_its_bytes() -> None:
    assert rows(value=pa.array(["é"])) == [("é".encode(), None)]


def test_binary_keys_become_text_if_valid() -> None:
    [(_, text)] = rows(key=pa.array([b"a"]), value=pa.array([b"1"]))
    assert (text.key, text.key_base64) == ("a", False)
    found = rows(key=pa.array([b"a", b"\xff", None]), value=pa.array([b"1", b"2", b"3"]))
    assert [fields and (fields.key, fields.key_base64) for _, fields in found] == [("a", False), ("/w==", True), None]


def test_times_properties_and_null_values_are_kept() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    pairs = pa.array([[("a", "b")], None, []], pa.map_(pa.string(), pa.string()))
    found = rows(
        value=pa.array([b"1", None, b"3"]),
        event_time=pa.array([at, None, None], pa.timestamp("us", "UTC")),
        properties=pairs,
    )
    said = [(value, fields.event_time, fields.properties, fields.null_value) for value, fields in found]
    ms = round(at.timestamp() * 1000)
    assert said == [(b"1", ms, {"a": "b"}, False), (b"", 0, None, True), (b"3", 0, None, False)]


def test_numbered_rows_carry_their_numbers() -> None:
    assert [fields.sequence for _, fields in rows(first=40, value=pa.array([b"1", b"2"]))] == [40, 41]


def test_columns_in_any_order_are_found_by_name() -> None:
    [(value, fields)] = rows(value=pa.array([b"v"]), key=pa.array(["k"]))
    assert (value, fields.key) == (b"v", "k")


def test_largest_row_is_found_by_all_that_it_holds() -> None:
    pairs = [None, [("name", "x" * 20), ("none", None)], []]
    batch = pa.record_batch(
        [
            pa.array(["12345", None, "é" * 4]),
            pa.array([b"1" * 9, b"2", None]),
            pa.array(pairs, pa.map_(pa.string(), pa.string())),
        ],
        names=["value", "key", "properties"],
    )
    names = ["value", "key", "properties"]
    assert largest(batch, names) == (29, 1)
    assert largest(batch.slice(2), names) == (8, 0)
    assert largest(batch.select(["value", "key"]), ["value", "key"]) == (14, 0)
    assert largest(batch.select(["value"]), ["value"]) == (8, 2)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "column value is missing"),
        ([("key", "string")], "found: key"),
        (
            [("value", "int")],
            "column value is int, but must be string or binary: cast it to string, or use to_json",
        ),
        ([("value", "string"), ("key", "int")], "column key is int"),
        ([("value", "string"), ("event_time", "string")], "column event_time is string, but must be timestamp"),
        ([("value", "string"), ("properties", "map<string,int>")], "column properties"),
        (
            [("value", "string"), ("partition", "int")],
            "column partition cannot be written: .*topic names its topic",
        ),
        ([("value", "string"), ("topic", "binary")], "column topic is binary, but must be string: cast it"),
    ],
)
def test_schema_that_cannot_be_written_is_refused(schema: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(Misuse, match=words):
        check_columns(schema)


def test_every_kind_that_column_may_have_is_taken() -> None:
    check_columns(
        [
            ("key", "binary"),
            ("value", "string"),
            ("event_time", "timestamp_ntz"),
            ("properties", "map<string,string>"),
            ("topic", "string"),
        ]
    )
