"""Publishers and subscribers of the recorded load. They record what they know, and survive the loss of a connection.

A publisher that is attached again sends everything without a receipt again, in order, as every client of the protocol
does. A subscriber acknowledges by a policy of its own, drawn from the message and the run, so that two runs of one seed
do the same. Neither waits: they react to frames.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import ClassVar

from magnetar.wire import message as entries
from magnetar.wire.proto import pb
from simulation.crash.frame_connection import FrameConnection, payloads
from simulation.crash.history import (
    History,
    Message,
    Place,
    parse,
)

PERMITS = 1_000
PUBLISH_TIME_MS = 1_750_000_000_000
_T = pb.BaseCommand


class SendUnit:
    """One SEND: a message, or a batch of them."""

    __slots__ = ("entry", "messages")

    def __init__(self, messages: list[Message], *, batch: bool, padding: int = 0) -> None:
        self.messages = messages
        first = messages[0]
        metadata = pb.MessageMetadata(
            producer_name=first.producer, sequence_id=first.number, publish_time=PUBLISH_TIME_MS + first.number
        )
        if padding:
            metadata.properties.add(key="padding", value="x" * padding)
        if batch:
            metadata.highest_sequence_id = messages[-1].number
            singles = [
                (pb.SingleMessageMetadata(partition_key=item.key, sequence_id=item.number), item.payload)
                for item in messages
            ]
            self.entry = entries.batch(metadata, singles)
        else:
            metadata.partition_key = first.key
            self.entry = entries.single(metadata, first.payload)

    @property
    def sequence(self) -> int:
        return self.messages[0].number

    @property
    def highest(self) -> int:
        return self.messages[-1].number


class Publisher:
    """`refused` holds the answer if the broker sent SEND_ERROR: such a producer sends nothing until it is attached
    again."""

    def __init__(self, history: History, topic: str, name: str, producer_id: int, *, padding: int = 0) -> None:
        self.history = history
        self.topic = topic
        self.name = name
        self.id = producer_id
        self.padding = padding  # bytes added to each entry
        self.pending: deque[SendUnit] = deque()
        self.attached = False
        self.refused: list[str] = []
        self.problems: list[str] = []
        self.published = 0
        self._wire: FrameConnection | None = None
        self._epoch = 0
        self._empty: list[asyncio.Future[None]] = []

    async def attach(self, wire: FrameConnection) -> None:
        self._epoch += 1
        self.attached = False
        self._wire = wire
        await wire.produce(self.topic, self.id, self.name, self._heard, epoch=self._epoch)
        self.attached = True
        self.refused.clear()
        for unit in self.pending:
            self._send(unit)

    def detach(self) -> None:
        self.attached = False
        self._wire = None

    def hang_up(self) -> None:
        """Break its connection, with all that shares it."""
        assert self._wire is not None
        self._wire.close()
        self.detach()

    def publish(self, messages: list[str], *, batch: bool = False) -> None:
        """One message for each key; as one entry where they are a batch."""
        messages_ = [Message(self.name, key, self.published + place) for place, key in enumerate(messages)]
        self.published += len(messages_)
        for part in [messages_] if batch else [[item] for item in messages_]:
            unit = SendUnit(part, batch=batch, padding=self.padding)
            self.pending.append(unit)
            if self.attached:
                self._send(unit)

    async def settled(self) -> None:
        """Until everything has its receipt."""
        if self.pending:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._empty.append(future)
            await future

    def _send(self, unit: SendUnit) -> None:
        assert self._wire is not None
        self.history.sending(self.topic, unit.messages)
        highest = unit.highest if len(unit.messages) > 1 else -1
        self._wire.send(self.id, unit.sequence, unit.entry, highest=highest, messages=len(unit.messages))

    def _heard(self, command: pb.BaseCommand, entry: bytes) -> None:
        if command.type == _T.SEND_RECEIPT:
            self._receipt(command.send_receipt)
        elif command.type == _T.SEND_ERROR:
            self.refused.append(f"{command.send_error.sequence_id}: {command.send_error.message}")
            self.attached = False
        elif command.type == _T.CLOSE_PRODUCER:
            self.attached = False

    def _receipt(self, receipt: pb.CommandSendReceipt) -> None:
        if not self.pending or self.pending[0].sequence != receipt.sequence_id:
            expected = self.pending[0].sequence if self.pending else None
            self.problems.append(f"{self.name} got a receipt for {receipt.sequence_id}, {expected} is the next")
            return
        unit = self.pending.popleft()
        ledger, at = receipt.message_id.ledgerId, receipt.message_id.entryId
        self.history.receipt(self.topic, unit.messages, -1 if ledger >= 2**63 else ledger, at)
        if not self.pending:
            for future in self._empty:
                if not future.done():
                    future.set_result(None)
            self._empty.clear()


AckPolicy = Callable[["Subscriber", tuple[int, int], list[tuple[int, Message]], int], None]


class Subscriber:
    """`manner` decides how it acknowledges; see the functions below."""

    KINDS: ClassVar[dict[str, int]] = {"Exclusive": 0, "Shared": 1, "Failover": 2, "Key_Shared": 3}

    def __init__(
        self, history: History, topic: str, subscription: str, consumer_id: int, *, kind: str, manner: AckPolicy
    ) -> None:
        self.history = history
        self.topic = topic
        self.subscription = subscription
        self.id = consumer_id
        self.kind = kind
        self.manner = manner
        self.attached = False
        self.entries = 0
        self.session = 0
        self.wire: FrameConnection | None = None
        self._seen: dict[Place, Message] = {}

    async def attach(self, wire: FrameConnection, **more: object) -> None:
        self.wire = wire
        self._seen.clear()
        ordered = self.kind in ("Exclusive", "Failover")
        self.session = self.history.subscribed(
            self.topic, self.subscription, ordered=ordered, keyed=self.kind == "Key_Shared"
        )
        await wire.subscribe(
            self.topic, self.subscription, self.id, self._heard, kind=self.KINDS[self.kind], name=f"c{self.id}", **more
        )
        self.attached = True
        wire.flow(self.id, PERMITS)

    def detach(self) -> None:
        self.attached = False
        self.wire = None

    async def leave(self) -> None:
        """Close it as its client; its acknowledgements are durable then."""
        wire = self.wire
        assert wire is not None
        self.detach()  # what still comes is not acknowledged: the broker would not listen
        acked = set(self.history.acked.get((self.topic, self.subscription), ()))
        await wire.close_consumer(self.id)
        self.history.durable(self.topic, self.subscription, acked)

    def ack(self, place: tuple[int, int], words: list[int] | None, messages: list[Message]) -> None:
        assert self.wire is not None
        self.history.acking(self.topic, self.subscription, messages)
        self.wire.ack(self.id, [(place, words)])

    def ack_to(self, place: tuple[int, int], words: list[int] | None, index: int) -> None:
        """Everything this session got up to and with a message."""
        assert self.wire is not None
        upto = (*place, index)
        self.history.acking(self.topic, self.subscription, [self._seen[at] for at in self._seen if at <= upto])
        self.wire.ack(self.id, [(place, words)], cumulative=True)

    def _heard(self, command: pb.BaseCommand, entry: bytes) -> None:
        if command.type == _T.CLOSE_CONSUMER:
            self.attached = False
        if command.type != _T.MESSAGE or self.wire is None:
            return
        data = command.message.message_id
        place = (data.ledgerId, data.entryId)
        words = [word % 2**64 for word in command.message.ack_set]
        got: list[tuple[int, Message]] = []
        values = payloads(entry)
        for index, payload in enumerate(values):
            if words and not words[index // 64] >> index % 64 & 1:
                continue  # acknowledged before
            at = (*place, index)
            self.history.delivered(self.topic, self.subscription, self.session, at, payload)
            self._seen[at] = parse(payload)
            got.append((index, self._seen[at]))
        self.entries += 1
        self.wire.flow(self.id, len(values))
        self.manner(self, place, got, len(values))


def ack_nothing(subscriber: Subscriber, place: tuple[int, int], got: list[tuple[int, Message]], size: int) -> None:
    """Leaves everything."""


def ack_each(subscriber: Subscriber, place: tuple[int, int], got: list[tuple[int, Message]], size: int) -> None:
    """Every entry, one by one."""
    subscriber.ack(place, None, [message for _, message in got])


def ack_some(subscriber: Subscriber, place: tuple[int, int], got: list[tuple[int, Message]], size: int) -> None:
    """Two entries of three; another third is left in each run."""
    if (got[0][1].number + subscriber.history.life) % 3:
        subscriber.ack(place, None, [message for _, message in got])


def ack_cumulatively(subscriber: Subscriber, place: tuple[int, int], got: list[tuple[int, Message]], size: int) -> None:
    """All so far, at every fourth entry; in the middle of a batch where it is one."""
    if subscriber.entries % 4 == 3:
        middle = got[len(got) // 2][0]
        whole = middle == size - 1
        left = sum(1 << index for index in range(middle + 1, size))
        subscriber.ack_to(place, None if whole else [_signed(left)], middle)


def ack_batch_indexes(
    subscriber: Subscriber, place: tuple[int, int], got: list[tuple[int, Message]], size: int
) -> None:
    """Every other message inside a batch, one by one; of single messages one of two."""
    for index, message in got:
        if (message.number + subscriber.history.life) % 2:
            continue
        words = None if size == 1 else [_signed(((1 << size) - 1) & ~(1 << index))]
        subscriber.ack(place, words, [message])


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word
