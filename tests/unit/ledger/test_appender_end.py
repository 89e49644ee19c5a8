"""Terminating and closing: what came before is confirmed, nothing is acknowledged behind the end."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import (
    Closed,
    Fenced,
    NotReady,
    Sealed,
    TimedOut,
    Unknown,
)
from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.ledger.retention import Retention, Rule
from simulation.stores.metadata import InjectedFault, lost_answer
from tests.unit.ledger.world import Answers, World, a_run, contents, publish, settle

pytestmark = pytest.mark.real_clock


async def test_terminate_confirms_what_came_before_and_seals_what_comes_after():
    world = World()
    managed = await world.open()
    world.ledgers.hold()
    before, after = Answers(), Answers()
    managed.append(a_run("1:a"), before)
    managed.append(a_run("2:b"), before)
    ending = asyncio.ensure_future(managed.terminate())
    await settle()
    managed.append(a_run("3:c"), after)
    await settle()
    assert not before.all
    assert not after.all
    world.ledgers.release()
    assert await ending == Position(1, 1)
    assert before.confirmed == [b"1:a", b"2:b"]
    assert [type(error) for error in after.failed] == [Sealed]
    assert managed.terminated == await managed.terminate() == Position(1, 1)
    again = await world.crash().open()
    assert again.terminated == await again.terminate() == Position(1, 1)
    with pytest.raises(Sealed):
        await publish(again, "4:d")
    assert await contents(again) == [b"1:a", b"2:b"]


async def test_termination_waits_for_runs_resent_after_dead_writer():
    world = World()
    managed = await world.open()
    answers = Answers()
    world.ledgers.fail_append(TimedOut("no answer"), landed=True)
    managed.append(a_run("1:a"), answers)
    managed.append(a_run("2:b"), answers)
    assert await managed.terminate() == Position(2, 1)
    assert answers.confirmed == [b"1:a", b"2:b"]


async def test_terminate_of_empty_topic():
    world = World()
    managed = await world.open()
    assert await managed.terminate() == BEFORE_ALL
    assert (await world.crash().open()).terminated == BEFORE_ALL


async def test_two_terminations_at_once_agree_and_first_properties_stay():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    ends = await asyncio.gather(managed.terminate(properties={"op": "7"}), managed.terminate(properties={"op": "8"}))
    assert ends == [Position(1, 0)] * 2
    assert (await world.crash().open()).properties == {"op": "7"}


async def test_termination_that_did_not_happen_lets_waiting_runs_in():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    world.metadata.faults.append(InjectedFault(NotReady("no quorum"), happened=False))
    ending = asyncio.ensure_future(managed.terminate())
    answers = Answers()
    await settle(2)
    managed.append(a_run("2:b"), answers)
    with pytest.raises(NotReady):
        await ending
    await settle()
    assert answers.confirmed == [b"2:b"]
    assert await managed.terminate() == Position(1, 1)


async def test_termination_that_may_have_happened_acknowledges_nothing_behind_it():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    world.metadata.faults.extend([lost_answer(happened=True), *[lost_answer(happened=False)] * 40])
    ending = asyncio.ensure_future(managed.terminate())
    answers = Answers()
    await settle(2)
    managed.append(a_run("2:b"), answers)
    with pytest.raises(Unknown):
        await ending
    await settle()
    assert len(answers.failed) == 1
    assert (await world.crash().open()).terminated == Position(1, 0)


async def test_termination_whose_caller_gives_up_is_carried_to_its_end():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    ending = asyncio.ensure_future(managed.terminate())
    await settle(2)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    with pytest.raises(Sealed):
        await publish(managed, "2:b")
    assert managed.terminated == Position(1, 0)


async def test_topic_released_during_termination_acknowledges_nothing_behind_end():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    ending = asyncio.ensure_future(managed.terminate())
    await settle(2)
    await managed._owner.close()
    with pytest.raises(Closed):
        await ending
    with pytest.raises(Closed):
        await publish(managed, "2:b")


async def test_terminate_by_owner_that_was_replaced_is_fenced():
    world = World()
    old = await world.open()
    await publish(old, "1:a")
    new = await world.rival().open()
    with pytest.raises(Fenced):
        await old.terminate()
    assert new.terminated is None


async def test_close_confirms_what_was_given_and_next_owner_recovers_nothing():
    world = World()
    managed = await world.open()
    world.ledgers.hold()
    answers = Answers()
    managed.append(a_run("1:a"), answers)
    closing = asyncio.ensure_future(managed.close())
    await settle()
    managed.append(a_run("2:b"), answers)
    world.ledgers.release()
    await closing
    assert answers.confirmed == [b"1:a"]
    assert [type(error) for error in answers.failed] == [Closed]
    assert world.ledgers.memory.ledgers[1].sealed
    writes = world.metadata.puts
    again = await world.crash().open()
    assert world.metadata.puts == writes
    assert await contents(again) == [b"1:a"]


async def test_close_without_metadata_store_still_closes():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    await world.metadata.close()
    await managed.close()
    with pytest.raises(Closed):
        await publish(managed, "2:b")


async def test_termination_writes_record_and_closes_ledger_later():
    for later in ("trim", "close"):
        world = World()
        managed = await world.open()
        await publish(managed, "1:a")
        (stored,) = world.ledgers.memory.ledgers.values()
        assert await managed.terminate() == Position(1, 0)
        assert not stored.sealed
        assert await contents(managed) == [b"1:a"]
        if later == "trim":
            await managed.trim(BEFORE_ALL, Rule(Retention(), 0))
        else:
            await managed.close()
        assert stored.sealed
