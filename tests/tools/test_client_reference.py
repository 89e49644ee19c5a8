"""docs/CLIENT.md is what the client says of itself, today."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tools.client_reference import page

PAGE = Path(__file__).parents[2] / "docs" / "CLIENT.md"
written = cache(page)


def test_page_is_fresh() -> None:
    assert PAGE.read_text() == written(), "run make sync"


def test_every_row_of_options_has_meaning() -> None:
    rows = [line for line in written().splitlines() if line.startswith("| `") and line.count(" | ") == 3]
    assert len(rows) > 90
    assert all(row.split(" | ")[-1].strip(" |") for row in rows)
