"""Ranges of entries beside a broker that does as it is told: each entry once and in order, and an end that is known."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Closed, TimedOut, TopicNotFound
from magnetar.client.batch_read.range_reader import EARLIEST, EntryReader, Place, RangeReader
from magnetar.client.message import MessageId
from magnetar.wire import commands
from tests.support.broker_script import K, World, batch, single

pytestmark = pytest.mark.real_clock


async def a_range(world: World, start: Place, end: Place | None = None) -> RangeReader:
    reader = RangeReader(world.lookup, "persistent://public/default/t", start, end)
    world.made.append(reader)
    await reader.open()
    return reader


async def rest(reader: RangeReader) -> list[Place]:
    found: list[Place] = []
    while run := await reader.take(10):
        found += [one[:2] for one in run]
    return found


async def test_range_requests_nothing_before_use_and_creates_no_topic(world: World):
    world.broker.last = MessageId(1, 4)
    await a_range(world, (1, 2))
    said = world.broker.said(K.SUBSCRIBE)[0]
    assert (said.durable, said.force_topic_creation) == (False, False)
    assert (said.start_message_id.ledgerId, said.start_message_id.entryId) == (1, 2)
    assert world.broker.said(K.FLOW) == []


async def test_range_without_end_stops_at_last_message_at_open(world: World):
    world.broker.last = MessageId(1, 1)
    reader = await a_range(world, EARLIEST)
    taking = asyncio.ensure_future(rest(reader))
    await world.broker.until_said(K.FLOW)
    for entry in range(2):
        world.broker.push(entry, batch(b"a", b"b"))
    assert await taking == [(1, 0), (1, 1)]


async def test_messages_at_or_behind_end_are_not_returned(world: World):
    world.broker.last = MessageId(2, 9)
    reader = await a_range(world, (1, 7), (2, 0))
    taking = asyncio.ensure_future(rest(reader))
    await world.broker.until_said(K.FLOW)
    world.broker.push(7, single(b"a"))
    world.broker.push(0, single(b"b"), ledger=2)
    assert await taking == [(1, 7)]


async def test_last_entry_before_end_finishes_without_waiting(world: World):
    world.broker.last = MessageId(1, 9)
    reader = await a_range(world, (1, 0), (1, 2))
    taking = asyncio.ensure_future(rest(reader))
    await world.broker.until_said(K.FLOW)
    world.broker.push(0, single(b"a"))
    world.broker.push(1, single(b"b"))
    assert await taking == [(1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("last", "start", "end"),
    [((-1, -1), EARLIEST, None), ((1, 4), (1, 5), None), ((1, 9), (1, 3), (1, 3))],
    ids=["empty", "read to its end", "no entry long"],
)
async def test_range_with_nothing_in_it_is_over_at_once(world: World, last, start, end):
    world.broker.last = MessageId(*last)
    assert await (await a_range(world, start, end)).take(10) == []
    assert world.broker.said(K.FLOW) == []


async def test_after_lost_connection_it_goes_on_behind_what_came_last(world: World):
    world.broker.last = MessageId(1, 3)
    reader = await a_range(world, (1, 0))
    world.broker.push(0, single(b"a"))
    world.broker.push(1, single(b"b"))
    found: list[Place] = []
    while len(found) < 2:
        found += [one[:2] for one in await reader.take(10)]
    world.broker.drop()
    taking = asyncio.ensure_future(rest(reader))
    again = await world.broker.until_said(K.SUBSCRIBE, 2)
    assert (again.start_message_id.ledgerId, again.start_message_id.entryId) == (1, 2)
    for entry in (1, 2, 3):  # a broker that sends one again
        world.broker.push(entry, single(b"c"))
    assert found + await taking == [(1, 0), (1, 1), (1, 2), (1, 3)]


async def test_topic_that_is_not_there_is_said_at_once(world: World):
    world.broker.refuse[K.SUBSCRIBE] = [(11, "no such topic")]
    with pytest.raises(TopicNotFound):
        await a_range(world, EARLIEST)


async def test_why_it_ended_is_told_to_who_comes_later_too(world: World):
    world.broker.last = MessageId(1, 3)
    reader = await a_range(world, (1, 0))
    reader._reader._end(TopicNotFound("deleted"))  # nobody takes at that moment
    with pytest.raises(TopicNotFound):
        await reader.take(600)


async def test_broker_that_sends_nothing_is_not_waited_for_for_ever(world: World):
    world.broker.last = MessageId(1, 3)
    reader = await a_range(world, (1, 0))
    with pytest.raises(TimedOut):
        await reader.take(0.01)


async def test_peek_asks_for_one_message(world: World):
    reader = EntryReader(world.lookup, "persistent://public/default/t", (1, 5), peek=True)
    world.made.append(reader)
    await reader.open()
    taking = asyncio.ensure_future(reader.take(10))
    assert (await world.broker.until_said(K.FLOW)).messagePermits == 1
    world.broker.push(5, single(b"a"))
    assert [one[:2] for one in await taking] == [(1, 5)]


async def test_closing_it_wakes_whoever_waits_and_tells_broker(world: World):
    world.broker.last = MessageId(1, 3)
    reader = await a_range(world, (1, 0))
    taking = asyncio.ensure_future(reader.take(10))
    await world.broker.until_said(K.FLOW)
    await reader.close()
    with pytest.raises(Closed):
        await taking
    await world.broker.until_said(K.CLOSE_CONSUMER)


async def test_broker_that_moves_it_elsewhere_is_followed(world: World):
    world.broker.last = MessageId(1, 0)
    reader = await a_range(world, (1, 0))
    taking = asyncio.ensure_future(rest(reader))
    await world.broker.until_said(K.FLOW)
    world.broker.tell(commands.close_consumer(reader._reader.id))
    await world.broker.until_said(K.FLOW, 2)
    world.broker.push(0, single(b"a"))
    assert await taking == [(1, 0)]
