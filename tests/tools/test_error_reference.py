"""docs/ERRORS.md has every class of the tree of errors, with the values that the classes have today."""

from __future__ import annotations

from pathlib import Path

from magnetar.base import errors
from tools.error_reference import page

PAGE = Path(__file__).parents[2] / "docs" / "ERRORS.md"


def test_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make sync"


def test_page_has_one_row_with_meaning_for_each_class() -> None:
    rows = [line.split(" | ") for line in page().splitlines() if line.startswith("| `")]
    kinds = {kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "http")}
    assert sorted(row[0].strip("| `") for row in rows) == sorted(kinds - {"MagnetarError"})
    assert [row[0] for row in rows if not row[-1].strip(" |")] == []
