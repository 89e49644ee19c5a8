"""Runs the demo's query as a process: starts it, watches it, kills it together with Spark, and restarts it.

The query has its own process group, so that one signal reaches its driver and its JVM. Standard output is read until
both have ended. Standard error goes to a file, which is shown if the query fails.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from magnetar.base.errors import Misuse, NotReady
from magnetar.base.limits import DEMO_QUERY_STARTS_MAX, DEMO_STOP_S
from magnetar.cli.demo.spark_job import DRAIN

LOG = "query.log"
SHOWN_LINES = 8
CAUSE_CHARACTERS = 160  # length of the query's last error in a step
PROGRAM = ("-m", "magnetar.cli.demo.spark_job")


class SparkProcess:
    """`tend` starts the query and restarts it until it is drained. `state` and `batches` are for display."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str],
        environment: Mapping[str, str],
        *,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.pid = 0
        self.state = "starting"
        self.batches: dict[str, int] = {}
        self.starts = 0
        self.kills = 0
        self._folder = folder
        self._asked = msgspec.json.encode({**settings, "folder": str(folder)}).decode()
        self._environment = environment
        self._program = program
        self._process: asyncio.subprocess.Process | None = None

    @property
    def restarts(self) -> int:
        """Restarts that did not follow a kill."""
        return max(0, self.starts - 1 - self.kills)

    async def tend(self, say: Callable[[str], None]) -> None:
        """Runs until the query ends normally. Raises `NotReady` with the query's last output if it fails repeatedly."""
        while True:
            await self._start()
            if await self._ended() == 0:
                self.state = "done"
                return
            if self.state != "killed":
                say(f"the query failed and restarts: {self._cause()}")
            self.state = "starting"
            if self.restarts >= DEMO_QUERY_STARTS_MAX:
                raise NotReady(f"the query failed {self.restarts + 1} times", said=self.last_words())

    def drain(self) -> None:
        """Asks the query to end after it has processed all messages."""
        (self._folder / DRAIN).touch()

    def kill(self) -> None:
        """Sends SIGKILL to driver and JVM, so neither can clean up. `tend` restarts them."""
        self.kills += 1
        self.state = "killed"
        self._signal()

    def busy(self, name: str) -> bool:
        """Whether a batch is planned but not finished."""
        offsets, commits = (_newest(self._folder / name / kind) for kind in ("offsets", "commits"))
        return offsets > commits

    def last_words(self) -> str:
        """The end of the standard error output, without stack frames."""
        path = self._folder / LOG
        return "\n".join(spoken(path.read_text(errors="replace") if path.exists() else "")[-SHOWN_LINES:])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        self._signal()
        assert process.stdout is not None
        try:
            async with asyncio.timeout(DEMO_STOP_S):
                await process.stdout.read()
                await process.wait()
        except TimeoutError:
            pass  # another process may hold the pipe; it has been asked to end

    def _cause(self) -> str:
        last = self.last_words().splitlines()[-1:]
        return last[0][:CAUSE_CHARACTERS] if last else "without a message"

    async def _start(self) -> None:
        self.starts += 1
        with (self._folder / LOG).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._program,
                self._asked,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                env={**self._environment, "TMPDIR": str(self._folder)},
                start_new_session=True,
            )
        self._process, self.pid = process, process.pid

    async def _ended(self) -> int:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self._told(line)
        code = await process.wait()
        self._process = None
        return code

    def _told(self, line: bytes) -> None:
        """Other code writes to the same pipe: only lines of the pipeline count."""
        try:
            event = msgspec.json.decode(line, type=JobEvent)
        except msgspec.DecodeError:
            return
        if event.query:
            self.batches[event.query] = event.batch
        if self.state == "starting":
            self.state = "running"

    def _signal(self) -> None:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:  # the process has already exited
                pass


def spoken(log: str) -> list[str]:
    """Lines without stack frames of Python or Java, which are indented."""
    return [line for line in log.splitlines() if line[:1].strip()]


class JobEvent(msgspec.Struct, frozen=True):
    query: str = ""
    batch: int = -1


async def prepared(around: Mapping[str, str]) -> dict[str, str]:
    """The environment in which Spark can start. Raises `Misuse` with each missing requirement and the remedy."""
    from magnetar.spark.environment import examined, java_home

    cache = Path(around.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "magnetar"
    environment = {**around, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    home = await java_home(around, cache)
    if home is not None:
        environment["JAVA_HOME"] = home
    missing = [f"{one.check}: {one.found}; {one.do}" for one in await examined(environment) if not one.ok]
    if missing:
        raise Misuse("Spark cannot start here: " + ". ".join(missing))
    return environment


def _newest(folder: Path) -> int:
    if not folder.is_dir():
        return -1
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=-1)
