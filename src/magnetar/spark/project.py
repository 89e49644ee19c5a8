"""The files of a project that `magnetar spark init` writes: a query to begin with, or a declarative pipeline.

Texts only. What they hold is tried by the tests, in a real Spark.
"""

from __future__ import annotations

from pathlib import Path

TOPIC = "topic://public/default/project-orders"

_APP = '''"""Writes orders as Parquet as they come, each once, and shows how many there are of each key.

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
    .trigger(availableNow=True)  # leave this out to go on for ever
    .start()
)
query.awaitTermination()
spark.read.schema(orders.schema).parquet("out/orders").groupBy("key").count().orderBy("key").show()
'''

_PIPELINE = '''"""Orders as a table that grows, and how many there are of each key."""

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

A query on a scalable topic. It needs {needs}; is everything there?

    magnetar spark doctor

A broker, which the extra `broker` of magnetar brings, and the topic:

    magnetar standalone
    magnetar topic create {topic} --segments 2

{run}
It finds nothing yet, and tells the broker to keep from now on what it has not read. (Other messages are kept as long as
retention says: by default for a day, or up to 1 GiB for a topic.) So publish now, and run it again:

    magnetar message produce {topic} '{{"total": 5}}' --key ann

Where it stands, and how far it is behind:

    magnetar spark offsets show {checkpoint}
    magnetar spark lag {checkpoint}
"""

_RUN = """\
    magnetar spark run app.py
"""
_RUN_PIPELINE = """\
    export PYSPARK_PYTHON=$(command -v python)
    spark-pipelines run --conf spark.sql.catalogImplementation=hive

A second run goes on where the first ended; for that the catalog must last, which is what the setting is for.
"""
# Where Spark has the checkpoint of the table `orders`.
_OF_PIPELINE = "storage/_checkpoints/spark_catalog/default/orders/orders/0"


def files(folder: Path, *, url: str, pipelines: bool = False) -> dict[str, str]:
    """Names and texts, for a folder that may not be there yet."""
    if not pipelines:
        readme = _README.format(run=_RUN, topic=TOPIC, needs="`magnetar[spark,cli]`", checkpoint="checkpoint")
        return {"app.py": _APP.format(url=url, topic=TOPIC), "README.md": readme}
    needs = "`magnetar[spark,pipelines,cli]`"
    return {
        "spark-pipeline.yml": _SPEC.format(storage=(folder.absolute() / "storage").as_uri()),
        "transformations/orders.py": _PIPELINE.format(url=url, topic=TOPIC),
        "README.md": _README.format(run=_RUN_PIPELINE, topic=TOPIC, needs=needs, checkpoint=_OF_PIPELINE),
    }
