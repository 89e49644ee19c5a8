"""Three forms of one answer: a document, lines, a table; and a table for pipes that a program can cut."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from magnetar.cli.output.output import Form, KeyValues, Output, TableData, aligned
from magnetar.cli.output.values import Lag, Rate, Size

SHEET = TableData(("NAME", "LAG", "SIZE"), [("a", Lag(5), Size(2048)), ("longer", Lag(12), None)])


def shown(form: Form, document: Any, *parts: Any, **options: Any) -> str:
    stream = io.StringIO()
    Output(form, stream=stream).show(document, *parts, **options)
    return stream.getvalue()


def test_plain_text_is_aligned_with_numbers_to_right() -> None:
    assert list(aligned(SHEET)) == ["NAME    LAG  SIZE", "a         5  2048", "longer   12     -"]


def test_table_that_is_empty_has_its_head() -> None:
    assert list(aligned(TableData(("A", "B"), []))) == ["A  B"]


def test_facts_are_name_and_value_line() -> None:
    assert list(aligned(KeyValues({"a": 1, "longer": None}))) == ["a       1", "longer  -"]


def test_json_keeps_document_as_it_was_written() -> None:
    raw = b'{"b":1.0,"a":[1e3,null],"big":12345678901234567890}'
    text = shown("json", raw, SHEET)
    assert json.loads(text) == json.loads(raw)
    assert "12345678901234567890" in text
    assert text.index('"b"') < text.index('"a"')


def test_json_lines_cut_lists_and_take_other_rows_where_given() -> None:
    assert shown("jsonl", b'["a", "b"]') == '"a"\n"b"\n'
    assert shown("jsonl", {"a": 1}) == '{"a":1}\n'
    assert shown("jsonl", {"a": 1}, lines=[{"x": 1}, {"x": 2}]) == '{"x":1}\n{"x":2}\n'


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("table", "a\nb\n"),
        ("jsonl", '"a"\n"b"\n'),
        ("json", '[\n  "a",\n  "b"\n]\n'),
        ("yaml", "- a\n- b\n"),
        ("csv", "topic\r\na\r\nb\r\n"),
        ("name", "a\nb\n"),
    ],
)
def test_rows_are_told_as_they_come(form: Form, text: str) -> None:
    stream = io.StringIO()
    Output(form, stream=stream).stream(iter(["a", "b"]), "topic")
    assert stream.getvalue() == text


@pytest.mark.parametrize(("form", "text"), [("json", "[]\n"), ("yaml", "[]\n"), ("csv", "topic\r\n"), ("name", "")])
def test_no_rows_are_still_document(form: Form, text: str) -> None:
    stream = io.StringIO()
    Output(form, stream=stream).stream([], "topic")
    assert stream.getvalue() == text


def test_row_that_is_object_has_its_columns_and_its_name() -> None:
    for form, text in (("csv", 'id,properties\r\n1,"{""a"":1}"\r\n2,\r\n'), ("name", "1\n2\n")):
        stream = io.StringIO()
        output = Output(form, stream=stream)  # type: ignore[arg-type]
        with output.rows(lambda row: "word", name=lambda row: str(row["id"]), columns=("id", "properties")) as rows:
            rows.add({"id": 1, "properties": {"a": 1}, "other": 5})
            rows.add({"id": 2})
        assert stream.getvalue() == text


def test_every_form_of_one_answer() -> None:
    document = b'{"b": {"c": 1.5}, "a": "x"}'
    assert shown("yaml", document, SHEET) == "b:\n  c: 1.5\na: x\n"
    assert shown("csv", document, SHEET) == "name,lag,size\r\na,5,2048\r\nlonger,12,\r\n"
    assert shown("csv", document, KeyValues({"a b": 1}), table=SHEET).startswith("name,")
    assert shown("name", document, SHEET) == "a\nlonger\n"
    assert shown("name", document, SHEET, names=["other"]) == "other\n"


def test_people_are_spared_what_says_nothing_and_pipes_are_not() -> None:
    sheet = TableData(("NAME", "OUT"), [("a", Rate(0)), ("b", Rate(0))], optional=frozenset(("OUT",)))
    assert sheet.telling().columns == ["NAME"]
    assert next(aligned(sheet)) == "NAME  OUT"
    telling = TableData(("NAME", "OUT"), [("a", Rate(0)), ("b", Rate(2))], optional=frozenset(("OUT",)))
    assert telling.telling().columns == ["NAME", "OUT"]
    facts = KeyValues({"a": 1, "b": None}, optional=frozenset(("b",)))
    assert (list(facts.telling().values), len(list(aligned(facts)))) == (["a"], 2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


EVIL = "red\x1b[31m\x9b2J\x07 \u202egnp.exe\n\ttwo"


def test_names_and_messages_of_others_cannot_command_terminal() -> None:
    stream = Terminal()
    output = Output("table", colors=False, stream=stream)
    output.show(None, TableData(("NAME", "LAG"), [(EVIL, Lag(1))], title=EVIL), KeyValues({"name": EVIL}))
    with output.rows(str, lambda row: row) as rows:
        rows.add(EVIL)
    with output.rows() as rows:
        rows.add(EVIL)
    Output("name", stream=stream).show([EVIL])
    Output("csv", stream=stream).show([EVIL])
    Output("yaml", stream=stream).show([EVIL])
    told = stream.getvalue().replace("\x1b[2m", "").replace("\x1b[1m", "").replace("\x1b[0m", "")  # styles of our own
    assert not set("\x1b\x9b\x07\u202e") & set(told)
    assert told.count("\\x1b[31m") == 9
    assert "\n\ttwo" in told


def test_pipe_gets_names_and_messages_as_they_are() -> None:
    stream = io.StringIO()
    with Output("table", stream=stream).rows() as rows:
        rows.add(EVIL)
    assert stream.getvalue() == EVIL + "\n"
