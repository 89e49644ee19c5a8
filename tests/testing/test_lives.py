"""Lives of a broker in the test's process, as a client beside it sees them: what was acknowledged is there after."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pulsar
import pytest

from magnetar.testing import Broker, broker

COUNT = 200


@pytest.fixture(params=[False, True], ids=["disk", "fast"])
def running(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with broker(fast=request.param) as b:
        yield b


@pytest.fixture
def client(running: Broker) -> Iterator[pulsar.Client]:
    found = pulsar.Client(
        running.url, operation_timeout_seconds=30, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    yield found
    found.close()


@pytest.mark.parametrize("end", [Broker.kill, Broker.stop], ids=["kill", "stop"])
def test_ended_between_messages_everything_acknowledged_arrives_in_order(
    running: Broker, client: pulsar.Client, end: Callable[[Broker], None]
) -> None:
    topic = running.isolated().topic("orders")
    consumer = client.subscribe(topic, "mine")
    producer = client.create_producer(topic)
    for number in range(COUNT):
        if number == COUNT // 2:
            end(running)
            running.start()
        producer.send(str(number).encode())
    taken = [int(consumer.receive(20_000).data()) for _ in range(COUNT)]
    once = list(dict.fromkeys(taken))  # what was not acknowledged when it ended comes again
    assert once == list(range(COUNT))


def test_killed_with_messages_in_flight_no_receipt_was_lie(running: Broker, client: pulsar.Client) -> None:
    topic = running.topic("flood")
    producer = client.create_producer(topic, send_timeout_millis=30_000, block_if_queue_full=True)
    stored: list[int] = []

    def done(number: int) -> Callable[[pulsar.Result, object], None]:
        def told(result: pulsar.Result, _: object) -> None:
            if result == pulsar.Result.Ok:
                stored.append(number)

        return told

    for number in range(5_000):
        producer.send_async(str(number).encode(), done(number))
        if number == 2_500:
            running.kill()
            running.start()
    producer.flush()
    assert stored
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = set()
    while reader.has_message_available():
        found.add(int(reader.read_next(20_000).data()))
    assert set(stored) <= found
