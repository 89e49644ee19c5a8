"""`magnetar demo` as it is typed: in a pipe, on a terminal, without the kill, and interrupted; nothing stays behind.

Through Spark it is run whole by `make demo`; here stand what it says where Spark cannot start."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "magnetar.cli.main", "demo", "--seconds", "1", "--rate", "1000"]


@pytest.fixture
def temporary(tmp_path: Path) -> dict[str, str]:
    """An environment whose temporary files are here and nowhere else."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return {**os.environ, "TMPDIR": str(folder)}


def left(environment: dict[str, str], steps: str) -> list[str]:
    """Files, and brokers that the steps name and that still run."""
    pids = {int(pid) for pid in re.findall(r"broker (\d+)", steps)}
    alive = [f"process {pid}" for pid in sorted(pids) if Path(f"/proc/{pid}").exists()]
    return [path.name for path in Path(environment["TMPDIR"]).iterdir()] + alive


def test_killed_in_middle_every_acknowledged_message_arrives_in_order(temporary: dict[str, str]) -> None:
    ran = subprocess.run([*COMMAND, "-o", "json"], capture_output=True, text=True, env=temporary, check=False)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    document = json.loads(ran.stdout)
    assert document["ok"] is True
    assert document["kills"] == 1
    assert document["acknowledged"] > 0
    assert {row["type"] for row in document["subscriptions"]} == {
        "Exclusive",
        "Failover",
        "Shared",
        "Key_Shared",
        "Stream",
    }
    assert (document["splits"], document["merges"]) == (4, 2)
    for step in (
        "starting a broker",
        "kill -9",
        "is back on the same directory",
        "split #0 into #1 and #2",
        "every acknowledged message has arrived",
    ):
        assert step in ran.stderr
    assert left(temporary, ran.stderr) == []


def test_without_kill_nothing_comes_twice(temporary: dict[str, str]) -> None:
    ran = subprocess.run(
        [*COMMAND, "--no-kill", "-o", "json"], capture_output=True, text=True, env=temporary, check=False
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    document = json.loads(ran.stdout)
    assert document["kills"] == 0
    assert [row["duplicates"] for row in document["subscriptions"]] == [0, 0, 0, 0, 0]
    assert document["failed"] == 0
    assert left(temporary, ran.stderr) == []


def test_on_terminal_there_is_picture(temporary: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    environment = {**temporary, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=theirs, env=environment) as running:
        os.close(theirs)
        screen = b""
        try:
            while piece := os.read(ours, 65536):
                screen += piece
        except OSError:  # how a terminal says that the other side is gone
            pass
        os.close(ours)
        assert running.stdout is not None
        verdict = running.stdout.read().decode()
    shown = screen.decode(errors="replace")
    assert running.returncode == 0, shown + verdict
    assert "magnetar demo" in shown
    assert "BACKLOG" in shown
    assert "└─#2 8000-ffff ●" in re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "OK: every acknowledged message arrived" in verdict
    assert left(temporary, shown) == []


@pytest.mark.parametrize("at", ["starting a broker", "consumers of 5 subscriptions", "kill -9"])
def test_interrupted_at_any_step_its_broker_and_files_go_too(temporary: dict[str, str], at: str) -> None:
    command = [*COMMAND[:-4], "--seconds", "2"]
    # What a shell puts in the background ignores SIGINT, and so do its children: a person's Ctrl-C is not ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=temporary)
    finally:
        signal.signal(signal.SIGINT, before)
    with running:
        assert running.stderr is not None
        steps = ""
        while at not in steps:
            line = running.stderr.readline()
            assert line, steps
            steps += line
        running.send_signal(signal.SIGINT)
        rest, said = running.communicate()
    assert running.returncode != 0
    assert rest == ""
    assert "Traceback" not in said
    assert left(temporary, steps + said) == []


def test_broker_that_cannot_start_is_said_with_what_to_do(temporary: dict[str, str], tmp_path: Path) -> None:
    """Without the packages of the broker, which a plain install does not bring."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['starlette'] = None\n")
    environment = {**temporary, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(COMMAND, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 1, ran.stderr
    assert "magnetar[broker]" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert left(temporary, ran.stderr) == []


def test_without_pyspark_it_says_what_to_install_and_starts_nothing(temporary: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as m\n"
        "found = m.version\n"
        "def version(name):\n"
        "    if name == 'pyspark':\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "m.version = version\n"
    )
    environment = {**temporary, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "magnetar.cli.main", "demo", "--spark"]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    assert "pyspark: not installed; pip install 'magnetar[spark]'" in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.stderr
    assert "run: magnetar spark doctor" in ran.stderr
    assert "broker" not in ran.stderr
    assert left(temporary, ran.stderr) == []
