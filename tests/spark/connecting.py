"""A client of Spark Connect, in a process that has no Java: writes a batch, reads it, and copies it by a stream.

    python -m tests.spark.connecting '{"remote": ..., "url": ..., "source": ..., "target": ..., "checkpoint": ...}'

What it read is its output, as JSON: key and value of each row.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.spark.published import finished, patiently, texts


def main() -> None:
    from pyspark.sql import SparkSession

    asked = json.loads(sys.argv[1])
    spark = SparkSession.builder.remote(asked["remote"]).getOrCreate()

    def named(way: Any, topic: str) -> Any:
        return way.format("magnetar").option("url", asked["url"]).option("topic", topic)

    rows = [(key, value.encode()) for key, value in asked["rows"]]
    frame = spark.createDataFrame(rows, "key string, value binary").coalesce(1)
    job = named(frame.write, asked["source"]).option("txnAppId", "once").option("txnVersion", "0").mode("append")
    patiently(job.save)
    read = patiently(lambda: named(spark.read, asked["source"]).load().collect())
    reader = named(spark.readStream, asked["source"]).option("startingOffsets", "earliest")
    stream = patiently(reader.load).select("key", "value")
    writer = named(stream.writeStream, asked["target"]).option("checkpointLocation", asked["checkpoint"])
    finished(writer.trigger(availableNow=True))
    sys.stdout.write(json.dumps(texts(read)) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
