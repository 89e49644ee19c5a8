"""A checkpoint consumer beside a scripted broker of one scalable topic: what the broker keeps of each segment, and what
of it is deleted, is said by the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from magnetar.base.ids import SegmentId
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.consumer.scalable.checkpoint.consumer import CheckpointConsumer
from magnetar.client.options import checkpointing_of
from magnetar.client.schema import BYTES
from magnetar.wire import commands
from magnetar.wire.ids import MessageId, to_data
from magnetar.wire.proto import pb
from tests.support.scalable_broker_script import TOPIC, Scaled, a_scaled
from tests.unit.client.world import Link, turns

K = pb.BaseCommand


class World:
    def __init__(self, scaled: Scaled) -> None:
        self.scaled = scaled
        self.broker = scaled.broker
        self.consumer: CheckpointConsumer[bytes]
        self.last: dict[int, MessageId] = {}  # of a segment
        self.mark: dict[int, MessageId] = {}
        self.deleted: dict[int, MessageId] = {}
        self.broker.handlers[K.GET_LAST_MESSAGE_ID] = self._last
        self.broker.handlers[K.SEEK] = self._seek

    def split(self, segment: int) -> None:
        self.scaled.show(self.scaled.layout.split(SegmentId(segment), now_ms=1))

    async def on(self, *segments: int) -> None:
        """Until exactly these are attached."""
        await turns(lambda: self.consumer.segments == list(segments) and self.consumer.connected)

    def starts(self) -> dict[str, MessageId]:
        """Where each segment was asked for, the last time."""
        found = {}
        for command in self.broker.kinds(K.SUBSCRIBE):
            id = command.subscribe.start_message_id
            ledger = id.ledgerId if id.ledgerId < 1 << 63 else -1
            found[command.subscribe.topic] = MessageId(ledger, id.entryId if id.entryId < 1 << 63 else -1)
        return found

    def start_of(self, segment: int) -> tuple[int, int]:
        found = self.starts()[self.scaled.name(segment)]
        return found.ledger, found.entry

    def acks(self) -> list[tuple[int, int]]:
        return [(id.ledgerId, id.entryId) for one in self.broker.kinds(K.ACK) for id in one.ack.message_id]

    def _last(self, link: Link, command: pb.BaseCommand) -> bool:
        asked = command.getLastMessageId
        name = self.scaled.consumers[asked.consumer_id][0]
        segment = next(one.id for one in self.scaled.layout.segments if str(one.topic(TOPIC)) == name)
        deleted = self.deleted.get(segment)
        link.write(
            commands.last_message_id(
                asked.request_id,
                to_data(self.last.get(segment, MessageId(-1, -1))),
                to_data(self.mark.get(segment, MessageId(100 + segment, -1))),
                deleted_to=None if deleted is None else to_data(deleted),
            )
        )
        return True

    def _seek(self, link: Link, command: pb.BaseCommand) -> bool:
        link.write(commands.success(command.seek.request_id))
        return True


@asynccontextmanager
async def a_world(segments: int = 1, *, ours: bool = True) -> AsyncIterator[tuple[World, Any]]:
    """The world, and what starts a consumer in it."""
    async with a_scaled(segments, ours=ours) as (scaled, lookup):
        world = World(scaled)
        made: list[CheckpointConsumer[bytes]] = []

        async def begin(start: Any = InitialPosition.EARLIEST, **said: Any) -> CheckpointConsumer[bytes]:
            asked = checkpointing_of(str(TOPIC), {"name": "c"}, "1")
            world.consumer = CheckpointConsumer(lookup, str(TOPIC), asked, start=start, schema=BYTES, **said)
            made.append(world.consumer)
            await world.consumer._start()
            return world.consumer

        try:
            yield world, begin
        finally:
            for consumer in made:
                await consumer.close()
