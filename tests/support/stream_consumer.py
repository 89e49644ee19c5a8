"""A stream consumer beside a scripted broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.scalable.stream.consumer import StreamConsumer
from magnetar.client.message import Message
from magnetar.client.schema import BYTES
from magnetar.wire.proto import pb
from tests.support.scalable_broker_script import TOPIC, Scaled, a_scaled
from tests.unit.client.world import turns

K = pb.BaseCommand


class World:
    def __init__(self, scaled: Scaled, consumer: StreamConsumer[bytes]) -> None:
        self.scaled = scaled
        self.broker = scaled.broker
        self.consumer = consumer
        self.share = consumer._strands[str(TOPIC)]._share

    async def open(self, *segments: int) -> None:
        """Until exactly these are attached and have permits."""
        await turns(
            lambda: (
                self.consumer.segments == list(segments)
                and self.consumer.connected
                and {self.scaled.name(id) for id in segments} <= {topic for topic, _ in self.scaled.consumers.values()}
            )
        )

    async def take(self, count: int) -> list[Message[bytes]]:
        return [await self.consumer.receive(60) for _ in range(count)]

    def acks(self) -> list[tuple[str, int, int]]:
        """Cumulative acknowledgements: the segment's topic, ledger and entry."""
        topics = {one.subscribe.consumer_id: one.subscribe.topic for one in self.broker.kinds(K.SUBSCRIBE)}
        return [
            (topics[command.ack.consumer_id], id.ledgerId, id.entryId)
            for command in self.broker.kinds(K.ACK)
            for id in command.ack.message_id
            if command.ack.ack_type == pb.CommandAck.Cumulative
        ]


@asynccontextmanager
async def a_world(segments: int = 1, *, ours: bool = True, started: bool = True, **asked: Any) -> AsyncIterator[World]:
    asked.setdefault("name", "c")
    asked.setdefault("ack_group_s", 0.0)
    async with a_scaled(segments, ours=ours) as (scaled, lookup):
        consumer: StreamConsumer[bytes] = StreamConsumer(lookup, str(TOPIC), ConsumerConfig("s", **asked), schema=BYTES)
        world = World(scaled, consumer)
        if started:
            await consumer._start()
            await world.open(*range(segments))
        try:
            yield world
        finally:
            await consumer.close()
