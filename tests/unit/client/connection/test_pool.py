"""Connections are shared, forgotten when they end, and closed in bounded time whatever the peer does."""

from __future__ import annotations

import asyncio
import logging

import pytest

from magnetar.base.errors import Closed, NotReady, Unreachable
from magnetar.client.connection.pool import Pool
from magnetar.runtime.system_runtime import RealRuntime
from magnetar.wire.proto import pb
from tests.unit.client.world import a_broker, a_lookup, run

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


async def test_connection_that_ended_is_made_again() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        first = await lookup.pool.get(broker.url)
        assert await lookup.pool.get(broker.url) is first
        broker.cut()
        await first.wait_closed()
        assert await lookup.pool.get(broker.url) is not first


async def test_peer_that_never_says_connected_is_not_ready() -> None:
    async with a_broker() as broker:
        broker.handlers[K.CONNECT] = lambda link, command: True
        pool = Pool(RealRuntime(), connect_s=0.05)
        with pytest.raises(NotReady):
            await pool.get(broker.url)
        await pool.close()


async def test_caller_that_is_cancelled_does_not_take_connection_from_another() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        one = asyncio.create_task(lookup.pool.get(broker.url))
        other = asyncio.create_task(lookup.pool.get(broker.url))
        await asyncio.sleep(0)
        one.cancel()
        assert not (await other).closed


async def test_peer_that_does_not_read_cannot_keep_client_from_closing() -> None:
    async with a_broker() as broker:
        pool = Pool(RealRuntime(), close_s=0.05)
        connection = await pool.get(broker.url)
        broker.links[0].transport.pause_reading()
        for _ in range(64):
            connection.write(b"\0" * (1 << 20))
        await pool.close()
        await connection.wait_closed()


async def test_closed_pool_opens_nothing() -> None:
    async with a_broker() as broker:
        broker.handlers[K.CONNECT] = lambda link, command: True
        pool = Pool(RealRuntime())
        waiting = asyncio.create_task(pool.get(broker.url))
        await broker.until(lambda: bool(broker.kinds(K.CONNECT)))
        await pool.close()
        with pytest.raises(Closed):
            await waiting
        with pytest.raises(Closed):
            await pool.get(broker.url)


def test_lost_connection_and_first_failed_attempt_are_warnings(caplog):
    async def body() -> None:
        pool = Pool(RealRuntime())
        async with a_broker() as broker:
            connection = await pool.get(broker.url)
        await connection.wait_closed()
        for _ in range(3):
            with pytest.raises(NotReady):
                await pool.get(broker.url)
        await pool.close()

    caplog.set_level(logging.WARNING, logger="magnetar.client.pool")
    run(body)
    events = [record.getMessage().split()[0] for record in caplog.records]
    assert events == ["connection_lost", "connection_failed"]


def test_peer_of_another_protocol_is_warned_of_once(caplog):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def body() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        pool = Pool(RealRuntime())
        async with server:
            for _ in range(3):
                with pytest.raises(Unreachable, match="this is HTTP"):
                    await pool.get(f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            await pool.close()

    caplog.set_level(logging.WARNING, logger="magnetar")
    run(body)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["connection_failed"]


def test_client_that_closes_warns_of_nothing(caplog):
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:
            await lookup.pool.get(broker.url)

    caplog.set_level(logging.WARNING, logger="magnetar.client.pool")
    run(body)
    assert caplog.records == []


async def test_refusal_is_unreachable_only_before_first_connection() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        with pytest.raises(Unreachable):
            await lookup.pool.get("pulsar://127.0.0.1:1")
        await lookup.pool.get(broker.url)
        with pytest.raises(NotReady) as caught:
            await lookup.pool.get("pulsar://127.0.0.1:1")
        assert not isinstance(caught.value, Unreachable)
