"""What a real broker holds in memory while large messages are stored and nobody reads them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path

from magnetar import Compression, aio
from magnetar.base.limits import HTTP_MESSAGES_BYTES_MAX, TAIL_CACHE_BYTES_MAX
from tests.servers.standalone import Standalone

MIB = 1024 * 1024
TOPICS, MESSAGES, MESSAGE_BYTES = 12, 20, 4_000_000
KEY_BYTES = 4_800_000
BESIDE_BYTES = 96 * MIB  # receive buffers, the journal's writes and what the allocator keeps, beside the tail cache


def anonymous_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("this kernel does not tell anonymous memory")


def test_large_messages_of_many_topics_stay_within_tail_cache(tmp_path: Path) -> None:
    """Fourteen times as much as the cache may hold, a message to each topic in turn."""

    async def body(server: Standalone) -> None:
        async with aio.Client(server.url) as client:
            names = [f"persistent://public/default/large-{number}" for number in range(TOPICS)]
            producers = [await client.create_producer(name, batching=None) for name in names]
            for _ in range(MESSAGES):
                for producer in producers:
                    await producer.send(bytes(MESSAGE_BYTES))

    with Standalone(tmp_path / "broker") as server:
        before = anonymous_bytes(server.pid)
        asyncio.run(body(server))
        assert anonymous_bytes(server.pid) - before <= TAIL_CACHE_BYTES_MAX + BESIDE_BYTES


def test_readers_that_stall_over_rest_hold_bounded_sum(tmp_path: Path) -> None:
    """D6: a message of a few hundred bytes is decompressed for each of them."""

    async def body(server: Standalone) -> None:
        async with aio.Client(server.url) as client:
            name = "persistent://public/default/small"
            producer = await client.create_producer(name, batching=None, compression=Compression.ZSTD)
            await producer.send(bytes(8 * MIB))

    with Standalone(tmp_path / "broker") as server, ExitStack() as stalled:
        asyncio.run(body(server))
        before = anonymous_bytes(server.pid)
        path = "/admin/v2/persistent/public/default/small/examinemessage"
        for _ in range(64):
            reader = stalled.enter_context(socket.create_connection(("127.0.0.1", server.http_port), 20))
            reader.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            reader.recv(16)
        assert anonymous_bytes(server.pid) - before <= HTTP_MESSAGES_BYTES_MAX + 64 * MIB
        assert server.ask("GET", path).status_code == 503
        stalled.close()
        assert server.ask("GET", "/livez").status_code == 200


def test_readers_of_message_with_large_key_hold_nothing(tmp_path: Path) -> None:
    """Its headers were in no account: ten readers that stalled took 441 MiB."""

    async def body(server: Standalone) -> None:
        async with aio.Client(server.url) as client:
            producer = await client.create_producer("persistent://public/default/keyed", batching=None)
            await producer.send(b"x", key="k" * KEY_BYTES)

    with Standalone(tmp_path / "broker") as server, ExitStack() as stalled:
        asyncio.run(body(server))
        before = anonymous_bytes(server.pid)
        path = "/admin/v2/persistent/public/default/keyed/examinemessage"
        assert server.ask("GET", path).status_code == 413
        for _ in range(10):
            reader = stalled.enter_context(socket.create_connection(("127.0.0.1", server.http_port), 20))
            reader.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            reader.recv(16)
        assert anonymous_bytes(server.pid) - before <= 64 * MIB
