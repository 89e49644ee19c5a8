"""Readers for `message read`: read a topic of any kind from a position, without a subscription.

A reader reads a plain topic. A checkpoint consumer reads a scalable topic with every key in order. `is_over` says
whether all messages from before the start of the reader have been read. It trusts the broker's counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.cli.positions import position
from magnetar.layout.readable_range import DONE, START, ReadPosition

if TYPE_CHECKING:
    from magnetar.client.batch_read.plan import From
    from magnetar.client.client import Client
    from magnetar.client.consumer.reader import Reader
    from magnetar.client.consumer.scalable.checkpoint.consumer import CheckpointConsumer
    from magnetar.client.message import Message
    from magnetar.layout.checkpoint import SegmentPosition

# after this time without a message, the reader asks the broker for the remaining count: messages may be trimmed
QUIET_S = 1.0


class TopicReader(Protocol):
    async def is_over(self) -> bool: ...

    async def receive(self, *, follow: bool) -> Message[bytes] | None:
        """None: no message arrived for a while, and `is_over` is up to date. With `follow`, waits for the next message
        instead.
        """
        ...


@asynccontextmanager
async def opened(client: Client, topic: str, start: str) -> AsyncIterator[TopicReader]:
    make = _scalable if topic_name(topic).is_scalable else _plain
    async with make(client, topic, start) as reader:
        yield reader


@asynccontextmanager
async def _plain(client: Client, topic: str, start: str) -> AsyncIterator[TopicReader]:
    """With an id, the reader starts at that message; with a time, it seeks."""
    from magnetar.client.message import MessageId

    where = position(start, client.runtime.wall())
    if isinstance(where, int):
        async with await client.create_reader(topic) as reader:
            await reader.seek(where)
            yield _Plain(reader)
    elif isinstance(where, str):
        at = MessageId.EARLIEST if where == "earliest" else MessageId.LATEST
        async with await client.create_reader(topic, at) as reader:
            yield _Plain(reader)
    else:
        at = MessageId(where.ledgerId, where.entryId, where.partitionIndex, where.batchIndex)
        async with await client.create_reader(topic, at, start_inclusive=True) as reader:
            yield _Plain(reader)


@asynccontextmanager
async def _scalable(client: Client, topic: str, start: str) -> AsyncIterator[TopicReader]:
    from magnetar.client.consumer.config import InitialPosition

    where = position(start, client.runtime.wall())
    if not isinstance(where, int | str):
        words = "--start of a scalable topic must be earliest, latest, a time (2026-11-15T10:00:00Z) or an age (10m)"
        raise Misuse(words, start=start)
    plan = await client.plan(topic, start=where)
    left = {id: stretch.messages for id, stretch in plan.stretches.items()}
    at = where if isinstance(where, int) else InitialPosition[where.upper()]
    async with await client.checkpoint_consumer(topic, at, on_gap=lambda gap: None) as consumer:
        yield _Scalable(client, consumer, where, left)


class _Plain:
    def __init__(self, reader: Reader[bytes]) -> None:
        self._reader = reader

    async def is_over(self) -> bool:
        return not await self._reader.has_message_available()

    async def receive(self, *, follow: bool) -> Message[bytes] | None:
        return await self._reader.receive()


class _Scalable:
    def __init__(
        self, client: Client, consumer: CheckpointConsumer[bytes], start: From | int, left: dict[SegmentId, int]
    ) -> None:
        self._client = client
        self._consumer = consumer
        self._start = start
        self._left = left  # remaining messages by segment, counted at the start

    async def is_over(self) -> bool:
        return not any(count > 0 for count in self._left.values())

    async def receive(self, *, follow: bool) -> Message[bytes] | None:
        from magnetar.client.consumer.receive.waiters import NoMessage

        try:
            message = await self._consumer.receive(None if follow else QUIET_S)
        except NoMessage:
            await self._count()
            return None
        segment = SegmentId(message.id.segment)
        if segment in self._left:
            self._left[segment] -= 1
        return message

    async def _count(self) -> None:
        """Counts the remaining messages of these segments, from the consumer's position."""
        positions = self._consumer.positions
        places = {id: _next(positions[id]) for id in self._left if id in positions}
        if all(at == START for at in places.values()):
            plan = await self._client.plan(self._consumer.topic, start=self._start)
        else:
            plan = await self._client.plan(self._consumer.topic, places)
        self._left = {
            id: min(count, plan.stretches[id].messages) if id in plan.stretches else 0
            for id, count in self._left.items()
        }


def _next(reached: SegmentPosition) -> ReadPosition:
    """The next position to read in the segment."""
    if reached.is_done:
        return DONE
    if reached.ledger < 0:
        return START
    if 0 <= reached.index < reached.size - 1:
        return ReadPosition(reached.ledger, reached.entry, reached.index + 1)
    return ReadPosition(reached.ledger, reached.entry + 1)
