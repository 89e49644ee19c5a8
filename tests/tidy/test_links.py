"""Documents point at what exists: every relative link of every Markdown file leads to a file, and to a heading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import ROOT, files

LINK = re.compile(r"\[[^\]]*\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
ANCHORED = re.compile(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def dead_links(path: str, text: str, root: Path) -> Iterator[str]:
    for match in LINK.finditer(text):
        if not (root / path).parent.joinpath(match.group(1)).exists():
            yield f"{path}: {match.group(1)} is not there"


def anchors(text: str) -> set[str]:
    """The anchors that viewers give to the headings of a document."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return names


def dead_anchors(path: str, text: str, root: Path) -> Iterator[str]:
    for target, anchor in ANCHORED.findall(FENCE.sub("", text)):
        page = (root / path).parent / target if target else root / path
        if page.suffix == ".md" and page.is_file() and anchor not in anchors(page.read_text(encoding="utf-8")):
            yield f"{path}: {target}#{anchor} is not a heading"


def test_every_anchor_is_heading() -> None:
    documents = [name for name in files() if name.endswith(".md")]
    assert [
        link for name in documents for link in dead_anchors(name, (ROOT / name).read_text(encoding="utf-8"), ROOT)
    ] == []


def test_dead_anchor_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A title: `x`\n\n## Part\n\n## Part\n```\n# no heading\n```\n")
    text = "[a](there.md#a-title-x) [b](there.md#part-1) [c](there.md#gone) [d](there.md#no-heading)"
    (tmp_path / "index.md").write_text(text)
    assert [fault.split(": ")[1].split(" ")[0] for fault in dead_anchors("index.md", text, tmp_path)] == [
        "there.md#gone",
        "there.md#no-heading",
    ]


def test_every_link_leads_somewhere() -> None:
    documents = [name for name in files() if name.endswith(".md")]
    assert [
        link for name in documents for link in dead_links(name, (ROOT / name).read_text(encoding="utf-8"), ROOT)
    ] == []


def test_dead_link_is_caught(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("x")
    text = "[a](there.md) [b](there.md#part) [c](https://example.org/x) [d](gone.md)"
    assert list(dead_links("index.md", text, tmp_path)) == ["index.md: gone.md is not there"]
