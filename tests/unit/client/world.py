"""A broker that does what a test tells it: real frames over a real socket, every answer under the test's control.

It answers what producers need by itself (CONNECT, partitions, lookup, PRODUCER, SEND), unless a handler of the test
takes the command first. What arrived is kept in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from magnetar.client.connection.lookup import Lookup
from magnetar.client.connection.pool import Pool
from magnetar.runtime.system_runtime import RealRuntime
from magnetar.wire import broker_frames, commands, frames
from magnetar.wire.proto import pb
from tests.support.async_tests import run_on_real_clock

WAIT_S = 60.0  # for what a slow machine brings in a moment

Handler = Callable[["Link", pb.BaseCommand], bool | None]


class Sent:
    """One SEND as it came."""

    def __init__(self, link: Link, send: pb.CommandSend, entry: bytes) -> None:
        self.link = link
        self.producer = send.producer_id
        self.sequence = send.sequence_id
        self.highest = max(send.highest_sequence_id, send.sequence_id)
        self.messages = send.num_messages
        self.entry = entry

    def receipt(self, entry: int = 0, ledger: int = 1) -> None:
        self.link.write(broker_frames.receipt(self.producer, self.sequence, self.highest, ledger, entry))


class Link(asyncio.Protocol):
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.transport: Any = None
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.broker.links.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.broker.links.remove(self)

    def data_received(self, data: bytes) -> None:
        data = self.rest + data
        found, rest = frames.split(data, 0, 1 << 26)
        for start, middle, end in found:
            command = frames.decode_command(data, start, middle)
            assert command is not None
            self.broker.heard(self, command, data[middle:end])
        self.rest = data[rest:]

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def cut(self) -> None:
        self.transport.abort()


class Broker:
    """`receipts` False holds every SEND back in `sent`, unanswered."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.heard_kinds: list[int] = []
        self.commands: list[pb.BaseCommand] = []
        self.sent: list[Sent] = []
        self.handlers: dict[int, Handler] = {}
        self.receipts = True
        self.partitions = 0
        self.message_bytes_max = 1 << 20
        self.url = ""
        self._entries = 0
        self._news: list[asyncio.Future[None]] = []

    def heard(self, link: Link, command: pb.BaseCommand, entry: bytes) -> None:
        self.commands.append(command)
        handler = self.handlers.get(command.type)
        if command.type == pb.BaseCommand.SEND:
            self.sent.append(Sent(link, command.send, entry))
        if handler is None or handler(link, command) is not True:
            self._answer(link, command)
        for news in self._news:
            if not news.done():
                news.set_result(None)
        self._news.clear()

    async def until(self, seen: Callable[[], bool]) -> None:
        """Wait for what arrives until it is so; a test that waits in vain fails after a minute."""
        async with asyncio.timeout(WAIT_S):
            while not seen():
                news = asyncio.get_running_loop().create_future()
                self._news.append(news)
                await news

    def kinds(self, kind: int) -> list[pb.BaseCommand]:
        return [command for command in self.commands if command.type == kind]

    def cut(self) -> None:
        for link in list(self.links):
            link.cut()

    def _answer(self, link: Link, command: pb.BaseCommand) -> None:
        kind = command.type
        if kind == pb.BaseCommand.CONNECT:
            link.write(commands.connected("scripted", 21, self.message_bytes_max))
        elif kind == pb.BaseCommand.PING:
            link.write(commands.PONG)
        elif kind == pb.BaseCommand.PARTITIONED_METADATA:
            link.write(commands.partitions(command.partitionMetadata.request_id, self.partitions))
        elif kind == pb.BaseCommand.LOOKUP:
            link.write(commands.lookup_connect(command.lookupTopic.request_id, self.url))
        elif kind == pb.BaseCommand.PRODUCER:
            name = command.producer.producer_name or "scripted-1"
            link.write(commands.producer_success(command.producer.request_id, name))
        elif kind == pb.BaseCommand.CLOSE_PRODUCER:
            link.write(commands.success(command.close_producer.request_id))
        elif kind == pb.BaseCommand.SEND and self.receipts:
            self.sent[-1].receipt(self._entries)
            self._entries += 1


@asynccontextmanager
async def a_broker() -> AsyncIterator[Broker]:
    broker = Broker()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Link(broker), "127.0.0.1", 0)
    broker.url = f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield broker
    finally:
        server.close()
        broker.cut()
        await server.wait_closed()


@asynccontextmanager
async def a_lookup(broker: Broker, *, timeout_s: float = 10.0) -> AsyncIterator[Lookup]:
    pool = Pool(RealRuntime())
    try:
        yield Lookup(pool, broker.url, timeout_s=timeout_s)
    finally:
        await pool.close()


async def turns(seen: Callable[[], bool]) -> None:
    """Turn after turn of the loop until it is so: for what no broker hears of."""
    async with asyncio.timeout(WAIT_S):
        while not seen():  # noqa: ASYNC110
            await asyncio.sleep(0)


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_on_real_clock(body)
