"""Consumers in trouble: the broker killed, the cable cut, receives cancelled. Nothing is lost, nothing acknowledged by
mistake, nothing hangs.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from magnetar.base.errors import MagnetarError
from magnetar.client.client import Client
from magnetar.client.consumer.config import InitialPosition, SubscriptionType
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.message import MessageId
from tests.client.test_consume import WAIT_S, connected, nothing, send, take

pytestmark = pytest.mark.real_clock

EARLIEST = InitialPosition.EARLIEST


async def test_broker_killed_while_messages_flow(start, topic):
    broker = start()

    async with Client(broker.url) as client:
        consumer = await client.subscribe(topic, "s", initial_position=EARLIEST)
        reader = await client.create_reader(topic, MessageId.EARLIEST)
        producer = await client.create_producer(topic)
        seen: dict[bytes, int] = {}
        read: dict[bytes, None] = {}  # a producer that hears nothing sends again: twice in the topic, read twice
        sent: list[bytes] = []
        stored = asyncio.Event()

        async def produce():
            for number in range(2000):
                value = b"m%d" % number
                await producer.send(value)
                sent.append(value)
                if number == 300:
                    stored.set()
                if number > 300:
                    await asyncio.sleep(0)

        async def consume():
            while len(seen) < 2000:
                message = await consumer.receive(60)
                seen[message.data] = seen.get(message.data, 0) + 1
                await consumer.acknowledge(message)

        async def follow():
            while len(read) < 2000:
                read.setdefault((await reader.receive(60)).data)

        async def kill():
            await stored.wait()
            await asyncio.to_thread(broker.restart, kill=True)

        async with asyncio.timeout(120):
            await asyncio.gather(produce(), consume(), follow(), kill())
        assert set(seen) == set(sent)
        assert list(read) == sent  # nothing missed, and in order
        assert consumer.counters.attaches >= 2


async def test_reader_sees_everything_exactly_once_through_cut_cables(broker, proxy, stock, topic):
    producer = stock.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1)
    async with Client(proxy.url) as client:
        reader = await client.create_reader(topic, MessageId.EARLIEST)
        seen: list[bytes] = []
        sent: list[bytes] = []
        for round_number in range(5):
            values = [b"r%d-%d" % (round_number, number) for number in range(200)]
            for value in values:
                producer.send_async(value, None)
            producer.flush()
            sent += values
            seen += [(await reader.receive(WAIT_S)).data for _ in range(100)]
            proxy.cut()
        while len(seen) < len(sent):
            seen.append((await reader.receive(WAIT_S)).data)
        assert seen == sent


async def test_acknowledged_before_cut_is_not_seen_again_and_rest_is(broker, proxy, stock, topic):
    async with Client(proxy.url) as client:
        consumer = await client.subscribe(topic, "s", type=SubscriptionType.SHARED)
        send(stock.create_producer(topic, batching_enabled=False), 10)
        taken = await take(consumer, 10, ack=False)
        for message in taken[::2]:
            await consumer.acknowledge(message)  # they wait in the group when the cable is cut
        proxy.cut()
        again = await take(consumer, 5)
        assert sorted(message.data for message in again) == [b"m1", b"m3", b"m5", b"m7", b"m9"]
        await nothing(consumer)


async def test_receives_cancelled_at_any_moment_lose_nothing(broker, stock, topic):
    """Tasks that receive are cancelled again and again; every message is received once by one that was not."""

    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", queue_messages=10)
        producer = stock.create_producer(topic, batching_enabled=False)
        chance = random.Random(7)
        seen: list[bytes] = []
        sent = 0
        while len(seen) < 500:
            if sent < 500:
                for _ in range(10):
                    producer.send_async(b"%d" % sent, None)
                    sent += 1
            tasks = [asyncio.create_task(consumer.receive()) for _ in range(3)]
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            if chance.random() < 0.3:
                await asyncio.sleep(0.001)
            for task in tasks:
                if chance.random() < 0.7:
                    task.cancel()
            done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_S) if sent >= 500 else []
            if not done:
                for task in tasks:
                    task.cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
            seen += [message.data for message in done if not isinstance(message, BaseException)]
            if len(seen) > 480 and sent >= 500:
                break
        while len(seen) < 500:
            seen.append((await consumer.receive(WAIT_S)).data)
        assert sorted(map(int, seen)) == list(range(500))
        await nothing(consumer)


async def test_timeouts_of_application_lose_nothing(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        producer = stock.create_producer(topic, batching_enabled=False)
        seen = []
        for number in range(200):
            producer.send_async(b"%d" % number, None)
            try:
                async with asyncio.timeout(0.0005):
                    seen.append((await consumer.receive()).data)
            except TimeoutError:
                pass
            try:
                seen.append((await asyncio.wait_for(consumer.receive(), 0.0005)).data)
            except TimeoutError:
                pass
        producer.flush()
        while len(seen) < 200:
            try:
                seen.append((await consumer.receive(WAIT_S)).data)
            except NoMessage:
                break
        assert seen == [b"%d" % number for number in range(200)]


async def test_closing_while_receiving_ends_it(broker, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        tasks = [asyncio.create_task(consumer.receive()) for _ in range(3)]
        await asyncio.sleep(0)
        await consumer.close()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, MagnetarError)


async def test_topic_unloaded_under_its_consumers_goes_on(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        producer = stock.create_producer(topic, batching_enabled=False)
        producer.send(b"before")
        await take(consumer, 1)
        await consumer.seek(MessageId.LATEST)
        broker.admin("PUT", f"persistent/{topic.removeprefix('persistent://')}/unload")
        producer.send(b"after")
        assert [message.data for message in await take(consumer, 1)] == [b"after"]
