"""One side of `benchmarks.spark`, in a process of its own with a Spark of its own: `python -m benchmarks.sparked JSON`.

It is told which side it is and where its server is, works through the cases, and prints a figure a line as JSON. Both
sides have the same rows, the same keys, as many partitions, the same Spark settings; only format and options differ.
The first reading of each kind warms up (classes are loaded, workers started) and is not counted.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from benchmarks.rows import Shape, column

PARTITIONS = 4
READS, WRITES = 3, 2  # of which the best counts
STAGED_PART = 5  # exactly once, a part of the rows is enough: the broker writes each a second time
TRICKLES = 60
TRICKLE_S = 0.1
PARTS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution")  # Spark's words

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


class Side(ABC):
    """What differs between the two."""

    def __init__(self, asked: dict[str, Any]) -> None:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        builder = SparkSession.builder.master("local[2]").appName("benchmark")
        for key, value in (SETTINGS | asked.get("settings", {})).items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.asked = asked

    @abstractmethod
    def create(self, topic: str) -> None: ...

    @abstractmethod
    def options(self, topic: str) -> tuple[str, dict[str, str]]:
        """Format and options of reading."""

    @abstractmethod
    def written(self, topic: str, delivery: str) -> tuple[str, dict[str, str]]:
        """Format and options of writing."""

    @abstractmethod
    def sender(self, topic: str) -> Callable[[bytes], None]:
        """Sends one row and waits until it is stored."""

    def reader(self, source: Any, topic: str) -> Any:
        kind, options = self.options(topic)
        return source.format(kind).options(**options)

    def fill(self, topic: str, shape: Shape) -> None:
        kind, options = self.written(topic, "at-least-once")
        _rows(self, shape).write.format(kind).options(**options).mode("append").save()


class Ours(Side):
    def __init__(self, asked: dict[str, Any]) -> None:
        super().__init__(asked)
        from magnetar import Admin, Client

        self.client = Client(asked["url"])
        self.admin = Admin(asked["http"])

    def create(self, topic: str) -> None:
        self.admin.scalable.create(_name(topic), segments=PARTITIONS)

    def options(self, topic: str) -> tuple[str, dict[str, str]]:
        return "magnetar", {
            "url": self.asked["url"],
            "topic": _name(topic),
            "startingOffsets": "earliest",
            "columns": "key,value",
        }

    def written(self, topic: str, delivery: str) -> tuple[str, dict[str, str]]:
        return "magnetar", {"url": self.asked["url"], "topic": _name(topic), "delivery": delivery}

    def sender(self, topic: str) -> Callable[[bytes], None]:
        producer = self.client.create_producer(_name(topic))
        return lambda value: _none(producer.send(value, key="k"))


class Kafkas(Side):
    def create(self, topic: str) -> None:
        """Made by the first who asks for it, with the server's number of partitions."""

    def options(self, topic: str) -> tuple[str, dict[str, str]]:
        where = {"kafka.bootstrap.servers": self.asked["servers"], "subscribe": topic}
        return "kafka", {**where, "startingOffsets": "earliest"}

    def written(self, topic: str, delivery: str) -> tuple[str, dict[str, str]]:
        return "kafka", {"kafka.bootstrap.servers": self.asked["servers"], "topic": topic}

    def sender(self, topic: str) -> Callable[[bytes], None]:
        jvm = self.spark.sparkContext._jvm
        assert jvm is not None
        said = jvm.java.util.Properties()
        said.put("bootstrap.servers", self.asked["servers"])
        for what in ("key", "value"):
            said.put(f"{what}.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer")
        kafka = jvm.org.apache.kafka.clients.producer
        producer = kafka.KafkaProducer(said)
        return lambda value: _none(producer.send(kafka.ProducerRecord(topic, bytearray(b"k"), bytearray(value))).get())


def main() -> None:
    asked = json.loads(sys.argv[1])
    side = Ours(asked) if asked["side"] == "ours" else Kafkas(asked)
    shapes = [Shape(*one) for one in asked["shapes"]]
    for case in asked["cases"]:
        CASES[case](side, shapes)
    side.spark.stop()
    os._exit(0)  # producers of the JVM may linger


def read(side: Side, shapes: list[Shape]) -> None:
    for shape in shapes:
        topic = f"read-{shape.slug}"
        side.create(topic)
        side.fill(topic, shape)

        def batch(topic: str = topic) -> int:
            side.reader(side.spark.read, topic).load().select("key", "value").write.format("noop").mode(
                "overwrite"
            ).save()
            return 0

        def stream(topic: str = topic) -> int:
            counted: list[int] = []
            with tempfile.TemporaryDirectory() as checkpoint:
                frame = side.reader(side.spark.readStream, topic).load().select("key", "value")
                writer = frame.writeStream.foreachBatch(lambda one, _: counted.append(one.count()))
                writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
                writer.start().awaitTermination()
            return sum(counted)

        found = side.reader(side.spark.read, topic).load().count()
        if found != shape.rows:
            raise SystemExit(f"{found} rows of {shape.rows} in {topic}")
        _say(f"read, batch, {shape.name}", shape.rows / _best(batch, READS))
        if stream() != shape.rows:
            raise SystemExit(f"a stream missed rows of {topic}")
        _say(f"read, stream to foreachBatch, {shape.name}", shape.rows / _best(stream, READS))


def write(side: Side, shapes: list[Shape]) -> None:
    ways = {"at-least-once": 1, "exactly-once": STAGED_PART} if isinstance(side, Ours) else {"at-least-once": 1}
    for whole in shapes:
        for way, part in ways.items():
            shape = whole._replace(rows=max(whole.rows // part, 1))
            rows = _rows(side, shape).cache()
            rows.count()
            topic = f"write-{way}-{shape.slug}"
            side.create(topic)
            kind, options = side.written(topic, way)

            def once(kind: str = kind, options: dict[str, str] = options, rows: Any = rows) -> int:
                rows.write.format(kind).options(**options).mode("append").save()
                return 0

            once()
            _say(f"write, {way}, {shape.name}", shape.rows / _best(once, WRITES))
            rows.unpersist()


def trickle(side: Side, shapes: list[Shape]) -> None:
    """From before a row is sent to when foreachBatch has it, one row every so often, as the source comes."""
    topic = "trickle"
    side.create(topic)
    send = side.sender(topic)
    send(b"0")
    took: list[float] = []

    def take(frame: Any, _: int) -> None:
        rows = frame.collect()
        now = time.time()
        took.extend(now - float(bytes(row["value"])) for row in rows if bytes(row["value"]) != b"0")

    with tempfile.TemporaryDirectory() as checkpoint:
        frame = side.reader(side.spark.readStream, topic).load().select("value")
        query = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()
        while not took:  # until it runs
            send(b"%f" % time.time())
            time.sleep(1)
        took.clear()
        over = threading.Event()
        for _ in range(TRICKLES):
            send(b"%f" % time.time())
            over.wait(TRICKLE_S)
        while len(took) < TRICKLES:
            time.sleep(0.1)
        progress = [one.durationMs for one in query.recentProgress if one.numInputRows]
        query.stop()
    _say("trickle, produce to foreachBatch p50", statistics.median(took) * 1e3, "ms")
    _say("trickle, produce to foreachBatch p90", sorted(took)[int(len(took) * 0.9)] * 1e3, "ms")
    for part in PARTS:
        _say(f"of a micro-batch of the trickle, {part}", statistics.median(one.get(part, 0) for one in progress), "ms")


CASES: dict[str, Callable[[Side, list[Shape]], None]] = {"read": read, "write": write, "trickle": trickle}


def _rows(side: Side, shape: Shape) -> Any:
    """The rows as a frame."""
    return side.spark.range(0, shape.rows, 1, PARTITIONS).selectExpr(*column(shape))


def _best(work: Callable[[], int], times: int) -> float:
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def _name(topic: str) -> str:
    return f"topic://public/default/{topic}"


def _none(value: object) -> None:
    """What a send answers is of no use here."""


def _say(name: str, value: float, unit: str = "rows/s") -> None:
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


if __name__ == "__main__":
    main()
