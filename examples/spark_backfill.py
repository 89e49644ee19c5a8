"""For Spark users: a backfill reads a range of publish times again and writes the corrected rows exactly once.

magnetar standalone --data data
magnetar spark run examples/spark_backfill.py [pulsar://localhost:6650] [folder]

The broker counts the messages of the time range from its indexes, without reading the whole topic. The backfill has a
name: after a second run the topic still has its rows once, and the files are the same ones.
"""

import json
import sys
import time
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

import magnetar

URL = sys.argv[1] if len(sys.argv) > 1 else "pulsar://localhost:6650"
FOLDER = sys.argv[2] if len(sys.argv) > 2 else "backfill"
ORDERS = "topic://public/default/backfill-orders"
MENDED = "topic://public/default/backfill-mended"


def publish(amounts: range) -> None:
    with magnetar.Client(URL) as client, client.create_producer(ORDERS) as producer:
        for amount in amounts:
            producer.post(json.dumps({"amount": amount}).encode(), key=f"customer-{amount % 3}")


def now() -> str:
    """A moment between two orders: publish times are whole milliseconds."""
    time.sleep(0.01)
    moment = datetime.now(UTC)
    time.sleep(0.01)
    return moment.isoformat(timespec="milliseconds")


def orders(spark: SparkSession, start: str, end: str) -> DataFrame:
    """The orders that were published from `start` on and before `end`."""
    read = (
        spark.read.format("magnetar")
        .option("url", URL)
        .option("topic", ORDERS)
        .option("startingOffsets", start)
        .option("endingOffsets", end)
        .load()
    )
    parsed = read.withColumn("order", from_json(col("value").cast("string"), "amount BIGINT"))
    return parsed.selectExpr("CAST(key AS STRING) AS key", "order.amount * 2 AS amount")


def backfill(spark: SparkSession, start: str, end: str) -> None:
    mended = orders(spark, start, end)
    mended.write.mode("overwrite").parquet(f"{FOLDER}/mended")
    (
        mended.selectExpr("key", "to_json(struct(amount)) AS value")
        .write.format("magnetar")
        .option("url", URL)
        .option("topic", MENDED)
        .option("txnAppId", f"backfill {start} {end}")  # a new name writes the rows again
        .option("txnVersion", 1)
        .mode("append")
        .save()
    )


def main() -> None:
    spark = SparkSession.builder.appName("backfill").getOrCreate()
    publish(range(50))
    start = now()
    publish(range(50, 80))  # these went wrong
    end = now()
    publish(range(80, 100))
    for _ in range(2):  # the second time as after a crash with an unknown outcome
        backfill(spark, start, end)
    files = spark.read.parquet(f"{FOLDER}/mended")
    topic = spark.read.format("magnetar").option("url", URL).option("topic", MENDED).load()
    print("Parquet", *files.selectExpr("count(*)", "min(amount)", "max(amount)").first())
    print("topic", topic.count())


if __name__ == "__main__":
    main()
