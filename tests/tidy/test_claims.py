"""Documents and error texts agree on which features exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

from magnetar.admin.openapi import document
from magnetar.admin.router import table
from tests.tidy.repository import ROOT, product

BUILT = ("calls between brokers", "scalable topics")  # features that texts once called not built


def contradictions(architecture: str, compatibility: str) -> Iterator[str]:
    """Proposals that ARCHITECTURE explains by a file and COMPATIBILITY calls "not yet"."""
    explained = set(re.findall(r"\((PIP-\d+), `[\w/]+\.py`\)", architecture))
    for row in re.findall(r"^\|.*\|$", compatibility, re.MULTILINE):
        state = row.rstrip("| ").rpartition("|")[2].strip()
        for proposal in re.findall(r"PIP-\d+", row):
            if proposal in explained and state == "not yet":
                yield f"{proposal} is explained in ARCHITECTURE and is not built in COMPATIBILITY"


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_explained_proposals_are_not_called_missing() -> None:
    assert list(contradictions(page("ARCHITECTURE.md"), page("COMPATIBILITY.md"))) == []


def test_proposal_explained_and_called_missing_is_found() -> None:
    found = contradictions("Silence (PIP-57, `cluster/session_state.py`).", "| Session timeouts (PIP-57) | not yet |\n")
    assert list(found) == ["PIP-57 is explained in ARCHITECTURE and is not built in COMPATIBILITY"]


def test_openapi_leaves_out_missing_routes_as_documented() -> None:
    routes = table().routes
    missing = {route.path for route in routes if route.summary.startswith("Not built")}
    served = {route.path for route in routes if not route.summary.startswith("Not built")}
    assert missing
    assert (missing - served) & document(routes)["paths"].keys() == set()
    assert "| `/openapi.json` | every REST route that is built; routes that answer 501" in page("OPERATING.md")


def test_texts_do_not_deny_features_that_exist() -> None:
    denied = [
        f"{source.path}: {feature}"
        for source in product()
        for feature in BUILT
        if f"{feature} are not built" in source.text
    ]
    assert denied == []
