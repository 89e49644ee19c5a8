"""Sends and receives cancelled at every one of their awaits, turn of the loop by turn of the loop: nothing hangs,
nothing is stored twice or out of order, nothing is lost, nothing is acknowledged by mistake.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from magnetar.aio import Client
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.producer.batch import Batching
from tests.client.test_consume import WAIT_S, connected, nothing, take

pytestmark = pytest.mark.real_clock

EARLIEST = InitialPosition.EARLIEST
TURNS_MAX = 400  # more turns of the loop than any of these calls takes, while its answer is on its way
DONE_IN_A_ROW = 5  # so often finished before its cancellation came: there is no later await to try


async def cancelled_everywhere(call: Callable[[int], Coroutine[Any, Any, Any]]) -> list[Any]:
    """Cancel call(0) after no turn of the loop, call(1) after one, and so on; what those returned that were faster, in
    the place of their number, and None for the others.
    """
    results: list[Any] = []
    for turns in range(TURNS_MAX):
        task = asyncio.create_task(call(turns))
        for _ in range(turns):
            if task.done():
                break
            await asyncio.sleep(0)
        task.cancel()
        try:
            results.append(await asyncio.wait_for(asyncio.shield(task), WAIT_S))
        except asyncio.CancelledError:
            results.append(None)
        if len(results) > DONE_IN_A_ROW and None not in results[-DONE_IN_A_ROW:]:
            return results
        await asyncio.sleep(0.001 if turns % 7 == 6 else 0)  # answers of earlier ones come in between
    return results


@pytest.mark.parametrize(
    "batching",
    [None, Batching(), Batching(linger=True, delay_s=0.002), Batching(by_key=True)],
    ids=["single", "eager", "lingering", "by-key"],
)
async def test_cancelled_sends_are_stored_once_in_order_or_never(broker, topic, batching):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, batching=batching)
        results = await cancelled_everywhere(lambda number: producer.send(b"%d" % number, key="k"))
        await producer.flush()
        assert producer.pending == 0
        await producer.send(b"last", key="k")
        found = []
        while (message := await consumer.receive(WAIT_S)).data != b"last":
            found.append(int(message.data))
        assert found == sorted(set(found))
        told = {number for number, result in enumerate(results) if result is not None}
        assert told <= set(found), "a message id was returned for what is not stored"
        assert client.budget.messages == 0


async def test_sends_cancelled_while_they_wait_for_room_leave_no_hole(broker, topic):
    async with connected(broker) as _, Client(broker.url, pending_messages_max=2) as client:
        producer = await client.create_producer(topic, batching=Batching(linger=True, delay_s=0.005))
        for _ in range(20):
            tasks = [asyncio.create_task(producer.send(b"%d" % number)) for number in range(6)]
            for turn, task in enumerate(tasks):
                for _ in range(turn):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_S)
        await asyncio.wait_for(producer.send(b"last"), WAIT_S)
        await producer.flush()
        assert (client.budget.messages, client.budget.bytes) == (0, 0)


@pytest.mark.parametrize("queue_messages", [0, 1, 1000], ids=["no-queue", "queue-of-one", "queue"])
async def test_receives_cancelled_at_every_await_lose_nothing_and_acknowledge_nothing(broker, topic, queue_messages):
    sent = [b"%d" % number for number in range(40)]

    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", initial_position=EARLIEST, queue_messages=queue_messages)
        producer = await client.create_producer(topic, batching=None)
        feeding = asyncio.create_task(_feed(producer, sent))
        results = await cancelled_everywhere(lambda _: consumer.receive())
        await feeding
        found = [message.data for message in results if message is not None]
        while len(found) < len(sent):
            found.append((await consumer.receive(WAIT_S)).data)
        assert found == sent
        await nothing(consumer)
        await consumer.close()
        again = await client.subscribe(topic, "s")
        assert [message.data for message in await take(again, len(sent))] == sent, "acknowledged by mistake"


async def test_batches_of_receives_cancelled_at_every_await_lose_nothing(broker, topic):
    sent = [b"%d" % number for number in range(300)]

    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", initial_position=EARLIEST)
        producer = await client.create_producer(topic)
        feeding = asyncio.create_task(_feed(producer, sent))
        results = await cancelled_everywhere(lambda _: consumer.receive_batch(10, timeout_s=0.01))
        await feeding
        found = [message.data for batch in results if batch is not None for message in batch]
        found += [message.data for message in await take(consumer, len(sent) - len(found), ack=False)]
        assert found == sent


async def test_cancelled_confirmed_acknowledgements_are_stored_or_redelivered(broker, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", initial_position=EARLIEST)
        async with await client.create_producer(topic, batching=None) as producer:
            for number in range(TURNS_MAX):
                await producer.post(b"%d" % number)

        async def one(_: int) -> bytes:
            message = await consumer.receive(WAIT_S)
            await consumer.acknowledge(message, confirm=True)
            return message.data

        results = await cancelled_everywhere(one)
        confirmed = {data for data in results if data is not None}
        await consumer.close()
        again = await client.subscribe(topic, "s")
        left = []
        while (message := await again.receive(WAIT_S)).data != b"%d" % (TURNS_MAX - 1):
            left.append(message.data)
        assert not confirmed & set(left), "confirmed, and delivered again"
        assert confirmed | set(left) >= {b"%d" % number for number in range(len(results), TURNS_MAX - 1)}


async def _feed(producer: Any, values: list[bytes]) -> None:
    for value in values:
        await producer.send(value)
        await asyncio.sleep(0.002)
