"""What the tests of this room share: topics on stores in memory, clients that remember every frame, a virtual clock.

A test that would wait for ever fails at once (the loop is stuck), and so does one that leaves an exception in a task
that nobody awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import Position
from magnetar.base.names import topic_name
from magnetar.ledger.cursor.cursor import CursorFlusher
from magnetar.ledger.managed import ManagedConfig, ManagedLedger
from magnetar.ledger.tail import TailCache
from magnetar.metadata import paths
from magnetar.metadata.store import NamePage, Node, Stat
from magnetar.topic.producers.producer import Producer
from magnetar.topic.settings import TopicSettings
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import Subscription
from magnetar.topic.topic import Topic
from magnetar.wire import entry, frames, message
from magnetar.wire.proto import pb
from magnetar.wire.send_reader import SendRun, gather_sends
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.ledgers import MemoryLedgers
from simulation.stores.metadata import MemoryStore
from tests.support.async_tests import provides, within
from tests.support.virtual_clock import pass_s, run_on_clock, settle

__all__ = ["pass_s", "settle"]  # from the clock, for those who have a world anyway

TOPIC = "persistent://public/default/orders"
FRAME_BYTES_MAX = 6 * 1024 * 1024
T = TypeVar("T")
_T = pb.BaseCommand


class NoFiles:
    """These tests touch no disk."""


class HeldStore(MemoryStore):
    """Its operations can be kept waiting: after `hold(n)` the first n of them pass, all others wait for `release`."""

    passes: int | None = None
    waiting = 0
    _opened: asyncio.Event | None = None
    _looks: asyncio.Event | None = None

    def hold(self, passes: int = 0) -> None:
        self.passes = passes
        self._opened = asyncio.Event()

    def release(self) -> None:
        self.passes = None
        if self._opened is not None:
            self._opened.set()

    async def _gate(self) -> None:
        if self.passes is None or self._opened is None:
            return
        if self.passes > 0:
            self.passes -= 1
            return
        self.waiting += 1
        try:
            await self._opened.wait()
        finally:
            self.waiting -= 1

    def hold_looks(self) -> None:
        """Listings wait until `release_looks`; everything else goes on."""
        self._looks = asyncio.Event()

    def release_looks(self) -> None:
        assert self._looks is not None
        self._looks.set()

    async def scan(self, path: str, **how: Any) -> AsyncIterator[tuple[str, Node]]:
        if self._looks is not None:
            await self._looks.wait()
        async for item in super().scan(path, **how):
            yield item

    async def children(self, path: str) -> list[str]:
        if self._looks is not None:
            await self._looks.wait()
        return await super().children(path)

    async def get(self, path: str) -> Node | None:
        await self._gate()
        return await super().get(path)

    async def fresh(self, path: str) -> Node | None:
        await self._gate()
        return await super().fresh(path)

    async def names(self, path: str, **how: Any) -> NamePage:
        if self._looks is not None:
            await self._looks.wait()
        return await super().names(path, **how)

    async def put(self, path: str, value: bytes, **how: Any) -> Stat:
        await self._gate()
        return await super().put(path, value, **how)

    async def delete(self, path: str, *, expected: int | None = None) -> None:
        await self._gate()
        await super().delete(path, expected=expected)


class Delivered(NamedTuple):
    consumer: int
    position: Position
    payload: bytes
    redelivery: int
    ack_set: list[int]


class Receipt(NamedTuple):
    sequence: int
    position: Position


class Out:
    """The way back to one client: remembers what was written, as commands."""

    def __init__(self, generation: int = 1, *, client_version: str = "Java", protocol_version: int = 21) -> None:
        self.generation = generation
        self.peer = f"client-{generation}"
        self.client_version = client_version
        self.protocol_version = protocol_version
        self.congested = False
        self.closed = False
        self.answers = True  # whether it would answer a PING
        self.asked = 0  # how often that was asked
        self.freed = 0  # published bytes that are not held any more
        self.heard: list[tuple[pb.BaseCommand, bytes]] = []

    def write(self, data: bytes) -> None:
        if self.closed:
            return
        found, consumed = frames.split(data, 0, FRAME_BYTES_MAX)
        assert consumed == len(data)
        for start, end, stop in found:
            command = frames.decode_command(data, start, end)
            assert command is not None
            self.heard.append((command, data[end:stop]))

    def write_soon(self, data: bytes) -> None:
        self.write(data)

    def released(self, size: int) -> None:
        self.freed += size

    async def alive(self) -> bool:
        self.asked += 1
        await asyncio.sleep(0)
        if not self.answers:
            self.closed = True
        return self.answers

    async def round_trip(self) -> bool:
        return await self.alive()

    # What it heard

    @property
    def kinds(self) -> list[str]:
        return [_T.Type.Name(command.type) for command, _ in self.heard]

    def of(self, kind: Any) -> list[pb.BaseCommand]:
        return [command for command, _ in self.heard if command.type == kind]

    @property
    def receipts(self) -> list[Receipt]:
        said = [command.send_receipt for command in self.of(_T.SEND_RECEIPT)]
        return [
            Receipt(one.sequence_id, Position(signed(one.message_id.ledgerId), signed(one.message_id.entryId)))
            for one in said
        ]

    @property
    def answered(self) -> list[tuple[int, int | None]]:
        """Sequence ids in the order of their answers, each with its error code, None for a receipt."""
        out: list[tuple[int, int | None]] = []
        for command, _ in self.heard:
            if command.type == _T.SEND_RECEIPT:
                out.append((command.send_receipt.sequence_id, None))
            elif command.type == _T.SEND_ERROR:
                out.append((command.send_error.sequence_id, command.send_error.error))
        return out

    @property
    def delivered(self) -> list[Delivered]:
        out = []
        for command, body in self.heard:
            if command.type == _T.MESSAGE:
                said = command.message
                position = Position(said.message_id.ledgerId, said.message_id.entryId)
                payload = message.open_entry(body).payload
                out.append(Delivered(said.consumer_id, position, payload, said.redelivery_count, list(said.ack_set)))
        return out

    @property
    def texts(self) -> list[str]:
        return [one.payload.decode() for one in self.delivered]

    @property
    def active(self) -> list[tuple[int, bool]]:
        said = [command.active_consumer_change for command in self.of(_T.ACTIVE_CONSUMER_CHANGE)]
        return [(one.consumer_id, one.is_active) for one in said]

    def clear(self) -> None:
        self.heard.clear()


def signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


# Entries and sends


def an_entry(payload: str, sequence: int = 0, *, producer: str = "p", **fields: Any) -> bytes:
    """One message; fields are those of MessageMetadata."""
    fields.setdefault("publish_time", 1)
    return message.single(pb.MessageMetadata(producer_name=producer, sequence_id=sequence, **fields), payload.encode())


def a_batch(payloads: Sequence[str], sequence: int = 0, *, producer: str = "p", **fields: Any) -> bytes:
    fields.setdefault("publish_time", 1)
    metadata = pb.MessageMetadata(producer_name=producer, sequence_id=sequence, **fields)
    return message.batch(metadata, [(pb.SingleMessageMetadata(payload_size=0), one.encode()) for one in payloads])


def the_chunks(payload: str, pieces: int, sequence: int = 0, *, producer: str = "p") -> list[bytes]:
    metadata = pb.MessageMetadata(producer_name=producer, sequence_id=sequence, publish_time=1)
    return message.chunks(metadata, payload.encode(), -(-len(payload) // pieces))


def send_frame(producer_id: int, sequence: int, body: bytes, **fields: Any) -> bytes:
    command = pb.BaseCommand(type=_T.SEND)
    command.send.producer_id = producer_id
    command.send.sequence_id = sequence
    command.send.num_messages = 1
    for name, value in fields.items():
        setattr(command.send, name, value)
    head = command.SerializeToString()
    return b"".join(((4 + len(head) + len(body)).to_bytes(4, "big"), len(head).to_bytes(4, "big"), head, body))


def gathered(*sent: bytes) -> SendRun:
    """SEND frames as one read of a socket would bring them."""
    data = b"".join(sent)
    found, consumed = frames.split(data, 0, FRAME_BYTES_MAX)
    assert consumed == len(data)
    sends = gather_sends(data, found, 0)
    assert sends.stop == len(found)
    return sends


# The world


@dataclass
class World:
    """A broker's stores and what it opens on them."""

    ledgers: MemoryLedgers = field(default_factory=MemoryLedgers)
    metadata: HeldStore = field(default_factory=HeldStore)
    runtime: InlineRuntime = field(default_factory=lambda: InlineRuntime(_no_files()))
    config: ManagedConfig = field(
        default_factory=lambda: ManagedConfig(publish_time_of=entry.publish_time, tail=TailCache(1 << 20), age_min_s=0)
    )
    failed: list[MagnetarError] = field(default_factory=list)  # what topics reported as their end
    flusher: CursorFlusher = field(init=False)
    _ids: int = 0

    def __post_init__(self) -> None:
        self.flusher = CursorFlusher(self.runtime)

    async def topic(self, name: str = TOPIC, **settings: Any) -> Topic:
        parsed = topic_name(name)
        managed = await ManagedLedger.open(
            paths.topic(parsed, 1),
            ledgers=self.ledgers,
            metadata=self.metadata,
            runtime=self.runtime,
            config=self.config,
        )
        topic = Topic(
            parsed,
            managed,
            runtime=self.runtime,
            metadata=self.metadata,
            flusher=self.flusher,
            settings=TopicSettings(**settings),
            failed=lambda topic, error: self.failed.append(error),
        )
        return await topic.recover()

    def crash(self) -> World:
        """What the next process finds."""
        self.metadata.reopen()
        return World(self.ledgers.crash(), HeldStore(content=self.metadata.content))

    def without_cache(self) -> World:
        """Every delivery behind the newest run reads files."""
        self.config = replace(self.config, tail=TailCache(1))
        return self

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Beside the test, which looks at the outcome itself."""
        return asyncio.get_running_loop().create_task(work)

    # Clients

    async def producer(
        self,
        topic: Topic,
        out: Out,
        name: str = "p",
        *,
        mode: int = 0,
        epoch: int = 0,
        topic_epoch: int | None = None,
        producer_id: int | None = None,
        queued: Callable[[], None] = lambda: None,
    ) -> Producer:
        if producer_id is None:
            self._ids += 1
            producer_id = self._ids
        made = Producer(producer_id, name, out, topic, epoch=epoch, access_mode=mode)
        await topic.producers.join(made, topic_epoch, queued)
        return made

    async def consumer(
        self,
        topic: Topic,
        out: Out,
        name: str = "c",
        *,
        subscription: str = "s",
        kind: int,
        permits: int = 0,
        **asked: Any,
    ) -> Consumer:
        self._ids += 1
        asked.setdefault("consumer_id", self._ids)
        asked.setdefault("earliest", True)
        made = await topic.subscribe(Subscribe(subscription, kind, consumer_name=name, **asked), out)
        topic.activate(made)
        if permits:
            made.flow(permits)
        return made

    async def publish(self, topic: Topic, *texts: str, **fields: Any) -> list[Position]:
        """One message a run, stored one after the other, by a producer that nobody else knows."""
        return await self.store(topic, *[an_entry(text, **fields) for text in texts])

    async def store(self, topic: Topic, *entries: bytes, counts: Sequence[int] | None = None) -> list[Position]:
        out = Out(generation=-1)
        self._ids += 1
        writer = Producer(0, f"writer-{self._ids}", out, topic)
        for place, body in enumerate(entries):
            messages = 1 if counts is None else counts[place]
            topic.publish(writer, gathered(send_frame(0, place, body, num_messages=messages)))
        await settle()
        assert [one.sequence for one in out.receipts] == list(range(len(entries))), out.heard
        return [one.position for one in out.receipts]


def subscription_of(topic: Topic, name: str = "s") -> Subscription:
    found = topic.subscriptions.get(name)
    assert found is not None
    return found


def ack(topic: Topic, consumer: Consumer, *positions: Position) -> None:
    assert consumer.subscription is not None
    consumer.subscription.ack(consumer, [(position, None) for position in positions])


@provides(World)
async def new_world() -> AsyncIterator[World]:
    yield World()


def run(body: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    run_on_clock(lambda: within(new_world(), body))


def _no_files() -> Any:
    return NoFiles()
