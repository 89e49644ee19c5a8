"""Files that documents name in backticks exist: `client/sample.py` is relative to src/magnetar or to the repository."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tests.tidy.repository import ROOT, files

NAMED = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.py)?)`")
ALONE = re.compile(r"`(?!__init__)([\w-]+\.py)`")
STRICT = ("docs/ARCHITECTURE.md", "docs/STOCK_CLIENTS.md")  # every file with its folder, every folder exists


def missing(path: str, text: str, known: Collection[str], *, strict: bool) -> Iterator[str]:
    """Names in a document that no file or folder has."""
    folders = {name.rsplit("/", depth)[0] + "/" for name in known for depth in range(1, name.count("/") + 1)}
    for name in NAMED.findall(text):
        if name.endswith("/") and not strict:
            continue
        if not {name, f"src/magnetar/{name}"} & (folders if name.endswith("/") else set(known)):
            yield f"{path}: {name} does not exist"
    if strict:
        yield from (f"{path}: {name} must be written with its folder" for name in ALONE.findall(text))


def test_every_named_file_exists() -> None:
    documents = [name for name in files() if name.startswith("docs/") and name.endswith(".md")]
    found = [
        gap
        for name in documents
        for gap in missing(name, (ROOT / name).read_text(encoding="utf-8"), files(), strict=name in STRICT)
    ]
    assert found == []


def test_missing_file_folder_and_bare_name_are_found() -> None:
    known = ["src/magnetar/client/sample.py", "tests/tidy/test_paths.py"]
    text = "`client/sample.py` `client/` `tests/tidy/test_paths.py` `client/gone.py` `gone/` `sample.py`"
    assert list(missing("x.md", text, known, strict=True)) == [
        "x.md: client/gone.py does not exist",
        "x.md: gone/ does not exist",
        "x.md: sample.py must be written with its folder",
    ]
    assert list(missing("x.md", text, known, strict=False)) == ["x.md: client/gone.py does not exist"]


def test_architecture_has_walks_diagrams_and_glossary() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    walks = ("One message", "The appender", "One split", "One Spark micro-batch", "A staged commit")
    assert [walk for walk in walks if f"\n## {walk}\n" not in text] == []
    assert text.count("```mermaid") == 2
    words = re.findall(r"^\| ([^|]+) \| ", text[text.index("## Glossary") :], re.MULTILINE)[1:]
    assert len(words) >= 40
    assert words == sorted(set(words)), "one row for each word, in order"
