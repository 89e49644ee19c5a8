"""Non-persistent topics through the stock client: delivered to whoever listens now, kept for nobody."""

from __future__ import annotations

import pulsar
import pytest
from pulsar import ConsumerType

from tests.compat.driving import drain, nothing, numbered, send, take, texts
from tests.servers.standalone import Standalone


@pytest.fixture
def fleeting(topic: str) -> str:
    return f"non-{topic}"


def test_whoever_listens_gets_it_and_rest_is_dropped(client: pulsar.Client, fleeting: str) -> None:
    producer = client.create_producer(fleeting)
    send(producer, ["nobody hears this"])
    consumer = client.subscribe(fleeting, "s")
    ids = send(producer, numbered(10))
    assert texts(take(consumer, 10)) == numbered(10)
    assert [(one.ledger_id(), one.entry_id()) for one in ids] == [(0, number) for number in range(1, 11)]
    consumer.close()
    send(producer, ["nor this"])
    nothing(client.subscribe(fleeting, "s"))


def test_every_subscription_gets_copy(client: pulsar.Client, fleeting: str) -> None:
    consumers = [client.subscribe(fleeting, f"s{number}") for number in range(3)]
    send(client.create_producer(fleeting), numbered(5))
    for consumer in consumers:
        assert texts(take(consumer, 5)) == numbered(5)


def test_shared_consumers_divide_messages(client: pulsar.Client, fleeting: str) -> None:
    consumers = [client.subscribe(fleeting, "s", consumer_type=ConsumerType.Shared) for _ in range(3)]
    send(client.create_producer(fleeting), numbered(60))
    shares = [texts(drain(consumer)) for consumer in consumers]
    assert sorted(text for share in shares for text in share) == sorted(numbered(60))
    assert all(shares)


def test_keys_stay_with_one_consumer(client: pulsar.Client, fleeting: str) -> None:
    consumers = [client.subscribe(fleeting, "s", consumer_type=ConsumerType.KeyShared) for _ in range(2)]
    producer = client.create_producer(fleeting)
    for number in range(100):
        producer.send(f"k{number % 10}".encode(), partition_key=f"k{number % 10}")
    shares = [set(texts(drain(consumer))) for consumer in consumers]
    assert shares[0] | shares[1] == {f"k{number}" for number in range(10)}
    assert not shares[0] & shares[1]


def test_failover_serves_one_and_next_when_it_goes(client: pulsar.Client, fleeting: str) -> None:
    consumers = [
        client.subscribe(fleeting, "s", consumer_type=ConsumerType.Failover, consumer_name=name) for name in "ab"
    ]
    producer = client.create_producer(fleeting)
    send(producer, numbered(5))
    assert texts(drain(consumers[0])) == numbered(5)
    consumers.pop(0).close()
    send(producer, numbered(5, 5))
    assert texts(take(consumers[0], 5)) == numbered(5, 5)


def test_batches_arrive_whole(client: pulsar.Client, fleeting: str) -> None:
    consumer = client.subscribe(fleeting, "s")
    producer = client.create_producer(fleeting, batching_enabled=True, batching_max_publish_delay_ms=100)
    for text in numbered(20):
        producer.send_async(text.encode(), lambda *_: None)
    producer.flush()
    assert texts(take(consumer, 20)) == numbered(20)


def test_full_queue_drops_and_blocks_nobody(client: pulsar.Client, fleeting: str) -> None:
    slow = client.subscribe(fleeting, "slow", receiver_queue_size=10)
    fast = client.subscribe(fleeting, "fast")
    send(client.create_producer(fleeting), numbered(200))
    assert texts(take(fast, 200)) == numbered(200)
    assert texts(drain(slow)) == numbered(10)


def test_it_is_listed_while_it_is_loaded(broker: Standalone, client: pulsar.Client, fleeting: str) -> None:
    producer = client.create_producer(fleeting)
    assert fleeting in broker.admin("GET", "namespaces/public/default/topics", mode="NON_PERSISTENT")
    assert fleeting not in broker.admin("GET", "namespaces/public/default/topics", mode="PERSISTENT")
    producer.close()


def test_partitions_of_it_work_alike(broker: Standalone, client: pulsar.Client, fleeting: str) -> None:
    broker.admin("PUT", f"{fleeting.replace('://', '/')}/partitions", 3)
    consumer = client.subscribe(fleeting, "s")
    send(client.create_producer(fleeting), numbered(30))
    assert sorted(texts(take(consumer, 30))) == sorted(numbered(30))
