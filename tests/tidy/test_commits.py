"""Commit subjects: `area: imperative` in 72 characters; the reason stands in the body."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.tidy.repository import ROOT

FIRST = "e25eb58c8dc83df4721e1b130b56025371c42e7a"  # later commits follow the rule
SUBJECT = re.compile(r"[a-z][\w./-]*(, ?[a-z][\w./-]*)*: [a-z0-9].*[^.]")
SUBJECT_CHARS_MAX = 72


def wrong(subject: str) -> bool:
    return len(subject) > SUBJECT_CHARS_MAX or SUBJECT.fullmatch(subject) is None


def test_subjects_of_new_commits_name_area_and_action() -> None:
    asked = ["git", "-C", str(ROOT), "log", "--no-merges", "--format=%s", f"{FIRST}..HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    # A source archive and a shallow clone have no history to check.
    subjects = found.stdout.splitlines() if found.returncode == 0 else []
    assert [subject for subject in subjects if wrong(subject)] == []


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("client: report data loss when a group starts behind deleted messages", False),
        ("cli, admin: use one properties parser", False),
        ("Tell once what four tests of chunks begin with", True),
        ("client: " + "x" * 72, True),
        ("client: Fix it.", True),
    ],
)
def test_wrong_subject_is_found(subject: str, expected: bool) -> None:
    assert wrong(subject) is expected
