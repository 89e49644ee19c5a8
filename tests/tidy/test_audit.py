"""An audit fails where a package is vulnerable, and where nobody could be asked."""

from __future__ import annotations

import json

import pytest

from release.audit import verdict

SOUND = {"name": "rich", "version": "15.0.0", "vulns": []}
FAULT = {"id": "PYSEC-2026-1", "fix_versions": ["0.17.0"], "aliases": [], "description": "smuggling"}
VULNERABLE = {"name": "h11", "version": "0.16.0", "vulns": [FAULT]}
UNKNOWN = {"name": "mmh3", "skip_reason": "Dependency not found on PyPI"}


def answer(*packages: object) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_sound_packages_pass() -> None:
    assert verdict(answer(SOUND)) == (0, "audit: 0 known vulnerabilities in 1 packages\n")


def test_vulnerable_package_is_told_with_its_cure() -> None:
    code, said = verdict(answer(SOUND, VULNERABLE, UNKNOWN))
    assert code == 1
    assert "h11 0.16.0: PYSEC-2026-1, fixed in 0.17.0: run make lock UPGRADE=--upgrade\n" in said


def test_package_that_was_not_looked_up_is_failure() -> None:
    code, said = verdict(answer(SOUND, UNKNOWN))
    assert code == 2
    assert "1 packages could not be looked up: this index may offer no advisories" in said
    assert "mmh3: Dependency not found on PyPI\n" in said
    assert "0 known" not in verdict(answer(UNKNOWN))[1]


@pytest.mark.parametrize("text", ["", "Traceback", "{}", "[]", answer()])
def test_no_answer_is_failure(text: str) -> None:
    code, _ = verdict(text)
    assert code == 2
