"""A query from topic to topic behind a shuffle, in a process group of its own, that may be told to kill itself.

    python -m tests.spark.sinking '{"url": ..., "source": ..., "target": ..., "folder": ..., "partitions": 3, ...}'

It goes on until there is a file `finish` in the folder, and ends when all there was by then is read and written. A
query that failed because one of its Python processes died is started again, with another number of partitions.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.conftest import SETTINGS
from tests.spark.published import patiently

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

FAILURES_MAX = 20  # of one driver: more is another fault than those it was told to have
WAIT_S = 0.2


def main() -> None:
    from pyspark.errors import StreamingQueryException

    from tests.spark.crashing import CrashingSource

    asked = json.loads(sys.argv[1])
    spark = session(asked)
    spark.dataSource.register(CrashingSource)
    finish = Path(asked["folder"]) / "finish"
    for again in range(FAILURES_MAX):
        query = started(spark, asked, 2 + (asked["partitions"] + again) % 3)
        try:
            while not finish.exists():
                query.awaitTermination(WAIT_S)
            query.processAllAvailable()
        except StreamingQueryException as error:
            sys.stderr.write(f"the query failed and is started again: {str(error)[:3000]}\n")
            (Path(asked["folder"]) / f"failed-{os.getpid()}-{again}").touch()
            continue
        query.stop()
        spark.stop()
        return
    raise AssertionError(f"the query failed {FAILURES_MAX} times")


def session(asked: dict[str, Any]) -> SparkSession:
    from pyspark.sql import SparkSession

    from tests.spark.crashing import FOLDER, GROUP

    around = {FOLDER: asked["folder"], GROUP: str(os.getpgid(0)), "PYTHONPATH": os.environ["PYTHONPATH"]}
    os.environ.update(around)
    builder = SparkSession.builder.master(asked["master"])
    for key, value in {**SETTINGS, **asked["settings"]}.items():
        builder = builder.config(key, value)
    for key, value in around.items():
        builder = builder.config(f"spark.executorEnv.{key}", value)
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "20").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def started(spark: SparkSession, asked: dict[str, Any], partitions: int) -> StreamingQuery:
    reader = spark.readStream.format("magnetar").option("url", asked["url"]).option("topic", asked["source"])
    reader = reader.option("startingOffsets", "earliest").option("maxMessagesPerTrigger", "2000")
    frame = patiently(reader.option("subscription", "kills").load).select("key", "value")
    options = {"url": asked["url"], **asked["options"]}
    if asked["topics"]:
        named = f"concat('{asked['target']}-', crc32(key) % {asked['topics']}) AS topic"
        frame = frame.selectExpr("key", "value", named)
    else:
        options["topic"] = asked["target"]
    writer = frame.repartition(partitions, "key").writeStream.format("crashing").options(**options)
    return patiently(writer.option("checkpointLocation", asked["checkpoint"]).start)


if __name__ == "__main__":
    main()
