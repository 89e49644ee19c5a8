"""A query from topic to topic behind a shuffle, in a process group of its own, that may be told to kill itself.

    python -m tests.spark.sinking '{"url": ..., "source": ..., "target": ..., "checkpoint": ..., "partitions": 3}'

It ends when all there is was read and written.
"""

from __future__ import annotations

import json
import os
import sys

from tests.spark.conftest import SETTINGS


def main() -> None:
    from pyspark.sql import SparkSession

    from tests.spark.crashing import CrashingSource

    asked = json.loads(sys.argv[1])
    os.environ["CRASH_GROUP"] = str(os.getpgid(0))
    builder = SparkSession.builder.master("local[2]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "20").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(CrashingSource)
    reader = spark.readStream.format("magnetar").option("url", asked["url"]).option("topic", asked["source"])
    reader = reader.option("startingOffsets", "earliest").option("maxMessagesPerTrigger", "100")
    frame = reader.load().select("key", "value").repartition(asked["partitions"], "key")
    writer = frame.writeStream.format("crashing").option("url", asked["url"]).option("topic", asked["target"])
    query = writer.option("checkpointLocation", asked["checkpoint"]).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
