"""The consumer and reader processes of a world: they use the real asyncio client and record what they saw.

A consumer receives, keeps messages for a while, acknowledges, refuses, leaves and comes back; a reader reads. Each
survives brokers that go away: the client reconnects, and a process opens a closed or failed consumer again. Every
choice comes from the random generator of the process. Nothing is patched, and nothing is retried without a line in the
history. Producers are in `simulation.clients.producer`; `simulation.clients.lifecycle` starts, stops and drains all
processes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from magnetar.base.errors import DataLost, InvalidTransition, MagnetarError, Sealed
from magnetar.client.client import Client
from magnetar.client.consumer.ack.nacks import NackBackoff
from magnetar.client.consumer.config import InitialPosition, SubscriptionType
from magnetar.client.consumer.consumer import Consumer
from magnetar.client.consumer.reader import Reader
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.message import Message, MessageId
from magnetar.client.options import ConsumerOptions
from simulation import history as record
from simulation.history import INVOKE, OK, History, Place, value_of
from simulation.world.workload import READER, SubscriptionPlan

RETRY_S = 0.3  # between two attempts to open, at least
POLL_S = 0.25  # a consumer that gets nothing looks up so often what else there is to do
SETTLING_POLL_S = 2.0  # and when there is nothing else
UNEXPECTED_ERRORS = (
    InvalidTransition,
    DataLost,
)  # errors that no fault explains: topics of these consumers keep everything


class ClientContext:
    """The state that all processes share: the history, and the phase of the world."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sending = True
        self.settling = False  # receive everything, keep nothing back, do not leave
        self.over = False


def place_of(message_id: MessageId) -> Place | None:
    """None: the broker already has the message, and does not name its position."""
    if message_id.ledger < 0:
        return None
    return message_id.ledger, message_id.entry, max(message_id.batch_index, 0)


class ConsumerProcess:
    """One consumer process of a durable subscription: it opens one consumer after another until the world is over."""

    def __init__(
        self,
        context: ClientContext,
        client: Client,
        topic: str,
        plan: SubscriptionPlan,
        name: str,
        chance: random.Random,
    ) -> None:
        self.name = name
        self.plan = plan
        self._context = context
        self._client = client
        self._topic = topic
        self.address = topic  # what it calls the topic, where that is not the name in the history
        self._chance = chance
        self._session = 0
        self._epoch: Callable[[], int] = lambda: 0
        self._held: list[tuple[float, Message[bytes]]] = []
        self._consumer: Consumer[bytes] | None = None  # while it is open
        self._left: list[Message[bytes]] = []  # taken, and not to be acknowledged
        self._seen: list[Message[bytes]] = []  # where a seek may go
        self._single = plan.type in ("Exclusive", "Failover")

    @property
    def attachment(self) -> tuple[int, int] | None:
        """Session and epoch, while it is connected to a broker."""
        consumer = self._consumer
        return (self._session, self._epoch()) if consumer is not None and consumer.connected else None

    async def run(self) -> None:
        while not self._context.over:
            consumer = await self.open()
            if consumer is None:
                await asyncio.sleep(RETRY_S + self._chance.random())
                continue
            try:
                await self._stint(consumer)
            except UNEXPECTED_ERRORS:
                raise
            except MagnetarError:
                pass  # it has ended; another one is made
            await self._leave(consumer)

    async def open(self) -> Consumer[bytes] | None:
        """None: it failed, and the history has the error."""
        plan = self.plan
        session = self._session = self._context.history.session()
        self._held.clear()
        self._left.clear()
        self._epoch = lambda: 0
        facts = {"type": plan.type, "earliest": plan.earliest}
        self.note(record.SUBSCRIBE, INVOKE, **facts)

        def told(consumer: Consumer[bytes], topic: str, is_active: bool) -> None:
            if is_active:
                self._context.history.note(
                    self.name,
                    record.ACTIVE,
                    OK,
                    self._topic,
                    subscription=plan.name,
                    session=session,
                    epoch=consumer.counters.attaches,
                )

        try:
            consumer = await self._client.subscribe(self._topic, plan.name, on_active=told, **self._options())
        except MagnetarError as error:
            self._failed(record.SUBSCRIBE, error, **facts)
            return None
        self._consumer = consumer
        self._epoch = lambda: consumer.counters.attaches
        self.note(record.SUBSCRIBE, OK, **facts)
        return consumer

    async def take(self, consumer: Consumer[bytes] | Reader[bytes], timeout_s: float) -> Message[bytes] | None:
        """Receives and records the next message; None if none comes in time."""
        try:
            message = await consumer.receive(timeout_s)
        except NoMessage:
            return None
        except Sealed:  # the topic is terminated, and this was its end
            await asyncio.sleep(timeout_s)
            return None
        self.about(message)
        value = value_of(message.data)
        facts = {} if value is None or message.key == value.sent_key else {"key": message.key}
        self.note(record.RECEIVE, OK, value=value, place=place_of(message.id), **facts)
        return message

    async def ack(self, consumer: Consumer[bytes], message: Message[bytes], *, confirm: bool = False) -> None:
        self.about(message)
        place = place_of(message.id)
        # The client waits with the acknowledgement of a part of a batch unless it may say so: no receipt then.
        confirm = confirm and (self.plan.batch_index or message.batch_index < 0)
        self.note(record.ACK, INVOKE, place=place)
        await self._answered(consumer.acknowledge(message, confirm=confirm), confirm, place)

    def about(self, message: Message[bytes]) -> None:
        """Called before lines about this message are recorded."""

    def note(self, operation: str, phase: str, **more: Any) -> None:
        self._context.history.note(
            self.name,
            operation,
            phase,
            self._topic,
            subscription=self.plan.name,
            session=self._session,
            epoch=self._epoch(),
            **more,
        )

    # Inside

    def _options(self) -> ConsumerOptions:
        plan = self.plan
        return ConsumerOptions(
            type=SubscriptionType(plan.type),
            name=self.name,
            initial_position=InitialPosition.EARLIEST if plan.earliest else InitialPosition.LATEST,
            queue_messages=plan.queue_messages,
            ack_group_s=self._chance.choice((0.0, 0.1)),
            ack_batch_index=plan.batch_index,
            nack=NackBackoff(0.2, 1.0),
        )

    async def _stint(self, consumer: Consumer[bytes]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._chance.expovariate(1 / self.plan.stint_s)
        while not self._context.over and (self._context.settling or loop.time() < until):
            message = await self.take(consumer, SETTLING_POLL_S if self._context.settling else POLL_S)
            if message is not None:
                self._seen = [*self._seen[-20:], message]
                await self._received(consumer, message, loop.time())
            if self._context.settling and self.plan.type == "Key_Shared":
                # What is left holds back the younger of its key, wherever that key belongs now.
                self._held += [(0.0, left) for left in self._left]
                self._left.clear()
            await self._due(consumer, loop.time())
            if self.plan.seeks and not self._context.settling and self._seen and self._chance.random() < 0.03:
                await self._seek(consumer)

    async def _received(self, consumer: Consumer[bytes], message: Message[bytes], now: float) -> None:
        draw = self._chance.random()
        if draw < self.plan.leaves:
            self._left.append(message)
            return
        if draw < self.plan.leaves + self.plan.refuses and not self._context.settling:
            self.note(record.NACK, OK, place=place_of(message.id))
            await consumer.negative_acknowledge(message)
            return
        self._held.append((now + self._chance.random() * self.plan.holds_s, message))

    async def _due(self, consumer: Consumer[bytes], now: float) -> None:
        held, self._held = self._held, []
        for due, message in held:
            if due > now and not self._context.settling:
                self._held.append((due, message))
                continue
            confirm = self._chance.random() < self.plan.confirms
            if not self.plan.cumulative:
                await self.ack(consumer, message, confirm=confirm)
            elif self._chance.random() < 0.3 or self._context.settling:
                place = place_of(message.id)
                self.note(record.ACK, INVOKE, place=place, cumulative=True)
                await self._answered(consumer.acknowledge_cumulative(message, confirm=confirm), False, place)

    async def _answered(self, call: Any, confirm: bool, place: Place | None) -> None:
        """The outcome of an acknowledgement is known only if the broker confirms it."""
        try:
            await call
        except MagnetarError as error:
            self._failed(record.ACK, error, place=place)
        else:
            if confirm:
                self.note(record.ACK, OK, place=place)

    async def _seek(self, consumer: Consumer[bytes]) -> None:
        target = self._chance.choice([None, *self._seen])
        place = None if target is None else place_of(target.id)
        self.note(record.SEEK, INVOKE, place=place)
        try:
            if target is None:
                await consumer.seek(MessageId.EARLIEST)
            else:
                await consumer.seek(target.id, inclusive=True)
        except MagnetarError as error:
            self._failed(record.SEEK, error, place=place)
        else:
            self._held.clear()
            self.note(record.SEEK, OK, place=place)

    async def _leave(self, consumer: Consumer[bytes]) -> None:
        if self.plan.mayfly and not self._context.settling and not consumer.closed and self._chance.random() < 0.3:
            self.note(record.UNSUBSCRIBE, INVOKE)
            try:
                await consumer.unsubscribe()
            except MagnetarError as error:
                self._failed(record.UNSUBSCRIBE, error)
            else:
                self.note(record.UNSUBSCRIBE, OK)
        self._consumer = None
        self.note(record.CLOSE, INVOKE)
        await consumer.close()
        self.note(record.CLOSE, OK)
        if not self._context.over:
            await asyncio.sleep(self._chance.random() * self.plan.stint_s * 0.3)

    def _failed(self, operation: str, error: MagnetarError, **more: Any) -> None:
        self._context.history.failed(
            self.name,
            operation,
            error,
            self._topic,
            subscription=self.plan.name,
            session=self._session,
            epoch=self._epoch(),
            **more,
        )


class ReaderProcess(ConsumerProcess):
    """One reader process: reader after reader, each from the beginning, under a subscription of its own."""

    async def run(self) -> None:
        rounds = 0
        base = self.plan
        while not self._context.over:
            rounds += 1
            self.plan = SubscriptionPlan(f"{base.name}.{rounds}", READER, queue_messages=base.queue_messages)
            reader = await self.reader()
            if reader is None:
                await asyncio.sleep(RETRY_S + self._chance.random())
                continue
            try:
                await self._follow(reader, base.stint_s)
            except MagnetarError:
                pass  # it has ended; another one begins at the beginning
            await reader.close()

    async def reader(self) -> Reader[bytes] | None:
        self._session = self._context.history.session()
        self._epoch = lambda: 0
        facts = {"type": READER, "earliest": True}
        self.note(record.SUBSCRIBE, INVOKE, **facts)
        try:
            reader = await self._client.create_reader(
                self._topic, MessageId.EARLIEST, queue_messages=self.plan.queue_messages
            )
        except MagnetarError as error:
            self._failed(record.SUBSCRIBE, error, **facts)
            return None
        self._epoch = lambda: reader.counters.attaches
        self.note(record.SUBSCRIBE, OK, **facts)
        return reader

    async def _follow(self, reader: Reader[bytes], stint_s: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._chance.expovariate(1 / stint_s)
        while not self._context.over and (self._context.settling or loop.time() < until):
            await self.take(reader, SETTLING_POLL_S if self._context.settling else POLL_S)
