"""Consumers of partitions, of lists and of patterns; readers and table views; on a real broker."""

from __future__ import annotations

import asyncio
import re

import pulsar
import pulsar.schema
import pytest

from magnetar.client.consumer.config import InitialPosition, SubscriptionType
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.message import MessageId
from magnetar.client.schema import STRING
from tests.client.test_consume import WAIT_S, connected, nothing, send, take

pytestmark = pytest.mark.real_clock

SHARED = SubscriptionType.SHARED


def partitioned(broker, topic: str, count: int) -> None:
    broker.admin("PUT", f"persistent/{topic.removeprefix('persistent://')}/partitions", count)


async def test_partitions_are_merged_and_keep_their_order(broker, stock, topic):
    partitioned(broker, topic, 4)

    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        producer = stock.create_producer(
            topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution, batching_enabled=False
        )
        sent = send(producer, 100)
        taken = await take(consumer, 100)
        assert sorted(message.data for message in taken) == sorted(sent)
        by_partition: dict[int, list] = {}
        for message in taken:
            assert message.topic == f"{topic}-partition-{message.id.partition}"
            by_partition.setdefault(message.id.partition, []).append(message.id)
        assert len(by_partition) == 4
        for ids in by_partition.values():
            assert ids == sorted(ids)
        await consumer.close()
        await nothing(await client.subscribe(topic, "s"))


async def test_partitions_added_later_are_read_from_their_first_message(broker, stock, topic):
    partitioned(broker, topic, 1)

    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", discovery_s=0.2)
        broker.admin("POST", f"persistent/{topic.removeprefix('persistent://')}/partitions", 3)
        producer = stock.create_producer(topic, batching_enabled=False)
        sent = send(producer, 30)
        assert sorted(message.data for message in await take(consumer, 30)) == sorted(sent)
        assert len(consumer.partitions) == 3


async def test_seek_of_all_partitions_and_of_one(broker, stock, topic):
    partitioned(broker, topic, 2)

    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        send(stock.create_producer(topic, batching_enabled=False), 20)
        taken = await take(consumer, 20)
        await consumer.seek(MessageId.EARLIEST)
        assert len(await take(consumer, 20)) == 20
        of_one = [message for message in taken if message.id.partition == 1]
        await consumer.seek(of_one[-2].id)
        assert [message.data for message in await take(consumer, 1)] == [of_one[-1].data]
        await nothing(consumer)


async def test_several_topics(broker, stock, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe([f"{topic}-a", f"{topic}-b"], "s")
        for name in "ab":
            stock.create_producer(f"{topic}-{name}").send(name.encode())
        taken = await take(consumer, 2)
        assert {(message.topic, message.data) for message in taken} == {(f"{topic}-a", b"a"), (f"{topic}-b", b"b")}


async def test_pattern_follows_its_namespace(broker, stock, namespace):
    async def take_after(producer, consumer):
        send(producer, 2)
        return await take(consumer, 2)

    async with connected(broker) as client:
        stock.create_producer(f"persistent://{namespace}/log-1").send(b"before")
        stock.create_producer(f"persistent://{namespace}/other").send(b"other")
        pattern = re.compile(f"persistent://{namespace}/log-.*")
        consumer = await client.subscribe(pattern, "s", initial_position=InitialPosition.EARLIEST, discovery_s=1)
        assert [message.data for message in await take(consumer, 1)] == [b"before"]
        stock.create_producer(f"persistent://{namespace}/log-2").send(b"new")
        assert [message.data for message in await take(consumer, 1)] == [b"new"]
        partitioned(broker, f"persistent://{namespace}/log-3", 2)
        producer = stock.create_producer(f"persistent://{namespace}/log-3", batching_enabled=False)
        assert sorted(message.data for message in await take_after(producer, consumer)) == [b"m0", b"m1"]
        assert sorted(consumer.topics) == [f"persistent://{namespace}/log-{number}" for number in (1, 2, 3)]


async def test_pattern_without_watch_asks_now_and_then(start, topic):
    broker = start(enableBrokerTopicListWatcher=False)

    async with connected(broker) as client:
        consumer = await client.subscribe(re.compile("public/default/found-.*"), "s", discovery_s=0.2)
        producer = await client.create_producer("found-1")
        await producer.send(b"x")
        assert [message.data for message in await take(consumer, 1)] == [b"x"]


async def test_readers_start_where_they_are_told(broker, stock, topic):
    async with connected(broker) as client:
        producer = stock.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=500)
        send(producer, 10)
        async with await client.create_reader(topic, MessageId.EARLIEST) as reader:
            ids = []
            while await reader.has_message_available():
                ids.append((await reader.receive(WAIT_S)).id)
        assert len(ids) == 10
        assert ids[0].batch_size == 10
        behind = await client.create_reader(topic, ids[4])
        assert (await behind.receive(WAIT_S)).data == b"m5"
        itself = await client.create_reader(topic, ids[4], start_inclusive=True)
        assert (await itself.receive(WAIT_S)).data == b"m4"
        last = await client.create_reader(topic, MessageId.LATEST, start_inclusive=True)
        assert (await last.receive(WAIT_S)).data == b"m9"
        latest = await client.create_reader(topic, MessageId.LATEST)
        assert not await latest.has_message_available()
        with pytest.raises(NoMessage):
            await latest.receive(0.2)
        producer.send(b"next")
        assert (await latest.receive(WAIT_S)).data == b"next"
        back = await client.create_reader(topic, rollback_s=3600)
        assert (await back.receive(WAIT_S)).data == b"m0"


async def test_reader_of_partitions(broker, stock, topic):
    partitioned(broker, topic, 3)

    async with connected(broker) as client:
        sent = send(stock.create_producer(topic, batching_enabled=False), 30)
        reader = await client.create_reader(topic, MessageId.EARLIEST)
        seen = []
        while await reader.has_message_available():
            seen.append((await reader.receive(WAIT_S)).data)
        assert sorted(seen) == sorted(sent)
        await reader.seek(MessageId.EARLIEST)
        assert len(await reader.receive_batch(30, timeout_s=5)) >= 1


async def test_table_view_is_complete_and_follows(broker, stock, topic):
    async with connected(broker) as client:
        producer = stock.create_producer(topic, schema=pulsar.schema.StringSchema())
        for number in range(20):
            producer.send(f"v{number}", partition_key=f"k{number % 5}")
        producer.send("", partition_key="k0")
        view = await client.create_table_view(topic, schema=STRING)
        assert dict(view) == {f"k{number % 5}": f"v{number}" for number in range(16, 20)}
        changed = asyncio.Event()
        view.listen(lambda key, value: changed.set())
        producer.send("new", partition_key="k9")
        async with asyncio.timeout(WAIT_S):
            await changed.wait()
        assert view["k9"] == "new"
