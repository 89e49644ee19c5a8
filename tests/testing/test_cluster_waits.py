"""A hundred stream subscriptions of one topic on three real brokers: their waits delay no split and no plan."""

from __future__ import annotations

import time

import pytest

import magnetar
from magnetar.testing import cluster

TOPIC = "topic://public/default/x"
SUBSCRIPTIONS, SEGMENTS = 100, 8
SOON_S = 10.0  # under a second on an idle machine; without the shared call half a minute and a plan that fails


@pytest.mark.slow
def test_hundred_subscriptions_delay_no_split_and_no_plan() -> None:
    times: list[tuple[float, float]] = []
    with cluster(3, session_s=60.0) as c, magnetar.Client(c.url) as client, magnetar.Admin(c.admin_url) as admin:
        admin.scalable.create(TOPIC, segments=SEGMENTS)
        with client.create_producer(TOPIC) as producer:
            for number in range(10 * SEGMENTS):
                producer.send(b"x", key=str(number))
        for number in range(SUBSCRIPTIONS):  # without a reader no parent is drained
            admin.scalable.create_subscription(TOPIC, f"s{number}")
        consumers = [client.stream_consumer(TOPIC, f"s{number}") for number in range(SUBSCRIPTIONS)]
        for segment in range(SEGMENTS):
            begin = time.monotonic()
            admin.scalable.split(TOPIC, segment)
            split = time.monotonic()
            assert client.plan(TOPIC).layout
            times.append((split - begin, time.monotonic() - split))
        for consumer in consumers:
            consumer.close()
    assert max(max(pair) for pair in times) < SOON_S, f"split and plan in s: {times}"
