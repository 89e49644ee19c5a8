"""The Python blocks of the README and of the pages for users run as they are written, each on its own broker, and those
of a page that tells a story one after another."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.testing import Broker
from tests.servers.standalone import Standalone
from tests.testing.suites import run_suite

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "docs/TESTING_YOUR_APP.md"]
STORIES = {"docs/CONSUMING.md": 8, "docs/PRODUCING.md": 7}  # pages, and how many blocks they have
URL = "pulsar://localhost:6650"


def blocks(*documents: str) -> list[tuple[str, str]]:
    found = []
    for name in documents or DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        fences = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        found += [(f"{name}:{text.count(chr(10), 0, match.start()) + 1}", match.group(1)) for match in fences]
    return found


def is_suite(block: str) -> bool:
    return "\ndef test_" in f"\n{block}"


def is_conftest(block: str) -> bool:
    return "@pytest.fixture" in block


def is_spark(block: str) -> bool:
    """Tried beside the examples for Spark."""
    return "import SparkSession" in block


SCRIPTS = [
    (where, block)
    for where, block in blocks()
    if not is_suite(block) and not is_conftest(block) and not is_spark(block)
]
SPARK = [(where, block) for where, block in blocks() if is_spark(block)]
SUITES = [(where, block) for where, block in blocks() if is_suite(block)]
CONFTESTS = [(where, block) for where, block in blocks() if is_conftest(block)]


def test_there_is_something_to_try_of_each() -> None:
    assert (len(SCRIPTS), len(SPARK), len(SUITES), len(CONFTESTS)) == (5, 1, 6, 1)


@pytest.mark.parametrize("block", [block for _, block in SCRIPTS], ids=[where for where, _ in SCRIPTS])
def test_script_runs(block: str, magnetar_broker_function: Broker) -> None:
    check(block, magnetar_broker_function)


@pytest.mark.parametrize("story", STORIES)
def test_story_runs_from_its_first_block_to_its_last(story: str, magnetar_broker_function: Broker) -> None:
    parts = [block for _, block in blocks(story)]
    assert len(parts) == STORIES[story]
    check("\n".join(parts), magnetar_broker_function)


def check(block: str, broker: Broker | Standalone) -> None:
    text = block.replace(URL, broker.url)
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", text]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for shown in re.findall(r"^ *print\(.*\)  # (.*)$", block, re.MULTILINE):
        assert shown in ran.stdout.splitlines()


@pytest.mark.parametrize("block", [block for _, block in SUITES], ids=[where for where, _ in SUITES])
@pytest.mark.parametrize("conftest", ["", *[block for _, block in CONFTESTS]], ids=["plain", "settings"])
def test_suite_passes_with_and_without_settings(tmp_path: Path, block: str, conftest: str) -> None:
    outcome = run_suite(tmp_path, {"conftest.py": conftest, "test_block.py": block})
    assert outcome.code == 0, outcome.output
    assert outcome.left == []


def test_index_of_pages_names_every_page() -> None:
    linked = set(re.findall(r"\]\(([A-Z_]+\.md)\)", (ROOT / "docs/README.md").read_text(encoding="utf-8")))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
