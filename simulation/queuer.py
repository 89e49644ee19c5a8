"""The queue consumers of a simulated world: real ones on scalable topics, that take, acknowledge one by one, refuse,
leave and come back, as those of a Shared subscription of a plain topic do; each line says the segment too. Where the
subscription is moved, the first of them does that now and then, and what it has taken before it may still acknowledge:
every acknowledgement waits for the broker's receipt there, so that what a seek undoes is known.
"""

from __future__ import annotations

import asyncio
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.client.message import Message
from magnetar.client.nacks import NackBackoff
from magnetar.client.options import QueueOptions
from magnetar.client.receive import NoMessage
from magnetar.client.subscribing import InitialPosition
from simulation import history as record
from simulation.clients import Taker
from simulation.history import INVOKE, OK, value_of
from simulation.seeker import drawn, move
from simulation.streamer import _place, _segment


class Queuer(Taker):
    @property
    def attachment(self) -> tuple[int, int] | None:
        return None  # each segment has one of its own

    async def open(self) -> Any:
        plan = self.plan
        self._session = self._book.history.session()
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
        try:
            consumer = await self._client.queue_consumer(self.address, plan.name, **options)
        except MagnetarError as error:
            self._failed(record.SUBSCRIBE, error, **facts)
            return None
        self.note(record.SUBSCRIBE, OK, **facts)
        return consumer

    async def take(self, consumer: Any, timeout_s: float) -> Message[bytes] | None:
        try:
            message: Message[bytes] = await consumer.receive(timeout_s)
        except NoMessage:
            return None
        value = value_of(message.data)
        facts = {} if value is None or message.key == value.key else {"key": message.key}
        self.note(record.RECEIVE, OK, value=value, place=_place(message), segment=_segment(message), **facts)
        return message

    async def ack(self, consumer: Any, message: Message[bytes], *, confirm: bool = False) -> None:
        place = _place(message)
        self.note(record.ACK, INVOKE, place=place, segment=_segment(message))
        confirm = confirm or self.plan.seeks
        await self._answered(consumer.acknowledge(message, confirm=confirm), confirm, place)

    async def _seek(self, consumer: Any) -> None:
        if self.name.endswith("-c0"):
            await move(self, consumer, drawn(self._chance, asyncio.get_running_loop().time()), acks_kept=True)

    async def _received(self, consumer: Any, message: Message[bytes], now: float) -> None:
        draw = self._chance.random()
        if draw < self.plan.refuses and not self._book.settling:
            self.note(record.NACK, OK, place=_place(message), segment=_segment(message))
            await consumer.negative_acknowledge(message)
            return
        self._held.append((now + self._chance.random() * self.plan.holds_s, message))

    async def _leave(self, consumer: Any) -> None:
        self.note(record.CLOSE, INVOKE)
        await consumer.close()
        self.note(record.CLOSE, OK)
