"""For Spark users: a query joins a stream of orders with the customers of another topic and writes the result.

magnetar standalone --data data
magnetar spark run examples/spark_enrich.py [pulsar://localhost:6650] [folder]

Spark broadcasts the customers, so it does not shuffle orders: it writes the orders of a customer in publish order, also
while the topic is split and merged. The query's checkpoint and the broker make this exactly once.
"""

import json
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col, max_by

import magnetar

URL = sys.argv[1] if len(sys.argv) > 1 else "pulsar://localhost:6650"
FOLDER = sys.argv[2] if len(sys.argv) > 2 else "enriched"
CUSTOMERS = "topic://public/default/enrich-customers"
ORDERS = "topic://public/default/enrich-orders"
ENRICHED = "topic://public/default/enrich-known"


def publish(topic: str, rows: list[tuple[str, str]]) -> None:
    with magnetar.Client(URL) as client, client.create_producer(topic) as producer:
        for key, value in rows:
            producer.post(value.encode(), key=key)


def customers(spark: SparkSession) -> DataFrame:
    """The newest name of each customer: `__order` has the order of the messages of a key."""
    said = spark.read.format("magnetar").option("url", URL).option("topic", CUSTOMERS)
    rows = said.option("columns", "key,value,__order").load()
    return rows.groupBy("key").agg(max_by(col("value").cast("string"), "__order").alias("name"))


def enriched(spark: SparkSession) -> DataFrame:
    orders = spark.readStream.format("magnetar").option("url", URL).option("topic", ORDERS)
    rows = orders.option("subscription", "enrich").option("startingOffsets", "earliest").load()
    joined = rows.join(broadcast(customers(spark)), "key", "left")
    return joined.selectExpr(
        "key", "to_json(named_struct('customer', coalesce(name, 'unknown'), 'item', CAST(value AS STRING))) AS value"
    )


def main() -> None:
    publish(CUSTOMERS, [("c1", "Ada"), ("c2", "Grace"), ("c1", "Ada Lovelace")])
    publish(ORDERS, [("c1", "engine"), ("c2", "compiler"), ("c3", "abacus"), ("c1", "program")])
    spark = SparkSession.builder.appName("enrich").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    query = (
        enriched(spark)
        .writeStream.format("magnetar")
        .option("url", URL)
        .option("topic", ENRICHED)
        .option("checkpointLocation", f"{FOLDER}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    with magnetar.Client(URL) as client, client.checkpoint_consumer(ENRICHED) as reader:
        for _ in range(4):
            row = json.loads(reader.receive(timeout_s=60).value)
            print(row["customer"], row["item"])


if __name__ == "__main__":
    main()
