"""Seek by id and by time with stock consumers: earlier, later, inside batches, at both ends, for every type."""

from __future__ import annotations

import time

import pulsar
import pytest
from pulsar import ConsumerType, MessageId

from tests.compat.conftest import Connect, Start
from tests.compat.driving import nothing, numbered, send, send_all, take, texts
from tests.servers.standalone import Standalone


@pytest.mark.parametrize(
    "kind", [ConsumerType.Exclusive, ConsumerType.Shared, ConsumerType.Failover], ids=lambda k: k.name
)
def test_back_and_forth_by_id(client: pulsar.Client, topic: str, kind: ConsumerType) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=kind)
    ids = send(client.create_producer(topic), numbered(20))
    take(consumer, 20)
    consumer.seek(ids[4])
    assert texts(take(consumer, 15)) == numbered(15, 5)
    consumer.seek(ids[14])
    assert texts(take(consumer, 5)) == numbered(5, 15)
    consumer.seek(MessageId.earliest)
    assert texts(take(consumer, 20)) == numbered(20)
    consumer.seek(MessageId.latest)
    nothing(consumer)


def test_at_message_itself_where_asked(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    ids = send(client.create_producer(topic), numbered(10))
    take(consumer, 10)
    consumer.seek(ids[4])
    assert texts(take(consumer, 6)) == numbered(6, 4)


def test_by_time_first_message_published_then_or_later(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send(producer, numbered(5))
    time.sleep(0.05)
    between = int(time.time() * 1000)
    time.sleep(0.05)
    send(producer, numbered(5, 5))
    take(consumer, 10)
    consumer.seek(between)
    assert texts(take(consumer, 5)) == numbered(5, 5)
    consumer.seek(1)
    assert texts(take(consumer, 10)) == numbered(10)
    consumer.seek(int(time.time() * 1000) + 60_000)
    nothing(consumer)


def test_into_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=500)
    send_all(producer, numbered(10))
    ids = [message.message_id() for message in take(consumer, 10)]
    consumer.seek(ids[3])
    assert texts(take(consumer, 6)) == numbered(6, 4)


def test_over_many_batches_by_time(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=10)
    send_all(producer, numbered(500))
    taken = take(consumer, 500)
    target = taken[250].publish_timestamp()
    expected = next(number for number, message in enumerate(taken) if message.publish_timestamp() >= target)
    consumer.seek(target)
    (first,) = take(consumer, 1)
    assert int(first.data()[1:]) <= expected
    assert first.publish_timestamp() >= target or int(first.data()[1:]) > expected - 10


def test_acknowledgements_before_seek_are_forgotten(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    ids = send(client.create_producer(topic), numbered(10))
    take(consumer, 10)
    consumer.seek(MessageId.earliest)
    take(consumer, 3)
    consumer.close()
    again = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    assert texts(take(again, 7)) == numbered(7, 3)
    again.seek(ids[8])
    assert texts(take(again, 1)) == ["m9"]


def test_seek_survives_killed_broker(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url)
    consumer = client.subscribe(topic, "s")
    ids = send(client.create_producer(topic), numbered(10))
    take(consumer, 10)
    consumer.seek(ids[6])
    consumer.close()
    broker.restart(kill=True)
    assert texts(take(connect(broker.url).subscribe(topic, "s"), 3))[-1] in ("m8", "m9")


def test_consumer_does_not_starve_after_many_seeks(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=10)
    send_all(client.create_producer(topic), numbered(50))
    for _ in range(8):
        consumer.seek(MessageId.earliest)
        assert texts(take(consumer, 25, ack=False)) == numbered(25)


def test_through_rest_all_consumers_of_subscription_move(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    send(client.create_producer(topic), numbered(10))
    take(consumer, 10)
    broker.admin("POST", f"{topic.replace('://', '/')}/subscription/s/resetcursor/1")
    assert texts(take(consumer, 10)) == numbered(10)
