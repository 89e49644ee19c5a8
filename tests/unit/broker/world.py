"""What the tests of this room share: a node on stores in memory, and clients fed to it byte by byte without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from magnetar.base.ids import Position
from magnetar.base.names import topic_name
from magnetar.broker.connection.connection import Connection
from magnetar.broker.node import Node
from magnetar.policy.settings import Settings
from magnetar.topic.nonpersistent import NonPersistentTopic
from magnetar.topic.topic import Topic
from magnetar.wire import commands, frames
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.ledgers import MemoryLedgers
from tests.support.async_tests import provides, within
from tests.support.virtual_clock import pass_s, run_on_clock, settle
from tests.unit.topic.world import FRAME_BYTES_MAX, HeldStore, NoFiles, Out, an_entry, send_frame

__all__ = ["an_entry", "pass_s", "send_frame", "settle"]  # for those who have a world anyway

TOPIC = "persistent://public/default/orders"
_T = pb.BaseCommand


class Wire(asyncio.Transport):
    """The socket's place: what the broker writes is remembered, what the client says waits while nobody reads."""

    def __init__(self, connection: Connection, address: str) -> None:
        super().__init__()
        self.heard = Out()
        self.reading = True
        self.closing = False
        self.aborted = False
        self.polite = False  # answers every PING
        self.raw = 0  # bytes written
        self.unread = 0  # bytes that the peer has not read, where a test says so
        self._connection = connection
        self._address = address
        self._unread: list[bytes] = []

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._address, 50_000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: Any) -> None:
        assert not self.closing, "written after the end"
        self.raw += len(data)
        self.heard.write(bytes(data))
        if self.polite and bytes(data) == commands.PING:
            asyncio.get_running_loop().call_soon(self.feed, commands.PONG)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
        waiting, self._unread = self._unread, []
        for data in waiting:
            asyncio.get_running_loop().call_soon(self.feed, data)

    def feed(self, data: bytes) -> None:
        if not self.reading:
            self._unread.append(data)
        elif not self.closing:
            self._connection.data_received(data)

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    def abort(self) -> None:
        self.aborted = True
        self.close()


class Client:
    """One connection of one client."""

    def __init__(self, node: Node, address: str = "10.0.0.1") -> None:
        self.connection = node._accept()
        self.wire = Wire(self.connection, address)
        self.connection.connection_made(self.wire)
        self._ids = 0

    @property
    def heard(self) -> Out:
        return self.wire.heard

    def say(self, command: pb.BaseCommand | bytes) -> None:
        self.wire.feed(command if isinstance(command, bytes) else encode_command(command))

    def connect(self, client_version: str = "Java", protocol_version: int = 21, **fields: Any) -> Client:
        self.say(command("CONNECT", client_version=client_version, protocol_version=protocol_version, **fields))
        return self

    def request(self, kind: str, **fields: Any) -> int:
        """Said, and not waited for; the id of the request."""
        self._ids += 1
        self.say(command(kind, request_id=self._ids, **fields))
        return self._ids

    def answers(self, request_id: int) -> list[pb.BaseCommand]:
        """Everything that came with this id, of whatever kind."""
        return [said for said, _ in self.heard.heard if getattr(body_of(said), "request_id", None) == request_id]

    async def ask(self, kind: str, **fields: Any) -> pb.BaseCommand:
        request_id = self.request(kind, **fields)
        for _ in range(20):
            found = self.answers(request_id)
            if found:
                return found[-1]
            await settle()
        raise AssertionError(f"{kind} was not answered")

    async def produce(self, producer_id: int = 1, topic: str = TOPIC, **fields: Any) -> pb.BaseCommand:
        return await self.ask("PRODUCER", topic=topic, producer_id=producer_id, **fields)

    async def subscribe(
        self, consumer_id: int = 1, topic: str = TOPIC, *, permits: int = 0, **fields: Any
    ) -> pb.BaseCommand:
        fields = {
            "subscription": "s",
            "subType": pb.CommandSubscribe.Shared,
            "initialPosition": pb.CommandSubscribe.Earliest,
            **fields,
        }
        answer = await self.ask("SUBSCRIBE", topic=topic, consumer_id=consumer_id, **fields)
        if permits:
            self.flow(consumer_id, permits)
        return answer

    def send(self, sequence: int, text: str = "m", producer_id: int = 1, **fields: Any) -> None:
        self.say(send_frame(producer_id, sequence, an_entry(text, sequence), **fields))

    def flow(self, consumer_id: int, permits: int) -> None:
        self.say(command("FLOW", consumer_id=consumer_id, messagePermits=permits))

    def ack(self, consumer_id: int, *positions: Position, cumulative: bool = False, **fields: Any) -> None:
        said = command(
            "ACK",
            consumer_id=consumer_id,
            ack_type=pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual,
            **fields,
        )
        for position in positions:
            said.ack.message_id.add(ledgerId=position.ledger % 2**64, entryId=position.entry % 2**64)
        self.say(said)

    def lose(self) -> None:
        """The network is gone."""
        self.wire.closing = True
        self.connection.connection_lost(None)


def command(kind: str, **fields: Any) -> pb.BaseCommand:
    made = pb.BaseCommand(type=_T.Type.Value(kind))
    body = body_of(made)
    body.SetInParent()
    for name, value in fields.items():
        if isinstance(value, dict):
            getattr(body, name).SetInParent()
            for key, inner in value.items():
                setattr(getattr(body, name), key, inner)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    getattr(body, name).add(**item)
                else:
                    getattr(body, name).append(item)
        else:
            setattr(body, name, value)
    return made


def body_of(said: pb.BaseCommand) -> Any:
    return getattr(said, pb.BaseCommand.DESCRIPTOR.fields_by_number[said.type].name)


@dataclass
class World:
    node: Node
    metadata: HeldStore
    ledgers: MemoryLedgers
    runtime: InlineRuntime
    bugs: int = 0  # failures inside the broker that the test expects
    stopped: bool = False  # by the test
    clients: list[Client] = field(default_factory=list)

    def client(self, **connect: Any) -> Client:
        made = Client(self.node, connect.pop("address", "10.0.0.1")).connect(**connect)
        self.clients.append(made)
        return made

    def bare_client(self) -> Client:
        """Not connected yet."""
        self.clients.append(Client(self.node))
        return self.clients[-1]

    async def topic(self, name: str = TOPIC) -> Topic:
        found = await self.node.topics.get(topic_name(name), create=True)
        assert isinstance(found, Topic)
        return found

    def loaded(self, name: str = TOPIC) -> Topic | NonPersistentTopic | None:
        return self.node.topics.loaded.get(topic_name(name).canonical)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(work)


@provides(World)
async def serving_world(**settings: str) -> AsyncIterator[World]:
    """A node that serves. A failure inside the broker fails the test."""
    files: Any = NoFiles()
    runtime = InlineRuntime(files)
    metadata, ledgers = HeldStore(runtime), MemoryLedgers()
    node = Node(
        runtime=runtime,
        metadata=metadata,
        ledgers=ledgers,
        settings=Settings(None, {"scalableTopicAutoScaleEnabled": "false", **settings}),
    )
    await node.start("127.0.0.1", 6650, host_shown="localhost")
    await node.serve(8080)
    world = World(node, metadata, ledgers, runtime)
    yield world
    metadata.release()
    ledgers.release()
    if not world.stopped:
        await node.stop()
    await settle()
    assert node.metrics.task_failures.value + node.metrics.request_failures.value == world.bugs


def run(body: Callable[[World], Coroutine[Any, Any, None]], **settings: str) -> None:
    run_on_clock(lambda: within(serving_world(**settings), body))


async def publish(world: World, *texts: str, topic: str = TOPIC) -> list[Position]:
    """By a client that leaves when it has its receipts."""
    writer = world.client()
    await writer.produce(topic=topic)
    for sequence, text in enumerate(texts):
        writer.send(sequence, text)
    await settle()
    positions = [one.position for one in writer.heard.receipts]
    assert len(positions) == len(texts)
    writer.lose()
    return positions


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def decode(data: bytes) -> list[pb.BaseCommand]:
    found, consumed = frames.split(data, 0, FRAME_BYTES_MAX)
    assert consumed == len(data)
    return [said for start, end, _ in found if (said := frames.decode_command(data, start, end)) is not None]
