"""docs/CLI.md is what the commands say of themselves, today."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tools.cli_reference import page

PAGE = Path(__file__).parents[2] / "docs" / "CLI.md"
written = cache(page)  # it loads every command


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == written(), "run make sync"


def test_every_option_is_explained() -> None:
    for line in written().splitlines():
        if line.startswith("| `"):
            assert line.split("|")[-2].strip(" |"), line
