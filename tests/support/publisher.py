"""A publisher beside a scripted broker, keeping what its messages were told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.client.producer.config import ProducerConfig
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.publisher import Publisher
from magnetar.wire import message
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from tests.unit.client.world import WAIT_S, Broker, Sent, a_broker, a_lookup

K = pb.BaseCommand
TOPIC = "persistent://public/default/t"


class World:
    def __init__(self, broker: Broker, publisher: Publisher, budget: MemoryLimit) -> None:
        self.broker = broker
        self.publisher = publisher
        self.budget = budget
        self.told: list[tuple[bytes, MessageId | None, MagnetarError | None]] = []

    def add(self, payload: bytes, **said: Any) -> None:
        fields = None
        if said:
            fields = MessageFields()
            for name, value in said.items():
                setattr(fields, name, value)
        assert self.budget.take(len(payload))
        self.publisher.add(payload, fields, lambda found, error: self.told.append((payload, found, error)))

    def stored(self) -> list[bytes]:
        return [payload for payload, found, _ in self.told if found is not None]

    def failed(self) -> list[tuple[bytes, type[MagnetarError]]]:
        return [(payload, type(error)) for payload, _, error in self.told if error is not None]


@asynccontextmanager
async def a_world(*, receipts: bool = True, **opening: Any) -> AsyncIterator[World]:
    opening.setdefault("batching", None)
    opening.setdefault("operation_timeout_s", WAIT_S)
    async with a_broker() as broker, a_lookup(broker) as lookup:
        broker.receipts = receipts
        budget = MemoryLimit()
        publisher = Publisher(lookup, TOPIC, ProducerConfig(**opening), budget)
        await publisher.start()
        world = World(broker, publisher, budget)
        yield world
        if publisher.error is None:
            await publisher.close(flush=False)
        assert (budget.bytes, budget.messages) == (0, 0), "room was not given back"


def payloads(sent: list[Sent]) -> list[bytes]:
    return [message.open_entry(one.entry).payload for one in sent]


async def flushed(world: World) -> None:
    async with asyncio.timeout(WAIT_S):
        await world.publisher.flush()
