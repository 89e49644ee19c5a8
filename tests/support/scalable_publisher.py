"""A publisher of a scalable topic beside a scripted broker, keeping what its messages were told."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.client.producer.config import ProducerConfig
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.scalable.publisher import ScalablePublisher
from magnetar.layout.layout import Layout
from magnetar.wire.ids import MessageId
from tests.support.publisher import payloads
from tests.support.scalable_broker_script import TOPIC, Scaled, a_scaled
from tests.unit.client.world import WAIT_S, turns

LOW, HIGH = "a", "key-0"  # of the halves of the keyspace, by either routing


class World:
    def __init__(self, scaled: Scaled, publisher: ScalablePublisher, budget: MemoryLimit) -> None:
        self.scaled = scaled
        self.broker = scaled.broker
        self.publisher = publisher
        self.budget = budget
        self.told: list[tuple[bytes, MessageId | None, MagnetarError | None]] = []

    def add(self, payload: bytes, key: str | None = None, *, awaited: bool = False, **said: Any) -> None:
        fields = MessageFields()
        fields.key = key
        for name, value in said.items():
            setattr(fields, name, value)
        assert self.budget.take(len(payload))

        def done(found: MessageId | None, error: MagnetarError | None) -> None:
            self.told.append((payload, found, error))

        self.publisher.add(payload, fields, done, awaited=awaited)

    def stored(self) -> list[bytes]:
        return [payload for payload, found, _ in self.told if found is not None]

    def errors(self) -> list[tuple[bytes, type[MagnetarError]]]:
        return [(payload, type(error)) for payload, _, error in self.told if error is not None]

    async def came(self, segment: int, count: int) -> list[bytes]:
        """The payloads that came for a segment, once there are so many."""
        await self.broker.until(lambda: len(self.scaled.sent(segment)) >= count)
        return payloads(self.scaled.sent(segment))

    async def until_told(self, count: int) -> None:
        await turns(lambda: len(self.told) >= count)

    def expire(self) -> None:
        """The time of all that waits is over."""
        self.publisher._apply(self.publisher._queues.expired(math.inf))

    def split(self, segment: int) -> Layout:
        return self.scaled.layout.split(SegmentId(segment), now_ms=1)

    def merge(self, *segments: int) -> Layout:
        return self.scaled.layout.merge([SegmentId(id) for id in segments], now_ms=1)


@asynccontextmanager
async def a_world(
    segments: int = 1, *, ours: bool = True, receipts: bool = True, started: bool = True, **opening: Any
) -> AsyncIterator[World]:
    opening.setdefault("batching", None)
    opening.setdefault("operation_timeout_s", WAIT_S)
    opening.setdefault("name", "p")
    async with a_scaled(segments, ours=ours) as (scaled, lookup):
        scaled.broker.receipts = receipts
        budget = MemoryLimit()
        publisher = ScalablePublisher(lookup, str(TOPIC), ProducerConfig(**opening), budget)
        world = World(scaled, publisher, budget)
        if started:
            await publisher.start()
        yield world
        await publisher.close(flush=False)
        assert (budget.bytes, budget.messages) == (0, 0), "room was not given back"
