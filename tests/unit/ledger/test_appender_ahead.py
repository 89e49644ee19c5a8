"""A topic that is made ready before anybody writes: its first run waits for no record, and nothing of it is left."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import NotReady
from magnetar.base.ids import BEFORE_ALL, Position
from simulation.stores.metadata import InjectedFault
from tests.unit.ledger.world import Answers, World, a_run, contents, publish, settle

pytestmark = pytest.mark.real_clock


async def test_first_run_of_prepared_topic_waits_for_no_record():
    world = World()
    managed = await world.open()
    await managed.prepare()
    await managed.prepare()
    assert list(world.ledgers.memory.ledgers) == [1]
    world.metadata.faults.append(InjectedFault(NotReady("no quorum"), happened=False))
    assert await publish(managed, "1:a") == [Position(1, 0)]
    assert world.metadata.faults, "a record was written"
    world.metadata.faults.clear()
    assert await contents(await world.crash().open()) == [b"1:a"]


async def test_prepared_topic_that_nobody_writes_to_leaves_nothing_behind():
    for end in ("close", "terminate", "crash"):
        world = World()
        managed = await world.open()
        await managed.prepare()
        if end == "terminate":
            assert await managed.terminate() == BEFORE_ALL
        if end != "crash":
            await managed.close()
        again = await world.crash().open()
        assert (again.entries, again.last) == (0, BEFORE_ALL)
        assert not world.ledgers.memory.ledgers, end


async def test_topic_unprepared_now_accepts_first_run_later():
    world = World()
    managed = await world.open()
    world.ledgers.fail_create(NotReady("no bookies"))
    await managed.prepare()
    assert managed.failed is None
    assert await publish(managed, "1:a") == [Position(1, 0)]


async def test_runs_during_preparation_go_into_first_ledger():
    world = World()
    managed = await world.open()
    answers = Answers()
    preparing = asyncio.ensure_future(managed.prepare())
    managed.append(a_run("1:a"), answers)
    await preparing
    managed.append(a_run("2:b"), answers)
    await settle()
    assert answers.confirmed == [b"1:a", b"2:b"]
    assert list(world.ledgers.memory.ledgers) == [1]
