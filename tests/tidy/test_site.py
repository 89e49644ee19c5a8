"""The site of the documents: every page is in the navigation, no link leads nowhere, nothing is loaded from elsewhere.

`make docs`, which is a part of `make lint`, builds the site strictly and asks `release.site` for faults. Here the rules
are tried on small pages, and the documents on the parts of the rules that need no build.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import magnetar
from release.diagrams import svg
from release.site import API, api_page, documents, faults, prepare, rewritten
from tests.tidy.repository import ROOT

PROJECT = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
PLACES = {
    "docs/README.md": "index.md",
    "docs/A.md": "A.md",
    "docs/decisions/1.md": "decisions/1.md",
    "LOG.md": "LOG.md",
}
CLEAN = '<html><head><link rel="stylesheet" href="a.css"></head><body id="top"><a href="#top">x</a></body></html>'


def leaves(entries: Any) -> Iterator[str]:
    """The pages of a navigation."""
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from leaves(entry)


def test_navigation_has_every_page_once() -> None:
    assert sorted(leaves(PROJECT["nav"])) == sorted([*documents().values(), API])


def test_settings_load_nothing_from_elsewhere() -> None:
    assert PROJECT["theme"]["font"] is False
    assert PROJECT["plugins"]["mkdocstrings"]["handlers"]["python"]["inventories"] == []
    assert PROJECT["markdown_extensions"]["pymdownx"]["superfences"] == {}  # Mermaid would load a script
    assert "://" not in (ROOT / "zensical.toml").read_text(encoding="utf-8")
    assert "://" not in (ROOT / "release/site_assets/site.css").read_text(encoding="utf-8")


def test_make_builds_strictly_and_checks_in_lint() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    target = makefile.split("\ndocs: ", 1)[1].split("\n\n", 1)[0]
    assert "zensical build --strict\n" in target
    assert target.endswith("-m release.site check")
    assert re.search(r"^lint: .*\bdocs\b", makefile, re.MULTILINE)


def test_generator_before_1_is_pinned_exactly() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    (pin,) = [line for line in groups["docs"] if line.startswith("zensical")]
    assert re.fullmatch(r"zensical==0\.\d+\.\d+", pin)


def test_prepared_pages_have_pictures_and_no_diagram_scripts(tmp_path: Path) -> None:
    prepare(ROOT, tmp_path / "pages")
    texts = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "pages").rglob("*.md")}
    assert set(texts) == {Path(place).name for place in [*documents().values(), API]}
    assert [name for name, text in texts.items() if "```mermaid" in text] == []
    assert texts["SPLITS.md"].count("<svg") == 3
    assert (tmp_path / "pages/demo.svg").is_file()


def test_api_page_has_every_public_class() -> None:
    page = api_page((ROOT / "src/magnetar/__init__.py").read_text(encoding="utf-8"))
    assert re.findall(r"^::: magnetar\.(\w+)$", page, re.MULTILINE) == [n for n in magnetar.__all__ if n[0].isupper()]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("docs/A.md", "[x](README.md#top)", "[x](index.md#top)"),
        ("docs/A.md", "[x](decisions/1.md)", "[x](decisions/1.md)"),
        ("docs/A.md", "[x](../LOG.md)", "[x](LOG.md)"),
        ("LOG.md", "[x](docs/A.md#b)", "[x](A.md#b)"),
        ("docs/decisions/1.md", "[x](../A.md)", "[x](../A.md)"),
        ("docs/README.md", "[x](A.md)", "[x](A.md)"),
        ("docs/A.md", "[`x.py`](../src/x.py)", "`x.py`"),
        ("docs/A.md", "[x](#here) [y](https://example.org/)", "[x](#here) [y](https://example.org/)"),
        ("docs/A.md", "![x](demo.svg)", "![x](demo.svg)"),
        ("docs/A.md", "```\n[x](../src/x.py)\n```", "```\n[x](../src/x.py)\n```"),
        ("docs/A.md", "| `a \\| b` | c |", "| `a | b` | c |"),
    ],
)
def test_document_becomes_page(name: str, text: str, expected: str) -> None:
    assert rewritten(text, name, PLACES) == expected


def test_clean_site_has_no_fault(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(CLEAN)
    assert list(faults(tmp_path)) == []


@pytest.mark.parametrize(
    "part",
    [
        '<script src="https://example.org/x.js"></script>',
        '<script src="//example.org/x.js"></script>',
        '<link rel="stylesheet" href="https://example.org/x.css">',
        '<link rel="preconnect" href="https://example.org">',
        '<img src="https://example.org/x.png">',
        '<pre class="mermaid">flowchart TB</pre>',
        '<a href="gone/">x</a>',
        '<a href="#gone">x</a>',
        '<a href="../../outside.html">x</a>',
    ],
)
def test_fault_of_page_is_found(tmp_path: Path, part: str) -> None:
    (tmp_path / "index.html").write_text(CLEAN + part)
    assert len(list(faults(tmp_path))) == 1


@pytest.mark.parametrize("rule", ["@import 'https://example.org/x.css';", "a { src: url(https://example.org/x.woff) }"])
def test_fault_of_style_is_found(tmp_path: Path, rule: str) -> None:
    (tmp_path / "index.html").write_text(CLEAN)
    (tmp_path / "x.css").write_text(rule)
    assert len(list(faults(tmp_path))) == 1


def test_site_without_pages_is_fault(tmp_path: Path) -> None:
    assert len(list(faults(tmp_path))) == 1


def test_diagram_shows_labels_and_escapes_them() -> None:
    picture = svg('flowchart TB\n a["one <b>"] --> b["two"]\n b --> c\n a --> c')
    assert [label in picture for label in ("one &lt;b&gt;", ">two<", ">c<")] == [True] * 3
    assert picture.count("marker-end") == 3
    assert ">hello<" in svg("sequenceDiagram\n participant A as one\n participant B as two\n A->>B: hello")


@pytest.mark.parametrize(
    "diagram",
    [
        "pie\n x",
        "flowchart TB\n a --- b",
        "flowchart TB\n a --> b\n b --> a",
        "sequenceDiagram\n Note over A: x",
    ],
)
def test_unknown_diagram_is_refused(diagram: str) -> None:
    with pytest.raises(ValueError, match=r"expected|must not"):
        svg(diagram)
