"""Our consumers on a real broker, fed by the stock client and by our own: every kind of message, every subscription."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pulsar
import pytest

from magnetar.base.errors import ConsumerBusy, Sealed
from magnetar.client.client import Client
from magnetar.client.consumer.config import InitialPosition, KeyShared, SubscriptionType
from magnetar.client.consumer.consumer import Consumer
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.message import Message, MessageId
from magnetar.client.schema import STRING
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock

EARLIEST = InitialPosition.EARLIEST
SHARED, KEYED, FAILOVER = SubscriptionType.SHARED, SubscriptionType.KEY_SHARED, SubscriptionType.FAILOVER
WAIT_S = 15.0


@asynccontextmanager
async def connected(broker: Standalone) -> AsyncIterator[Client]:
    async with Client(broker.url) as client:
        yield client


async def take(consumer: Consumer, count: int, *, ack: bool = True) -> list[Message]:
    taken = []
    for _ in range(count):
        message = await consumer.receive(WAIT_S)
        taken.append(message)
        if ack:
            await consumer.acknowledge(message)
    return taken


async def nothing(consumer: Consumer, quiet_s: float = 0.3) -> None:
    with pytest.raises(NoMessage):
        raise AssertionError(f"unexpected: {await consumer.receive(quiet_s)}")


def send(producer: pulsar.Producer, count: int, **options: object) -> list[bytes]:
    values = [b"m%d" % number for number in range(count)]
    for value in values:
        producer.send_async(value, None, **options)
    producer.flush()
    return values


CODECS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
@pytest.mark.parametrize("codec", CODECS)
async def test_every_codec_of_stock_client(broker, stock, topic, codec, batched):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        producer = stock.create_producer(topic, compression_type=CODECS[codec], batching_enabled=batched)
        sent = send(producer, 50)
        assert [message.data for message in await take(consumer, 50)] == sent


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
async def test_every_field_of_stock_client(broker, stock, topic, batched):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", schema=STRING)
        producer = stock.create_producer(topic, producer_name="me", batching_enabled=batched)
        producer.send(
            b"value",
            properties={"a": "1", "b": ""},
            partition_key="key",
            ordering_key="order",
            event_timestamp=12345,
            sequence_id=77,
        )
        [message] = await take(consumer, 1)
        assert (message.value, message.data) == ("value", b"value")
        assert (message.key, message.key_bytes, message.ordering_key) == ("key", b"key", b"order")
        assert dict(message.properties) == {"a": "1", "b": ""}
        assert (message.event_time_ms, message.sequence_id, message.producer_name) == (12345, 77, "me")
        assert (message.topic, message.redelivery_count, message.is_null) == (topic, 0, False)
        assert abs(message.publish_time_ms - time.time() * 1000) < 60_000


async def test_chunks_of_stock_client(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", type=SHARED)
        producer = stock.create_producer(topic, batching_enabled=False, chunking_enabled=True)
        large = bytes(range(256)) * (12 * 1024 * 1024 // 256)
        await asyncio.to_thread(producer.send, large)
        await asyncio.to_thread(producer.send, b"small")
        first, second = await take(consumer, 2)
        assert (first.data == large, second.data) == (True, b"small")
        assert first.id.first_chunk is not None
        assert first.id.first_chunk < first.id
        await consumer.close()
        again = await client.subscribe(topic, "s", type=SHARED)
        await nothing(again)


async def test_delayed_messages_come_in_time(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", type=SHARED)
        producer = stock.create_producer(topic)
        producer.send(b"later", deliver_at=round(time.time() * 1000) + 2500)  # Pulsar is up to a second early
        producer.send(b"now")
        assert [message.data for message in await take(consumer, 2)] == [b"now", b"later"]


async def test_one_subscription_passed_between_clients_goes_on_where_it_was(broker, stock, topic):
    async with connected(broker) as client:
        ours = await client.subscribe(topic, "s")
        send(stock.create_producer(topic, batching_enabled=False), 9)
        assert [message.data for message in await take(ours, 3)] == [b"m0", b"m1", b"m2"]
        await ours.close()
        theirs = stock.subscribe(topic, "s")
        for number in range(3, 6):
            message = theirs.receive(10_000)
            assert message.data() == b"m%d" % number
            theirs.acknowledge(message)
        theirs.close()
        again = await client.subscribe(topic, "s")
        assert [message.data for message in await take(again, 3)] == [b"m6", b"m7", b"m8"]


async def test_ids_are_stock_clients_ids(broker, stock, topic):
    async with connected(broker) as client:
        reader = await client.create_reader(topic, MessageId.EARLIEST)
        producer = stock.create_producer(topic, batching_enabled=False)
        sent = [producer.send(b"m%d" % number).serialize() for number in range(3)]
        received = [await reader.receive(WAIT_S) for _ in range(3)]
        assert [MessageId.from_bytes(data) for data in sent] == [message.id for message in received]
        theirs = stock.create_reader(topic, pulsar.MessageId.deserialize(received[0].id.to_bytes()))
        assert theirs.read_next(10_000).data() == b"m1"


async def test_exclusive_is_exclusive(broker, topic):
    async with connected(broker) as client:
        await client.subscribe(topic, "s")
        with pytest.raises(ConsumerBusy):
            await client.subscribe(topic, "s")


async def test_shared_is_shared_with_stock_client(broker, stock, topic):
    async with connected(broker) as client:
        ours = await client.subscribe(topic, "s", type=SHARED)
        theirs = stock.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
        sent = send(stock.create_producer(topic, batching_enabled=False), 100)
        seen: list[bytes] = []
        while len(seen) < 100:
            for message in await ours.receive_batch(100, timeout_s=0.2):
                seen.append(message.data)
                await ours.acknowledge(message)
            try:
                while True:
                    message = theirs.receive(50)
                    seen.append(message.data())
                    theirs.acknowledge(message)
            except pulsar.Timeout:
                pass
        assert sorted(seen) == sorted(sent)
        assert ours.counters.messages > 0
        theirs.close()


@pytest.mark.parametrize("ranges", [None, (((0, 32767),), ((32768, 65535),))], ids=["auto-split", "sticky"])
async def test_key_shared_keeps_every_key_with_one_consumer_in_order(broker, stock, topic, ranges):
    async with connected(broker) as client:
        consumers = [
            await client.subscribe(
                topic, "s", type=KEYED, key_shared=None if ranges is None else KeyShared(ranges[index])
            )
            for index in range(2)
        ]
        producer = stock.create_producer(topic, batching_type=pulsar.BatchingType.KeyBased)
        for number in range(200):
            producer.send_async(b"%d" % number, None, partition_key=f"k{number % 20}")
        producer.flush()
        seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
        count = 0
        while count < 200:
            for index, consumer in enumerate(consumers):
                for message in await consumer.receive_batch(200, timeout_s=0.1):
                    seen[message.key].append((index, int(message.data)))
                    await consumer.acknowledge(message)
                    count += 1
        for found in seen.values():
            assert len({index for index, _ in found}) == 1
            assert [number for _, number in found] == sorted(number for _, number in found)
        assert len({found[0][0] for found in seen.values()}) == 2


async def test_failover_tells_who_is_active_and_hands_over(broker, stock, topic):
    async with connected(broker) as client:
        told: list[tuple[str, bool]] = []
        first = await client.subscribe(
            topic, "s", type=FAILOVER, name="a", on_active=lambda consumer, _, active: told.append(("a", active))
        )
        second = await client.subscribe(
            topic, "s", type=FAILOVER, name="b", on_active=lambda consumer, _, active: told.append(("b", active))
        )
        producer = stock.create_producer(topic, batching_enabled=False)
        send(producer, 3)
        active, standby = await _sorted_out(first, second)
        await active.close()
        producer.send(b"next")
        came = [b""]
        while came[-1] != b"next":  # whoever made up its mind late may have given the first ones to both
            came += [message.data for message in await take(standby, 1)]
        assert set(came[1:-1]) <= {b"m0", b"m1", b"m2"}
        while not standby.is_active:  # noqa: ASYNC110  # a broker may tell it behind the message
            await asyncio.sleep(0.01)
        assert (standby.asked.name, True) in told


async def _sorted_out(first: Consumer, second: Consumer) -> tuple[Consumer, Consumer]:
    """The one that got the last of the three messages, and the other; a broker may take a second to make up its mind,
    and change it meanwhile."""
    came: set[bytes] = set()
    while True:
        for one, other in ((first, second), (second, first)):
            for message in await one.receive_batch(3, timeout_s=0.2):
                await one.acknowledge(message)
                came.add(message.data)
            if len(came) == 3:
                return one, other


async def test_parts_of_batch_stay_acknowledged_across_consumers(start, topic):
    broker = start(acknowledgmentAtBatchIndexLevelEnabled=True)

    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", type=SHARED, ack_batch_index=True)
        producer = await client.create_producer(topic)
        for number in range(10):
            producer.send_nowait(b"m%d" % number)
        await producer.flush()
        received = await take(consumer, 10, ack=False)
        assert received[0].id.batch_size == 10
        for message in received[::2]:
            await consumer.acknowledge(message)
        await consumer.close()
        again = await client.subscribe(topic, "s", type=SHARED, ack_batch_index=True)
        assert [message.data for message in await take(again, 5)] == [b"m1", b"m3", b"m5", b"m7", b"m9"]
        await nothing(again)


async def test_end_of_terminated_topic(broker, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        await producer.send(b"last")
        await producer.close()
        broker.admin("POST", f"persistent/{topic.removeprefix('persistent://')}/terminate")
        seen = []
        async for message in consumer:
            seen.append(message.data)
            await consumer.acknowledge(message)
        assert seen == [b"last"]
        with pytest.raises(Sealed):
            await consumer.receive(1)


async def test_receipts_of_acknowledgements(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        send(stock.create_producer(topic, batching_enabled=False), 3)
        first, second, third = await take(consumer, 3, ack=False)
        await consumer.acknowledge(first, confirm=True)
        await consumer.acknowledge_cumulative(third, confirm=True)
        stats = broker.admin("GET", f"persistent/{topic.removeprefix('persistent://')}/stats")
        assert stats["subscriptions"]["s"]["msgBacklog"] == 0
        assert second.id < third.id


async def test_unsubscribing_forgets_everything(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        send(stock.create_producer(topic), 3)
        await take(consumer, 1)
        await consumer.unsubscribe()
        again = await client.subscribe(topic, "s", initial_position=EARLIEST)
        assert (await take(again, 1))[0].data == b"m0"


async def test_queue_of_none(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", type=SHARED, queue_messages=0)
        other = await client.subscribe(topic, "s", type=SHARED)
        send(stock.create_producer(topic, batching_enabled=False), 10)
        taken = await take(other, 10)
        assert len(taken) == 10  # the one that asked for nothing was sent nothing
        await other.close()
        send(stock.create_producer(topic, batching_enabled=False), 2)
        assert [message.data for message in await take(consumer, 2)] == [b"m0", b"m1"]


async def test_topics_that_nobody_keeps(broker, stock, topic):
    async with connected(broker) as client:
        name = topic.replace("persistent://", "non-persistent://")
        consumer = await client.subscribe(name, "s", type=SHARED)
        producer = stock.create_producer(name, batching_enabled=False)
        sent = [b"m%d" % number for number in range(20)]
        seen = []
        for value in sent:
            producer.send(value)
            seen += [message.data for message in await take(consumer, 1)]
        assert seen == sent
