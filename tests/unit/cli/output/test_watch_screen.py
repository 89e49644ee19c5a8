"""Looks one behind another in a pipe, and one over another on a terminal, whose screen is left as it was found."""

from __future__ import annotations

import csv
import io
import json

import pytest

from magnetar.cli.output.formats import TableData
from magnetar.cli.output.output import Form
from magnetar.cli.output.values import Lag
from magnetar.cli.output.watch_screen import PipeOutput, Screen, WatchFrame

AT = "1970-01-01T00:00:05.000Z"


def look(*names: str, form: Form = "table", terminal: bool = False) -> WatchFrame:
    found = WatchFrame(form, terminal=terminal)
    found.now_ms = 5000
    found.show(json.dumps(names).encode(), TableData(("NAME", "LAG"), [(name, Lag(1)) for name in names]))
    return found


def appended(form: Form, *looks: WatchFrame) -> str:
    stream = io.StringIO()
    view = PipeOutput(stream)
    for one in looks:
        one.form = form
        view.show(one)
    return stream.getvalue()


def test_every_form_says_when_it_was() -> None:
    twice = look("a", "b"), look("b")
    assert [json.loads(line) for line in appended("jsonl", *twice).splitlines()] == [
        {"at": AT, "document": ["a", "b"]},
        {"at": AT, "document": ["b"]},
    ]
    assert json.loads(appended("json", twice[1])) == {"at": AT, "document": ["b"]}
    assert appended("yaml", twice[1], twice[1]) == f'---\nat: "{AT}"\ndocument:\n  - b\n' * 2
    assert appended("table", twice[1]) == f"# {AT}\nNAME  LAG\nb       1\n\n"


def test_csv_has_one_header_and_column_of_moments() -> None:
    rows = list(csv.reader(io.StringIO(appended("csv", look("a", "b"), look("b")), newline="")))
    assert rows == [["at", "name", "lag"], [AT, "a", "1"], [AT, "b", "1"], [AT, "b", "1"]]


def test_names_are_announced_when_they_appear_and_reappear() -> None:
    assert appended("name", look("a"), look("a", "b"), look("b"), look("b", "a")) == "a\nb\na\n"


def test_rows_told_one_by_one_are_one_look() -> None:
    one = WatchFrame("csv", terminal=False)
    columns = ("id", "data")
    with one.rows(lambda row: row["data"], lambda row: row["id"], name=lambda row: row["id"], columns=columns) as rows:
        rows.add({"id": "1:2", "data": "x", "other": 3})
    assert one.shown is not None
    assert one.shown.document == [{"id": "1:2", "data": "x", "other": 3}]
    assert appended("csv", one) == "at,id,data\r\n,1:2,x\r\n"
    assert appended("table", one) == "# -\nID   MESSAGE\n1:2  x\n\n"
    assert appended("name", one) == "1:2\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def of_ten_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": "60", "LINES": "10", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)


def test_screen_is_drawn_over_and_never_cleared_first() -> None:
    stream = Terminal()
    screen = Screen(stream, "every 1 s", colors=False)
    screen.show(look("a", terminal=True))
    screen.show(look("b", terminal=True))
    screen.close()
    text = stream.getvalue()
    assert text.count("\x1b[?1049h") == text.count("\x1b[?1049l") == 1
    assert text.count("\x1b[H") == 2
    assert "\x1b[2J" not in text
    drawn, left = text.split("\x1b[?1049l")
    assert "a" in drawn.split("\x1b[H")[1]
    assert "b" in left, "the last look stays"
    assert "\x1b[?25h" in drawn, "the cursor is back"


def test_rows_without_room_are_counted_and_shown_after_exit() -> None:
    stream = Terminal()
    screen = Screen(stream, "every 1 s", colors=False)
    screen.show(look(*[f"name-{number:02}" for number in range(20)], terminal=True))
    screen.close()
    drawn, left = stream.getvalue().split("\x1b[?1049l")
    assert drawn.count("\r\n") == 9
    assert "15 more lines" in drawn
    assert "name-19" not in drawn
    assert "name-19" in left


def test_outage_stands_over_last_look_until_there_is_another() -> None:
    stream = Terminal()
    screen = Screen(stream, "every 1 s", colors=False)
    screen.show(look("a", terminal=True))
    screen.note("no answer\x1b[2J")
    screen.show(look("b", terminal=True))
    first, second, third = stream.getvalue().split("\x1b[H")[1:]
    assert "no answer" not in first
    assert "no answer\\x1b[2J" in second
    assert "a" in second
    assert "no answer" not in third
