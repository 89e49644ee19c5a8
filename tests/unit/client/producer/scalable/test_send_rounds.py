"""When a producer of many segments writes: queues go together under load, and at once for whoever waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from magnetar.client.producer.batch import Batching
from magnetar.client.producer.config import ProducerConfig
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.producer import Producer
from magnetar.client.producer.router import Router
from magnetar.client.schema import BYTES
from magnetar.wire import commands
from magnetar.wire.proto import pb
from tests.support.scalable_broker_script import TOPIC, a_scaled
from tests.support.scalable_publisher import HIGH, LOW, World, a_world

pytestmark = pytest.mark.real_clock

AGES = Batching(delay_s=3600.0)  # nothing goes because its time has come


def keyed(key: str) -> MessageFields:
    fields = MessageFields()
    fields.key = key
    return fields


@asynccontextmanager
async def after_a_round() -> AsyncIterator[World]:
    """Of both queues, written and answered: the next one is kept away."""
    async with a_world(2, batching=AGES) as world:
        world.broker.receipts = True
        world.add(b"low", LOW)
        world.add(b"high", HIGH)
        await world.until_told(2)
        yield world


async def test_queues_go_together_when_everything_on_its_way_is_answered() -> None:
    async with a_world(2, receipts=False, batching=AGES) as world:
        world.add(b"1", LOW)
        await world.came(0, 1)
        world.add(b"2", HIGH)
        world.add(b"3", LOW)
        world.add(b"4", HIGH)
        await asyncio.sleep(0)
        assert world.scaled.sent(1) == []
        world.broker.receipts = True
        world.scaled.sent(0)[0].receipt()
        await world.until_told(4)
        assert [one.messages for one in (*world.scaled.sent(0), *world.scaled.sent(1))] == [1, 1, 2]


async def test_sender_woken_by_last_receipt_joins_next_round() -> None:
    async with a_world(2, receipts=False, batching=AGES) as world:
        answered = asyncio.Event()

        async def sender() -> None:
            await answered.wait()
            world.add(b"3", LOW, awaited=True)

        task = asyncio.create_task(sender())
        assert world.budget.take(1)
        world.publisher.add(b"1", keyed(LOW), lambda *_: answered.set(), awaited=True)
        await world.came(0, 1)
        world.add(b"2", HIGH, awaited=True)
        world.scaled.sent(0)[0].receipt()
        assert await world.came(1, 1) == [b"2"]
        assert await world.came(0, 2) == [b"1", b"3"], "no receipt was needed in between"
        await task


async def test_flush_waits_for_no_round() -> None:
    async with after_a_round() as world:
        world.add(b"1", LOW)
        await asyncio.sleep(0)
        assert len(world.scaled.sent(0)) == 1
        await world.publisher.flush()
        assert world.stored() == [b"low", b"high", b"1"]


async def test_awaited_message_waits_for_no_round() -> None:
    async with after_a_round() as world:
        world.add(b"posted", LOW)
        world.add(b"sent", HIGH, awaited=True)
        await world.until_told(3)
        assert world.stored() == [b"low", b"high", b"sent"]


async def test_refused_entry_leaves_other_queues_free() -> None:
    async with a_world(2, receipts=False, batching=AGES) as world:
        world.add(b"1", LOW)
        await world.came(0, 1)
        sent = world.scaled.sent(0)[0]
        sent.link.write(commands.send_error(sent.producer, sent.sequence, pb.ChecksumError, "bad"))
        await world.until_told(1)
        world.add(b"2", HIGH)
        assert await world.came(1, 1) == [b"2"]


async def test_senders_without_room_send_what_was_gathered() -> None:
    async with a_scaled(2) as (_, lookup):
        opening = ProducerConfig(batching=AGES)
        router = Router("round_robin", "java", 0)
        budget = MemoryLimit(messages_max=3)
        producer = Producer(lookup, str(TOPIC), opening, schema=BYTES, router=router, budget=budget)
        await producer._start()
        for number in range(20):
            await producer.post(b"%d" % number, key=LOW if number % 2 else HIGH)
        await producer.flush()
        assert producer.counters[0].receipts > 1
        await producer.close()


async def test_entries_stay_within_what_brokers_take() -> None:
    async with a_world(2, started=False, batching=AGES) as world:
        world.broker.message_bytes_max = 400
        await world.publisher.start()
        for number in range(12):
            world.add(b"%c" % (97 + number) * 100, LOW)
        await world.publisher.flush()
        assert sum(one.messages for one in world.scaled.sent(0)) == 12
        assert all(one.messages <= 3 for one in world.scaled.sent(0))
