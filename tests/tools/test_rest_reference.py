"""docs/REST.md has every route that the broker serves and describes, and the features whose routes answer 501."""

from __future__ import annotations

import re
from pathlib import Path

from magnetar.admin import unsupported
from magnetar.admin.openapi import document
from magnetar.admin.router import table
from tools.rest_reference import page

PAGE = Path(__file__).parents[2] / "docs" / "REST.md"
BOTH = "{persistent\\|non-persistent}"


def rows(text: str) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for method, path in re.findall(r"^\| ([A-Z]+) \| `([^`]+)` \|", text, re.MULTILINE):
        domains = ("persistent", "non-persistent") if BOTH in path else ("",)
        found |= {(method, path.replace(BOTH, domain)) for domain in domains}
    return found


def test_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make sync"


def test_page_has_exactly_described_routes() -> None:
    paths = document(table().routes)["paths"]
    assert rows(page()) == {(method.upper(), path) for path, methods in paths.items() for method in methods}


def test_page_names_every_feature_that_answers_501() -> None:
    missing = page().split("## Not built")[1]
    assert [feature for feature in unsupported.FEATURES if feature not in missing] == []
    assert [name for name in unsupported.TOPIC_POLICIES if f"`{name}`" not in missing] == []
