"""What tests ask of a broker: stored messages, what is left to read, reshapes of scalable topics."""

from __future__ import annotations

import pytest

import magnetar
from magnetar.base.errors import SubscriptionNotFound
from magnetar.testing import broker

EARLIEST = magnetar.InitialPosition.EARLIEST


def test_scalable_topic_is_split_and_merged_and_read() -> None:
    with broker() as b, magnetar.Client(b.url) as client:
        one = b.isolated("orders")
        topic = one.scalable("orders", segments=2)
        assert topic == f"topic://{one.namespace}/orders"
        with client.stream_consumer(topic, "billing", initial_position=EARLIEST) as consumer:
            with client.create_producer(topic) as producer:
                producer.send(b"1", key="a")
                assert one.split(topic, 0) == [2, 3]
                producer.send(b"2", key="a")
                assert one.merge(topic, 2, 3) == 4
                producer.send(b"3", key="a")
            assert one.backlog(topic, "billing") == 3
            assert [message.data for message in one.messages(topic)] == [b"1", b"2", b"3"]
            for _ in range(3):
                consumer.acknowledge_cumulative(consumer.receive(timeout_s=60))
            one.wait_until_consumed(topic, "billing", timeout_s=60)


@pytest.mark.parametrize("partitions", [0, 3])
def test_backlog_counts_messages_of_plain_topics(partitions: int) -> None:
    with broker() as b, magnetar.Client(b.url) as client, magnetar.Admin(b.admin_url) as admin:
        topic = b.topic("plain")
        if partitions:
            admin.topics.create(topic, partitions=partitions)
        with client.subscribe(topic, "s", initial_position=EARLIEST, ack_group_s=0) as consumer:
            with client.create_producer(topic) as producer:
                for number in range(10):
                    producer.post(b"%d" % number, key=str(number))
            assert b.backlog(topic, "s") == 10
            assert sorted(message.data for message in b.messages(topic)) == [b"%d" % number for number in range(10)]
            with pytest.raises(AssertionError, match=f"s has 10 unacknowledged messages of {topic} after 0.05 s"):
                b.wait_until_consumed(topic, "s", timeout_s=0.05)
            for _ in range(10):
                consumer.acknowledge(consumer.receive(timeout_s=60))
            b.wait_until_consumed(topic, "s", timeout_s=60)
        with pytest.raises(SubscriptionNotFound):
            b.backlog(topic, "nobody")


@pytest.mark.real_clock
async def test_async_broker_awaits_same() -> None:
    async with broker(clock=True) as b, magnetar.aio.Client(b.url) as client:
        topic = await b.scalable("orders")
        async with client.queue_consumer(topic, "mails") as consumer, client.create_producer(topic) as producer:
            await producer.send(b"x", key="a")
            assert await b.backlog(topic, "mails") == 1
            assert [message.data for message in await b.messages(topic)] == [b"x"]
            assert await b.split(topic) == [1, 2]
            assert await b.merge(topic, 1, 2) == 3
            await b.cut_connections()
            await b.clock.advance(10)
            await consumer.acknowledge(await consumer.receive(60))
            await b.wait_until_consumed(topic, "mails", timeout_s=60)
