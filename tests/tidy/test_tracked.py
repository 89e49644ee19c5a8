"""What no tracked file may hold: paths of one machine, places packages came from, keys, more than one can review."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.tidy.repository import ROOT, files

BYTES_MAX = 1_000_000
TEXT = {
    ".py",
    ".pyi",
    ".md",
    ".toml",
    ".txt",
    ".json",
    ".proto",
    ".conf",
    ".yml",
    ".yaml",
    ".sh",
    ".cfg",
    ".tsv",
    ".csv",
    "",
}
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w./-])/(?:work|farm|root|Users|home/[a-z]\w*)/"),
    "a place packages come from; PyPI is the default": re.compile(
        r"(?:index|extra-index)-url|find-links|trusted-host|_INDEX_URL|_FIND_LINKS"
    ),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a conflict marker": re.compile(r"^(?:<<<<<<<|>>>>>>>) ", re.MULTILINE),
}
QUOTES_THEM = "tests/tidy/test_tracked.py"  # this file


def unwelcome(path: str, text: str) -> Iterator[str]:
    for what, pattern in FORBIDDEN.items():
        for match in pattern.finditer(text):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {what}"


def test_no_tracked_file_tells_where_it_was_written() -> None:
    found = []
    for name in files():
        path = ROOT / name
        if path.suffix in TEXT and name != QUOTES_THEM:
            found += unwelcome(name, path.read_text(encoding="utf-8"))
    assert found == []


def test_no_tracked_file_is_too_big_to_review() -> None:
    assert [name for name in files() if (ROOT / name).stat().st_size > BYTES_MAX] == []


@pytest.mark.parametrize(
    "text",
    [
        "see /work/main/x",
        "open('/root/x')",
        "cd /home/somebody/magnetar/",
        "pip install --index-url https://example.invalid/simple",
        "-----BEGIN EC PRIVATE KEY-----",
        "<<<<<<< HEAD\n",
    ],
)
def test_breach_is_caught(text: str) -> None:
    assert list(unwelcome("x", text))


@pytest.mark.parametrize("text", ["the framework/ folder", "GET /admin/v2/persistent", "src/work/x", "../root/x"])
def test_what_is_right_is_let_through(text: str) -> None:
    assert list(unwelcome("x", text)) == []
