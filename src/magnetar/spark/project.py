"""The files that `magnetar spark init` writes: a first query, or a declarative pipeline.

It contains only texts. Tests run them in a real Spark.
"""

from __future__ import annotations

from pathlib import Path

TOPIC = "topic://public/default/project-orders"

_APP = '''"""Writes each order once to Parquet, and shows the number of orders per key.

    magnetar spark run app.py
"""

import os

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

URL = os.environ.get("MAGNETAR_URL", "{url}")
TOPIC = os.environ.get("TOPIC", "{topic}")

spark = SparkSession.builder.appName("orders").getOrCreate()
orders = (
    spark.readStream.format("magnetar")
    .option("url", URL)
    .option("topic", TOPIC)
    .option("subscription", "orders-to-parquet")  # the broker keeps what this query has not read
    .option("startingOffsets", "earliest")
    .option("maxMessagesPerTrigger", 100_000)
    .load()
    .select(col("key").cast("string"), col("value").cast("string"), "publish_time")
)
query = (
    orders.writeStream.format("parquet")
    .option("path", "out/orders")
    .option("checkpointLocation", "checkpoint")
    .trigger(availableNow=True)  # remove this line to run continuously
    .start()
)
query.awaitTermination()
spark.read.schema(orders.schema).parquet("out/orders").groupBy("key").count().orderBy("key").show()
'''

_PIPELINE = '''"""A growing table of orders, and the number of orders per key."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    return (
        spark.readStream.format("magnetar")
        .option("url", os.environ.get("MAGNETAR_URL", "{url}"))
        .option("topic", os.environ.get("TOPIC", "{topic}"))
        .option("subscription", "orders-pipeline")  # the broker keeps what this pipeline has not read
        .option("startingOffsets", "earliest")
        .load()
    )


@dp.materialized_view
def orders_by_key() -> DataFrame:
    by_key = spark.read.table("orders").groupBy(col("key").cast("string").alias("key"))
    return by_key.agg(count("*").alias("orders"))
'''

_SPEC = """name: orders
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""

_README = """# Orders

A query on a scalable topic. It requires {needs}. Check the requirements:

    magnetar spark doctor

Start a broker (extra `broker` of magnetar), and create the topic:

    magnetar standalone
    magnetar topic create {topic} --segments 2

{run}
The topic is still empty. From now on, the broker keeps all messages that the query has not read. (For other messages,
retention applies: by default one day, or up to 1 GiB per topic.) Publish a message, and run the query again:

    magnetar message produce {topic} '{{"total": 5}}' --key ann

Show the position and the lag of the query:

    magnetar spark offsets show {checkpoint}
    magnetar spark lag {checkpoint}
"""

_RUN = """\
    magnetar spark run app.py
"""
_RUN_PIPELINE = """\
    export PYSPARK_PYTHON=$(command -v python)
    spark-pipelines run --conf spark.sql.catalogImplementation=hive

A second run continues where the first ended. The setting makes the catalog persistent, which this requires.
"""
# The folder where Spark stores the checkpoint of the table `orders`.
_OF_PIPELINE = "storage/_checkpoints/spark_catalog/default/orders/orders/0"


def files(folder: Path, *, url: str, pipelines: bool = False) -> dict[str, str]:
    """File names and texts, for a folder that may not exist yet."""
    if not pipelines:
        readme = _README.format(run=_RUN, topic=TOPIC, needs="`magnetar[spark,cli]`", checkpoint="checkpoint")
        return {"app.py": _APP.format(url=url, topic=TOPIC), "README.md": readme}
    needs = "`magnetar[spark,pipelines,cli]`"
    return {
        "spark-pipeline.yml": _SPEC.format(storage=(folder.absolute() / "storage").as_uri()),
        "transformations/orders.py": _PIPELINE.format(url=url, topic=TOPIC),
        "README.md": _README.format(run=_RUN_PIPELINE, topic=TOPIC, needs=needs, checkpoint=_OF_PIPELINE),
    }
