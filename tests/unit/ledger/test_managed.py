"""Opening, reading, finding, counting, trimming and deleting."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Closed, Corrupt, Fenced, NoSuchLedger, TopicNotFound
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.ledger.retention import Retention, Rule
from magnetar.ledger.run import run_of
from tests.unit.ledger.world import (
    PATH,
    Answers,
    World,
    a_config,
    a_run,
    contents,
    publish,
    settle,
)

pytestmark = pytest.mark.real_clock

TEN = [f"{10 * index}:x" for index in range(10)]


def small_ledgers(**changed):
    return a_config(entries_max=3, **changed)


async def test_missing_topic_is_made_or_not_found():
    world = World()
    with pytest.raises(TopicNotFound):
        await world.open(create=False)
    managed = await world.open()
    assert (managed.last, managed.entries, managed.bytes, managed.messages) == (BEFORE_ALL, 0, 0, 0)
    assert managed.next_valid(BEFORE_ALL) > managed.last
    assert (await world.open(create=False)).path == PATH


async def test_positions_lead_through_all_ledgers_and_back():
    managed = await World(config=small_ledgers()).open()
    positions = await publish(managed, *TEN)
    forward, place = [], managed.first
    while managed.has(place):
        forward.append(place)
        place = managed.after(place)
    assert forward == positions
    backward, place = [], managed.last
    while managed.has(place):
        backward.append(place)
        place = managed.before(place)
    assert backward == positions[::-1]
    assert managed.entries_between(positions[1], positions[8]) == 7
    assert managed.entries_between(BEFORE_ALL, AFTER_ALL) == 10


async def test_tail_is_read_from_memory_and_rest_from_ledgers():
    world = World(config=a_config(cache_bytes=5 * 400))
    managed = await world.open()
    positions = await publish(managed, *TEN)
    run = managed.cached(positions[-1], 1000, 100)
    assert run is not None
    assert run.position(0) == positions[-1]
    assert managed.cached(positions[0], 1000, 100) is None
    assert managed.cached(managed.after(positions[-1]), 1000, 100) is None
    assert await contents(managed, positions[-4]) == [entry.encode() for entry in TEN[-4:]]
    assert world.ledgers.reads == 0
    assert await contents(managed) == [entry.encode() for entry in TEN]
    assert world.ledgers.reads == 1


async def test_read_is_bounded_and_never_spans_ledgers():
    managed = await World(config=a_config(cache_bytes=0, entries_max=4)).open()
    await publish(managed, *TEN)

    async def lengths(bytes_max, entries_max):
        found, place = [], BEFORE_ALL
        while (run := await managed.read(place, bytes_max, entries_max)) is not None:
            found.append(len(run))
            place = managed.after(run.position(len(run) - 1))
        return found

    assert await lengths(1 << 20, 100) == [4, 4, 2]
    assert await lengths(1 << 20, 3) == [3, 1, 3, 1, 2]
    assert await lengths(1, 100) == [1] * 10
    assert await managed.read(AFTER_ALL, 100, 100) is None


async def test_backlog_read_sees_entries_confirmed_since_open():
    world = World(config=a_config(cache_bytes=0))
    world.ledgers.readers_lag = True
    managed = await world.open()
    await publish(managed, "1:a")
    assert await contents(managed) == [b"1:a"]
    await publish(managed, "2:b")
    assert await contents(managed) == [b"1:a", b"2:b"]


async def test_ledger_missing_under_record_is_error_and_no_gap():
    world = World(config=small_ledgers(cache_bytes=0))
    managed = await world.open()
    await publish(managed, *TEN)
    world.ledgers.forget(2)
    with pytest.raises(NoSuchLedger):
        await contents(managed)
    world.ledgers.forget(4)
    with pytest.raises(Corrupt, match="does not exist"):
        await world.crash().open()


@pytest.mark.parametrize(
    ("time_ms", "index"), [(0, 0), (-5, 0), (1, 1), (10, 1), (35, 4), (89, 9), (90, 9), (91, 10), (10**9, 10)]
)
async def test_find_by_time(time_ms, index):
    managed = await World(config=small_ledgers()).open()
    positions = await publish(managed, *TEN)
    assert await managed.find(time_ms) == [*positions, managed.after(managed.last)][index]


async def test_find_in_nothing():
    managed = await World().open()
    assert not managed.has(await managed.find(5))


async def test_count_of_any_stretch_is_what_its_entries_say():
    managed = await World(config=a_config(entries_max=4)).open()
    answers = Answers()
    for index in range(9):
        managed.append(run_of([b"x" * index], [index + 1]), answers)
    await settle()
    positions = [answer for _, answer in answers.all]
    for low in range(9):
        for high in range(low, 9):
            stretch = range(low, high + 1)
            expected = (sum(index + 1 for index in stretch), sum(stretch))
            assert await managed.count(positions[low], positions[high]) == expected
    assert await managed.count(BEFORE_ALL, AFTER_ALL) == (45, 36)
    assert await managed.count(positions[4], positions[3]) == (0, 0)


async def test_properties_survive_with_fields_of_another_version():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    await managed.set_properties({"color": "red"})
    record = await world.metadata.get(PATH)
    changed = record.value.replace(b'{"id":1}', b'{"id":1,"offloaded":"s3"}').replace(b"{", b'{"tomorrow":[1],', 1)
    world = world.crash()
    await world.metadata.put(PATH, changed)
    again = await world.open()
    await again.set_properties({"color": "blue"})
    record = await world.metadata.get(PATH)
    assert b'"tomorrow":[1]' in record.value
    assert b'"offloaded":"s3"' in record.value
    await again.set_properties({"size": "xl"}, remove=["color"])
    assert (await world.crash().open()).properties == {"size": "xl"}


async def test_trim_drops_whole_consumed_ledgers_and_never_moves_last_back():
    world = World(config=small_ledgers())
    managed = await world.open()
    positions = await publish(managed, *TEN)
    assert await managed.trim(positions[4], Rule(Retention(-1, -1), 0)) == 0
    assert await managed.trim(positions[4], Rule(Retention(0, 0), 0)) == 1
    assert managed.first == positions[3]
    assert managed.next_valid(BEFORE_ALL) == positions[3]
    assert sorted(world.ledgers.memory.ledgers) == [2, 3, 4]
    assert managed.entries == 7
    assert await managed.trim(AFTER_ALL, Rule(Retention(0, 0), 0)) == 2
    assert (managed.entries, managed.last) == (1, positions[9])
    again = await world.crash().open()
    assert again.last == positions[9]
    assert await again.trim(AFTER_ALL, Rule(Retention(0, 0), 0)) == 1
    assert (again.entries, again.last, again.has(again.last)) == (0, positions[9], False)
    assert not world.ledgers.memory.ledgers
    third = await world.crash().open()
    assert third.last == positions[9]
    assert third.after(third.last) == third.next_valid(BEFORE_ALL) > third.last
    assert await publish(third, "100:y") == [Position(5, 0)]


async def test_two_trims_at_once_do_not_move_last_back():
    world = World(config=small_ledgers())
    managed = await world.open()
    positions = await publish(managed, *TEN)
    await managed.close()
    again = await world.crash().open()
    far, near = again.trim(AFTER_ALL, Rule(Retention(0, 0), 0)), again.trim(positions[3], Rule(Retention(0, 0), 0))
    await asyncio.gather(far, near)
    assert (again.entries, again.last) == (0, positions[-1])
    assert (await world.crash().open()).last == positions[-1]


async def test_trim_closes_ledger_that_is_too_old_although_nobody_appends():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    assert await managed.trim(AFTER_ALL, Rule(Retention(0, 0), 0)) == 0
    world.runtime.later_s = 5 * 3600.0
    assert await managed.trim(AFTER_ALL, Rule(Retention(0, 0), 0)) == 1
    assert not world.ledgers.memory.ledgers


async def test_appends_go_on_while_record_is_trimmed():
    world = World(config=small_ledgers())
    managed = await world.open()
    positions = await publish(managed, *TEN)
    trimming = asyncio.ensure_future(managed.trim(positions[4], Rule(Retention(0, 0), 0)))
    more = await publish(managed, "101:y", "102:y", "103:y", "104:y")
    assert await trimming == 1
    assert await contents(managed) == [entry.encode() for entry in TEN[3:]] + [
        b"101:y",
        b"102:y",
        b"103:y",
        b"104:y",
    ]
    assert managed.entries == 11
    assert managed.last == more[-1]


async def test_reader_behind_trim_continues_at_first_entry():
    managed = await World(config=small_ledgers(cache_bytes=0)).open()
    positions = await publish(managed, *TEN)
    assert await managed.read(positions[0], 100, 1) is not None
    await managed.trim(positions[5], Rule(Retention(0, 0), 0))
    run = await managed.read(positions[1], 100, 100)
    assert run is not None
    assert run.position(0) == positions[6]


async def test_trim_by_owner_that_was_replaced_deletes_nothing():
    world = World(config=small_ledgers())
    managed = await world.open()
    positions = await publish(managed, *TEN)
    await world.rival().open()
    with pytest.raises(Fenced):
        await managed.trim(positions[4], Rule(Retention(0, 0), 0))
    assert sorted(world.ledgers.memory.ledgers) == [1, 2, 3, 4]


async def test_delete_answers_pending_runs_and_again_is_no_error():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    answers = Answers()
    world.ledgers.hold()
    managed.append(a_run("2:b"), answers)
    await managed.delete()
    await managed.delete()
    assert [type(error) for error in answers.failed] == [Closed]
    assert not world.ledgers.memory.ledgers
    assert await world.metadata.get(PATH) is None
    fresh = await world.open()
    assert fresh.entries == 0


async def test_topic_made_again_while_its_deletion_was_interrupted_is_empty():
    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    await managed._book.commit(deleting=True)
    again = await world.crash().open()
    assert again.entries == 0
    assert not world.ledgers.memory.ledgers


async def test_deletion_that_goes_on_late_leaves_topic_made_anew_alone():
    """Another owner finished it and made the topic again while the first one stood between its mark and the end."""

    world = World()
    managed = await world.open()
    await publish(managed, "1:a")
    await managed._book.commit(deleting=True)
    again = await world.rival().open()
    (kept,) = await publish(again, "2:b")
    await world.metadata.put(f"{PATH}/sub", b"{}")
    await managed.delete()
    assert await world.metadata.get(PATH) is not None
    assert await world.metadata.get(f"{PATH}/sub") is not None
    assert kept.ledger in world.ledgers.memory.ledgers
