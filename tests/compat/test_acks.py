"""Acknowledgements and their absence: single, cumulative, inside a batch, negative, timed out, dead letters."""

from __future__ import annotations

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition

from tests.compat.conftest import Connect, Start
from tests.compat.driving import drain, nothing, numbered, send, send_all, take, texts, until
from tests.servers.proxy import Proxy
from tests.servers.standalone import Standalone


def batch(client: pulsar.Client, topic: str, count: int) -> None:
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1000)
    send_all(producer, numbered(count))
    producer.close()


def test_cumulative_acknowledgement_covers_everything_before(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbered(10))
    taken = take(consumer, 10, ack=False)
    consumer.acknowledge_cumulative(taken[6])
    consumer.close()
    assert texts(take(client.subscribe(topic, "s"), 3)) == numbered(3, 7)


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared], ids=lambda kind: kind.name)
def test_acknowledged_messages_of_batch_do_not_come_back(client: pulsar.Client, topic: str, kind: ConsumerType) -> None:
    options = {"consumer_type": kind, "batch_index_ack_enabled": True}
    consumer = client.subscribe(topic, "s", **options)
    batch(client, topic, 10)
    taken = take(consumer, 10, ack=False)
    for number in (0, 1, 4, 9):
        consumer.acknowledge(taken[number])
    consumer.close()
    consumer = client.subscribe(topic, "s", **options)
    left = take(consumer, 6, ack=False)
    assert texts(left) == ["m2", "m3", "m5", "m6", "m7", "m8"]
    for message in left[:3]:  # the client's own bookkeeping starts anew: the broker adds the two up
        consumer.acknowledge(message)
    consumer.close()
    consumer = client.subscribe(topic, "s", **options)
    assert texts(take(consumer, 3)) == ["m6", "m7", "m8"]
    consumer.close()
    nothing(client.subscribe(topic, "s", **options))


def test_cumulative_acknowledgement_inside_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", batch_index_ack_enabled=True)
    batch(client, topic, 6)
    batch(client, topic, 6)
    taken = take(consumer, 12, ack=False)
    consumer.acknowledge_cumulative(taken[8])
    consumer.close()
    again = client.subscribe(topic, "s", batch_index_ack_enabled=True)
    assert texts(take(again, 3)) == ["m3", "m4", "m5"]
    nothing(again)


def test_parts_of_batch_stay_acknowledged_over_restart(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url)
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared, batch_index_ack_enabled=True)
    batch(client, topic, 100)
    taken = take(consumer, 100, ack=False)
    for number in range(0, 100, 2):
        consumer.acknowledge(taken[number])
    consumer.close()
    broker.restart()
    again = connect(broker.url).subscribe(topic, "s", consumer_type=ConsumerType.Shared, batch_index_ack_enabled=True)
    assert texts(take(again, 50)) == [f"m{number}" for number in range(1, 100, 2)]
    nothing(again)


def test_without_batch_index_acks_whole_batch_comes_back(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    batch(client, topic, 5)
    taken = take(consumer, 5, ack=False)
    for message in taken[:4]:
        consumer.acknowledge(message)
    consumer.close()
    assert texts(take(client.subscribe(topic, "s", consumer_type=ConsumerType.Shared), 5)) == numbered(5)


@pytest.mark.parametrize("kind", [ConsumerType.Shared, ConsumerType.KeyShared], ids=lambda kind: kind.name)
def test_negative_acknowledgement_brings_that_message_back(
    client: pulsar.Client, topic: str, kind: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=kind, negative_ack_redelivery_delay_ms=100)
    send(client.create_producer(topic), numbered(5))
    for message in take(consumer, 5, ack=False):
        if message.data() == b"m2":
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    for count in (1, 2, 3):
        (again,) = take(consumer, 1, ack=False)
        assert (again.data(), again.redelivery_count()) == (b"m2", count)
        consumer.negative_acknowledge(again)
    consumer.acknowledge(take(consumer, 1)[0])
    nothing(consumer)


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Failover], ids=lambda kind: kind.name)
def test_with_one_active_consumer_everything_unacknowledged_comes_again_in_order(
    client: pulsar.Client, topic: str, kind: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=kind, negative_ack_redelivery_delay_ms=100)
    send(client.create_producer(topic), numbered(5))
    taken = take(consumer, 5, ack=False)
    consumer.acknowledge(taken[0])
    consumer.negative_acknowledge(taken[2])
    assert texts(take(consumer, 4)) == ["m1", "m2", "m3", "m4"]
    nothing(consumer)


def test_all_unacknowledged_messages_can_be_asked_for_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    send(client.create_producer(topic), numbered(10))
    taken = take(consumer, 10, ack=False)
    consumer.acknowledge(taken[5])
    consumer.redeliver_unacknowledged_messages()
    again = take(consumer, 9)
    assert sorted(texts(again)) == sorted(set(numbered(10)) - {"m5"})
    assert {message.redelivery_count() for message in again} == {1}


def test_what_is_not_acknowledged_in_time_comes_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=ConsumerType.Shared, unacked_messages_timeout_ms=10_000, receiver_queue_size=10
    )
    send(client.create_producer(topic), numbered(2))
    kept, done = take(consumer, 2, ack=False)
    consumer.acknowledge(done)
    (again,) = take(consumer, 1, timeout_ms=25_000)
    assert (again.data(), again.redelivery_count()) == (kept.data(), 1)


def test_negatively_acknowledged_message_of_batch_brings_only_what_is_left(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=ConsumerType.Shared,
        batch_index_ack_enabled=True,
        negative_ack_redelivery_delay_ms=200,
    )
    batch(client, topic, 6)
    for message in take(consumer, 6, ack=False):
        if message.data() in (b"m1", b"m4"):
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert sorted(texts(take(consumer, 2))) == ["m1", "m4"]
    nothing(consumer)


def test_redelivery_counts_survive_restart(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url)
    options = {"consumer_type": ConsumerType.Shared, "negative_ack_redelivery_delay_ms": 50}
    consumer = client.subscribe(topic, "s", **options)
    send(client.create_producer(topic), numbered(3))
    for message in take(consumer, 3, ack=False):
        if message.data() == b"m1":
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    for _ in range(3):
        (message,) = take(consumer, 1, ack=False)
        consumer.negative_acknowledge(message)
    (message,) = take(consumer, 1, ack=False)
    assert message.redelivery_count() == 4
    consumer.close()
    broker.restart()
    (message,) = take(connect(broker.url).subscribe(topic, "s", **options), 1)
    assert message.data() == b"m1"
    assert message.redelivery_count() >= 4


def test_dead_letters_go_where_client_puts_them(client: pulsar.Client, topic: str) -> None:
    dead = client.subscribe(f"{topic}-dead", "watch")
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=50,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(3, f"{topic}-dead", "kept"),
    )
    send(client.create_producer(topic), numbered(4))
    counts: dict[str, list[int]] = {}
    while len(counts.get("m2", [])) < 4:
        (message,) = take(consumer, 1, ack=False)
        counts.setdefault(message.data().decode(), []).append(message.redelivery_count())
        if message.data() == b"m2":
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert counts["m2"] == [0, 1, 2, 3]
    assert texts(take(dead, 1)) == ["m2"]
    nothing(consumer)
    kept = client.subscribe(f"{topic}-dead", "kept", initial_position=InitialPosition.Latest)
    assert texts(take(kept, 1)) == ["m2"], "the initial subscription was made with the topic"


def test_acknowledgements_in_any_order_leave_no_hole_open(
    broker: Standalone, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=3000)
    send_all(client.create_producer(topic, block_if_queue_full=True), numbered(3000))
    taken = take(consumer, 3000, ack=False)
    for message in taken[::2] + taken[1::2][::-1]:
        consumer.acknowledge(message)
    path = f"{topic.replace('://', '/')}/stats"
    until(
        lambda: broker.admin("GET", path, getPreciseBacklog="true")["subscriptions"]["s"]["msgBacklog"] == 0,
        what="the backlog is empty",
    )
    consumer.close()
    nothing(client.subscribe(topic, "s", consumer_type=ConsumerType.Shared))


def test_acknowledgements_lost_with_cut_connection_cost_repeat_and_no_message(
    client: pulsar.Client, connect: Connect, proxy: Proxy, topic: str
) -> None:
    consumer = connect(proxy.url).subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    producer = client.create_producer(topic)
    send_all(producer, numbered(500))
    seen: set[str] = set()
    while len(seen) < 500:
        (message,) = take(consumer, 1)
        seen.add(message.data().decode())
        if len(seen) % 100 == 50:
            proxy.cut()
    drain(consumer, quiet_ms=500)
    assert seen == set(numbered(500))
