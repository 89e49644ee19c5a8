"""Connections are shared, forgotten when they end, and closed in bounded time whatever the peer does."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Closed, NotReady
from magnetar.client.pool import Pool
from magnetar.runtime.real import RealRuntime
from magnetar.wire.proto import pb
from tests.unit.client.world import a_broker, a_lookup, run

K = pb.BaseCommand


def test_a_connection_that_ended_is_made_again():
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:
            first = await lookup.pool.get(broker.url)
            assert await lookup.pool.get(broker.url) is first
            broker.cut()
            await first.wait_closed()
            assert await lookup.pool.get(broker.url) is not first

    run(body)


def test_a_peer_that_never_says_connected_is_not_ready():
    async def body() -> None:
        async with a_broker() as broker:
            broker.handlers[K.CONNECT] = lambda link, command: True
            pool = Pool(RealRuntime(), connect_s=0.05)
            with pytest.raises(NotReady):
                await pool.get(broker.url)
            await pool.close()

    run(body)


def test_a_caller_that_is_cancelled_does_not_take_the_connection_from_another():
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:
            one = asyncio.create_task(lookup.pool.get(broker.url))
            other = asyncio.create_task(lookup.pool.get(broker.url))
            await asyncio.sleep(0)
            one.cancel()
            assert not (await other).closed

    run(body)


def test_a_peer_that_does_not_read_cannot_keep_a_client_from_closing():
    async def body() -> None:
        async with a_broker() as broker:
            pool = Pool(RealRuntime(), close_s=0.05)
            connection = await pool.get(broker.url)
            broker.links[0].transport.pause_reading()
            for _ in range(64):
                connection.write(b"\0" * (1 << 20))
            await pool.close()
            await connection.wait_closed()

    run(body)


def test_a_closed_pool_opens_nothing():
    async def body() -> None:
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

    run(body)
