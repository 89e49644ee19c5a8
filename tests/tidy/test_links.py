"""Documents point at what exists: every relative link of every Markdown file leads to a file of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import ROOT, files

LINK = re.compile(r"\[[^\]]*\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


def dead_links(path: str, text: str, root: Path) -> Iterator[str]:
    for match in LINK.finditer(text):
        if not (root / path).parent.joinpath(match.group(1)).exists():
            yield f"{path}: {match.group(1)} is not there"


def test_every_link_leads_somewhere() -> None:
    documents = [name for name in files() if name.endswith(".md")]
    assert [
        link for name in documents for link in dead_links(name, (ROOT / name).read_text(encoding="utf-8"), ROOT)
    ] == []


def test_a_dead_link_is_caught(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("x")
    text = "[a](there.md) [b](there.md#part) [c](https://example.org/x) [d](gone.md)"
    assert list(dead_links("index.md", text, tmp_path)) == ["index.md: gone.md is not there"]
