"""Watching from outside: a process that goes on until it is told to end, over a broker that does not.

Nothing here waits for a time: a look is waited for by what it shows.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.cli.conftest import PATIENCE_S
from tests.servers.standalone import Standalone


def hear_ctrl_c() -> None:
    """A shell that runs the tests in the background has switched it off for all of them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def watching(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "magnetar.cli.main", *arguments]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        preexec_fn=hear_ctrl_c,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


class Lines:
    """Lines of a pipe as they come; what was read with one before is not forgotten."""

    def __init__(self, stream: IO[str] | None) -> None:
        assert stream is not None
        self._fd, self._left = stream.fileno(), b""

    def next(self) -> str:
        while b"\n" not in self._left:
            assert select.select([self._fd], [], [], PATIENCE_S)[0], "nothing came"
            piece = os.read(self._fd, 65536)
            assert piece, "it ended"
            self._left += piece
        line, _, self._left = self._left.partition(b"\n")
        return line.decode()


def test_pipe_gets_one_look_behind_another_until_ctrl_c(
    environment: dict[str, str], broker: Standalone, topic: str
) -> None:
    with watching(environment, "topic", "list", "--watch=100ms", "-o", "jsonl") as process:
        out = Lines(process.stdout)
        assert f"persistent://public/default/{topic}" in json.loads(out.next())["document"]
        broker.admin("PUT", f"persistent/public/default/{topic}-later")
        later = f"persistent://public/default/{topic}-later"
        while later not in (look := json.loads(out.next()))["document"]:
            pass
        assert look["at"].endswith("Z")
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, told
        assert "magnetar: " not in told


def test_reader_that_has_seen_enough_ends_it(environment: dict[str, str], topic: str) -> None:
    with watching(environment, "topic", "lookup", topic, "--watch=100ms", "-o", "csv") as process:
        assert Lines(process.stdout).next().startswith("at,topic,")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0


def test_what_is_gone_ends_it(environment: dict[str, str], broker: Standalone, topic: str) -> None:
    with watching(environment, "topic", "stats", topic, "--watch=100ms", "-o", "jsonl") as process:
        Lines(process.stdout).next()
        broker.admin("DELETE", f"persistent/public/default/{topic}")
        assert process.wait(PATIENCE_S) == 3


@pytest.mark.slow
def test_broker_that_is_restarted_is_noted_and_watched_again(environment: dict[str, str], tmp_path: Path) -> None:
    with Standalone(tmp_path / "mortal") as mortal:
        own = {**environment, "MAGNETAR_URL": mortal.url, "MAGNETAR_ADMIN_URL": mortal.http}
        with watching(own, "tenant", "list", "--watch=100ms", "-o", "name") as process:
            out, notes = Lines(process.stdout), Lines(process.stderr)
            assert {out.next() for _ in mortal.admin("GET", "tenants")} == set(mortal.admin("GET", "tenants"))
            mortal.kill()
            assert "no answer, retrying" in notes.next()
            mortal.start()
            assert notes.next() == "magnetar: the broker answers again"
            mortal.admin("PUT", "tenants/later", {"allowedClusters": ["standalone"]})
            assert out.next() == "later", "those that were there before are not told again"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("how", ["ctrl-c", "terminate"])
def test_terminal_is_drawn_over_and_left_as_it_was_found(environment: dict[str, str], topic: str, how: str) -> None:
    above, below = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "magnetar.cli.main", "topic", "show", topic, "--watch=100ms"],
        stdin=below,
        stdout=below,
        stderr=below,
        env={**environment, "COLUMNS": "100", "LINES": "30"},
        start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )
    os.close(below)
    seen = read_until(above, lambda text: text.count(b"\x1b[H") >= 3)
    process.send_signal(signal.SIGINT if how == "ctrl-c" else signal.SIGTERM)
    seen += read_until(above, lambda text: False)
    os.close(above)
    assert process.wait(PATIENCE_S) == (0 if how == "ctrl-c" else 128 + signal.SIGTERM)
    drawn, left = seen.decode().split("\x1b[?1049l")
    assert drawn.count("\x1b[?1049h") == 1
    assert "\x1b[2J" not in drawn
    assert f"persistent://public/default/{topic}" in left, "the last look stays"


def read_until(fd: int, enough: object) -> bytes:
    """All that comes, until it is enough or the other end is closed."""
    assert callable(enough)
    seen = b""
    while not enough(seen) and select.select([fd], [], [], PATIENCE_S)[0]:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    return seen
