"""Order, rolling and re-sending, with writers that die and owners that come and go."""

from __future__ import annotations

import pytest

from magnetar.base.errors import (
    Fenced,
    Misuse,
    NotEnoughNodes,
    NotReady,
    StorageFailed,
    TimedOut,
)
from magnetar.base.ids import Position
from magnetar.base.limits import LEDGER_DEATHS_MAX
from simulation.stores.metadata import InjectedFault, lost_answer
from tests.unit.ledger.world import Answers, World, a_config, a_run, contents, publish, settle

pytestmark = pytest.mark.real_clock


async def test_idle_topic_owns_no_ledger_and_first_run_makes_one():
    world = World()
    managed = await world.open()
    assert not world.ledgers.memory.ledgers
    assert await publish(managed, "1:a", "2:b") == [Position(1, 0), Position(1, 1)]
    assert len(world.ledgers.memory.ledgers) == 1


async def test_runs_given_while_first_ledger_is_made_keep_their_order():
    world = World()
    managed = await world.open()
    answers = Answers()
    for index in range(20):
        managed.append(a_run(f"{index}:x"), answers)
        if index == 10:
            await settle(2)
    await settle()
    assert answers.confirmed == [f"{index}:x".encode() for index in range(20)]
    assert not answers.failed


async def test_empty_run_is_callers_mistake():
    managed = await World().open()
    with pytest.raises(Misuse):
        managed.append(a_run(), Answers())
    assert await publish(managed, "1:a") == [Position(1, 0)]


async def test_done_is_never_called_inside_append():
    managed = await World().open()
    answers = Answers()
    managed.append(a_run("1:a"), answers)
    assert not answers.all
    await settle()
    await managed.terminate()
    managed.append(a_run("2:b"), answers)
    assert len(answers.all) == 1


@pytest.mark.parametrize("limit", [{"entries_max": 3}, {"bytes_max": 9}])
async def test_ledgers_are_rolled_between_runs_and_read_as_one(limit):
    world = World(config=a_config(cache_bytes=0, **limit))
    managed = await world.open()
    entries = [f"{index}:x".encode() for index in range(10)]
    positions = await publish(managed, *entries)
    assert [position.ledger for position in positions] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert await contents(managed) == entries
    assert world.ledgers.memory.ledgers[1].sealed


async def test_run_larger_than_ledger_still_goes_into_one():
    managed = await World(config=a_config(entries_max=2)).open()
    answers = Answers()
    managed.append(a_run("1:a", "2:b", "3:c", "4:d"), answers)
    managed.append(a_run("5:e"), answers)
    await settle()
    assert [answer for _, answer in answers.all] == [Position(1, 0), Position(2, 0)]


async def test_full_idle_ledger_is_closed_without_successor():
    world = World(config=a_config(entries_max=1))
    managed = await world.open()
    await publish(managed, "1:a")
    await settle()
    assert [stored.sealed for stored in world.ledgers.memory.ledgers.values()] == [True]
    assert managed.chain.links[0].closed_ms


async def test_young_ledger_is_not_rolled_by_entries():
    managed = await World(config=a_config(entries_max=1, age_min_s=1000.0)).open()
    assert [position.ledger for position in await publish(managed, "1:a", "2:b")] == [1, 1]
    managed = await World(config=a_config(age_max_s=0.0)).open()
    assert [position.ledger for position in await publish(managed, "1:a", "2:b")] == [1, 2]


@pytest.mark.parametrize("landed", [False, True])
async def test_dead_writer_is_replaced_and_pending_runs_resent_in_order(landed):
    world = World(config=a_config(cache_bytes=0))
    managed = await world.open()
    await publish(managed, "0:a")
    answers = Answers()
    world.ledgers.hold()
    for index in range(1, 6):
        managed.append(a_run(f"{index}:x"), answers)
    world.ledgers.release(2)
    await settle()
    world.ledgers.fail_append(TimedOut("no answer"), landed=landed)
    world.ledgers.release()
    managed.append(a_run("6:x"), answers)
    await settle()
    expected = [b"0:a", *(f"{index}:x".encode() for index in range(1, 7))]
    assert answers.confirmed == expected[1:]
    assert await contents(managed) == expected
    assert managed.entries == 7
    again = await world.crash().open()
    assert await contents(again) == expected  # what landed without an answer is cut off by the record


@pytest.mark.parametrize("landed", [0, 1, 3])
async def test_crash_with_runs_in_flight_loses_nothing_confirmed(landed):
    world = World()
    managed = await world.open()
    await publish(managed, "0:a", "1:b")
    world.ledgers.hold()
    for index in range(2, 5):
        managed.append(a_run(f"{index}:x"), Answers())
    await settle()
    again = await world.crash(landed=landed).open()
    found = await contents(again)
    assert found == [b"0:a", b"1:b", b"2:x", b"3:x", b"4:x"][: 2 + landed]
    assert (again.entries, again.messages, again.bytes) == (len(found), len(found), 3 * len(found))


async def test_ledger_whose_writer_died_before_confirming_anything_is_gone():
    world = World()
    managed = await world.open()
    world.ledgers.fail_append(TimedOut("no answer"), landed=True)
    assert await publish(managed, "1:a") == [Position(2, 0)]
    await settle()
    assert [link.ledger for link in managed.chain.links] == [2]
    assert list(world.ledgers.memory.ledgers) == [2]


async def test_repeatedly_dying_writers_end_topic_and_answer_everybody():
    world = World()
    managed = await world.open()
    answers = Answers()
    for _ in range(LEDGER_DEATHS_MAX + 1):
        world.ledgers.fail_append(TimedOut("no answer"))
    managed.append(a_run("1:a"), answers)
    managed.append(a_run("2:b"), answers)
    await settle(200)
    assert [type(error) for error in answers.failed] == [TimedOut, TimedOut]
    with pytest.raises(TimedOut):
        await publish(managed, "3:c")


async def test_failed_ledger_creation_fails_current_and_later_runs():
    world = World()
    managed = await world.open()
    await publish(managed, "0:a")
    world.ledgers.fail_append(StorageFailed("the disk is gone"))
    world.ledgers.fail_create(StorageFailed("the disk is gone"))
    answers = Answers()
    for index in range(1, 4):
        managed.append(a_run(f"{index}:x"), answers)
    await settle()
    assert len(answers.failed) == 3
    managed.append(a_run("4:x"), answers)
    await settle()
    assert [type(error) for error in answers.failed] == [StorageFailed] * 4
    assert isinstance(managed.failed, StorageFailed)


async def test_owner_that_was_fenced_acknowledges_nothing_more():
    world = World()
    old = await world.open()
    await publish(old, "0:a")
    world.ledgers.hold()
    answers = Answers()
    old.append(a_run("1:x"), answers)
    new = await world.rival().open()
    world.ledgers.release()
    old.append(a_run("2:x"), answers)
    await settle()
    assert [type(error) for error in answers.failed] == [Fenced, Fenced]
    assert await publish(new, "3:x") == [Position(2, 0)]
    assert await contents(new) == [b"0:a", b"3:x"]


async def test_two_owners_that_both_opened_idle_topic_cannot_both_append():
    world = World()
    first = await world.open()
    second = await world.rival().open()
    await publish(second, "1:a")
    with pytest.raises(Fenced):
        await publish(first, "2:b")
    assert len(world.ledgers.memory.ledgers) == 2
    assert await contents(second) == [b"1:a"]


async def test_roll_without_metadata_store_is_postponed_unnoticed():
    world = World(config=a_config(entries_max=2))
    managed = await world.open()
    await publish(managed, "0:a")
    world.metadata.faults.append(InjectedFault(NotReady("no quorum"), happened=False))
    positions = await publish(managed, "1:b", "2:c", "3:d")
    assert [position.ledger for position in positions] == [1, 1, 1]
    assert len(world.ledgers.memory.ledgers) == 1
    assert await contents(managed) == [b"0:a", b"1:b", b"2:c", b"3:d"]


async def test_first_ledger_cannot_be_put_off():
    world = World()
    managed = await world.open()
    world.ledgers.fail_create(NotEnoughNodes("no bookies"))
    with pytest.raises(NotEnoughNodes):
        await publish(managed, "0:a")


@pytest.mark.parametrize("happened", [False, True])
async def test_roll_whose_answer_is_lost_goes_on(happened):
    world = World(config=a_config(entries_max=1))
    managed = await world.open()
    await publish(managed, "0:a")
    await settle()
    world.metadata.faults.append(lost_answer(happened=happened))
    assert await publish(managed, "1:b") == [Position(2, 0)]
    assert await contents(await world.crash().open()) == [b"0:a", b"1:b"]
