"""The power goes out at every step of publishing, rolling, trimming, terminating and deleting."""

from __future__ import annotations

from magnetar.base.errors import TopicNotFound
from magnetar.base.ids import Position
from magnetar.ledger.orphans import sweep
from magnetar.ledger.retention import Retention, Rule
from tests.unit.ledger.world import (
    PATH,
    Answers,
    World,
    a_config,
    a_run,
    at_every_step,
    contents,
    publish,
)

TEN = [f"{10 * index}:x" for index in range(10)]


def small_ledgers(**changed):
    return a_config(entries_max=3, **changed)


async def no_orphans(world: World) -> bool:
    """After two sweeps the shelf holds what the record names."""
    suspects = await sweep(world.ledgers, world.metadata)
    await sweep(world.ledgers, world.metadata, suspects)
    return not await sweep(world.ledgers, world.metadata)


def test_crash_while_publishing_rolling_or_trimming_loses_nothing_confirmed():
    confirmed: list[bytes] = []
    given = [f"{index}:x".encode() for index in range(8)]

    async def story(world: World) -> None:
        confirmed.clear()
        world.config = a_config(entries_max=2)
        managed = await world.open()
        for entry in given:
            await publish(managed, entry)
            confirmed.append(entry)
        await managed.trim(Position(2, 1), Rule(Retention(0, 0), 0))

    async def check(world: World) -> None:
        managed = await world.open()
        found = await contents(managed)
        alive = [entry for entry in confirmed if entry not in given[:4]]
        assert set(alive) <= set(found)
        assert found == given[given.index(found[0]) :][: len(found)] if found else not alive
        assert len(found) <= len(confirmed) + 1
        assert given[:4] == confirmed[:4] or found == given[: len(found)], "nothing is trimmed before it is consumed"
        await publish(managed, "100:y")
        assert await no_orphans(world)
        assert await contents(managed) == [*found, b"100:y"]

    assert at_every_step(story, check) > 30


def test_crash_while_terminating_never_shows_run_behind_end():
    told: list[object] = []

    async def story(world: World) -> None:
        told.clear()
        managed = await world.open()
        await publish(managed, "1:a")
        answers = Answers()
        managed.append(a_run("2:b"), answers)
        end = await managed.terminate()
        told.append(end)

    async def check(world: World) -> None:
        managed = await world.open()
        if told:
            assert managed.terminated == told[0]
        if managed.terminated is not None:
            assert managed.last == managed.terminated == Position(1, 1)

    at_every_step(story, check)


def test_crash_while_deleting_leaves_whole_topic_or_nothing():
    async def story(world: World) -> None:
        world.config = small_ledgers()
        managed = await world.open()
        await publish(managed, *TEN)
        await world.metadata.put(f"{PATH}/sub", b'{"v":1,"name":"sub"}')
        await managed.delete()

    async def check(world: World) -> None:
        try:
            managed = await world.open(create=False)
        except TopicNotFound:
            assert await world.metadata.get(PATH) is None
            assert await world.metadata.children(PATH) == []
            assert await no_orphans(world)
            assert not world.ledgers.memory.ledgers
        else:
            found = await contents(managed)
            assert found == [entry.encode() for entry in TEN][: len(found)]

    at_every_step(story, check)
