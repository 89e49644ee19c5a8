"""Deduplication by sequence id, as the stock client sees it: a message sent twice is stored once, over any restart."""

from __future__ import annotations

import pulsar
import pytest

from tests.compat.conftest import Connect, Start
from tests.compat.driving import nothing, numbered, send, take, texts
from tests.servers.proxy import Proxy
from tests.servers.standalone import Standalone


@pytest.fixture
def deduplicated(broker: Standalone, namespace: str) -> str:
    broker.admin("POST", f"namespaces/{namespace}/deduplication", True)
    return f"persistent://{namespace}/t"


def test_repeated_sequence_id_is_answered_and_not_stored(client: pulsar.Client, deduplicated: str) -> None:
    consumer = client.subscribe(deduplicated, "s")
    producer = client.create_producer(deduplicated, producer_name="p", initial_sequence_id=1)
    for sequence in (2, 3, 4):
        producer.send(f"m{sequence}".encode(), sequence_id=sequence)
    for sequence in (2, 4, 1):
        repeated = producer.send(b"again", sequence_id=sequence)
        assert repeated.entry_id() == -1 or repeated.ledger_id() == -1
    producer.send(b"m5", sequence_id=5)
    assert texts(take(consumer, 4)) == ["m2", "m3", "m4", "m5"]
    nothing(consumer)


def test_without_deduplication_repeats_are_stored(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="p")
    for _ in range(2):
        producer.send(b"m", sequence_id=7)
    assert texts(take(consumer, 2)) == ["m", "m"]


def test_new_producer_of_same_name_continues_sequence(client: pulsar.Client, deduplicated: str) -> None:
    first = client.create_producer(deduplicated, producer_name="p")
    send(first, numbered(10))
    assert first.last_sequence_id() == 9
    first.close()
    second = client.create_producer(deduplicated, producer_name="p")
    assert second.last_sequence_id() == 9
    second.send(b"m10")
    assert second.last_sequence_id() == 10


def test_names_are_counted_apart(client: pulsar.Client, deduplicated: str) -> None:
    consumer = client.subscribe(deduplicated, "s")
    for name in ("a", "b"):
        client.create_producer(deduplicated, producer_name=name).send(name.encode(), sequence_id=5)
    assert texts(take(consumer, 2)) == ["a", "b"]


def test_repeated_batches_are_dropped_whole(client: pulsar.Client, deduplicated: str) -> None:
    consumer = client.subscribe(deduplicated, "s")
    for _ in range(2):
        producer = client.create_producer(deduplicated, producer_name="p", batching_enabled=True, initial_sequence_id=0)
        for sequence in range(1, 11):
            producer.send_async(f"m{sequence}".encode(), lambda *_: None, sequence_id=sequence)
        producer.flush()
        producer.close()
    assert texts(take(consumer, 10)) == numbered(10, 1)
    nothing(consumer)


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
@pytest.mark.parametrize("interval", [1000, 3], ids=["before the first snapshot", "after snapshots"])
def test_sequence_ids_survive_restart(start: Start, connect: Connect, topic: str, kill: bool, interval: int) -> None:
    broker: Standalone = start(brokerDeduplicationEnabled=True, brokerDeduplicationEntriesInterval=interval)
    connect(broker.url).subscribe(topic, "s").close()  # without a subscription, retention may delete the messages
    first = connect(broker.url).create_producer(topic, producer_name="p")
    send(first, numbered(20))
    broker.restart(kill=kill)
    client = connect(broker.url)
    consumer = client.subscribe(topic, "s")
    first.close()
    second = client.create_producer(topic, producer_name="p")
    assert second.last_sequence_id() == 19
    second.send(b"again", sequence_id=19)
    second.send(b"m20", sequence_id=20)
    assert texts(take(consumer, 21)) == numbered(21)
    nothing(consumer)


def test_what_cut_connection_sends_again_is_stored_once(
    client: pulsar.Client, connect: Connect, proxy: Proxy, deduplicated: str
) -> None:
    consumer = client.subscribe(deduplicated, "s")
    producer = connect(proxy.url).create_producer(deduplicated, block_if_queue_full=True, max_pending_messages=100)
    failed: list[object] = []
    for number in range(2000):
        if number % 400 == 200:
            proxy.cut()
        producer.send_async(
            f"m{number}".encode(), lambda result, _: failed.append(result) if result != pulsar.Result.Ok else None
        )
    producer.flush()
    assert failed == []
    assert texts(take(consumer, 2000)) == numbered(2000)
    nothing(consumer)


def test_switching_it_on_takes_hold_on_loaded_topic(broker: Standalone, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="p")
    producer.send(b"a", sequence_id=1)
    producer.send(b"a", sequence_id=1)
    broker.admin("POST", f"namespaces/{namespace}/deduplication", True)
    producer.send(b"b", sequence_id=2)
    producer.send(b"b", sequence_id=2)
    broker.admin("POST", f"namespaces/{namespace}/deduplication", False)
    producer.send(b"b", sequence_id=2)
    assert texts(take(consumer, 4)) == ["a", "a", "b", "b"]
    nothing(consumer)


def test_chunked_message_sent_twice_is_stored_once(client: pulsar.Client, deduplicated: str) -> None:
    consumer = client.subscribe(deduplicated, "s")
    producer = client.create_producer(deduplicated, producer_name="p", chunking_enabled=True)
    large = b"x" * (11 * 1024 * 1024)
    producer.send(large, sequence_id=3)
    producer.send(large, sequence_id=3)
    producer.send(b"small", sequence_id=4)
    taken = take(consumer, 2)
    assert [len(message.data()) for message in taken] == [len(large), 5]
    nothing(consumer)
