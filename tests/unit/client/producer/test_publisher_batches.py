"""What shares an entry, when it leaves, and what is too large for one."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import (
    LimitExceeded,
)
from magnetar.client.producer.batch import NOTHING, Batching
from magnetar.client.producer.config import ProducerConfig
from magnetar.client.producer.memory_limit import MemoryLimit
from magnetar.client.producer.prebuilt_batch import NOWHERE, PrebuiltBatch
from magnetar.client.producer.publisher import Publisher
from magnetar.wire import message
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from magnetar.wire.send_frames import batch_payload
from tests.support.publisher import TOPIC, World, a_world, flushed
from tests.unit.client.world import a_broker, a_lookup

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


async def test_messages_of_one_turn_share_entry_at_once() -> None:
    async with a_world(batching=Batching(delay_s=60)) as world:
        for number in range(5):
            world.add(b"%d" % number)
        await world.broker.until(lambda: len(world.broker.sent) == 1)
        assert world.broker.sent[0].messages == 5
        await flushed(world)
        assert [found for _, found, _ in world.told] == [MessageId(1, 0, -1, place, 5) for place in range(5)]


async def test_batch_grows_during_flight_and_follows_receipt() -> None:
    async with a_world(receipts=False, batching=Batching(delay_s=60)) as world:
        world.add(b"a")
        await world.broker.until(lambda: len(world.broker.sent) == 1)
        for number in range(3):
            world.add(b"%d" % number)
            await asyncio.sleep(0)
        assert len(world.broker.sent) == 1
        world.broker.receipts = True
        world.broker.sent[0].receipt()
        await world.broker.until(lambda: len(world.broker.sent) == 2)
        assert world.broker.sent[1].messages == 3


@pytest.mark.parametrize(
    ("batching", "expected"),
    [
        (Batching(messages_max=2, delay_s=60, linger=True), [2, 2, 1]),
        (Batching(bytes_max=60, delay_s=60, linger=True), [3, 2]),
        (Batching(delay_s=60, linger=True), [5]),
        (None, [1, 1, 1, 1, 1]),
    ],
)
async def test_batches_close_at_their_bounds(batching, expected) -> None:
    async with a_world(batching=batching) as world:
        for number in range(5):
            world.add(b"%d" % number)
        await flushed(world)
        assert [one.messages for one in world.broker.sent] == expected
        assert [one.sequence for one in world.broker.sent] == [sum(expected[:at]) for at in range(len(expected))]


async def test_lingering_batch_is_closed_by_clock() -> None:
    async with a_world(batching=Batching(delay_s=0.01, linger=True)) as world:
        world.add(b"a")
        world.add(b"b")
        await world.broker.until(lambda: len(world.broker.sent) == 1)
        assert world.broker.sent[0].messages == 2


async def test_batches_by_key_hold_one_key_each() -> None:
    async with a_world(batching=Batching(delay_s=60, by_key=True, linger=True)) as world:
        for number, key in enumerate("abab"):
            world.add(b"%d" % number, key=key)
        await flushed(world)
        keys = [message.open_entry(one.entry).metadata.partition_key for one in world.broker.sent]
        assert keys == ["a", "b"]
        assert [(one.sequence, one.highest) for one in world.broker.sent] == [(0, 1), (2, 3)]


async def test_delayed_message_travels_alone_and_in_its_place() -> None:
    async with a_world(batching=Batching(delay_s=60, linger=True)) as world:
        world.add(b"a")
        world.add(b"b", deliver_at=1_900_000_000_000)
        world.add(b"c")
        await flushed(world)
        entries = [message.open_entry(one.entry) for one in world.broker.sent]
        assert [entry.payload for entry in entries] == [b"a", b"b", b"c"]
        assert [entry.metadata.deliver_at_time for entry in entries] == [0, 1_900_000_000_000, 0]


# Chunks and sizes


async def test_large_message_is_chunked_and_told_once() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        broker.message_bytes_max = 400
        budget = MemoryLimit()
        publisher = Publisher(lookup, TOPIC, ProducerConfig(batching=None, chunking=True), budget)
        await publisher.start()
        world = World(broker, publisher, budget)
        world.add(b"x" * 1000)
        world.add(b"small")
        await publisher.flush()
        assert [one.sequence for one in broker.sent] == [0, 0, 0, 0, 1][-len(broker.sent) :]
        (_, found, _), (_, small, _) = world.told
        last = len(broker.sent) - 2
        assert found == MessageId(1, last)
        assert found is not None
        assert found.first_chunk == MessageId(1, 0)
        assert small == MessageId(1, last + 1)
        await publisher.close()
        assert budget.bytes == 0


async def test_message_too_large_is_refused_and_takes_no_room() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        broker.message_bytes_max = 400
        budget = MemoryLimit()
        publisher = Publisher(lookup, TOPIC, ProducerConfig(), budget)
        await publisher.start()
        world = World(broker, publisher, budget)
        with pytest.raises(LimitExceeded):
            world.add(b"x" * 1000)
        world.add(b"x" * 390)  # fits by itself, but not with its metadata: found when the batch is closed
        await publisher.flush()
        assert world.failed() == [(b"x" * 390, LimitExceeded)]
        assert budget.bytes == 0
        await publisher.close()


def a_sheaf(*numbers: int, size: int = 1) -> PrebuiltBatch:
    """With numbers that its sender gave."""
    singles = [(b"v" * size, NOTHING, NOWHERE)] * len(numbers)
    payload = batch_payload([value for value, _, _ in singles], 0, list(numbers), None)
    return PrebuiltBatch(
        payload, len(numbers), numbers[0], value_bytes=size * len(numbers), singles=lambda: singles, numbers=numbers
    )


async def test_prebuilt_batches_keep_numbers_and_are_accepted_wholly() -> None:
    async with a_world(batching=Batching(delay_s=60)) as world:
        publisher, sent, large = world.publisher, world.broker.sent, world.broker.message_bytes_max
        for numbers, size, taken in [((5, 9), 1, True), ((8, 10), 1, False), ((11,), large, False)]:
            group = [a_sheaf(*numbers, size=size)]
            world.budget.take(group[0].value_bytes, group[0].count)
            assert publisher.add_sheaves(group) is taken
            if not taken:
                world.budget.give(group[0].value_bytes, group[0].count)
        world.budget.take(3, 3)
        assert publisher.add_sheaves([a_sheaf(12, 14), a_sheaf(15)])
        await flushed(world)
        assert [(one.sequence, one.highest, one.messages) for one in sent] == [(5, 9, 2), (12, 14, 2), (15, 15, 1)]
        assert [message.open_entry(one.entry).is_batch for one in sent] == [True, True, False]
        assert publisher.next_sequence == 16
