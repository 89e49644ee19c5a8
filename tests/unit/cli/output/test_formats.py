"""One answer for programs: CSV that any reader of RFC 4180 takes apart, names that fit a loop, exact values."""

from __future__ import annotations

import csv
import io

import pytest

from magnetar.base.errors import Misuse
from magnetar.cli.output.formats import Document, KeyValues, TableData, csv_line, csv_of, heading, names_of
from magnetar.cli.output.values import Cell, Duration, Lag, Moment, Rate, Size

CELLS: list[Cell] = [Rate(0.1 + 0.2), Moment(1), Moment(0), Size(2048), Duration(1.5), Lag(7), True, None, "x"]
EXACT = ["0.30000000000000004", "1970-01-01T00:00:00.001Z", "", "2048", "1.5", "7", "true", "", "x"]


def table(shown: Document) -> list[list[str]]:
    header, rows = csv_of(shown)
    text = "".join(csv_line(row) for row in (header, *rows))
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def test_values_are_exact_and_in_utc() -> None:
    columns = [f"C {place}" for place in range(len(CELLS))]
    assert table(Document(None, (TableData(columns, [CELLS]),)))[1] == EXACT
    facts = KeyValues(dict(zip(columns, CELLS, strict=True)))
    assert table(Document(None, (facts,))) == [[heading(name) for name in columns], EXACT]


def test_words_with_commas_quotes_and_lines_come_back_whole() -> None:
    word = 'a,"b"\r\nc'
    assert table(Document(None, (TableData(("LAST ACK",), [(word,)]),))) == [["last_ack"], [word]]
    assert csv_line(["a", None, True, {"x": [1]}]) == 'a,,true,"{""x"":[1]}"\r\n'


def test_document_without_table_is_cut_by_what_it_is() -> None:
    assert table(Document(b'["a","b"]')) == [["value"], ["a"], ["b"]]
    assert table(Document(b'{"a":1,"b":{"c":2}}')) == [["a", "b"], ["1", '{"c":2}']]
    assert table(Document([{"a": 1}, {"b": 2}])) == [["a", "b"], ["1", ""], ["", "2"]]


def test_names_are_first_column_or_what_list_holds() -> None:
    assert names_of(Document(None, (TableData(("SEGMENT", "X"), [(3, "a"), (4, "b")]),))) == ["3", "4"]
    assert names_of(Document(None, (KeyValues({"topic": "t", "x": 1}),))) == ["t"]
    assert names_of(Document(b'["a", 5]')) == ["a", "5"]
    assert names_of(Document(b'{"k": {}, "l": {}}')) == ["k", "l"]
    with pytest.raises(Misuse):
        names_of(Document(b'[{"a": 1}]'))
