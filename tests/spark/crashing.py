"""The sink with a switch: told so by a file, it kills with SIGKILL at a moment of what it writes or commits.

An order is one line, `group:who:moment`, in the file `order` of a folder that the environment names. Whoever of that
driver comes to the moment first takes it, so that it is carried out once; what outlived an older driver does not count.
`driver` is the whole query, Java and all; Python workers live in groups of their own and outlive it for a moment: what
they still do is what a zombie does. `worker` is the process that came to the moment. A `straggler` is not killed: it
stands still until Spark has begun the same task a second time.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from magnetar.client.client import Client
from magnetar.client.process_client import run
from magnetar.runtime.system_runtime import RealRuntime
from magnetar.spark.data_source import MagnetarSource
from magnetar.spark.sink.writers import StreamWriter, asked_for

FOLDER, GROUP = "CRASH_FOLDER", "CRASH_GROUP"
SECOND_S = 300.0
POLL_S = 0.02


def at(moment: str, task: str = "") -> None:
    folder = Path(os.environ[FOLDER])
    who = taken(folder, moment)
    if who == "driver":
        os.killpg(int(os.environ[GROUP]), signal.SIGKILL)
    elif who == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    elif who == "straggler":
        (folder / "straggler").write_text(second(folder, task).name)  # who comes second may end this one at any moment
        end = time.monotonic() + SECOND_S
        while not second(folder, task).exists():
            if time.monotonic() > end:
                raise AssertionError(f"nobody began {task} a second time")
            time.sleep(POLL_S)


def taken(folder: Path, moment: str) -> str:
    """Whom the order names, if there is one for this moment and nobody was faster."""
    order = folder / "order"
    mine = folder / f"order-{os.getpid()}"
    try:
        group, who, wanted = order.read_text().split(":")
        if (group, wanted) != (os.environ[GROUP], moment):
            return ""
        order.rename(mine)
    except FileNotFoundError:
        return ""
    mine.unlink()
    return who


def second(folder: Path, task: str) -> Path:
    """Stages are counted anew by every driver, so its group is in the name."""
    return folder / f"second-{os.environ[GROUP]}-{task}"


class CrashingSource(MagnetarSource):
    @classmethod
    def name(cls) -> str:
        return "crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return CrashingWriter(*asked_for(self.options, schema, overwrite, streaming=True))


class CrashingWriter(StreamWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        task = f"{context.stageId()}-{context.partitionId()}"
        if context.attemptNumber():
            second(Path(os.environ[FOLDER]), task).touch()

        def watched() -> Iterator[Any]:
            for each in iterator:
                at("begun", task)
                half = max(each.num_rows // 2, 1)
                yield each.slice(0, half)
                at("mid-write", task)
                if half < each.num_rows:
                    yield each.slice(half)

        told = super().write(watched())
        at("written", task)
        return told

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        at("commit entered")
        run(Client, self._asked.url, watch_commits)
        super().commit(messages, batchId)
        at("commit done")


async def watch_commits(client: Client) -> None:
    """The first topic of a batch is committed before the others: the moment is behind it."""
    committed = itertools.count()

    def heard(name: str, facts: Mapping[str, object]) -> None:
        if name == "sink.committed" and next(committed) == 0:
            at("first topic committed")

    runtime = client.runtime
    assert isinstance(runtime, RealRuntime)
    runtime.marks[:] = [heard]
