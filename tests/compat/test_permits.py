"""Permits: a stock consumer gets what it asked for and no more, counted in messages, whatever its queue."""

from __future__ import annotations

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition

from tests.compat.driving import drain, nothing, numbered, send, send_all, take, texts
from tests.servers.standalone import Standalone


def delivered(broker: Standalone, topic: str, subscription: str = "s") -> list[int]:
    stats = broker.admin("GET", f"{topic.replace('://', '/')}/stats")
    return [consumer["msgOutCounter"] for consumer in stats["subscriptions"][subscription]["consumers"]]


def test_queue_of_zero_gets_one_message_for_each_receive(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=0)
    send(client.create_producer(topic), numbered(10))
    assert delivered(broker, topic) == [0]
    for number in range(5):
        message = consumer.receive()
        assert message.data() == f"m{number}".encode()
        consumer.acknowledge(message)
    assert delivered(broker, topic) == [5]


def test_full_queue_leaves_rest_to_others(client: pulsar.Client, topic: str) -> None:
    full = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=10)
    send_all(client.create_producer(topic), numbered(100))
    other = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=1000)
    assert len(drain(other)) == 90
    assert len(drain(full)) == 10


@pytest.mark.parametrize("queue", [1, 2, 3, 1000])
def test_any_queue_size_gets_everything_in_order(client: pulsar.Client, topic: str, queue: int) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=queue)
    send_all(client.create_producer(topic), numbered(200))
    assert texts(take(consumer, 200)) == numbered(200)
    nothing(consumer, quiet_ms=100)


def test_batches_larger_than_queue_are_delivered_whole_and_repaid(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=5)
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=200)
    for start in range(0, 500, 50):
        send_all(producer, numbered(50, start))
    assert texts(take(consumer, 500)) == numbered(500)


def test_acknowledged_parts_of_batches_cost_no_permits(client: pulsar.Client, topic: str) -> None:
    options = {"consumer_type": ConsumerType.Shared, "batch_index_ack_enabled": True}
    consumer = client.subscribe(topic, "s", **options)
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=200)
    for start in range(0, 200, 20):
        send_all(producer, numbered(20, start))
    for message in take(consumer, 200, ack=False):
        if message.message_id().batch_index() != 7:
            consumer.acknowledge(message)
    consumer.close()
    small = client.subscribe(topic, "s", receiver_queue_size=4, **options)
    assert texts(take(small, 10)) == [f"m{start + 7}" for start in range(0, 200, 20)]


def test_batch_receive_fills_up_to_its_policy(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=ConsumerType.Shared,
        batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(10, 1024 * 1024, 500),
    )
    send_all(client.create_producer(topic), numbered(25))
    sizes, seen = [], []
    while len(seen) < 25:
        messages = consumer.batch_receive()
        sizes.append(len(messages))
        for message in messages:
            seen.append(message.data().decode())
            consumer.acknowledge(message)
    assert seen == numbered(25)
    assert max(sizes) == 10


def test_listener_is_called_for_every_message(client: pulsar.Client, topic: str) -> None:
    seen: list[str] = []

    def heard(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        seen.append(message.data().decode())
        consumer.acknowledge(message)

    consumer = client.subscribe(
        topic, "s", message_listener=heard, receiver_queue_size=3, initial_position=InitialPosition.Earliest
    )
    send(client.create_producer(topic), numbered(100))
    from tests.compat.driving import until

    until(lambda: len(seen) == 100, what="all heard")
    consumer.close()
    assert seen == numbered(100)


def test_paused_listener_gets_no_more_than_its_queue(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    seen: list[str] = []
    consumer = client.subscribe(
        topic, "s", message_listener=lambda _, message: seen.append(message.data().decode()), receiver_queue_size=10
    )
    consumer.pause_message_listener()
    send_all(client.create_producer(topic), numbered(100))
    assert delivered(broker, topic)[0] <= 10
    consumer.resume_message_listener()
    from tests.compat.driving import until

    until(lambda: len(seen) == 100, what="all heard")


def test_consumers_that_never_read_hold_only_their_permits(
    broker: Standalone, client: pulsar.Client, topic: str
) -> None:
    idle = [client.subscribe(topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=7) for _ in range(5)]
    busy = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    send_all(client.create_producer(topic), numbered(500))
    assert len(drain(busy)) >= 500 - 5 * 7
    assert all(count <= 7 or count >= 465 for count in delivered(broker, topic))
    assert sum(len(drain(consumer)) for consumer in idle) <= 35
