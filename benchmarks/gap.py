"""The longest pause a sender feels when its segment is split: our client on our broker, Java's on Apache Pulsar 5.

Both keep the same pace (`paced.py`, `Paced.java`) on topics of one segment, a new topic for every split, so that all
their keys are in the split range and nothing that an earlier split left behind is measured. The pause without a
split, taken just before, stands beside it. Pulsar is the released 5.0.0-M1 with its own client, started from Maven
packages, with its journal synced before it answers, as ours is; where Java or Maven is missing it is left out. Brokers
and senders run ahead of other work once they are up: a pause is otherwise whatever else the machine had to do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.broker import HOUSE, SCRATCH, broker
from tests.servers import java
from tests.servers.pulsar import POM_5, SCALABLE, Pulsar

JAVA_POM = "java-v5.pom.xml"
SOURCE = HOUSE / "benchmarks" / "Paced.java"
HEAP_MB = 256
RATE = 2000  # messages a second
LEAD_S, AFTER_S = 0.25, 0.5  # of load before a split, and after it was answered
WARM_SPLITS = 2  # not counted: a JVM compiles what it has run a few times

Ask = Callable[[str, str], object]


class Felt:
    """Milliseconds: of each split, and of as long without one."""

    def __init__(self) -> None:
        self.split: list[float] = []
        self.quiet: list[float] = []
        self.slowest: list[float] = []  # message of each split, until its receipt
        self.stored = 0
        self.failed = 0


class Driven:
    """A sender in a process of its own, one line in, one out."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        self._output = log.open("ab")
        self._process = subprocess.Popen(
            command, cwd=HOUSE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._output, text=True
        )
        self._answer()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, *words: object) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def felt(self) -> list[float]:
        return [float(word) for word in self.ask("felt").split()]

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._output.close()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ok"):
            raise SystemExit(f"a sender failed: {line}\n{self._log.read_text()[-2000:]}")
        return line[2:].strip()


def ours(splits: int) -> Felt:
    with unpinned(), broker() as peer:
        peer.connect().close()
        sender = Driven([sys.executable, "-m", "benchmarks.paced", peer.url], SCRATCH / "paced.log")
        go_first(peer.process.pid, sender.pid)
        return _felt(sender, peer.rest, splits)


def javas(splits: int) -> Felt | None:
    """None: no Java or no Maven here, which was said."""
    try:
        java.class_path(JAVA_POM)
        java.class_path(POM_5)
        classes = _compiled()
    except pytest.skip.Exception as reason:
        sys.stderr.write(f"without Apache Pulsar: {reason}\n")
        return None
    folder = SCRATCH / "pulsar"
    shutil.rmtree(folder, ignore_errors=True)
    with unpinned(), Pulsar(folder, SCALABLE | {"journalSyncData": True}, pom=POM_5) as server:
        logging = {"org.slf4j.simpleLogger.logFile": str(SCRATCH / "paced-java.log")}
        command = java.command(JAVA_POM, heap_mb=HEAP_MB, properties=logging)
        command[-1] = f"{classes}:{command[-1]}"
        sender = Driven([*command, "Paced", server.url], SCRATCH / "paced-java.out")
        assert server.process is not None
        go_first(server.process.pid, sender.pid)
        found = _felt(sender, lambda method, path: server.admin(method, path), splits)
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _felt(sender: Driven, rest: Ask, splits: int) -> Felt:
    felt = Felt()
    before = (0.0, 0.0)
    try:
        for number in range(-WARM_SPLITS, splits):
            name = f"gap-{number + WARM_SPLITS}"
            rest("PUT", f"scalable/public/default/{name}?numInitialSegments=1")
            sender.ask("open", f"topic://public/default/{name}", RATE)
            time.sleep(LEAD_S)
            sender.ask("mark")
            time.sleep(LEAD_S)
            quiet, *_ = sender.felt()
            sender.ask("mark")
            rest("POST", f"scalable/public/default/{name}/split/0")
            time.sleep(AFTER_S)
            split, slowest, stored, failed = sender.felt()
            sender.ask("stop")
            if number < 0:
                before = (stored, failed)
                continue
            felt.quiet.append(quiet)
            felt.split.append(split)
            felt.slowest.append(slowest)
            felt.stored, felt.failed = int(stored - before[0]), int(failed - before[1])
    finally:
        sender.end()
    return felt


@contextmanager
def unpinned() -> Iterator[None]:
    """Broker and sender where the kernel puts them: a JVM on one core would be measured at its worst."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def go_first(*pids: int) -> None:
    """Processes that run, and their children, come before whatever else the machine does, where the kernel allows it.
    They are started without: a JVM that starts ahead of everybody stops everybody.
    """
    try:
        for pid in pids:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))
                go_first(*map(int, (thread / "children").read_text().split()))
    except (AttributeError, PermissionError) as error:
        sys.stderr.write(f"other work on this machine counts as well: {error}\n")


def _compiled() -> Path:
    path, _ = java.java()
    classes = SCRATCH / "classes"
    command = [
        str(path.with_name("javac")),
        "-nowarn",
        "-cp",
        java.class_path(JAVA_POM),
        "-d",
        str(classes),
        str(SOURCE),
    ]
    subprocess.run(command, check=True)
    return classes
