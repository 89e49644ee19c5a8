"""For test writers: a real broker in your pytest, without containers. Run `pytest examples/test_orders.py`.

The extra `broker` of the package has the fixtures; every test has its own namespace.
"""

import asyncio

import pytest

import magnetar
from magnetar.testing import Broker


def bill(client: magnetar.Client, topic: str, amounts: list[int]) -> int:
    """The application under test: it adds up the amounts of the messages."""
    with client.subscribe(topic, "billing") as consumer, client.create_producer(topic) as producer:
        for amount in amounts:
            producer.send(str(amount).encode())
        total = 0
        for _ in amounts:
            message = consumer.receive(timeout_s=10)
            total += int(message.value)
            consumer.acknowledge(message)
        return total


def test_amounts_are_added_up(magnetar_broker: Broker, magnetar_client: magnetar.Client) -> None:
    assert bill(magnetar_client, magnetar_broker.topic("orders"), [1, 2, 3]) == 6


def test_another_test_finds_nothing_of_the_first(magnetar_broker: Broker, magnetar_client: magnetar.Client) -> None:
    assert bill(magnetar_client, magnetar_broker.topic("orders"), [10]) == 10


def test_it_works_with_asyncio_too(magnetar_broker: Broker) -> None:
    async def body() -> bytes:
        async with magnetar.aio.Client(magnetar_broker.url) as client:
            topic = magnetar_broker.topic("orders")
            consumer = await client.subscribe(topic, "billing")
            producer = await client.create_producer(topic)
            await producer.send(b"hello")
            message = await consumer.receive(timeout_s=10)
            await consumer.acknowledge(message)
            return message.value

    assert asyncio.run(body()) == b"hello"


@pytest.mark.magnetar(scope="function")
def test_nothing_is_lost_when_the_broker_dies(magnetar_broker: Broker, magnetar_client: magnetar.Client) -> None:
    """This test has its own broker, since it kills the broker as `kill -9` does."""
    topic = magnetar_broker.topic("orders")
    with magnetar_client.subscribe(topic, "billing") as consumer, magnetar_client.create_producer(topic) as producer:
        producer.send(b"before")
        magnetar_broker.kill()
        magnetar_broker.start()
        producer.send(b"after")
        found = [consumer.receive(timeout_s=10).value for _ in range(2)]
    assert found == [b"before", b"after"]


@pytest.mark.magnetar(settings={"maxMessageSize": 1000})
def test_a_message_may_be_too_large(magnetar_broker: Broker, magnetar_client: magnetar.Client) -> None:
    """This test has its own broker, with a setting of standalone.conf."""
    with magnetar_client.create_producer(magnetar_broker.topic("orders")) as producer:
        with pytest.raises(magnetar.errors.LimitExceeded):
            producer.send(bytes(2000))
        producer.send(bytes(500))
