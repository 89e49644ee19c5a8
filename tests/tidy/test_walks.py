"""Functions and classes that a walk of ARCHITECTURE names exist in the files that the same walk names.

`publish` or `Term.reshape` is a name of code; `topic/topic.py` is a file. A walk is a section of the page. A name with
a dot needs its class and the function in one file, a name without one needs a definition or an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import ROOT

SOURCE = ROOT / "src/magnetar"
PAGE = ROOT / "docs/ARCHITECTURE.md"
LAST = "## Glossary"  # words behind it are explained, not located
_FILE = re.compile(r"`((?:\w+/)+\w+\.py)`")
_NAME = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)?)(?:\(\))?`")
# Options, commands of the wire protocol, values and folders: not names of code.
_OTHER = re.compile(r"[A-Z][A-Z_]+|cursorAdvance|eager|pyspark_magnetar|fdatasync")


def walks(text: str) -> Iterator[str]:
    for section in re.split(r"\n(?=## )", text.partition(LAST)[0]):
        if _FILE.search(section):
            yield section


def unlocated(text: str, root: Path) -> Iterator[str]:
    """Names of code that no file of their walk defines. Files that do not exist are the matter of `test_paths.py`."""
    for walk in walks(text):
        paths = [root / name for name in _FILE.findall(walk)]
        codes = [path.read_text(encoding="utf-8") for path in paths if path.is_file()]
        for name in _NAME.findall(walk):
            located = _OTHER.fullmatch(name) or (root / name).exists() or any(_defines(code, name) for code in codes)
            if not located:
                yield f"{name}: no file of its walk defines it"


def _defines(code: str, name: str) -> bool:
    outer, _, inner = name.rpartition(".")
    definition = re.search(rf"^\s*(?:(?:async )?def|class) {inner}\b|^\s*(?:self\.)?{inner}\b.* =", code, re.MULTILINE)
    return definition is not None and (not outer or re.search(rf"^class {outer}\b", code, re.MULTILINE) is not None)


def test_names_in_walks_are_defined_in_their_files() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert sum(len(_NAME.findall(walk)) for walk in walks(text)) > 20
    assert list(unlocated(text, SOURCE)) == []


def test_name_that_no_file_of_walk_defines_is_reported(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base/a.py").write_text("class A:\n    def run(self): ...\n", encoding="utf-8")
    text = "## X\n1. `A.run` in `base/a.py`.\n2. `A.stop` and `B.run`.\n## Y\n`stop` is a word here.\n"
    assert list(unlocated(text, tmp_path)) == [
        "A.stop: no file of its walk defines it",
        "B.run: no file of its walk defines it",
    ]
