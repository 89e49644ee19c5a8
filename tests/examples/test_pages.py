"""The shell and Python blocks of the pages for new users run in their order, each page on its own broker.

A block ```text holds lines that the blocks before it print. Blocks without a language (installation, the start of a
broker) are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.testing import Broker
from tests.examples.test_documents import ROOT, check

PAGES = {  # pages, and how many blocks of each language they have
    "docs/START.md": {"shell": 3, "python": 1, "text": 3},
    "docs/MOVING_FROM_PULSAR.md": {"shell": 2, "python": 1, "text": 1},
    "docs/ERRORS.md": {"python": 1},
    "docs/REST.md": {"shell": 1},
}


def fences(text: str) -> Iterator[tuple[str, str]]:
    """Language and content of each block that has a language; pictures are left out."""
    for match in re.finditer(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if match.group(1) != "mermaid":
            yield match.group(1), match.group(2)


def shell(block: str, broker: Broker, folder: Path) -> str:
    """What a block prints. It fails with its first command that fails."""
    environment = dict(os.environ) | {
        "HOME": str(folder),
        "MAGNETAR_ADMIN_URL": broker.admin_url,
        "MAGNETAR_URL": broker.url,
        "NO_COLOR": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(folder),
    }
    command = ["bash", "-eu", "-o", "pipefail", "-c", block]
    ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.mark.parametrize("page", PAGES)
def test_page_runs_from_its_first_block_to_its_last(
    page: str, magnetar_broker_function: Broker, tmp_path: Path
) -> None:
    printed: list[str] = []
    counts: dict[str, int] = {}
    for language, block in fences((ROOT / page).read_text(encoding="utf-8")):
        counts[language] = counts.get(language, 0) + 1
        if language == "shell":
            printed += shell(block, magnetar_broker_function, tmp_path).splitlines()
        elif language == "python":
            check(block, magnetar_broker_function)
        else:
            missing = set(block.splitlines()) - {line.rstrip() for line in printed}
            assert sorted(missing) == [], printed
    assert counts == PAGES[page]


def test_shell_block_that_fails_is_found(magnetar_broker_function: Broker, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no-such-topic"):
        shell("magnetar topic show topic://public/default/no-such-topic\ntrue\n", magnetar_broker_function, tmp_path)
