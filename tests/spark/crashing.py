"""The sink with a switch: at one moment of one batch it kills the whole query with SIGKILL, driver and Java and all.

Python workers live in a group of their own, so they survive the kill for a moment: what they still do is what a zombie
does. The moment is in the environment, `batch:moment`; a file says that it has come, so that it comes once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from magnetar.spark.sink import StreamWriter, _columns
from magnetar.spark.sinkoptions import sink_options
from magnetar.spark.source import MagnetarSource

MOMENTS = ("begun", "mid-write", "written", "commit entered", "commit done")


def at(batch: int, moment: str) -> None:
    wanted, group, flag = (os.environ.get(name, "") for name in ("CRASH_AT", "CRASH_GROUP", "CRASH_FLAG"))
    if wanted == f"{batch}:{moment}" and not Path(flag).exists():
        Path(flag).write_text(wanted)
        os.killpg(int(group), signal.SIGKILL)


class CrashingSource(MagnetarSource):
    @classmethod
    def name(cls) -> str:
        return "crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return CrashingWriter(sink_options(self.options, streaming=True, overwrite=overwrite), _columns(schema))


class CrashingWriter(StreamWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)

        def watched() -> Iterator[Any]:
            for each in iterator:
                at(batch, "begun")
                half = max(each.num_rows // 2, 1)
                yield each.slice(0, half)
                at(batch, "mid-write")
                if half < each.num_rows:
                    yield each.slice(half)

        told = super().write(watched())
        at(batch, "written")
        return told

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        at(batchId, "commit entered")
        super().commit(messages, batchId)
        at(batchId, "commit done")
