"""The page that people read says what the table says."""

from __future__ import annotations

from pathlib import Path

from magnetar.policy.table import KEYS
from tools.settings_reference import page

PAGE = Path(__file__).parents[2] / "docs" / "CONFIGURATION.md"


def test_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "run make sync"


def test_every_key_stands_on_page() -> None:
    text = page()
    assert all(f"| `{name}` |" in text for name in KEYS)
