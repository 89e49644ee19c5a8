"""Order through reshapes behind a shuffle that spills: in foreachBatch, and for Spark's own stateful operators, where
what they keep of a key is fed in the order of the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.published import Running, Topic, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OUT = "key string, seen long, wrong long"


def test_foreach_batch_sees_key_order_behind_spilling_shuffle(spark: SparkSession, topic: Topic, tmp_path: Path):
    batches: dict[int, list[tuple[str, str]]] = {}

    def keep(frame: Any, batch: int) -> None:
        arranged = frame.repartition(2, "key").sortWithinPartitions("key", "__order")
        batches[batch] = texts(arranged.collect())

    frame = topic.stream(spark, columns="key,value,__order", maxMessagesPerTrigger=150)
    query = Running(frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path)))
    with topic.live(rounds=6, rows=80):
        pass
    query.drain()
    topic.judge(row for batch in sorted(batches) for row in batches[batch])
    assert query.spilled(spark)


def test_apply_in_pandas_with_state_sees_each_key_in_order(spark: SparkSession, topic: Topic, tmp_path: Path):
    import pandas
    from pyspark.sql.functions import col
    from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

    def follow(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        seen, wrong = state.get if state.exists else (0, 0)
        rows = pandas.concat(list(frames)).sort_values("order")
        for value in rows["value"]:
            wrong += int(value.split(" ")[1]) != seen
            seen += 1
        state.update((seen, wrong))
        yield pandas.DataFrame({"key": [key[0]], "seen": [seen], "wrong": [wrong]})

    frame = topic.stream(spark, columns="key,value,__order", maxMessagesPerTrigger=150)
    named = frame.select(
        col("key").cast("string").alias("key"),
        col("value").cast("string").alias("value"),
        col("__order").alias("order"),
    )
    told = named.groupBy("key").applyInPandasWithState(
        follow, OUT, "seen long, wrong long", "update", GroupStateTimeout.NoTimeout
    )
    last = followed(spark, told, topic, tmp_path)
    assert {key: (count, 0) for key, count in topic.counts.items()} == last


@pytest.mark.parametrize("form", ["rows", "pandas"])
def test_transform_with_state_sees_each_key_in_order(spark: SparkSession, topic: Topic, tmp_path: Path, form: str):
    import pandas
    from pyspark.sql import Row
    from pyspark.sql.functions import col
    from pyspark.sql.streaming import StatefulProcessor

    class Follow(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.seen = handle.getValueState("seen", "seen long, wrong long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            seen, wrong = self.seen.get() if self.seen.exists() else (0, 0)
            if form == "rows":
                values = [row.value for row in sorted(rows, key=lambda row: bytes(row.order))]
            else:
                values = pandas.concat(list(rows)).sort_values("order")["value"]
            for value in values:
                wrong += int(value.split(" ")[1]) != seen
                seen += 1
            self.seen.update((seen, wrong))
            if form == "rows":
                yield Row(key=key[0], seen=seen, wrong=wrong)
            else:
                yield pandas.DataFrame({"key": [key[0]], "seen": [seen], "wrong": [wrong]})

        def close(self) -> None:
            """Nothing is open."""

    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    try:
        frame = topic.stream(spark, columns="key,value,__order", maxMessagesPerTrigger=150)
        named = frame.select(
            col("key").cast("string").alias("key"),
            col("value").cast("string").alias("value"),
            col("__order").alias("order"),
        )
        grouped = named.groupBy("key")
        operator = grouped.transformWithState if form == "rows" else grouped.transformWithStateInPandas
        told = operator(Follow(), OUT, "Update", "None")
        last = followed(spark, told, topic, tmp_path)
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    assert {key: (count, 0) for key, count in topic.counts.items()} == last


def followed(spark: SparkSession, told: Any, topic: Topic, folder: Path) -> dict[str, tuple[int, int]]:
    """What was said last of each key, after rows and reshapes, and spills."""
    last: dict[str, tuple[int, int]] = {}

    def keep(frame: Any, batch: int) -> None:
        for row in frame.collect():
            last[row.key] = max(last.get(row.key, (0, 0)), (row.seen, row.wrong))

    writer = told.writeStream.outputMode("update").foreachBatch(keep)
    query = Running(writer.option("checkpointLocation", str(folder)))
    with topic.live(rounds=6, rows=80):
        pass
    query.drain()
    assert query.spilled(spark)
    return last
