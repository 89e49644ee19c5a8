"""A cursor across flushes, crashes, rolls, trims and rivals: it steps back, it never skips."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Closed, Fenced, NotReady, SubscriptionNotFound, TimedOut
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.ledger.cursor.cursor import Cursor
from magnetar.ledger.retention import Retention, Rule
from magnetar.metadata import paths
from simulation.stores.metadata import InjectedFault
from tests.unit.ledger.world import PATH, World, a_config, publish, settle

pytestmark = pytest.mark.real_clock

TEN = [f"{index}:x" for index in range(10)]


async def a_topic(world: World, entries_max: int = 4):
    world.config = a_config(entries_max=entries_max)
    managed = await world.open()
    return managed, await publish(managed, *TEN)


async def a_cursor(managed, name="sub", initial=BEFORE_ALL, durable=True, **more) -> Cursor:
    return await Cursor.open(managed, name, durable=durable, initial=initial, **more)


async def again(world: World, name="sub") -> Cursor:
    return await Cursor.open(await world.crash().open(), name, durable=True, initial=None)


async def test_new_cursor_starts_at_given_position_durably():
    world = World()
    managed, positions = await a_topic(world)
    await a_cursor(managed, "earliest", BEFORE_ALL, properties={"a": "b"})
    await a_cursor(managed, "latest", managed.last)
    await a_cursor(managed, "name with / and ü", AFTER_ALL)
    opened = await world.crash().open()
    assert sorted(await Cursor.names(opened)) == ["earliest", "latest", "name with / and ü"]
    earliest = await Cursor.open(opened, "earliest", durable=True, initial=None)
    assert earliest.next_unacked(BEFORE_ALL) == positions[0]
    assert (earliest.backlog, earliest.properties, earliest.dirty) == (10, {"a": "b"}, False)
    assert earliest.created_ms > 0
    latest = await Cursor.open(opened, "latest", durable=True, initial=BEFORE_ALL)
    assert (latest.mark, latest.backlog) == (positions[-1], 0)


async def test_cursor_that_nobody_made_is_not_found():
    managed = await World().open()
    with pytest.raises(SubscriptionNotFound):
        await Cursor.open(managed, "sub", durable=True, initial=None)
    assert await Cursor.names(managed) == []


async def test_cursor_at_latest_of_empty_topic_sees_first_message():
    world = World()
    managed = await world.open()
    cursor = await a_cursor(managed, initial=managed.last)
    positions = await publish(managed, "1:a", "2:b")
    assert (cursor.next_unacked(managed.after(cursor.mark)), cursor.backlog) == (positions[0], 2)
    assert (await again(world)).backlog == 2


async def test_flushed_acknowledgements_survive_and_others_are_redelivered():
    world = World()
    managed, positions = await a_topic(world)
    cursor = await a_cursor(managed)
    assert cursor.ack([positions[0], positions[2], positions[5], positions[2]]) == 3
    assert not cursor.ack_bits(positions[3], [0b101], 3)
    cursor.redelivered([positions[1], positions[1]])
    assert await cursor.flush() == positions[0]
    assert not cursor.dirty
    cursor.ack([positions[1]])
    assert cursor.dirty
    back = await again(world)
    assert (back.mark, back.backlog, back.holes, back.contiguous) == (positions[0], 7, 2, False)
    assert [back.is_acked(position) for position in positions] == [index in (0, 2, 5) for index in range(10)]
    assert back.bits(positions[3]) == [0b101]
    assert back.ack_bits(positions[3], [0b010], 3)
    assert back.redelivery(positions[1]) == 2


async def test_flush_covers_earlier_acknowledgements_despite_flush_in_flight():
    world = World()
    managed, positions = await a_topic(world)
    cursor = await a_cursor(managed)
    marks: list[Position] = []
    cursor.on_durable(marks.append)
    cursor.ack([positions[0]])
    world.ledgers.hold()
    first = asyncio.ensure_future(cursor.flush())
    await settle()
    cursor.ack([positions[1]])
    second, third = asyncio.ensure_future(cursor.flush()), asyncio.ensure_future(cursor.flush())
    await settle()
    assert not cursor.drained(positions[0])
    world.ledgers.release()
    await first
    assert await second == await third == positions[1]
    assert marks == [positions[0], positions[1]]
    assert (await again(world)).mark == positions[1]


async def test_caller_that_gives_up_does_not_stop_flush():
    world = World()
    managed, positions = await a_topic(world)
    cursor = await a_cursor(managed)
    cursor.ack([positions[0]])
    flushing = asyncio.ensure_future(cursor.flush())
    await settle(3)
    flushing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    cursor.ack([positions[1]])
    assert await cursor.flush() == positions[1]
    assert (await again(world)).mark == positions[1]


async def test_drained_is_judged_from_flushed_acknowledgements_only():
    world = World()
    managed, positions = await a_topic(world)
    end = await managed.terminate()
    cursor = await a_cursor(managed)
    cursor.ack_to(end)
    assert (cursor.backlog, cursor.drained(end)) == (0, False)
    await cursor.flush()
    assert cursor.drained(end)
    assert cursor.drained(positions[3])
    assert cursor.drained(Position(end.ledger, -1))
    assert not cursor.drained(AFTER_ALL)
    assert (await again(world)).drained(end)


async def test_empty_terminated_topic_is_drained():
    managed = await World().open()
    end = await managed.terminate()
    assert (await a_cursor(managed)).drained(end)


async def test_cursor_that_is_not_durable_writes_nothing():
    world = World()
    managed, positions = await a_topic(world)
    writes = world.metadata.puts
    cursor = await a_cursor(managed, durable=False, initial=positions[4])
    assert cursor.next_unacked(managed.first) == positions[5]
    cursor.ack_to(positions[6])
    assert await cursor.flush() == positions[6]
    assert cursor.drained(positions[6])
    await cursor.close()
    await cursor.delete()
    assert world.metadata.puts == writes
    assert await Cursor.names(managed) == []
    assert (await a_cursor(managed, durable=False, initial=None)).mark == managed.last


async def test_seek_back_and_forth():
    world = World()
    managed, positions = await a_topic(world)
    cursor = await a_cursor(managed)
    cursor.ack([*positions[:3], positions[5]])
    cursor.reset(managed.before(positions[1]))
    assert (cursor.next_unacked(BEFORE_ALL), cursor.backlog, cursor.contiguous) == (positions[1], 9, True)
    cursor.reset(managed.before(AFTER_ALL))
    assert cursor.backlog == 0
    cursor.reset(managed.before(BEFORE_ALL))
    assert cursor.next_unacked(BEFORE_ALL) == positions[0]
    await cursor.flush()
    assert (await again(world)).backlog == 10


async def test_cumulative_acks_inside_batch():
    managed, positions = await a_topic(World())
    cursor = await a_cursor(managed)
    assert not cursor.ack_to_bits(positions[5], [0b1100], 4)
    assert (cursor.mark, cursor.bits(positions[5])) == (positions[4], [0b1100])
    assert cursor.ack_to(positions[5])
    assert cursor.bits(positions[5]) is None


async def test_clean_close_leaves_no_ledger_when_mark_says_it_all():
    world = World()
    managed, positions = await a_topic(world)
    plain, holed = await a_cursor(managed, "plain"), await a_cursor(managed, "holed")
    for cursor in (plain, holed):
        cursor.ack([positions[0]])
        await cursor.flush()
    holed.ack([positions[4]])
    plain.ack([positions[1]])
    data = {link.ledger for link in managed.chain.links}
    for cursor in (plain, holed):
        await cursor.close()
    await managed.close()
    assert len(set(world.ledgers.memory.ledgers) - data) == 1
    assert (await again(world, "plain")).mark == positions[1]
    assert (await again(world, "holed")).is_acked(positions[4])


async def test_closing_untouched_cursor_writes_nothing():
    world = World()
    managed, _ = await a_topic(world)
    cursor = await a_cursor(managed)
    writes = world.metadata.puts
    await cursor.close()
    assert world.metadata.puts == writes


async def test_mark_in_trimmed_ledgers_moves_to_first_entry():
    world = World()
    managed, positions = await a_topic(world)
    cursor = await a_cursor(managed)
    await cursor.flush()
    await managed.trim(positions[5], Rule(Retention(0, 0), 0))
    back = await again(world)
    assert (back.next_unacked(BEFORE_ALL), back.backlog) == (positions[4], 6)


async def test_replaced_owner_cannot_flush_and_new_one_steps_back():
    world = World()
    managed, positions = await a_topic(world)
    cursor = await a_cursor(managed)
    cursor.ack([positions[0]])
    await cursor.flush()
    cursor.ack([positions[1]])
    rival = await Cursor.open(await world.rival().open(), "sub", durable=True, initial=None)
    with pytest.raises(Fenced):
        await cursor.flush()
    await cursor.close()
    assert rival.mark == positions[0]
    rival.ack([positions[1]])
    assert await rival.flush() == positions[1]


@pytest.mark.parametrize("error", [TimedOut("no answer"), NotReady("no quorum")])
async def test_failed_flush_leaves_cursor_dirty_and_next_writes_everything(error):
    world = World()
    managed, positions = await a_topic(world)
    cursor = await a_cursor(managed)
    cursor.ack([positions[0]])
    if isinstance(error, TimedOut):
        world.ledgers.fail_append(error, landed=True)
    else:
        world.metadata.faults.append(InjectedFault(error, happened=False))
    with pytest.raises(type(error)):
        await cursor.flush()
    assert cursor.dirty
    assert not cursor.drained(positions[0])
    assert await cursor.flush() == positions[0]
    assert (await again(world)).mark == positions[0]


async def test_lost_snapshot_ledger_steps_back_to_mark_in_record():
    world = World()
    managed, positions = await a_topic(world)
    cursor = await a_cursor(managed, initial=positions[2])
    cursor.ack([positions[3], positions[4]])
    await cursor.flush()
    world.ledgers.forget(max(world.ledgers.memory.ledgers))
    back = await again(world)
    assert positions[2] <= back.mark <= positions[4]


async def test_properties_can_be_replaced():
    world = World()
    managed, positions = await a_topic(world)
    cursor = await a_cursor(managed, properties={"a": "1"})
    await cursor.set_properties({"b": "2"})
    cursor.ack([positions[0]])
    await cursor.flush()
    assert (await again(world)).properties == {"b": "2"}


async def test_delete_removes_record_and_ledger():
    world = World()
    managed, positions = await a_topic(world)
    cursor = await a_cursor(managed)
    cursor.ack([positions[0]])
    await cursor.flush()
    cursor.ack([positions[1]])
    await asyncio.gather(cursor.flush(), cursor.delete())
    await cursor.delete()
    assert await world.metadata.get(paths.cursor(PATH, "sub")) is None
    assert sorted(world.ledgers.memory.ledgers) == [link.ledger for link in managed.chain.links]
    fresh = await a_cursor(managed)
    assert fresh.mark < positions[0]
    cursor.ack([positions[2]])
    with pytest.raises(Closed):
        await cursor.flush()


async def test_deleting_topic_takes_its_cursors_along():
    world = World()
    managed, positions = await a_topic(world)
    for name in ("one", "two"):
        cursor = await a_cursor(managed, name)
        cursor.ack([positions[0]])
        await cursor.flush()
    await managed.delete()
    assert not world.ledgers.memory.ledgers
    assert await world.metadata.children(PATH) == []
