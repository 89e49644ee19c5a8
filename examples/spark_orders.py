"""For Spark users: a query computes running totals of each customer into another topic and into Parquet.

magnetar standalone --data data
magnetar spark run examples/spark_orders.py [pulsar://localhost:6650] [folder]

The totals are Spark's state in the checkpoint: the next run continues from it. A batch that runs again after a crash is
in the topic once (`txnVersion` is its number) and replaces its own files.
"""

import json
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, from_json, max_by
from pyspark.sql.functions import sum as total

import magnetar

URL = sys.argv[1] if len(sys.argv) > 1 else "pulsar://localhost:6650"
FOLDER = sys.argv[2] if len(sys.argv) > 2 else "orders-pipeline"
ORDERS = "topic://public/default/pipeline-orders"
TOTALS = "topic://public/default/pipeline-totals"


def publish(amounts: list[int]) -> None:
    with magnetar.Client(URL) as client, client.create_producer(ORDERS) as producer:
        for number, amount in enumerate(amounts):
            customer = f"customer-{number % 3}"
            producer.post(json.dumps({"customer": customer, "amount": amount}).encode(), key=customer)


def totals(spark: SparkSession) -> DataFrame:
    read = (
        spark.readStream.format("magnetar")
        .option("url", URL)
        .option("topic", ORDERS)
        .option("subscription", "totals")  # the broker keeps messages that this query has not read
        .option("startingOffsets", "earliest")
        .load()
    )
    orders = read.select(from_json(col("value").cast("string"), "customer STRING, amount BIGINT").alias("order"))
    return orders.groupBy("order.customer").agg(count("*").alias("orders"), total("order.amount").alias("amount"))


def write(changed: DataFrame, batch: int) -> None:
    """Writes the totals that a batch has changed."""
    changed.persist()
    (
        changed.selectExpr("customer AS key", "to_json(struct(*)) AS value")
        .write.format("magnetar")
        .option("url", URL)
        .option("topic", TOTALS)
        .option("txnAppId", f"totals of {FOLDER}")
        .option("txnVersion", batch)
        .mode("append")
        .save()
    )
    changed.write.mode("overwrite").parquet(f"{FOLDER}/totals/batch={batch}")
    changed.unpersist()


def process(spark: SparkSession) -> None:
    """Processes all stored orders. Without the trigger the query would run without end."""
    writer = totals(spark).writeStream.outputMode("update").foreachBatch(write)
    query = writer.option("checkpointLocation", f"{FOLDER}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()


def main() -> None:
    spark = SparkSession.builder.appName("totals").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    for amounts in ([10, 20, 30, 40], [1, 2, 3]):
        publish(amounts)
        process(spark)
    told = (
        spark.read.format("magnetar").option("url", URL).option("topic", TOTALS).option("columns", "key,value,__order")
    )
    newest = told.load().groupBy("key").agg(max_by(col("value").cast("string"), "__order").alias("value"))
    for value in sorted(row.value for row in newest.collect()):
        print(value)
    print(spark.read.parquet(f"{FOLDER}/totals").count(), "rows in Parquet")


if __name__ == "__main__":
    main()
