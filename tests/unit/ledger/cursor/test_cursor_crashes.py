"""A cursor through crashes at every step, and through any life: never ahead, and what was flushed stays."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.ledger.cursor.cursor import Cursor
from magnetar.ledger.orphans import sweep
from magnetar.ledger.retention import Retention, Rule
from tests.unit.ledger.world import World, a_config, at_every_step, publish

TEN = [f"{index}:x" for index in range(10)]


async def a_topic(world: World, entries_max: int = 4):
    world.config = a_config(entries_max=entries_max)
    managed = await world.open()
    return managed, await publish(managed, *TEN)


async def a_cursor(managed) -> Cursor:
    return await Cursor.open(managed, "sub", durable=True, initial=BEFORE_ALL)


def test_crash_while_acknowledging_or_flushing_skips_nothing():
    durable: list[Position] = []
    acked: list[Position] = []

    async def story(world: World) -> None:
        durable.clear()
        acked.clear()
        managed, positions = await a_topic(world)
        cursor = await a_cursor(managed)
        cursor._snapshots.entries_max = 2
        for index in (0, 3, 1, 7, 2, 5):
            cursor.ack([positions[index]])
            acked.append(positions[index])
            await cursor.flush()
            durable[:] = acked
        await cursor.close()

    async def check(world: World) -> None:
        managed = await world.open()
        if "sub" not in await Cursor.names(managed):
            assert not acked
            return
        cursor = await Cursor.open(managed, "sub", durable=True, initial=None)
        place, found = managed.first, []
        while managed.has(place):
            if cursor.is_acked(place):
                found.append(place)
            place = managed.after(place)
        assert set(durable) <= set(found) <= set(acked)
        suspects = await sweep(world.ledgers, world.metadata)
        await sweep(world.ledgers, world.metadata, suspects)
        assert len(world.ledgers.memory.ledgers) <= len(managed.chain.links) + 1

    assert at_every_step(story, check) > 40


STEP = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 4)),
    st.tuples(st.just("ack"), st.integers(0, 30)),
    st.tuples(st.just("ack_to"), st.integers(0, 30)),
    st.tuples(st.just("flush"), st.just(0)),
    st.tuples(st.just("trim"), st.just(0)),
    st.tuples(st.just("crash"), st.integers(0, 2)),
    st.tuples(st.just("restart"), st.just(0)),
)


@settings(max_examples=60)
@given(st.lists(STEP, max_size=25))
def test_cursor_never_runs_ahead_and_keeps_flushed_positions(steps):
    async def body():
        world = World(config=a_config(entries_max=3))
        managed = await world.open()
        cursor = await a_cursor(managed)
        positions: list[Position] = []
        acked: set[Position] = set()
        durable: set[Position] = set()
        for step, number in steps:
            match step:
                case "publish":
                    positions += await publish(managed, *[f"{index}:x" for index in range(number)])
                case "ack" if positions:
                    position = positions[number % len(positions)]
                    cursor.ack([position])
                    acked.add(position)
                case "ack_to" if positions:
                    position = positions[number % len(positions)]
                    cursor.ack_to(position)
                    acked |= {one for one in positions if one <= position}
                case "flush":
                    await cursor.flush()
                    durable = set(acked)
                case "trim":
                    await managed.trim(cursor.mark, Rule(Retention(0, 0), 0))
                case "crash" | "restart":
                    if step == "restart":
                        await cursor.close()
                        await managed.close()
                        durable = set(acked)
                    world = world.crash(landed=number)
                    world.config = a_config(entries_max=3)
                    managed = await world.open()
                    cursor = await Cursor.open(managed, "sub", durable=True, initial=None)
                    found = {one for one in positions if cursor.is_acked(one)}
                    assert {one for one in found if managed.has(one)} <= acked
                    assert durable <= found
                    acked = found
            left = [one for one in positions if managed.has(one) and one not in acked]
            assert cursor.backlog == len(left)
            assert all(one in acked for one in positions if not managed.has(one)), "nothing unacknowledged is trimmed"

    asyncio.run(body())
