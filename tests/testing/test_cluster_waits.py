"""A hundred stream subscriptions of one topic on three real brokers: their waits delay no split and no plan."""

from __future__ import annotations

import sys
import time

import pytest

import magnetar
from magnetar.testing import cluster

TOPIC = "topic://public/default/x"
SUBSCRIPTIONS, SEGMENTS = 100, 8
PROCESSOR_S = 2.0  # of a split and a plan, by all brokers and the client together: 0.1 to 1.2 s were seen
SOON_S = 10.0  # on a busy machine; without the shared call a split takes 30 s and a plan fails


@pytest.mark.slow
def test_hundred_subscriptions_delay_no_split_and_no_plan() -> None:
    times: list[tuple[float, float]] = []
    processor: list[float] = []
    with cluster(3, session_s=60.0) as c, magnetar.Client(c.url) as client, magnetar.Admin(c.admin_url) as admin:
        admin.scalable.create(TOPIC, segments=SEGMENTS)
        with client.create_producer(TOPIC) as producer:
            for number in range(10 * SEGMENTS):
                producer.send(b"x", key=str(number))
        for number in range(SUBSCRIPTIONS):  # without a reader no parent is drained
            admin.scalable.create_subscription(TOPIC, f"s{number}")
        consumers = [client.stream_consumer(TOPIC, f"s{number}") for number in range(SUBSCRIPTIONS)]
        for segment in range(SEGMENTS):
            begin, used = time.monotonic(), time.process_time()
            admin.scalable.split(TOPIC, segment)
            split = time.monotonic()
            assert client.plan(TOPIC).layout
            times.append((split - begin, time.monotonic() - split))
            processor.append(time.process_time() - used)
        for consumer in consumers:
            consumer.close()
    sys.stdout.write(f"split and plan in s: {[(round(split, 2), round(plan, 2)) for split, plan in times]}\n")
    sys.stdout.write(f"processor time of both in s: {[round(used, 2) for used in processor]}\n")
    assert max(processor) < PROCESSOR_S
    assert max(max(pair) for pair in times) < SOON_S, f"split and plan in s: {times}"
