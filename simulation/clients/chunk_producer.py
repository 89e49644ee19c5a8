"""A producer of a world that writes chunked messages frame by frame: the first halves of several messages, then the
rest.

The product's client writes the chunks of a message one after another; only on a busy broker are chunks of several
producers mixed. This producer mixes them immediately. It gets the segments from the world and the owner by trying each
broker. After any error it abandons its messages as unknown. Its messages have no key: every segment accepts them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from magnetar.base.errors import ConnectionLost, MagnetarError, NotReady
from magnetar.wire import message
from magnetar.wire.proto import pb
from simulation import history as record
from simulation.clients.consumer import RETRY_S, ClientContext
from simulation.crash.frame_connection import FrameConnection
from simulation.history import INVOKE, KEYLESS, OK, Place, Value
from simulation.world.workload import ProducerPlan, TopicPlan

ANSWER_S = 5.0  # for a connection, and for the receipts of a round
HALVES = 2
ROUND_MIN, ROUND_MAX = 3, 6  # messages that are half written at one time
Segments = Callable[[str], Sequence[tuple[int, str]]]
_T = pb.BaseCommand


class ChunkProducer:
    def __init__(
        self,
        context: ClientContext,
        addresses: Sequence[tuple[str, int]],
        segments: Segments,
        topic: TopicPlan,
        plan: ProducerPlan,
        chance: random.Random,
        numbers: dict[str, int],
    ) -> None:
        """`segments`: id and topic of each segment that accepts messages; none before another producer has pinned the
        routing of the topic."""
        self._context = context
        self._addresses = addresses
        self._segments = segments
        self._topic = topic
        self._plan = plan
        self._chance = chance
        self._numbers = numbers
        self._session = 0
        self._receipts: dict[int, list[Place]] = {}  # of each number, one for each half
        self._heard = asyncio.Event()
        self._over = False

    async def run(self) -> None:
        while self._context.sending:
            try:
                await self._stint()
            except (MagnetarError, TimeoutError):
                pass  # its messages may be stored; another connection is made
            await asyncio.sleep(RETRY_S + self._chance.random())

    async def _stint(self) -> None:
        segments = self._segments(self._topic.topic)
        if not segments:
            return
        self._session = self._context.history.session()
        segment, topic = self._chance.choice(segments)
        async with asyncio.timeout(ANSWER_S):
            wire = await self._connect(topic)
        try:
            while self._context.sending and not self._over:
                await self._round(wire, segment)
                await asyncio.sleep(self._chance.expovariate(1 / self._plan.pause_s))
        finally:
            wire.close()

    async def _connect(self, topic: str) -> FrameConnection:
        """Connects to the broker that owns the segment: the others refuse."""
        self._over = False
        for host, port in self._chance.sample(list(self._addresses), len(self._addresses)):
            wire = None
            try:
                wire = await FrameConnection.open(host, port)
                await wire.produce(topic, 1, f"{self._plan.name}-{self._session}", self._hear)
            except MagnetarError:
                if wire is not None:
                    wire.close()
            else:
                return wire
        raise NotReady("no broker takes a producer of the segment", topic=topic)

    async def _round(self, wire: FrameConnection, segment: int) -> None:
        values = [self._value() for _ in range(self._chance.randint(ROUND_MIN, ROUND_MAX))]
        self._receipts = {value.number: [] for value in values}
        for value in values:
            self._note(INVOKE, value)
        halves = [self._cut(value) for value in values]
        for half in range(HALVES):
            for value, entries in zip(values, halves, strict=True):
                wire.send(1, value.number, entries[half], chunk=True)
        try:
            await self._answered(wire)
        finally:
            for value in values:
                places = self._receipts[value.number]
                if len(places) == HALVES:
                    self._note(OK, value, place=places[-1], segment=segment)
                else:
                    error = ConnectionLost("not answered", producer=self._plan.name)
                    self._context.history.failed(
                        self._plan.name, record.SEND, error, self._topic.topic, value=value, session=self._session
                    )

    async def _answered(self, wire: FrameConnection) -> None:
        async with asyncio.timeout(ANSWER_S):
            while not self._over and any(len(places) < HALVES for places in self._receipts.values()):
                self._heard.clear()
                waits = [asyncio.ensure_future(one.wait()) for one in (self._heard, wire.lost)]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in waits:
                        task.cancel()
                self._over = self._over or wire.lost.is_set()

    def _hear(self, command: pb.BaseCommand, entry: bytes) -> None:
        if command.type == _T.SEND_RECEIPT:
            receipt = command.send_receipt
            id = receipt.message_id
            if receipt.sequence_id in self._receipts:
                self._receipts[receipt.sequence_id].append((id.ledgerId, id.entryId, 0))
        else:  # refused, or closed: the segment is sealed, or moves
            self._over = True
        self._heard.set()

    def _value(self) -> Value:
        number = self._numbers.get(self._plan.name, 0)
        self._numbers[self._plan.name] = number + 1
        return Value(self._plan.name, f"{KEYLESS}{self._plan.name}-{number}", number)

    def _cut(self, value: Value) -> list[bytes]:
        data = value.padded(self._plan.padding_bytes)
        metadata = pb.MessageMetadata(
            producer_name=f"{self._plan.name}-{self._session}",
            sequence_id=value.number,
            publish_time=1_750_000_000_000 + int(asyncio.get_running_loop().time() * 1000),
        )
        return message.chunks(metadata, data, -(-len(data) // HALVES))

    def _note(self, phase: str, value: Value, **facts: Any) -> None:
        self._context.history.note(
            self._plan.name,
            record.SEND,
            phase,
            self._topic.topic,
            value=value,
            session=self._session,
            **facts,
        )
