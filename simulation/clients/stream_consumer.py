"""The stream consumers of a world: they receive, acknowledge cumulatively, leave and come back.

An acknowledgement covers everything that this consumer received before, in any segment. Each of these messages is
recorded, because the history knows what was received but not what the brokers do with the acknowledgement.
"""

from __future__ import annotations

import asyncio
from typing import Any

from magnetar.base.errors import Closed, MagnetarError
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.message import Message
from magnetar.client.options import StreamOptions
from simulation import history as record
from simulation.clients.consumer import POLL_S, SETTLING_POLL_S, ConsumerProcess
from simulation.clients.seek import SEEKS, draw_target, seek
from simulation.history import INVOKE, OK, Place, value_of

BATCH_MAX = 8  # messages of one that takes many at a time
ACKS_AT_END = 0.7  # of those that acknowledge many at a time do so when they leave
STALLED_S = 40.0  # of a healed world: a consumer that waits so long for its own acknowledgements is stuck
ACKS_SOME = 0.25  # of the messages are followed by an acknowledgement, in a chaotic world


class StreamConsumerProcess(ConsumerProcess):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._taken: list[tuple[float, Message[bytes]]] = []  # not acknowledged, in order; since when
        self._held_since = 0.0
        self._segments_then: list[int] = []  # the segments it had then
        self._parts: dict[int, int] = {}  # attachments to segments, numbered

    @property
    def attachment(self) -> tuple[int, int] | None:
        return None  # each segment has one of its own

    async def open(self) -> Any:
        plan = self.plan
        self._session = self._context.history.session()
        self._taken.clear()
        facts = {"type": plan.type, "earliest": plan.earliest}
        self.note(record.SUBSCRIBE, INVOKE, **facts)
        options = StreamOptions(
            name=self.name,
            initial_position=InitialPosition.EARLIEST if plan.earliest else InitialPosition.LATEST,
            queue_messages=plan.queue_messages,
            ack_group_s=self._chance.choice((0.0, 0.1)),
            ack_batch_index=plan.batch_index,
        )
        if plan.chunked_max:
            options["chunked_pending_max"] = plan.chunked_max
        try:
            consumer = await self._client.stream_consumer(self.address, plan.name, **options)
        except MagnetarError as error:
            self._failed(record.SUBSCRIBE, error, **facts)
            return None
        self.note(record.SUBSCRIBE, OK, **facts)
        return consumer

    async def take(self, consumer: Any, timeout_s: float) -> Message[bytes] | None:
        """Receives one message, or a batch and returns its last message; all are recorded."""
        messages: list[Message[bytes]]
        if self.plan.works_s and not self._context.settling:
            await asyncio.sleep(self.plan.works_s)
        if self.plan.batched:
            messages = await consumer.receive_batch(BATCH_MAX, timeout_s=min(timeout_s, POLL_S))
        else:
            try:
                messages = [await consumer.receive(timeout_s)]
            except NoMessage:
                return None
        for message in messages:
            self._taken.append((asyncio.get_running_loop().time(), message))
            value = value_of(message.data)
            facts = {} if value is None or message.key == value.sent_key else {"key": message.key}
            self.note(
                record.RECEIVE, OK, value=value, place=message_place(message), segment=message_segment(message), **facts
            )
        return messages[-1] if messages else None

    async def ack(self, consumer: Any, message: Message[bytes], *, confirm: bool = False) -> None:
        """Acknowledges this message and all before it."""
        while self._taken:
            _, older = self._taken.pop(0)
            self.note(record.ACK, INVOKE, place=message_place(older), segment=message_segment(older))
            if older is message:
                break
        try:
            await consumer.acknowledge_cumulative(message, confirm=confirm)
        except MagnetarError as error:
            self._failed(record.ACK, error, place=message_place(message))

    @property
    def _acks_late(self) -> bool:
        return bool(self.plan.acks_every or self.plan.acks_after_s)

    def _held_back(self, consumer: Any) -> bool:
        """Whether segments wait although no other consumer holds their parents: a late acknowledgement would hide it
        (H-F20). In a healed world they must not wait for long."""
        now_s = asyncio.get_running_loop().time()
        if not self.plan.alone or not any(strand.held_back for strand in consumer._strands.values()):
            self._held_since = now_s
            return False
        if (
            self._segments_then != consumer.segments
        ):  # a long history of empty segments is assigned one generation at a time
            self._segments_then, self._held_since = consumer.segments, now_s
        stalled = f"{self.name}: segments wait for acknowledgements of their only reader: {consumer.segments}"
        assert now_s - self._held_since < STALLED_S, stalled
        return True

    def _is_due(self, now_s: float) -> bool:
        """Whether a consumer that acknowledges by number or by time acknowledges all it has."""
        if self.plan.acks_every:
            return len(self._taken) >= self.plan.acks_every
        return bool(self._taken) and now_s - self._taken[0][0] >= self.plan.acks_after_s

    async def _stint(self, consumer: Any) -> None:
        loop = asyncio.get_running_loop()
        until = self._held_since = loop.time()
        until += self._chance.expovariate(1 / self.plan.stint_s)
        while not self._context.over and (self._context.settling or loop.time() < until):
            message = await self.take(consumer, SETTLING_POLL_S if self._context.settling else POLL_S)
            if self._context.settling:
                if message is not None and self._acks_late:
                    self._held_since = loop.time()
                    continue  # what comes behind a split must come although nothing is acknowledged
                if message is not None:
                    await self.ack(consumer, message)
                elif self._taken and not self._held_back(consumer):
                    await self.ack(consumer, self._taken[-1][1])
            elif self._acks_late:
                if self._is_due(loop.time()):
                    await self.ack(consumer, self._taken[-1][1], confirm=self._chance.random() < self.plan.confirms)
            elif message is None or self._chance.random() < ACKS_SOME:
                await self._some(consumer, loop.time() - self.plan.holds_s * self._chance.random())
            if self.plan.seeks and not self._context.settling and self._chance.random() < SEEKS:
                await self._back(consumer)

    async def _back(self, consumer: Any) -> None:
        """Moves to the beginning, or to a time; then no consumer may acknowledge the messages received before."""
        now_s = asyncio.get_running_loop().time()
        if await seek(
            self, consumer, draw_target(self._chance, now_s) if self.plan.times else InitialPosition.EARLIEST
        ):
            self._taken.clear()

    async def _some(self, consumer: Any, taken_before: float) -> None:
        """Acknowledges what was held long enough."""
        due = [message for since, message in self._taken if since <= taken_before]
        if due:
            await self.ack(consumer, due[-1], confirm=self._chance.random() < self.plan.confirms)

    async def _leave(self, consumer: Any) -> None:
        if self._acks_late and self._taken and self._chance.random() < ACKS_AT_END:
            try:
                await self.ack(consumer, self._taken[-1][1])
            except Closed:
                pass
        self.note(record.CLOSE, INVOKE)
        await consumer.close()
        self.note(record.CLOSE, OK)
        if not self._context.over:
            await asyncio.sleep(self._chance.random() * self.plan.stint_s * 0.3)


def message_place(message: Message[Any]) -> Place:
    delivery = message._delivery
    return delivery.ledger, delivery.entry, max(message.batch_index, 0)


def message_segment(message: Message[Any]) -> int:
    segment: int = message._delivery.source.segment
    return segment
