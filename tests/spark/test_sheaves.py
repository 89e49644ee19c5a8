"""A task of the sink that writes whole batches made of columns, to a topic that is split and merged under it: every row
comes, once where the broker drops what it has, and every key in order. Needs no JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from magnetar import Client, InitialPosition
from tests.spark.published import Topic

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BATCHES, ROWS, KEYS = 12, 4000, 50
WAIT_S = 60.0


def columns() -> Iterator[Any]:
    import pyarrow as pa

    for first in range(0, BATCHES * ROWS, ROWS):
        rows = range(first, first + ROWS)
        keys = pa.array([b"k%d" % (row % KEYS) for row in rows], pa.binary())
        yield pa.record_batch([keys, pa.array([b"%d" % row for row in rows], pa.binary())], names=["key", "value"])


def test_column_batches_keep_key_order_through_reshapes(topic: Topic) -> None:
    from magnetar.spark.sink.options import sink_options
    from magnetar.spark.sink.writers import WriteTask

    options = {"url": topic.server.url, "topic": topic.name, "delivery": "at-least-once"}
    asked = sink_options(options, streaming=False, overwrite=False)
    over = threading.Event()
    reshaping = threading.Thread(target=lambda: _until(over, topic))
    reshaping.start()
    try:
        assert WriteTask(asked, ["key", "value"], "job", 0, 0).write(columns()).rows == BATCHES * ROWS
    finally:
        over.set()
        reshaping.join()
    found: dict[str, list[int]] = {}
    with Client(topic.server.url) as client:
        consumer = client.stream_consumer(topic.name, "check", initial_position=InitialPosition.EARLIEST)
        for _ in range(BATCHES * ROWS):
            message = consumer.receive(WAIT_S)
            found.setdefault(message.key or "", []).append(int(message.data))
            consumer.acknowledge_cumulative(message)
    assert found == {f"k{key}": list(range(key, BATCHES * ROWS, KEYS)) for key in range(KEYS)}


def _until(over: threading.Event, topic: Topic) -> None:
    while not over.is_set():
        topic.reshape()
