"""Messages that come again on a real broker: refused, late, put off, buried, or because their reader went back."""

from __future__ import annotations

import asyncio
import time

import pulsar
import pytest

from magnetar.client.consumer.ack.nacks import NackBackoff
from magnetar.client.consumer.config import DeadLetters, InitialPosition, SubscriptionType
from magnetar.client.message import MessageId
from tests.client.test_consume import connected, nothing, send, take

pytestmark = pytest.mark.real_clock

EARLIEST = InitialPosition.EARLIEST
SHARED = SubscriptionType.SHARED


async def test_refused_message_comes_again_and_is_buried_in_end(broker, stock, topic):
    async with connected(broker) as client:
        dead = stock.subscribe(f"{topic}-s-DLQ", "look", initial_position=pulsar.InitialPosition.Earliest)
        consumer = await client.subscribe(
            topic, "s", type=SHARED, nack=NackBackoff(0.05, 0.1), dead_letters=DeadLetters(redeliveries_max=2)
        )
        stock.create_producer(topic, batching_enabled=False).send(b"bad", partition_key="k", properties={"p": "1"})
        counts = []
        for _ in range(3):
            [message] = await take(consumer, 1, ack=False)
            counts.append(message.redelivery_count)
            await consumer.negative_acknowledge(message)
        assert counts == [0, 1, 2]
        letter = await asyncio.to_thread(dead.receive, 10_000)
        assert (letter.data(), letter.partition_key(), letter.properties()["p"]) == (b"bad", "k", "1")
        assert letter.properties()["REAL_TOPIC"] == topic
        await nothing(consumer)
        await consumer.close()
        await nothing(await client.subscribe(topic, "s", type=SHARED))
        dead.close()


async def test_message_put_off_comes_back_through_retry_topic(broker, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(
            topic, "s", type=SHARED, retry=True, dead_letters=DeadLetters(redeliveries_max=3), initial_position=EARLIEST
        )
        producer = await client.create_producer(topic)
        await producer.send(b"later")
        [message] = await take(consumer, 1, ack=False)
        await consumer.reconsume_later(message, 0.2, properties={"why": "busy"})
        [again] = await take(consumer, 1)
        assert (again.data, again.topic) == (b"later", f"{topic}-s-RETRY")
        assert (again.properties["RECONSUMETIMES"], again.properties["why"]) == ("1", "busy")
        assert again.properties["REAL_TOPIC"] == topic


async def test_what_is_not_acknowledged_in_time_comes_again(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", type=SHARED, ack_timeout_s=0.3)
        stock.create_producer(topic).send(b"x")
        assert [message.redelivery_count for message in await take(consumer, 2, ack=False)] == [0, 1]


async def test_seeks_by_id_and_by_time(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        producer = stock.create_producer(topic, batching_enabled=False)
        send(producer, 5)
        await asyncio.sleep(0.05)
        middle = round(time.time() * 1000)
        await asyncio.sleep(0.05)
        for number in range(5, 10):
            producer.send(b"m%d" % number)
        taken = await take(consumer, 10)
        await consumer.seek(taken[3].id)
        assert [message.data for message in await take(consumer, 6)] == [b"m%d" % number for number in range(4, 10)]
        await consumer.seek(taken[3].id, inclusive=True)
        assert (await take(consumer, 1))[0].data == b"m3"
        await consumer.seek(middle)
        assert (await take(consumer, 1))[0].data == b"m5"
        await consumer.seek(MessageId.EARLIEST)
        assert (await take(consumer, 1))[0].data == b"m0"
        await consumer.seek(MessageId.LATEST)
        await nothing(consumer)
        assert await consumer.last_message_id() == taken[-1].id


async def test_seek_into_batch_of_stock_client(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        send(stock.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=500), 10)
        taken = await take(consumer, 10)
        assert taken[0].id.batch_size == 10
        await consumer.seek(taken[6].id)
        assert [message.data for message in await take(consumer, 3)] == [b"m7", b"m8", b"m9"]
        await consumer.close()
        await nothing(await client.subscribe(topic, "s"))  # all of the batch is acknowledged, hidden ones too
