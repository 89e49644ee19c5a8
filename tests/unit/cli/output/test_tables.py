"""Tables in windows of any width: no name and no number loses a letter."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from magnetar.cli.output.formats import Document, KeyValues, Part, TableData
from magnetar.cli.output.output import paint
from magnetar.cli.output.tables import Column, broken, chosen, fit
from magnetar.cli.output.values import Cell, Lag

NAME = "persistent://acme/warehouse-eu/inventory-adjustments-by-location-and-supplier-v2"


def seen(width: int, *parts: Part) -> list[str]:
    text = io.StringIO()
    paint(Console(file=text, width=width, highlight=False), Document(None, parts))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_widest_text_is_narrowed_first_and_numbers_never() -> None:
    columns = [Column("NAME", 40, 16), Column("LAG", 9, 9), Column("WHY", 30, 16)]
    assert fit(columns, 90) == [40, 9, 30]
    assert fit(columns, 80) == [37, 9, 30]
    assert fit(columns, 60) == [23, 9, 24]
    assert fit(columns, 45) == [16, 9, 16]
    assert fit(columns, 44) is None


def test_what_can_be_missed_is_left_out_from_right() -> None:
    columns = [Column("A", 10, 10), Column("B", 10, 10, True), Column("C", 10, 10), Column("D", 10, 10, True)]
    assert chosen(columns, 46) == ([0, 1, 2, 3], [10, 10, 10, 10])
    assert chosen(columns, 45) == ([0, 1, 2], [10, 10, 10])
    assert chosen(columns, 33) == ([0, 2], [10, 10])
    assert chosen(columns, 21) is None


def test_name_is_broken_at_its_joints_and_keeps_every_letter() -> None:
    lines = broken(NAME, 40).split("\n")
    assert "".join(lines) == NAME
    assert all(len(line) <= 40 for line in lines)
    assert [line[-1] for line in lines[:-1]] == ["/", "-"]
    assert broken("x" * 25, 10).split("\n") == ["x" * 10, "x" * 10, "x" * 5]
    assert broken("short", 10) == "short"


ROWS: list[tuple[Cell, ...]] = [(NAME, Lag(1234567), "a reason of some length, told by a person", "localhost:8080")]
SHEET = TableData(("TOPIC", "LAG", "WHY", "BROKER"), ROWS, optional=frozenset(("BROKER",)))


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 100, 140, 200])
def test_nothing_of_row_is_cut_in_window_of_any_width(width: int) -> None:
    lines = seen(width, SHEET, KeyValues({"topic": NAME}))
    assert all(len(line) <= width for line in lines)
    letters = "".join("".join(lines).split())
    assert letters.count("1,234,567") == 1
    if width < 45:
        assert NAME in "".join(line.partition("topic")[2].strip() or line.strip() for line in lines if line)
    whole = "localhost:8080" in letters
    assert whole or "columnsnotshown:BROKER" in letters


def test_window_too_narrow_for_table_shows_row_by_row() -> None:
    lines = seen(25, TableData(("SUBSCRIPTION", "CONSUMERS", "LAG"), [("billing", 12, Lag(3)), ("audit", 1, Lag(0))]))
    assert lines[0].split() == ["subscription", "billing"]
    assert lines[3] == ""
    assert lines[4].split() == ["subscription", "audit"]


def test_table_without_rows_says_so() -> None:
    assert seen(80, TableData(("TOPIC",), []))[-1] == "none"
