"""Messages of an Avro consumer wait for the schema of their writer, in order, and one bad schema costs only its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from magnetar.base.errors import Undecodable
from magnetar.client.avro.schema import Avro
from magnetar.wire.proto import pb
from tests.support.broker_script import K, World, single

pytestmark = pytest.mark.real_clock


@dataclass
class Old:
    id: int


@dataclass
class Order:
    id: int
    name: str = "absent"


def version(number: int) -> bytes:
    return number.to_bytes(8, "big")


def old(number: int) -> bytes:
    return single(Avro(Old).encode(Old(number)), number, schema_version=version(0))


def new(number: int) -> bytes:
    return single(Avro(Order).encode(Order(number, "n")), number, schema_version=version(1))


def info(schema: Any) -> pb.Schema:
    found = schema.info()
    assert isinstance(found, pb.Schema)
    return found


async def test_messages_are_read_by_schema_of_their_writer(world: World):
    world.broker.schemas = {version(0): info(Avro(Old)), version(1): info(Avro(Order))}
    consumer = await world.consumer(schema=Avro(Order))
    for number in range(6):
        world.broker.push(number, old(number) if number % 2 else new(number))
    world.broker.push(6, single(Avro(Order).encode(Order(6))))  # without a version: the consumer's own definition
    found = [(await consumer.receive(60)).value for _ in range(7)]
    assert found == [Order(n, "absent" if n % 2 else "n") for n in range(6)] + [Order(6)]
    assert len(world.broker.said(K.GET_SCHEMA)) == 2


async def test_message_waits_while_broker_does_not_answer(world: World):
    world.broker.schemas = {version(1): info(Avro(Order))}
    consumer = await world.consumer(schema=Avro(Order))
    world.broker.refuse[K.GET_SCHEMA] = []
    world.broker.silent.add(K.GET_SCHEMA)
    world.broker.push(0, new(0))
    world.broker.push(1, new(1))
    await world.broker.until_said(K.GET_SCHEMA)
    assert consumer.queued == 0
    world.broker.silent.clear()
    world.broker.drop()  # the request has no answer, and the messages are delivered again
    await world.broker.until_said(K.SUBSCRIBE, 2)
    await world.broker.until_said(K.FLOW, 2)
    world.broker.push(0, new(0))
    world.broker.push(1, new(1))
    assert [(await consumer.receive(60)).value.id for _ in range(2)] == [0, 1]  # type: ignore[attr-defined]


async def test_deleted_and_foreign_schemas_are_undecodable_alone(world: World):
    world.broker.schemas = {version(1): info(Avro(Order)), version(3): pb.Schema(name="J", schema_data=b"{}", type=2)}
    consumer = await world.consumer(schema=Avro(Order))
    world.broker.push(0, old(0))
    world.broker.push(1, single(b"{}", 1, schema_version=version(3)))
    world.broker.push(2, new(2))
    gone, foreign, fine = [await consumer.receive(60) for _ in range(3)]
    with pytest.raises(Undecodable, match="its writer's schema cannot be read"):
        _ = gone.value
    with pytest.raises(Undecodable, match="schema of type Json"):
        _ = foreign.value
    assert fine.value == Order(2, "n")


async def test_close_ends_waiting_request(world: World):
    consumer = await world.consumer(schema=Avro(Order))
    world.broker.silent.add(K.GET_SCHEMA)
    world.broker.push(0, new(0))
    await world.broker.until_said(K.GET_SCHEMA)
    await consumer.close()
    assert consumer.closed
