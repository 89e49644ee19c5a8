"""Every test that docs/PROMISES.md calls a proof exists where it says, and every promise has one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.tidy.repository import ROOT

PAGE = ROOT / "docs" / "PROMISES.md"
PROOF = re.compile(r"\[`(test_\w+)`\]\((\.\./tests/[^)]+\.py)\)")
RULE = re.compile(r"the rules? (`\w+`(?: and `\w+`)?)")


def unproven(text: str) -> Iterator[str]:
    for name, path in PROOF.findall(text):
        file = PAGE.parent / path
        if not file.exists() or f"def {name}(" not in file.read_text(encoding="utf-8"):
            yield f"{name} is not in {path}"
    rules = (ROOT / "simulation" / "crash" / "rules.py").read_text(encoding="utf-8")
    for names in RULE.findall(text):
        for name in re.findall(r"`(\w+)`", names):
            if f"def {name}(" not in rules:
                yield f"the checker has no rule {name}"
    for row in re.findall(r"^\| (?!promise|-)(.+?) \| (.+) \|$", text, re.MULTILINE):
        if not PROOF.search(row[1]) and not RULE.search(row[1]):
            yield f"nothing proves: {row[0]}"


def test_every_promise_names_tests_that_exist() -> None:
    assert list(unproven(PAGE.read_text(encoding="utf-8"))) == []


def test_promise_without_proof_is_caught() -> None:
    assert list(unproven("| It flies | somebody said so |\n")) == ["nothing proves: It flies"]
    assert list(unproven("[`test_gone`](../tests/sim/test_crash.py)")) == [
        "test_gone is not in ../tests/sim/test_crash.py"
    ]
    assert list(unproven("by the rule `nonsense`")) == ["the checker has no rule nonsense"]
