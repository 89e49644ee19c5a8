"""docs/MODULES.md lists every module once, and the files of each walk in the order of ARCHITECTURE."""

from __future__ import annotations

from pathlib import Path

from tools.module_map import SOURCE, page, walks

PAGE = Path(__file__).parents[2] / "docs" / "MODULES.md"


def test_page_of_modules_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make sync"


def test_every_module_is_listed_with_sentence() -> None:
    folders = page().partition("\n## Folders\n")[2]
    rows = [line for line in folders.splitlines() if line.startswith("| [")]
    modules = [path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]
    assert len(rows) == len(modules)
    assert [row for row in rows if len(row.split(" | ")[1].removesuffix(" |")) < 10] == []


def test_every_walk_of_architecture_is_listed() -> None:
    titles = [
        line.removeprefix("### ") for line in page().partition("\n## Folders\n")[0].splitlines() if "### " in line
    ]
    assert set(titles) >= {"One message", "The appender", "One split", "One Spark micro-batch", "A staged commit"}


def test_walk_has_files_in_order_of_mention_once_each() -> None:
    text = "## A\n\n`base/ids.py`\n\n## B\n\n1. `base/names.py`\n2. `base/ids.py`, `base/names.py`, `no/no.py`.\n"
    assert list(walks(text)) == [("B", ["base/names.py", "base/ids.py"])]
