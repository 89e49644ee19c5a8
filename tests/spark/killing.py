"""A query from topic to topic that is killed again and again, while rows come and the topic is reshaped every second.

What must be true at the end is told from the messages alone: the target holds the rows of the source, each once, each
key's in order. Nothing is waited for but conditions; when a kill comes is up to who carries it out, or to chance.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from magnetar import Client
from tests.servers.standalone import Standalone
from tests.spark.beside import Beside
from tests.spark.published import Topic
from tests.spark.test_sink import Target, judged

ROOT = Path(__file__).parents[2]
WAIT_S = 300.0  # for anything that must come, on a machine that has other things to do
POLL_S = 0.05
MOMENTS = ("mid-write", "written", "commit entered", "commit done", "begun")  # of `crashing.py`
TOPIC_COMMITTED = "first topic committed"  # one of several has the batch, the next one not yet
ANY_TIME = "any time"  # from outside, whatever the query is at
KEYS = 12
ROWS = 10
PACE_S = 0.1
RESHAPE_S = 1.0
RESHAPES_MAX = 800  # a topic that keeps all its segments has room for so many; a quiet machine needs fewer


def driver_turns(count: int) -> list[str]:
    """So many kills of a driver: one from outside, and every moment, in turn."""
    return list(islice(cycle((ANY_TIME, *MOMENTS)), count))


def worker_turns(count: int) -> list[str]:
    """So many kills of Python processes: every moment, and one from outside, in turn."""
    return list(islice(cycle((*MOMENTS, ANY_TIME)), count))


class Pressure(Beside):
    """Rows all the time and a split or a merge every second."""

    def __init__(self, topic: Topic) -> None:
        super().__init__()
        self.reshapes = 0
        self._topic = topic
        self._over = threading.Event()

    def work(self) -> None:
        reshaped = time.monotonic()
        while not self._over.wait(PACE_S):
            self._topic.publish(ROWS, keys=KEYS)
            if time.monotonic() - reshaped >= RESHAPE_S and self.reshapes < RESHAPES_MAX:
                reshaped = time.monotonic()
                self._topic.reshape()
                self.reshapes += 1

    def wait(self) -> None:
        self._over.set()
        super().wait()


@dataclass
class Killed:
    """What a run was, for the record."""

    drivers: Counter[str] = field(default_factory=Counter)
    workers: Counter[str] = field(default_factory=Counter)
    stragglers: int = 0
    failures: int = 0
    reshapes: int = 0
    batches: int = 0
    rows: int = 0
    seconds: float = 0.0


class Query:
    """`master` and `settings` are Spark's; `options` go to the sink. `topics`: so many that the rows name by a column,
    each key one of them; 0: one, by the option."""

    def __init__(
        self,
        server: Standalone,
        topic: Topic,
        folder: Path,
        *,
        master: str = "local[2,4]",
        settings: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        topics: int = 0,
        seed: int = 0,
    ) -> None:
        self.killed = Killed()
        self._server = server
        self._topic = topic
        self._folder = folder
        self._target = f"{topic.name}-out"
        self._targets = [f"{self._target}-{number}" for number in range(topics)] or [self._target]
        self._asked = {
            "url": server.url,
            "source": topic.name,
            "target": self._target,
            "topics": topics,
            "checkpoint": str(folder / "state"),
            "folder": str(folder),
            "master": master,
            "settings": dict(settings or {}),
            "options": dict(options or {}),
        }
        self._chance = random.Random(seed)
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = time.monotonic()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def kill_driver(self, moment: str) -> None:
        """Driver, Java and all; then another one is started, with another number of partitions."""
        assert self._process is not None
        if moment == ANY_TIME:
            self.progress(1)
            time.sleep(self._chance.random())
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._order("driver", moment)
        code = self._process.wait(WAIT_S)
        assert code == -signal.SIGKILL, f"exit code {code}:\n{self._said()}"
        self.killed.drivers[moment] += 1
        self._start()

    def kill_worker(self, moment: str) -> None:
        """The Python process that comes to this moment first, or at any time one of those that Spark has beside the
        driver: who plans, reads, writes or waits. The query goes on, or is started again."""
        if moment == ANY_TIME:
            self.progress(1)  # before that there is no query that could be started again
            self._until(self._killed_one, "no Python process was there to be killed")
        else:
            self._order("worker", moment)
        self.killed.workers[moment] += 1
        self.progress(1)

    def straggle(self) -> None:
        """A task stands still until Spark has begun it a second time; then both go on."""
        self._order("straggler", "mid-write")
        told = self._folder / "straggler"
        self._until(lambda: told.exists() and told.read_text(), "nobody said which task stands still")
        second = self._folder / told.read_text()
        self._until(second.exists, "no task was begun a second time")
        told.unlink()
        self.killed.stragglers += 1
        self.progress(1)

    def progress(self, batches: int) -> None:
        """So many batches more are committed than now."""
        wanted = self._committed() + batches
        self._until(lambda: self._committed() >= wanted, f"batch {wanted} was not committed")

    def finish(self) -> None:
        """All there is, to its end."""
        (self._folder / "finish").touch()
        assert self._process is not None
        code = self._process.wait(WAIT_S)
        assert code == 0, f"exit code {code}:\n{self._said()}"
        sink = json.loads((self._folder / "state" / "metadata").read_text())["id"]
        sinks = self._topic.admin.sinks
        for target in self._targets:
            left = partial(sinks.get, target, sink)
            self._until(lambda left=left: not left().publishing, "not everything was published", alive=False)
        self.killed.batches = self._committed() + 1
        self.killed.failures = len(list(self._folder.glob("failed-*")))
        self.killed.rows = self._topic.sent
        self.killed.seconds = time.monotonic() - self._begun

    def judge(self) -> None:
        """All that is there, counted by the broker, and read."""
        with Client(self._server.url) as client:
            held = [sum(one.messages for one in client.plan(target).stretches.values()) for target in self._targets]
            assert all(held), f"the targets hold {held} rows: one of them has none"
            assert sum(held) == self._topic.sent, f"the targets hold {held} rows, the source {self._topic.sent}"
            judged(self._topic, *(Target(self._server, client, target) for target in self._targets), counts=held)

    def _start(self) -> None:
        number = sum(self.killed.drivers.values())
        asked = json.dumps({**self._asked, "partitions": number})
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        around = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": path}
        with (self._folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.sinking", asked],
                cwd=ROOT,
                env={**os.environ, **around},
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _killed_one(self) -> bool:
        assert self._process is not None
        found = [pid for pid in below(self._process.pid) if b"-m\0pyspark." in command(pid)]
        if not found:
            return False
        try:
            os.kill(self._chance.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def _order(self, who: str, moment: str) -> None:
        """Until somebody of this driver's has taken it."""
        assert self._process is not None
        written = self._folder / "order.part"
        written.write_text(f"{self._process.pid}:{who}:{moment}")
        order = written.rename(self._folder / "order")
        dies = who == "driver"
        self._until(lambda: not order.exists(), f"no {who} came to {moment}", alive=not dies)

    def _committed(self) -> int:
        """The last batch of Spark's own log, -1 where there is none."""
        return max((int(one.name) for one in self._folder.glob("state/commits/[0-9]*")), default=-1)

    def _until(self, true: Callable[[], Any], otherwise: str, *, alive: bool = True) -> None:
        end = time.monotonic() + WAIT_S
        while not true():
            code = self._process.poll() if alive and self._process is not None else None
            assert code is None, f"the driver ended ({code}):\n{self._said()}"
            assert time.monotonic() < end, f"{otherwise} within {WAIT_S:.0f} s:\n{self._said()}"
            time.sleep(POLL_S)

    def _said(self) -> str:
        return (self._folder / "driver.log").read_text(errors="replace")[-4000:]


def below(pid: int) -> list[int]:
    """The processes that this one started, and theirs."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it is gone
        children.setdefault(parent, []).append(int(folder.name))
    found = children.get(pid, [])
    for one in found:  # which grows meanwhile
        found += children.get(one, [])
    return found


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
