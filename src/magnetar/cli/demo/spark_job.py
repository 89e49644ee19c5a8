"""The pipeline of the demo: an ordinary PySpark program in its own process, so that it can be killed.

python -m magnetar.cli.demo.spark_job '{"url": ..., "source": ..., "target": ..., "folder": ...}'

Two queries read one topic of orders. One adds tax and writes to another topic, exactly once. The other stores the
orders as Parquet. Both resume from their checkpoints. The program reports its batches on standard output, one line of
JSON each. It ends when the file `drain` exists and all orders are processed. It keeps no other state and does not
restart itself: its parent process does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from magnetar.cli.demo.order_check import TAX_PERCENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

DRAIN = "drain"
LAKE = "lake"
TAXES = "taxes"  # names of the queries, their checkpoints and their holds
FILES = "files"
TRIGGER = "500 milliseconds"
LOOK_S = 0.5
ORDER = "customer INT, number INT, cents BIGINT"
# The JVM runs for half a minute: options that speed up a long-lived JVM only delay its start.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={folder}"
SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "700m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main() -> None:
    from pyspark.sql import SparkSession

    settings: dict[str, str] = msgspec.json.decode(sys.argv[1])
    folder = Path(settings["folder"])
    builder = SparkSession.builder.master("local[2]").appName("magnetar-demo")
    own = {
        "spark.driver.extraJavaOptions": JAVA.format(
            folder=folder
        ),  # files left behind by a kill are removed with the folder
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for key, value in {**SETTINGS, **own}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _tell({"spark": spark.version})
    queries = [_taxes(spark, settings, folder), _files(spark, settings, folder)]
    _watch(queries, folder / DRAIN)
    spark.stop()


def _orders(spark: SparkSession, settings: dict[str, str], subscription: str) -> DataFrame:
    from pyspark.sql.functions import col, expr, from_json

    read = (
        spark.readStream.format("magnetar")
        .option("url", settings["url"])
        .option("topic", settings["source"])
        .option("subscription", subscription)  # the broker keeps messages that this query has not read
        .option("startingOffsets", "earliest")
        .option("columns", "key,value,__order")
        .load()
    )
    parsed = read.withColumn("parsed", from_json(col("value").cast("string"), ORDER))
    return parsed.select("key", "parsed.*", col("__order").alias("order")).withColumn(
        "gross", expr(f"cents * {100 + TAX_PERCENT} DIV 100")
    )


def _taxes(spark: SparkSession, settings: dict[str, str], folder: Path) -> StreamingQuery:
    rows = _orders(spark, settings, TAXES).selectExpr("key", "to_json(struct(customer, number, gross)) AS value")
    writer = rows.writeStream.format("magnetar").option("url", settings["url"]).option("topic", settings["target"])
    return _started(writer, TAXES, folder)


def _files(spark: SparkSession, settings: dict[str, str], folder: Path) -> StreamingQuery:
    rows = _orders(spark, settings, FILES).select("customer", "number", "gross", "order")
    return _started(rows.writeStream.format("parquet").option("path", str(folder / LAKE)), FILES, folder)


def _started(writer: Any, name: str, folder: Path) -> StreamingQuery:
    return (
        writer.queryName(name).option("checkpointLocation", str(folder / name)).trigger(processingTime=TRIGGER).start()
    )


def _watch(queries: list[StreamingQuery], drain: Path) -> None:
    reported = dict.fromkeys((query.name for query in queries), -1)
    while not drain.exists():
        for query in queries:
            query.awaitTermination(LOOK_S / len(queries))  # raises the error that ended the query
            last = query.lastProgress
            if last is not None and last["batchId"] != reported[query.name]:
                reported[query.name] = last["batchId"]
                _tell({"query": query.name, "batch": last["batchId"], "rows": last["numInputRows"]})
    for query in queries:
        query.processAllAvailable()
    for query in queries:
        query.stop()


def _tell(event: dict[str, object]) -> None:
    """A closed pipe ends the program."""
    sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
