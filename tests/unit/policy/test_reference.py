"""The page that people read says what the table says."""

from __future__ import annotations

from pathlib import Path

from magnetar.policy.reference import page
from magnetar.policy.table import KEYS

PAGE = Path(__file__).parents[3] / "docs" / "CONFIGURATION.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "write magnetar.policy.reference.page() to docs/CONFIGURATION.md"


def test_every_key_stands_on_the_page() -> None:
    text = page()
    assert all(f"| `{name}` |" in text for name in KEYS)
