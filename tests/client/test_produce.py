"""Our producers on a real broker, read by the stock client: every kind of message arrives as it was sent."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pulsar
import pulsar.schema
import pytest

from magnetar.aio import Client
from magnetar.base.errors import (
    ConnectionLost,
    Fenced,
    IncompatibleSchema,
    LimitExceeded,
    ProducerBusy,
    Sealed,
    TopicNotFound,
)
from magnetar.client.producer.batch import Batching
from magnetar.client.producer.producer import AccessMode, Compression
from magnetar.client.schema import STRING, Json
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock

WAIT_MS = 60_000
LATE_S = 3.0
EARLIEST = pulsar.InitialPosition.Earliest


@asynccontextmanager
async def connected(broker: Standalone) -> AsyncIterator[Client]:
    async with Client(broker.url, operation_timeout_s=15) as client:
        yield client


def read(stock: pulsar.Client, topic: str, count: int, **options: object) -> list[pulsar.Message]:
    consumer = stock.subscribe(topic, "reading", initial_position=EARLIEST, **options)
    found = []
    for _ in range(count):
        message = consumer.receive(WAIT_MS)
        consumer.acknowledge(message)
        found.append(message)
    consumer.close()
    return found


@pytest.mark.parametrize("compression", list(Compression), ids=lambda kind: kind.name)
@pytest.mark.parametrize("batching", [None, Batching(), Batching(by_key=True)], ids=["single", "batch", "by-key"])
async def test_every_codec_reaches_stock_client(broker, stock, topic, compression, batching):
    values = [b"value-%d " % number * 20 for number in range(50)]

    async with (
        connected(broker) as client,
        await client.create_producer(topic, compression=compression, batching=batching) as producer,
    ):
        for value in values:
            await producer.post(value)
    assert [message.data() for message in read(stock, topic, 50)] == values


@pytest.mark.parametrize("batching", [None, Batching(linger=True, delay_s=0.05)], ids=["single", "batch"])
async def test_every_field_reaches_stock_client(broker, stock, topic, batching):
    async with (
        connected(broker) as client,
        await client.create_producer(topic, name="mine", batching=batching) as producer,
    ):
        await asyncio.gather(
            producer.send(b"a", key="text", properties={"p": "1", "ü": "ö"}, event_time_ms=1_700_000_000_001),
            producer.send(b"b", key=b"\x00\xff", ordering_key=b"order"),
            producer.send(b"c"),
            producer.send(b"", key="empty"),
        )
    first, second, third, empty = read(stock, topic, 4)
    assert (first.data(), first.partition_key(), first.properties()) == (b"a", "text", {"p": "1", "ü": "ö"})
    assert (first.event_timestamp(), first.producer_name()) == (1_700_000_000_001, "mine")
    assert (second.data(), second.partition_key(), second.ordering_key()) == (b"b", "AP8=", "order")
    assert (third.data(), third.partition_key(), third.properties()) == (b"c", "", {})
    assert (empty.data(), empty.partition_key()) == (b"", "empty")
    assert abs(first.publish_timestamp() - time.time() * 1000) < 60_000


async def test_message_ids_are_those_stock_client_sees(broker, stock, topic):
    ids = []

    async with connected(broker) as client:
        producer = await client.create_producer(topic)
        ids.extend(await asyncio.gather(*(producer.send(b"%d" % number) for number in range(3))))
        ids.append(await producer.send(b"alone"))
    seen = [message.message_id() for message in read(stock, topic, 4)]
    assert [(one.ledger_id(), one.entry_id(), one.batch_index()) for one in seen] == [
        (one.ledger, one.entry, one.batch_index) for one in ids
    ]
    reader = stock.create_reader(topic, pulsar.MessageId.deserialize(ids[1].to_bytes()))
    assert reader.read_next(WAIT_MS).data() == b"2"


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
async def test_chunks_reach_stock_client_as_one_message(start, topic, compression):
    broker = start(maxMessageSize=20_000)
    large = bytes(range(256)) * 400 + b"end"

    async with connected(broker) as client:
        async with await client.create_producer(topic, chunking=True, compression=compression) as producer:
            await producer.send(b"before")
            found = await producer.send(large, key="k", properties={"a": "b"})
            assert (found.first_chunk is not None) == (compression is Compression.NONE)
            await producer.send(b"after")
        async with await client.create_producer(topic) as producer:
            with pytest.raises(LimitExceeded):
                await producer.send(large)
    stock = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    before, whole, after = read(stock, topic, 3)
    stock.close()
    assert (before.data(), whole.data(), after.data()) == (b"before", large, b"after")
    assert (whole.partition_key(), whole.properties()) == ("k", {"a": "b"})


async def test_delayed_message_is_held_for_stock_client(broker, stock, topic):
    consumer = stock.subscribe(topic, "s", pulsar.ConsumerType.Shared)

    started = time.monotonic()
    async with connected(broker) as client:
        producer = await client.create_producer(topic)
        await producer.send(b"late", deliver_after_s=LATE_S)
        await producer.send(b"now")
    assert consumer.receive(WAIT_MS).data() == b"now"
    assert consumer.receive(WAIT_MS).data() == b"late"
    assert time.monotonic() - started > LATE_S - 0.5


async def test_texts_and_json_are_read_through_stock_clients_schemas(broker, stock, topic):
    @dataclass
    class Order:
        id: int
        name: str
        note: str | None = None

    class StockOrder(pulsar.schema.Record):
        id = pulsar.schema.Long(required=True)
        name = pulsar.schema.String(required=True)
        note = pulsar.schema.String()

    async with connected(broker) as client:
        async with await client.create_producer(f"{topic}-text", schema=STRING) as texts:
            await texts.send("käse")
        async with await client.create_producer(f"{topic}-json", schema=Json(Order)) as orders:
            await orders.send(Order(1, "a"))
            await orders.send(Order(2, "b", note="n"))
    (text,) = read(stock, f"{topic}-text", 1, schema=pulsar.schema.StringSchema())
    assert text.value() == "käse"
    first, second = (
        message.value() for message in read(stock, f"{topic}-json", 2, schema=pulsar.schema.JsonSchema(StockOrder))
    )
    assert (first.id, first.name, first.note) == (1, "a", None)
    assert (second.id, second.name, second.note) == (2, "b", "n")
    told = broker.admin("GET", f"schemas/{topic.split('://')[1]}-json/schema")
    assert (told["type"], json.loads(told["data"])["name"]) == ("JSON", "Order")


async def test_schemas_of_stock_client_are_ours_too(broker, stock, topic):
    @dataclass
    class Order:
        id: int
        name: str | None = None

    class StockOrder(pulsar.schema.Record):
        id = pulsar.schema.Long(required=True)
        name = pulsar.schema.String()

    stock.create_producer(f"{topic}-text", schema=pulsar.schema.StringSchema()).send("text")
    orders = stock.create_producer(f"{topic}-json", schema=pulsar.schema.JsonSchema(StockOrder))
    orders.send(StockOrder(id=7, name="seven"))

    async with connected(broker) as client:
        async with await client.create_producer(f"{topic}-text", schema=STRING) as producer:
            await producer.send("ours")
        async with await client.create_reader(f"{topic}-text", schema=STRING) as reader:
            assert [(await reader.receive(15)).value for _ in range(2)] == ["text", "ours"]
        async with await client.create_reader(f"{topic}-json", schema=Json(Order)) as reader:
            assert (await reader.receive(15)).value == Order(7, "seven")


async def test_schema_that_does_not_fit_is_refused(broker, topic):
    async with connected(broker) as client:
        await (await client.create_producer(topic)).send(b"without a schema")
        with pytest.raises(IncompatibleSchema):
            await client.subscribe(topic, "s", schema=STRING)


async def test_keys_and_rounds_over_partitions(broker, stock, topic):
    broker.admin("PUT", f"{topic.replace('://', '/')}/partitions", 4)

    async with connected(broker) as client:
        assert await client.partitions(topic) == [f"{topic}-partition-{index}" for index in range(4)]
        async with await client.create_producer(topic, batching=Batching(by_key=True)) as producer:
            for number in range(400):
                await producer.post(b"%d" % number, key=f"k{number % 10}")
        async with await client.create_producer(topic, batching=None) as producer:
            found = [(await producer.send(b"round")).partition for _ in range(8)]
            assert sorted(found) == [0, 0, 1, 1, 2, 2, 3, 3]
    by_key: dict[str, list[int]] = defaultdict(list)
    places: dict[str, set[str]] = defaultdict(set)
    for message in read(stock, topic, 408):
        if message.partition_key():
            by_key[message.partition_key()].append(int(message.data()))
            places[message.partition_key()].add(message.topic_name())
    assert all(numbers == sorted(numbers) and len(numbers) == 40 for numbers in by_key.values())
    assert all(len(found) == 1 for found in places.values())


async def test_partitions_added_later_are_used(broker, topic):
    broker.admin("PUT", f"{topic.replace('://', '/')}/partitions", 1)

    async with connected(broker) as client:
        producer = await client.create_producer(topic, batching=None)
        broker.admin("POST", f"{topic.replace('://', '/')}/partitions", 3)
        await producer._grow()
        assert {(await producer.send(b"x")).partition for _ in range(6)} == {0, 1, 2}


async def test_access_modes(broker, topic):
    async with connected(broker) as client:
        first = await client.create_producer(topic, access_mode=AccessMode.EXCLUSIVE)
        with pytest.raises(ProducerBusy):
            await client.create_producer(topic)
        with pytest.raises(Fenced):
            await client.create_producer(topic, access_mode=AccessMode.EXCLUSIVE)
        waiting = asyncio.create_task(client.create_producer(topic, access_mode=AccessMode.WAIT_FOR_EXCLUSIVE))
        await first.send(b"first")
        await first.close()
        second = await asyncio.wait_for(waiting, 15)
        await second.send(b"second")
        await second.close()  # fenced, a real Pulsar would let it wait again
        third = await client.create_producer(topic, access_mode=AccessMode.EXCLUSIVE)
        await third.send(b"third")
        fourth = await client.create_producer(topic, access_mode=AccessMode.EXCLUSIVE_WITH_FENCING)
        await fourth.send(b"fourth")
        with pytest.raises((Fenced, ConnectionLost)):
            await third.send(b"fenced")  # refused, or written behind a close that was on its way
        with pytest.raises(Fenced):
            await third.send(b"fenced")


async def test_two_producers_of_one_name(broker, topic):
    async with connected(broker) as client:
        await client.create_producer(topic, name="mine")
        with pytest.raises(ProducerBusy):
            await client.create_producer(topic, name="mine")


async def test_terminated_topic_and_namespace_that_is_not_there(broker, topic):
    async with connected(broker) as client:
        producer = await client.create_producer(topic)
        await producer.send(b"last")
        broker.admin("POST", f"{topic.replace('://', '/')}/terminate")
        with pytest.raises((Sealed, ConnectionLost)):
            await producer.send(b"too late")  # refused, or written behind a close that was on its way
        with pytest.raises(Sealed):
            await producer.send(b"too late")
        with pytest.raises(Sealed):
            await client.create_producer(topic)
        with pytest.raises(TopicNotFound):
            await client.create_producer("persistent://nobody/nowhere/t")


async def test_duplicates_are_dropped_and_sequence_ids_go_on(broker, stock, namespace):
    broker.admin("POST", f"namespaces/{namespace}/deduplication", True)
    topic = f"persistent://{namespace}/t"

    async with connected(broker) as client:
        async with await client.create_producer(topic, name="mine") as producer:
            await asyncio.gather(*(producer.send(b"%d" % number) for number in range(5)))
            again = await producer.send(b"again", sequence_id=3)
            assert (again.ledger, again.entry) == (-1, -1)
            assert producer.last_sequence_id == 4
        async with await client.create_producer(topic, name="mine", batching=Batching(by_key=True)) as producer:
            assert producer.last_sequence_id == 4
            for number in range(5, 25):
                await producer.post(b"%d" % number, key=f"k{number % 3}")
    found = [int(message.data()) for message in read(stock, topic, 25)]
    assert sorted(found) == list(range(25))


async def test_both_clients_publish_to_one_topic(broker, stock, topic):
    theirs = stock.create_producer(topic, batching_enabled=True)
    theirs.send(b"theirs")

    async with connected(broker) as client, await client.create_producer(topic) as producer:
        await producer.send(b"ours")
    theirs.send(b"theirs again")
    assert [message.data() for message in read(stock, topic, 3)] == [b"theirs", b"ours", b"theirs again"]


async def test_non_persistent_topics(broker, stock):
    topic = f"non-persistent://public/default/produce-{time.monotonic_ns()}"
    consumer = stock.subscribe(topic, "s")

    async with connected(broker) as client, await client.create_producer(topic) as producer:
        found = await producer.send(b"x")
        assert (found.ledger, found.entry) == (0, 0)
    assert consumer.receive(WAIT_MS).data() == b"x"
