"""Every code block of the pages is run by a test, or listed here with the reason why it is not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.examples.test_documents import DOCUMENTS, STORIES
from tests.examples.test_pages import PAGES
from tests.tidy.repository import ROOT

RUN = {
    "docs/CLI.md": {"console"},  # the examples of the commands: tests/cli/test_examples.py
    "docs/SPARK.md": {"python", "sql"},  # tests/examples/test_spark.py
}
RUN |= {page: {"python"} for page in (*DOCUMENTS, *STORIES)}
RUN |= {page: set(languages) for page, languages in PAGES.items()}
# Blocks that no test runs, by page and language, and how many.
LISTED = {
    ("README.md", "-"): 4,  # make, installation, and what the demo prints: `tests/process/test_demo.py`
    ("docs/AUTOSCALE.md", "console"): 2,  # the examples of these commands run in tests/cli/test_examples.py
    ("docs/ARCHITECTURE.md", "mermaid"): 2,  # a picture
    ("docs/CLI.md", "-"): 1,  # lines of a shell's start file: `tests/cli/test_shells.py`
    ("docs/COMPATIBILITY.md", "-"): 1,  # needs a checkout of another client
    ("docs/OPERATING.md", "shell"): 1,  # curl on the fixed ports of a broker
    ("docs/SPLITS.md", "mermaid"): 3,  # pictures
    ("docs/START.md", "-"): 1,  # installation
    ("docs/TESTING.md", "text"): 1,  # what a replay prints
}


def languages(page: Path) -> Counter[str]:
    """How many blocks of each language; "-": no language."""
    fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return Counter(fence.strip() or "-" for fence in fences[::2])


def test_every_block_is_run_or_listed() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    rest = {
        (path, language): count
        for page in pages
        for path in [str(page.relative_to(ROOT))]
        for language, count in languages(page).items()
        if language not in RUN.get(path, ())
    }
    assert rest == LISTED
