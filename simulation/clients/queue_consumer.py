"""The queue consumers of a world: they receive, acknowledge one by one, refuse, leave and come back.

They behave as consumers of a Shared subscription of a plain topic; each line also names the segment. If the
subscription is moved, its first consumer does that now and then, and may still acknowledge messages that it received
before. There every acknowledgement waits for the broker's receipt, so that the effect of a seek is known.
"""

from __future__ import annotations

import asyncio
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.client.consumer.ack.dead_letter_publisher import MakeOutbox, RetryProducers
from magnetar.client.consumer.ack.dead_letters import ORIGIN_MESSAGE_ID
from magnetar.client.consumer.ack.nacks import NackBackoff
from magnetar.client.consumer.config import DeadLetters, InitialPosition
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.message import Message, MessageId
from magnetar.client.options import QueueOptions
from simulation import history as record
from simulation.clients.consumer import ConsumerProcess
from simulation.clients.seek import draw_target, seek
from simulation.clients.stream_consumer import message_place, message_segment
from simulation.history import INVOKE, OK, Value, value_of

BURIED_AFTER = 1  # redeliveries
POISON = 7  # every seventh message of a producer, where a queue buries


class RecordingOutboxFactory:
    """Makes the producers of dead letters, and records what they send."""

    def __init__(self, taker: QueueConsumerProcess, make: MakeOutbox) -> None:
        self._taker = taker
        self._make = make

    async def __call__(self, topic: str, initial_subscription: str) -> RetryProducers:
        return RecordingOutbox(self._taker, await self._make(topic, initial_subscription))


class RecordingOutbox:
    def __init__(self, taker: QueueConsumerProcess, real: RetryProducers) -> None:
        self._taker = taker
        self._real = real

    async def send(self, value: bytes, **options: Any) -> MessageId:
        self._taker.note(record.BURY, INVOKE, value=value_of(value))
        id = await self._real.send(value, **options)
        self._taker.buried(value_of(value), options["properties"][ORIGIN_MESSAGE_ID])
        return id

    async def close(self) -> None:
        await self._real.close()


class QueueConsumerProcess(ConsumerProcess):
    @property
    def attachment(self) -> tuple[int, int] | None:
        return None  # each segment has one of its own

    def buried(self, value: Value | None, origin: str) -> None:
        """Records a dead letter; the client acknowledges the message in the next step."""
        self.note(record.BURY, OK, value=value)
        if origin in self._poison:
            place, segment = self._poison[origin]
            self.note(record.ACK, INVOKE, place=place, segment=segment)

    async def open(self) -> Any:
        plan = self.plan
        self._poison: dict[str, tuple[Any, int]] = {}  # refused, by the id: where it was
        self._session = self._context.history.session()
        self._held.clear()
        self._left.clear()
        facts = {"type": plan.type, "earliest": plan.earliest}
        self.note(record.SUBSCRIBE, INVOKE, **facts)
        options = QueueOptions(
            name=self.name,
            initial_position=InitialPosition.EARLIEST if plan.earliest else InitialPosition.LATEST,
            queue_messages=max(plan.queue_messages, 1),
            ack_group_s=self._chance.choice((0.0, 0.1)),
            nack=NackBackoff(0.2, 1.0),
        )
        if plan.chunked_max:
            options["chunked_pending_max"] = plan.chunked_max
        if plan.buries:
            options["dead_letters"] = DeadLetters(BURIED_AFTER, f"persistent://public/kept/{self.name}-dead")
        try:
            consumer = await self._client.queue_consumer(self.address, plan.name, **options)
        except MagnetarError as error:
            self._failed(record.SUBSCRIBE, error, **facts)
            return None
        self.note(record.SUBSCRIBE, OK, **facts)
        if plan.buries:
            undertaker = consumer._undertaker
            assert undertaker is not None
            undertaker._make = RecordingOutboxFactory(self, undertaker._make)
        return consumer

    async def take(self, consumer: Any, timeout_s: float) -> Message[bytes] | None:
        try:
            message: Message[bytes] = await consumer.receive(timeout_s)
        except NoMessage:
            return None
        value = value_of(message.data)
        facts = {} if value is None or message.key == value.sent_key else {"key": message.key}
        self.note(
            record.RECEIVE, OK, value=value, place=message_place(message), segment=message_segment(message), **facts
        )
        return message

    async def ack(self, consumer: Any, message: Message[bytes], *, confirm: bool = False) -> None:
        place = message_place(message)
        self.note(record.ACK, INVOKE, place=place, segment=message_segment(message))
        confirm = confirm or self.plan.seeks
        await self._answered(consumer.acknowledge(message, confirm=confirm), confirm, place)

    async def _seek(self, consumer: Any) -> None:
        if self.name.endswith("-c0"):
            await seek(self, consumer, draw_target(self._chance, asyncio.get_running_loop().time()), acks_kept=True)

    async def _received(self, consumer: Any, message: Message[bytes], now: float) -> None:
        draw = self._chance.random()
        value = value_of(message.data)
        poison = self.plan.buries and value is not None and value.number % POISON == 0
        if poison and value is not None:
            self._poison[str(message.id)] = message_place(message), message_segment(message)
        if poison or (draw < self.plan.refuses and not self._context.settling):
            self.note(record.NACK, OK, value=value, place=message_place(message), segment=message_segment(message))
            await consumer.negative_acknowledge(message)
            return
        self._held.append((now + self._chance.random() * self.plan.holds_s, message))

    async def _leave(self, consumer: Any) -> None:
        self.note(record.CLOSE, INVOKE)
        await consumer.close()
        self.note(record.CLOSE, OK)
