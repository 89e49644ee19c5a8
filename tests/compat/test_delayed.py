"""Delayed delivery with the stock client: nothing comes before its time, everything comes after it, over restarts."""

from __future__ import annotations

import time
from datetime import timedelta

import pulsar
import pytest
from pulsar import ConsumerType

from tests.compat.conftest import Connect, Start
from tests.compat.driving import nothing, numbered, send, take, texts
from tests.servers.standalone import Standalone

LATE_S = 5  # longer than anything here takes that must happen before
EARLY_S = 0.6  # a tick of delivery may be this much before the time asked for (SC-A6)


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize("kind", [ConsumerType.Shared, ConsumerType.KeyShared], ids=lambda kind: kind.name)
def test_delayed_message_comes_at_its_time_and_lets_others_pass(
    client: pulsar.Client, topic: str, kind: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=kind)
    producer = client.create_producer(topic)
    sent = time.monotonic()
    producer.send(b"late", deliver_after=timedelta(seconds=LATE_S))
    producer.send(b"at once")
    assert texts(take(consumer, 1)) == ["at once"]
    assert texts(take(consumer, 1)) == ["late"]
    assert time.monotonic() - sent > LATE_S - EARLY_S


def test_they_come_in_order_of_their_times(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    producer = client.create_producer(topic)
    start = now_ms()
    for number in (5, 3, 1, 4, 2):
        producer.send(f"m{number}".encode(), deliver_at=start + LATE_S * 1000 + number * 300)
    assert texts(take(consumer, 5)) == numbered(5, 1)


def test_time_in_past_is_no_delay(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    client.create_producer(topic).send(b"m", deliver_at=now_ms() - 1000)
    assert texts(take(consumer, 1)) == ["m"]


def test_exclusive_gets_them_at_once(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"m", deliver_after=timedelta(minutes=5))
    assert texts(take(consumer, 1)) == ["m"]


def test_unacknowledged_they_come_back_without_waiting_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    client.create_producer(topic).send(b"m", deliver_after=timedelta(seconds=1))
    take(consumer, 1, ack=False)
    consumer.close()
    again = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    assert texts(take(again, 1)) == ["m"]


def test_they_wait_for_consumer_that_comes_later(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s", consumer_type=ConsumerType.Shared).close()
    producer = client.create_producer(topic)
    producer.send(b"later", deliver_after=timedelta(seconds=LATE_S))
    producer.send(b"now")
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    assert texts(take(consumer, 2)) == ["now", "later"]


def test_they_survive_restart(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url)
    client.subscribe(topic, "s", consumer_type=ConsumerType.Shared).close()
    producer = client.create_producer(topic)
    due = now_ms() + 5000
    for number in range(20):
        producer.send(f"m{number}".encode(), deliver_at=due)
    broker.restart(kill=True)
    consumer = connect(broker.url).subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    first = take(consumer, 1)
    assert now_ms() > due - EARLY_S * 1000
    assert sorted(texts(first + take(consumer, 19))) == sorted(numbered(20))


@pytest.mark.slow
def test_ten_thousand_delayed_messages_over_restart(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url)
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    producer = client.create_producer(topic, block_if_queue_full=True)
    first_due = now_ms() + 40_000
    due = {f"m{number}": first_due + (number * 7919) % 10_000 for number in range(10_000)}
    for text, when in due.items():
        producer.send_async(text.encode(), lambda *_: None, deliver_at=when)
    producer.flush()
    nothing(consumer)
    broker.restart(kill=True)
    early: list[str] = []
    seen: dict[str, int] = {}
    while len(seen) < 10_000:
        (message,) = take(consumer, 1, timeout_ms=60_000)
        text = message.data().decode()
        seen.setdefault(text, now_ms())
        if seen[text] < due[text] - EARLY_S * 1000:
            early.append(text)
    assert early == []
    assert seen.keys() == due.keys()
    consumer.close()
    nothing(client.subscribe(topic, "s", consumer_type=ConsumerType.Shared))


def test_more_delayed_messages_than_permits_do_not_stop_others(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=10)
    producer = client.create_producer(topic)
    for number in range(200):
        producer.send_async(f"late{number}".encode(), lambda *_: None, deliver_after=timedelta(seconds=LATE_S))
    producer.flush()
    send(producer, numbered(50))
    assert texts(take(consumer, 50)) == numbered(50)
    assert len(take(consumer, 200)) == 200
    nothing(consumer)
