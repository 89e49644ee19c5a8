"""Avro values between our client and the stock one: each reads the other's, also after a field was added."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pulsar
import pulsar.schema
import pytest

from magnetar import Avro
from magnetar.aio import Client
from magnetar.client.consumer.config import InitialPosition
from tests.servers.standalone import Standalone
from tests.support.reshaped_topic import Reshaped, opened_topic

pytestmark = pytest.mark.real_clock

WAIT_S = 30
EARLIEST = InitialPosition.EARLIEST


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Line:
    sku: str
    count: int


@dataclass
class Order:
    id: int
    name: str
    price: float
    colour: Colour
    lines: list[Line]
    labels: dict[str, str] = field(default_factory=dict)
    note: str | None = None


class StockLine(pulsar.schema.Record):
    sku = pulsar.schema.String(required=True)
    count = pulsar.schema.Long(required=True)


class StockOrder(pulsar.schema.Record):
    id = pulsar.schema.Long(required=True)
    name = pulsar.schema.String(required=True)
    price = pulsar.schema.Double(required=True)
    colour = pulsar.schema.CustomEnum(Colour, required=True)
    lines = pulsar.schema.Array(StockLine(), required=True)
    labels = pulsar.schema.Map(pulsar.schema.String(), required=True)
    note = pulsar.schema.String()


StockLine.__name__, StockOrder.__name__ = "Line", "Order"  # Avro names records after their classes

OURS = Order(7, "käse", 1.5, Colour.BLUE, [Line("a", 2)], {"k": "v"}, "n")


def theirs() -> StockOrder:
    lines = [StockLine(sku="b", count=3)]
    return StockOrder(id=8, name="x", price=0.5, colour=Colour.RED, lines=lines, labels={}, note=None)


@asynccontextmanager
async def connected(broker: Standalone) -> AsyncIterator[Client]:
    async with Client(broker.url) as client:
        yield client


async def test_stock_client_reads_our_avro_and_we_read_theirs(broker: Any, stock: Any, topic: str):
    async with connected(broker) as client:
        async with client.create_producer(topic, schema=Avro(Order)) as producer:
            await producer.send(OURS)
        stock_schema = pulsar.schema.AvroSchema(StockOrder)
        stock.create_producer(topic, schema=stock_schema).send(theirs())
        reader = stock.create_reader(topic, pulsar.MessageId.earliest, schema=stock_schema)
        read = reader.read_next(WAIT_S * 1000).value()
        assert (read.id, read.name, read.price, read.colour) == (7, "käse", 1.5, Colour.BLUE)
        assert (read.lines[0].sku, read.lines[0].count, read.labels, read.note) == ("a", 2, {"k": "v"}, "n")
        async with client.subscribe(topic, "s", schema=Avro(Order), initial_position=EARLIEST) as consumer:
            found = [(await consumer.receive(WAIT_S)).value for _ in range(2)]
        assert found == [OURS, Order(8, "x", 0.5, Colour.RED, [Line("b", 3)])]


async def test_consumer_of_newer_class_reads_older_messages(broker: Any, topic: str):
    def first() -> type[Any]:
        @dataclass
        class Event:
            id: int

        return Event

    def second() -> type[Any]:
        @dataclass
        class Event:
            id: int
            kind: str = "none"

        return Event

    older, newer = first(), second()
    async with connected(broker) as client:
        async with client.create_producer(topic, schema=Avro(older)) as producer:
            await producer.send(older(1))
        async with client.create_producer(topic, schema=Avro(newer)) as producer:
            await producer.send(newer(2, "new"))
        async with client.create_reader(topic, schema=Avro(newer)) as reader:
            assert [(await reader.receive(WAIT_S)).value for _ in range(2)] == [newer(1), newer(2, "new")]
        async with client.create_reader(topic, schema=Avro(older)) as reader:
            assert [(await reader.receive(WAIT_S)).value for _ in range(2)] == [older(1), older(2)]


async def test_stream_keeps_avro_values_in_order_over_split(tmp_path: Path):
    with Standalone(tmp_path) as server:
        async with opened_topic(server, "avro", Reshaped, 1) as cluster:
            topic, client = cluster.topic, cluster.client
            async with client.create_producer(topic, schema=Avro(Line)) as producer:
                for number in range(20):
                    await producer.send(Line("a", number), key="k")
                await cluster.admin.scalable.split(topic, 0)
                for number in range(20, 40):
                    await producer.send(Line("a", number), key="k")
            async with client.stream_consumer(topic, "s", schema=Avro(Line), initial_position=EARLIEST) as consumer:
                found = [(await consumer.receive(WAIT_S)).value.count for _ in range(40)]
    assert found == list(range(40))
