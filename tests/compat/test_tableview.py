"""The stock client's table view: the last value of every key, loaded and then followed, without any compaction."""

from __future__ import annotations

import pulsar
from pulsar.schema import StringSchema

from tests.compat.driving import until
from tests.servers.standalone import Standalone


def test_it_loads_last_value_of_every_key_and_follows(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, schema=StringSchema())
    for number in range(30):
        producer.send(f"v{number}", partition_key=f"k{number % 5}")
    view = client.create_table_view(topic, schema=StringSchema())
    assert len(view) == 5
    assert [view.get(f"k{key}") for key in range(5)] == [f"v{25 + key}" for key in range(5)]
    producer.send("new", partition_key="k2")
    until(lambda: view.get("k2") == "new", what="the change is seen")
    view.close()


def test_empty_value_deletes_its_key(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    view = client.create_table_view(topic)
    producer.send(b"here", partition_key="k")
    until(lambda: len(view) == 1, what="the key is there")
    producer.send(b"", partition_key="k")
    until(lambda: len(view) == 0, what="the key is gone")
    view.close()


def test_it_covers_all_partitions(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    broker.admin("PUT", f"{topic.replace('://', '/')}/partitions", 3)
    producer = client.create_producer(topic)
    for number in range(60):
        producer.send(str(number).encode(), partition_key=f"k{number % 20}")
    view = client.create_table_view(topic)
    seen: dict[str, bytes] = {}
    view.for_each(lambda key, value: seen.update({key: value}))
    assert seen == {f"k{number % 20}": str(number).encode() for number in range(40, 60)}
    view.close()
