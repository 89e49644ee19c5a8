"""Pages and examples have none of the idioms that hide the subject of a sentence.

Code blocks and inline code are left out, since they show names of tests, marks and output. "No longer" is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest

from tests.tidy.idioms import IDIOMS
from tests.tidy.repository import ROOT, Source, files, findings, sources
from tests.tidy.test_citations import prose

PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/*.md")  # "*" includes docs/decisions
PHRASE = re.compile(IDIOMS.pattern.replace(" ", r"\s+"), re.IGNORECASE)  # a line break inside an idiom is a space
FENCED = re.compile(r"^ *(```+)[^\n]*\n.*?^ *\1", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`[^`]+`")
MARK = re.compile(r"\b[a-z_]+\.[a-z_]+\b")  # names of marks in tables: gap.told
ALLOWED = re.compile(r"\bno\s+longer\b", re.IGNORECASE)


def pages() -> list[str]:
    return [name for name in files() if any(fnmatchcase(name, page) for page in PAGES)]


def blank(match: re.Match[str]) -> str:
    """The same number of lines, without the words."""
    return "x" + "\n" * match.group().count("\n")


def without_code(text: str) -> str:
    for pattern in (FENCED, INLINE, MARK, ALLOWED):
        text = pattern.sub(blank, text)
    return text


def unclear(path: str, text: str) -> Iterator[str]:
    bare = without_code(text)
    for match in PHRASE.finditer(bare):
        line = bare.count("\n", 0, match.start()) + 1
        yield f"{path}:{line}: '{match.group()}' hides the subject of the sentence"


def unclear_example(source: Source) -> Iterator[str]:
    for line, text in prose(source):
        yield from (source.found(line, finding.split(": ", 1)[1]) for finding in unclear(source.path, text))


def test_pages_name_their_subjects() -> None:
    assert [finding for name in pages() for finding in unclear(name, (ROOT / name).read_text(encoding="utf-8"))] == []


def test_examples_name_their_subjects() -> None:
    assert findings(unclear_example, (source for source in sources() if source.path.startswith("examples/"))) == []


def test_pages_of_docs_and_of_root_are_read() -> None:
    assert {"README.md", "CHANGELOG.md", "docs/PROTOCOL.md", "docs/CLI.md", "docs/METRICS.md"} <= set(pages())
    assert any(name.startswith("docs/decisions/") for name in pages())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Whoever leads next finishes it.\n", 1),
        ("The broker\ncreates it anew.\n", 2),
        ("| the split | nobody was told |\n", 1),
        ("The consumer waits for\never.\n", 1),
        ("Code: `x`. The name is no topic.\n", 1),
        ("```\nwhoever\n```\nThe broker answers at once.\n", 4),
    ],
)
def test_idiom_on_page_is_found_with_its_line(text: str, line: int) -> None:
    found = list(unclear("docs/X.md", text))
    assert found
    assert found[0].startswith(f"docs/X.md:{line}: ")


@pytest.mark.parametrize(
    "text",
    [
        "The broker is no longer the owner.\n",
        "The topic is no\nlonger loaded.\n",
        "See [`test_whoever`](x.py) and `nobody is\ntold`.\n",
        "1. Run:\n\n   ```\n   made anew\n   ```\n",
        "| gap.told | 297 |\n",
        "The leader finishes the split.\n",
    ],
)
def test_plain_sentence_on_page_is_let_through(text: str) -> None:
    assert list(unclear("docs/X.md", text)) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [('"""Tells whoever asks."""\n', 2), ("x = 1  # made anew\n", 1), ("told = 1\n", 0), ("x = 'nobody'\n", 0)],
)
def test_idioms_in_prose_of_example_are_found(text: str, number: int) -> None:
    assert len(list(unclear_example(Source("examples/x.py", text)))) == number
