"""What a client makes may be awaited, entered, or given to a task; entered, it is closed with the block."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest

from magnetar.aio import Client
from magnetar.base.errors import Misuse
from magnetar.client.producer.producer import Producer
from tests.unit.client.world import a_broker

pytestmark = pytest.mark.real_clock


async def test_producer_is_entered_without_await_and_closed_after() -> None:
    async with a_broker() as broker, Client(broker.url) as client:
        async with client.create_producer("t") as producer:
            await producer.send(b"x")
            assert isinstance(producer, Producer)
            assert repr(producer).startswith("<magnetar.aio.Producer 'scripted-1' of persistent://public/default/t")
            assert repr(client) == f"<magnetar.aio.Client {broker.url}, 1 open>"
        assert repr(producer) == "<magnetar.aio.Producer of persistent://public/default/t, closed>"


async def test_producer_is_awaited_or_made_by_task() -> None:
    async with a_broker() as broker, Client(broker.url) as client:
        awaited = await client.create_producer("t")
        tasked = await asyncio.create_task(client.create_producer("t"))
        gathered, *_ = await asyncio.gather(client.create_producer("t"))
        assert {type(found) for found in (awaited, tasked, gathered)} == {Producer}
        async with await client.create_producer("t") as entered:
            assert entered.connected


async def test_send_without_await_names_missing_await() -> None:
    async with a_broker() as broker, Client(broker.url) as client:
        producer = client.create_producer("t")
        with pytest.raises(Misuse, match="await client"):
            producer.send(b"x")
        assert (await producer).connected  # type: ignore[attr-defined]


async def test_error_of_block_gives_pending_messages_up() -> None:
    async with a_broker() as broker, Client(broker.url) as client:
        broker.receipts = False
        made: list[Producer[bytes]] = []

        async def fails() -> None:
            async with client.create_producer("t") as producer:
                made.append(producer)
                producer.send_nowait(b"never stored")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fails()
        assert "closed" in repr(made[0])


async def test_creation_that_fails_raises_where_it_is_entered() -> None:
    async with a_broker() as broker, Client(broker.url) as client:
        with pytest.raises(Misuse):
            async with client.create_producer("t", nme="x"):  # type: ignore[call-overload]
                raise AssertionError("entered")


async def test_creation_that_is_not_awaited_is_warned_of() -> None:
    async with a_broker() as broker, Client(broker.url) as client:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client.create_producer("t")
            gc.collect()
        assert "create_producer' was never awaited" in str(caught[0].message)


def test_client_used_in_second_loop_says_so():
    client = Client("pulsar://127.0.0.1:1", operation_timeout_s=0.01)

    async def use() -> None:
        with pytest.raises(Misuse, match="belongs to another event loop"):
            await client.create_producer("t")
        with pytest.raises(Misuse, match="belongs to another event loop"):
            await client.close()

    async def first() -> None:
        client._check()

    asyncio.run(first())
    asyncio.run(use())
    client._own_runtime.close()
