"""The benchmark of scalable topics runs to its end and writes what it measured; how large a figure is, is not asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_ten_thousand_watches_are_all_told_and_figures_are_written(tmp_path: Path) -> None:
    output = tmp_path / "reshape.json"
    command = [sys.executable, "-m", "benchmarks.reshape", "--only", "watch", "--rounds", "1", "--output", str(output)]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    names = [figure["name"] for figure in json.loads(output.read_text())["figures"]]
    assert names[0] == "last of 10000 watches told, after a split was asked for"
