"""A query in a process group of its own, that can be told to kill itself, Spark and all, at a moment of its batches.

    python -m tests.spark.driver '{"url": ..., "topic": ..., "checkpoint": ..., "out": ..., "options": {...}}'

Each batch's rows are written to one file of its number, so that a batch that is run again takes the place of the first.
`crash` is "before:N" or "after:N": in batch N, before or after its file is written. It ends when all there is was read.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.spark.conftest import SETTINGS
from tests.spark.published import finished, patiently, texts


def main() -> None:
    from pyspark.sql import SparkSession

    asked = json.loads(sys.argv[1])
    out = Path(asked["out"])
    out.mkdir(exist_ok=True)
    crash = asked.get("crash", "")
    builder = SparkSession.builder.master("local[2]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    def write(frame: Any, batch: int) -> None:
        if crash == f"before:{batch}":
            os.killpg(0, signal.SIGKILL)
        written = out / f"{batch}.part"
        written.write_text(json.dumps(texts(frame.collect())))
        if crash == f"after:{batch}":
            written.rename(out / f"{batch}.first")
            os.killpg(0, signal.SIGKILL)
        written.rename(out / f"{batch}.json")

    reader = spark.readStream.format("magnetar").option("url", asked["url"]).option("topic", asked["topic"])
    for key, value in asked["options"].items():
        reader = reader.option(key, value)
    frame = patiently(reader.load)
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", asked["checkpoint"])
    finished(writer.trigger(availableNow=True))
    spark.stop()


if __name__ == "__main__":
    main()
