"""A broker that does as it is told, on a port of the loopback: what a client says is kept, what it hears is scripted.

Requests get their ordinary answers; messages are pushed by the test alone, so that nothing depends on time. `until`
waits for commands to arrive and never sleeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from magnetar.client.connection.lookup import Lookup
from magnetar.client.connection.pool import Pool
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.consumer import Consumer
from magnetar.client.schema import BYTES
from magnetar.runtime.system_runtime import RealRuntime
from magnetar.wire import broker_frames, commands, frames, message
from magnetar.wire.ids import MessageId, to_data
from magnetar.wire.proto import pb
from tests.support.async_tests import provides

K = pb.BaseCommand
WAIT_S = 60.0


class Peer(asyncio.Protocol):
    """One connection, seen from the broker."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.transport: Any = None
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.broker.peers.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self.broker.peers:
            self.broker.peers.remove(self)
        self.broker.changed()

    def data_received(self, data: bytes) -> None:
        data = self.rest + data
        found, end = frames.split(data, 0, 1 << 24)
        self.rest = data[end:]
        for start, middle, _ in found:
            command = frames.decode_command(data, start, middle)
            assert command is not None
            self.broker.take(self, command)

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)


class ScriptedBroker:
    def __init__(self) -> None:
        self.heard: list[pb.BaseCommand] = []
        self.peers: list[Peer] = []
        self.where: dict[int, Peer] = {}  # consumer id -> the connection it subscribed on
        self.topic_of: dict[int, str] = {}
        self.partitions: dict[str, int] = {}
        self.topics: list[str] = []
        self.last = MessageId(-1, -1)
        self.mark = MessageId(-1, -1)
        self.refuse: dict[int, list[tuple[int, str]]] = {}  # command type -> errors of the next ones
        self.silent: set[int] = set()  # command types that get no answer
        self.schemas: dict[bytes, pb.Schema] = {}  # by version
        self.close_on_seek = True
        self.port = 0
        self._server: asyncio.Server | None = None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Peer(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.drop()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    def drop(self) -> None:
        """Cut every connection."""
        for peer in list(self.peers):
            peer.transport.abort()

    def said(self, kind: int) -> list[Any]:
        """The bodies of all commands of one kind, in order."""
        field = K.DESCRIPTOR.fields_by_number[kind].name
        return [getattr(command, field) for command in self.heard if command.type == kind]

    def permits(self) -> int:
        return sum(flow.messagePermits for flow in self.said(K.FLOW))

    def acked(self) -> list[tuple[int, int, list[int]]]:
        """Individually acknowledged ids, in order."""
        return [
            (item.ledgerId, item.entryId, list(item.ack_set))
            for ack in self.said(K.ACK)
            if ack.ack_type == pb.CommandAck.Individual
            for item in ack.message_id
        ]

    async def until(self, condition: Callable[[], bool]) -> None:
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, future))
        async with asyncio.timeout(WAIT_S):
            await future

    async def until_said(self, kind: int, count: int = 1) -> Any:
        await self.until(lambda: len(self.said(kind)) >= count)
        return self.said(kind)[count - 1]

    def changed(self) -> None:
        for item in list(self._waiting):
            if item[0]() and not item[1].done():
                item[1].set_result(None)
                self._waiting.remove(item)

    # Out

    def push(self, entry: int, body: bytes, *, consumer_id: int | None = None, ledger: int = 1, **facts: Any) -> None:
        if consumer_id is None:
            consumer_id = next(reversed(self.where))
        self.where[consumer_id].write(broker_frames.message(consumer_id, ledger, entry, body, **facts))

    def tell(self, data: bytes, consumer_id: int | None = None) -> None:
        if consumer_id is None:
            consumer_id = next(reversed(self.where))
        self.where[consumer_id].write(data)

    # In

    def take(self, peer: Peer, command: pb.BaseCommand) -> None:
        self.heard.append(command)
        kind = command.type
        body: Any = getattr(command, K.DESCRIPTOR.fields_by_number[kind].name)
        if kind in self.silent:
            pass
        elif self.refuse.get(kind):
            code, text = self.refuse[kind].pop(0)
            peer.write(commands.error(body.request_id, code, text))
        else:
            answer = self._answer(peer, kind, body)
            if answer is not None:
                peer.write(answer)
        self.changed()

    def _answer(self, peer: Peer, kind: int, body: Any) -> bytes | None:
        if kind == K.CONNECT:
            flags = pb.FeatureFlags(supports_topic_watchers=True)
            return commands.connected("Scripted-1", 21, 5 << 20, flags)
        if kind == K.PING:
            return commands.PONG
        if kind == K.PARTITIONED_METADATA:
            return commands.partitions(body.request_id, self.partitions.get(body.topic, 0))
        if kind == K.LOOKUP:
            return commands.lookup_connect(body.request_id, self.url)
        if kind == K.SUBSCRIBE:
            self.where.pop(body.consumer_id, None)
            self.where[body.consumer_id] = peer
            self.topic_of[body.consumer_id] = body.topic
            return commands.success(body.request_id)
        if kind in (K.CLOSE_CONSUMER, K.UNSUBSCRIBE, K.WATCH_TOPIC_LIST_CLOSE):
            return commands.success(body.request_id)
        if kind == K.SEEK:
            closing = commands.close_consumer(body.consumer_id) if self.close_on_seek else b""
            return closing + commands.success(body.request_id)
        if kind == K.ACK and body.HasField("request_id"):
            return commands.ack_response(body.consumer_id, body.request_id)
        if kind == K.GET_LAST_MESSAGE_ID:
            return commands.last_message_id(body.request_id, to_data(self.last), to_data(self.mark))
        if kind == K.GET_SCHEMA and body.schema_version in self.schemas:
            return commands.schema(body.request_id, self.schemas[body.schema_version], body.schema_version)
        if kind == K.GET_SCHEMA:
            return commands.schema_failed(body.request_id, pb.TopicNotFound, "Topic not found or no-schema")
        if kind == K.GET_TOPICS_OF_NAMESPACE:
            return commands.topics_of_namespace(body.request_id, self.topics, topics_hash=str(len(self.topics)))
        if kind == K.WATCH_TOPIC_LIST:
            return commands.watch_topic_list_success(
                body.request_id, body.watcher_id, self.topics, str(len(self.topics))
            )
        return None


class World:
    """A broker and what a consumer needs to reach it."""

    def __init__(self, broker: ScriptedBroker, lookup: Lookup) -> None:
        self.broker = broker
        self.lookup = lookup
        self.made: list[Any] = []

    async def consumer(self, topics: Any = "t", subscription: str = "s", **options: Any) -> Consumer[bytes]:
        callbacks = {name: options.pop(name) for name in ("listener", "on_active", "make_outbox") if name in options}
        schema = options.pop("schema", BYTES)
        asked = ConsumerConfig(subscription, **options)
        made: Consumer[bytes] = Consumer(self.lookup, topics, asked, schema=schema, **callbacks)
        self.made.append(made)
        await made._start()
        await self.broker.until(
            lambda: asked.paused or asked.queue_messages == 0 or len(self.broker.said(K.FLOW)) >= len(made.partitions)
        )
        return made


@provides(World)
async def a_world(*, timeout_s: float = 10.0) -> AsyncIterator[World]:
    broker = ScriptedBroker()
    await broker.start()
    runtime = RealRuntime()
    pool = Pool(runtime)
    world = World(broker, Lookup(pool, broker.url, timeout_s=timeout_s))
    try:
        yield world
    finally:
        for made in world.made:
            await made.close()
        await pool.close()
        await broker.stop()
        runtime.close()


def single(value: bytes, sequence: int = 0, **fields: Any) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1000 + sequence, **fields)
    return message.single(metadata, value)


def batch(*values: bytes, compression: int = 0, **fields: Any) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1000)
    singles = [(pb.SingleMessageMetadata(payload_size=0, **fields), value) for value in values]
    return message.batch(metadata, singles, compression)
