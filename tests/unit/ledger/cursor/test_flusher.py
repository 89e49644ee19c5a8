"""Cursors are flushed at the tick, a bounded number at a time, large ones less often."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import TimedOut
from magnetar.base.ids import BEFORE_ALL
from magnetar.base.limits import CURSOR_FLUSHES_MAX
from magnetar.ledger.cursor.cursor import Cursor, CursorFlusher
from magnetar.runtime.runtime import Owner
from tests.unit.ledger.world import World, publish, settle

pytestmark = pytest.mark.real_clock


async def cursors(world: World, count: int):
    managed = await world.open()
    positions = await publish(managed, *[f"{index}:x" for index in range(10)])
    return [await Cursor.open(managed, f"sub{n}", durable=True, initial=BEFORE_ALL) for n in range(count)], positions


async def test_dirty_cursors_flush_at_tick_and_clean_cost_nothing():
    world = World()
    (one, two), positions = await cursors(world, 2)
    flusher = CursorFlusher(world.runtime)
    flusher.add(one)
    flusher.add(two)
    one.ack(positions[:3])
    created = world.ledgers.memory.created
    flusher.tick()
    await settle()
    assert not one.dirty
    assert world.ledgers.memory.created == created + 1
    flusher.tick()
    await settle()
    assert world.ledgers.memory.created == created + 1
    await flusher.close()


async def test_task_ticks_until_its_owner_is_closed():
    world = World()
    (cursor,), positions = await cursors(world, 1)
    flusher, owner = CursorFlusher(world.runtime, interval_s=0.0), Owner("node")
    flusher.add(cursor)
    flusher.start(owner)
    cursor.ack(positions[:1])
    durable = asyncio.Event()
    cursor.on_durable(lambda mark: durable.set())
    await durable.wait()
    await owner.close()
    await flusher.close()


async def test_cursor_dirty_before_joining_flushes_and_leaver_does_not():
    world = World()
    (came, left), positions = await cursors(world, 2)
    flusher = CursorFlusher(world.runtime)
    came.ack(positions[:1])
    flusher.add(came)
    flusher.add(left)
    left.ack(positions[:1])
    flusher.discard(left)
    flusher.tick()
    await settle()
    assert (came.dirty, left.dirty) == (False, True)
    left.ack(positions[1:2])
    await flusher.close()


async def test_change_during_flush_is_flushed_at_next_tick():
    world = World()
    (cursor,), positions = await cursors(world, 1)
    flusher = CursorFlusher(world.runtime)
    flusher.add(cursor)
    cursor.ack(positions[:1])
    world.ledgers.hold()
    flusher.tick()
    await settle()
    cursor.ack(positions[1:2])
    world.ledgers.release()
    await settle()
    assert cursor.dirty
    flusher.tick()
    await settle()
    assert not cursor.dirty
    await flusher.close()


async def test_failed_flush_is_tried_again():
    world = World()
    (cursor,), positions = await cursors(world, 1)
    flusher = CursorFlusher(world.runtime)
    flusher.add(cursor)
    cursor.ack(positions[:1])
    world.ledgers.fail_append(TimedOut("no answer"))
    flusher.tick()
    await settle()
    assert cursor.dirty
    flusher.tick()
    await settle()
    assert not cursor.dirty
    await flusher.close()


async def test_large_cursor_rests_in_proportion_to_its_size():
    world = World()
    (cursor,), positions = await cursors(world, 1)
    flusher = CursorFlusher(world.runtime, interval_s=1.0, tick_bytes=5)
    flusher.add(cursor)
    cursor.ack(positions[:1])
    flusher.tick()
    await settle()
    rest_s = cursor.snapshot_bytes / 5
    assert rest_s > 2.0
    cursor.ack(positions[1:2])
    world.runtime.later_s += rest_s - 1.0
    flusher.tick()
    await settle()
    assert cursor.dirty
    world.runtime.later_s += 1.0
    flusher.tick()
    await settle()
    assert not cursor.dirty
    await flusher.close()


async def test_many_cursors_are_flushed_bounded_number_at_time():
    world = World()
    many, positions = await cursors(world, CURSOR_FLUSHES_MAX + 20)
    flusher = CursorFlusher(world.runtime)
    for cursor in many:
        flusher.add(cursor)
        cursor.ack(positions[:1])
    world.ledgers.hold()
    flusher.tick()
    await settle()
    assert world.ledgers.in_flight == CURSOR_FLUSHES_MAX
    world.ledgers.release()
    await settle(200)
    assert not any(cursor.dirty for cursor in many)
    await flusher.close()
