"""The checkpoint consumers of a world: they take checkpoints at random moments, go away and begin again at one of them.

The received messages are recorded under the checkpoint that the consumer began with. So everything that it has ever
seen is known: what was received before that checkpoint, and then its own messages. A checkpoint has a name; the empty
name is the beginning of the topic.
"""

from __future__ import annotations

import asyncio
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.message import Message
from simulation import history as record
from simulation.clients.consumer import POLL_S, SETTLING_POLL_S, ConsumerProcess
from simulation.clients.stream_consumer import message_place, message_segment
from simulation.history import INVOKE, OK, value_of

CHECKPOINTS = 0.15  # of the messages are followed by a checkpoint
CHECKPOINTS_KEPT = 5  # checkpoints that it may go back to


class CheckpointConsumerProcess(ConsumerProcess):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._kept: list[tuple[str, bytes]] = []

    @property
    def attachment(self) -> tuple[int, int] | None:
        return None  # brokers know nothing of it that lasts

    async def open(self) -> Any:
        """Opens at one of the checkpoints; when the world comes to rest, at the newest."""
        self._session = self._context.history.session()
        name, kept = "", b""
        if self._kept:
            name, kept = self._kept[-1] if self._context.settling else self._chance.choice(self._kept)
        self.note(record.READ_FROM, INVOKE, checkpoint=name)
        try:
            consumer = await self._client.checkpoint_consumer(
                self.address,
                kept or InitialPosition.EARLIEST,
                name=self.name,
                queue_messages=self.plan.queue_messages,
            )
        except MagnetarError as error:
            self._failed(record.READ_FROM, error, checkpoint=name)
            return None
        self.note(record.READ_FROM, OK, checkpoint=name)
        return consumer

    async def take(self, consumer: Any, timeout_s: float) -> Message[bytes] | None:
        try:
            message: Message[bytes] = await consumer.receive(timeout_s)
        except NoMessage:
            return None
        self.note(
            record.READ,
            OK,
            value=value_of(message.data),
            place=message_place(message),
            segment=message_segment(message),
        )
        return message

    async def finish(self, idle_s: float, tries: int) -> bool:
        """Reads to the end from the newest checkpoint, in a healed world. False: the consumer cannot be opened."""
        for _ in range(tries):
            consumer = await self.open()
            if consumer is not None:
                while await self.take(consumer, idle_s) is not None:
                    pass
                self.note(record.READ_ALL, OK)
                await consumer.close()
                return True
            await asyncio.sleep(1.0)
        return False

    def note(self, operation: str, phase: str, **more: Any) -> None:
        """As its base, without a subscription."""
        self._context.history.note(
            self.name, operation, phase, self._topic, session=self._session, reader=self.plan.name, **more
        )

    def _failed(self, operation: str, error: MagnetarError, **more: Any) -> None:
        self._context.history.failed(
            self.name, operation, error, self._topic, session=self._session, reader=self.plan.name, **more
        )

    async def _stint(self, consumer: Any) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._chance.expovariate(1 / self.plan.stint_s)
        while not self._context.over and (self._context.settling or loop.time() < until):
            message = await self.take(consumer, SETTLING_POLL_S if self._context.settling else POLL_S)
            if self._chance.random() < (CHECKPOINTS if message is not None else CHECKPOINTS / 3):
                await self._keep(consumer)

    async def _keep(self, consumer: Any) -> None:
        name = f"{self.name}@{self._session}.{len(self._context.history.lines)}"
        kept = (await consumer.checkpoint()).to_bytes()
        self.note(record.KEPT, OK, checkpoint=name)
        self._kept = [*self._kept[-CHECKPOINTS_KEPT + 1 :], (name, kept)]

    async def _leave(self, consumer: Any) -> None:
        await consumer.close()
        if not self._context.over:
            await asyncio.sleep(self._chance.random() * self.plan.stint_s * 0.3)
