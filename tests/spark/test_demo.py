"""`magnetar demo --spark` interrupted. Whole, with its verdict, it is run by `make demo`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WAIT_S = 120.0


def inside(folder: Path) -> list[str]:
    """Processes that work in a folder: broker, driver, Java, Python of tasks."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            where = (process / "cwd").readlink()
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it is gone, or not ours
            continue
        if where.is_relative_to(folder) or str(folder) in words:
            found.append(words)
    return found


def test_interrupted_while_query_runs_nothing_of_it_stays(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    command = [sys.executable, "-m", "magnetar.cli.main", "demo", "--spark"]
    # What a shell puts in the background ignores SIGINT, and so do its children: a person's Ctrl-C is not ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        environment = {**os.environ, "TMPDIR": str(folder)}
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    finally:
        signal.signal(signal.SIGINT, before)
    with running:
        assert running.stderr is not None
        steps = ""
        while "query running" not in steps:
            line = running.stderr.readline()
            assert line, steps
            steps += line
        assert any("java" in words for words in inside(folder))
        running.send_signal(signal.SIGINT)
        said, told = running.communicate()
    assert running.returncode != 0
    assert said == ""
    assert "Traceback" not in told
    assert list(folder.iterdir()) == []
    until = time.monotonic() + WAIT_S
    while left := inside(folder):  # Python of tasks sees that Java is gone, and goes
        assert time.monotonic() < until, left
        time.sleep(0.1)
