"""Where entries come from: memory at the tail, one block at a time behind it, and never a gap or a busy loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.ids import Position
from magnetar.base.limits import READ_RETRY_S, TAIL_UNREAD_RUNS_MAX
from magnetar.ledger.block_cache import BlockCache
from magnetar.topic.dispatch.entry_source import EntrySource
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from tests.unit.topic.world import Out, World, pass_s, settle


async def test_tail_is_served_without_waiting_and_without_files(world: World) -> None:
    topic = await world.topic()
    [first, second] = await world.publish(topic, "a", "b")
    source = EntrySource(topic, lambda: None)
    taken = source.take(second)
    assert taken is not None
    assert taken[0].position(taken[1]) == second
    assert source.take(first) is not None
    assert source.take(Position(second.ledger, second.entry + 1)) is None
    assert (world.ledgers.reads, source.reading) == (0, False)


async def test_backlog_is_one_read_for_many_entries(world: World) -> None:
    topic = await world.without_cache().topic()
    positions = await world.publish(topic, *[str(number) for number in range(20)])
    arrived: list[int] = []
    source = EntrySource(topic, lambda: arrived.append(1))
    assert source.take(positions[0]) is None
    assert source.take(positions[5]) is None  # one read at a time
    await settle()
    assert len(arrived) == 1
    for position in positions[:-1]:
        taken = source.take(position)
        assert taken is not None
        assert taken[0].position(taken[1]) == position
    assert world.ledgers.reads == 1


async def test_read_that_was_overtaken_by_jump_is_thrown_away(world: World) -> None:
    topic = await world.without_cache().topic()
    positions = await world.publish(topic, *"abcdef")
    arrived: list[int] = []
    source = EntrySource(topic, lambda: arrived.append(1))
    assert source.take(positions[4]) is None
    source.reset()
    await settle()
    assert (len(arrived), world.ledgers.reads) == (1, 0)
    assert source.take(positions[0]) is None  # must be read anew
    await settle()
    taken = source.take(positions[0])
    assert taken is not None
    assert taken[0].position(taken[1]) == positions[0]


async def test_place_that_was_trimmed_is_read_as_first_one_kept(world: World) -> None:
    world.config = replace(world.without_cache().config, entries_max=2)
    topic = await world.topic()
    positions = await world.publish(topic, *"abcde")
    source = EntrySource(topic, lambda: None)
    assert source.take(positions[0]) is None
    await topic.trim()  # while it is being read
    assert topic.managed.first == positions[4]
    await settle()
    source.reset()
    assert source.take(positions[0]) is None
    await settle()
    taken = source.take(positions[0])
    assert taken is not None
    assert taken[0].position(taken[1]) == positions[4]


async def test_lost_ledger_stops_reader_without_gap_or_spinning(world: World) -> None:
    world.config = replace(world.without_cache().config, entries_max=2)
    topic = await world.topic()
    positions = await world.publish(topic, *"abcd")
    stored = world.ledgers.memory.ledgers[positions[0].ledger]
    world.ledgers.forget(positions[0].ledger)
    out = Out()
    await world.consumer(topic, out, kind=EXCLUSIVE, permits=10)
    await settle(200)
    assert out.texts == []
    world.ledgers.memory.ledgers[stored.ledger] = stored  # somebody put it back
    await pass_s(READ_RETRY_S + 1)
    assert out.texts == list("abcd")


async def test_block_is_read_again_after_its_memory_was_needed(world: World) -> None:
    world.config = replace(world.without_cache().config, blocks=BlockCache(1))
    topic = await world.topic()
    positions = await world.publish(topic, *"abcdef")
    first, second = EntrySource(topic, lambda: None), EntrySource(topic, lambda: None)
    for source in (first, second):
        assert source.take(positions[0]) is None
        await settle()
    assert second.take(positions[1]) is not None
    assert first.take(positions[1]) is None
    await settle()
    taken = first.take(positions[1])
    assert taken is not None
    assert taken[0].position(taken[1]) == positions[1]


async def test_readers_beyond_sum_of_blocks_get_everything(world: World) -> None:
    world.config = replace(world.without_cache().config, blocks=BlockCache(1, reads_max=1))
    topic = await world.topic()
    texts = [str(number) for number in range(20)]
    await world.publish(topic, *texts)
    outs = [Out(number) for number in range(1, 6)]
    consumers = [
        await world.consumer(topic, out, subscription=f"s{number}", kind=EXCLUSIVE) for number, out in enumerate(outs)
    ]
    for _ in texts:
        for consumer in consumers:
            consumer.flow(1)
        await settle()
    assert [out.texts for out in outs] == [texts] * len(outs)
    assert len(world.config.blocks) <= 1


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED])
async def test_consumer_that_leaves_gives_its_block_back(world: World, kind: int) -> None:
    topic = await world.without_cache().topic(failover_delay_ms=0)
    await world.publish(topic, *"abcdef")
    consumer = await world.consumer(topic, Out(), kind=kind, permits=2)
    await settle()
    assert world.config.blocks.bytes > 0
    assert consumer.subscription is not None
    consumer.subscription.detach([consumer])
    await settle()
    assert (len(world.config.blocks), world.config.blocks.bytes) == (0, 0)


async def test_topic_that_closes_under_read_ends_it(world: World) -> None:
    topic = await world.without_cache().topic()
    positions = await world.publish(topic, *"abc")
    arrived: list[int] = []
    source = EntrySource(topic, lambda: arrived.append(1))
    assert source.take(positions[0]) is None
    await topic.close()
    await settle()
    assert arrived == []
    assert source.take(positions[0]) is None


async def test_runs_stay_in_memory_from_first_subscription_on(world: World) -> None:
    topic = await world.topic()
    texts = [str(number) for number in range(TAIL_UNREAD_RUNS_MAX + 1)]
    before = await world.publish(topic, *texts)
    assert topic.managed.cached(before[0], 1000, 1) is None
    await topic.ensure_subscription("s")
    after = await world.publish(topic, *texts)
    assert all(topic.managed.cached(position, 1000, 1) is not None for position in after)
