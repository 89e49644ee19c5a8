"""Who publishes: one broker at a time, another one when it dies, and nothing is lost or doubled where two overlap."""

from __future__ import annotations

import asyncio

from magnetar.base.errors import Conflict, StageNotFound
from magnetar.base.limits import SINK_ONCE_S, SINK_SWEEP_S, STAGE_LEASE_S
from magnetar.metadata import paths
from magnetar.staged import codec
from tests.support.virtual_clock import pass_s, settle
from tests.unit.staged.world import TARGET, World, anybody, run


async def committed(world: World, *rows: str) -> None:
    """By a broker that is gone before it could publish."""
    sinks = world.broker(started=False)
    stage = await world.stage(sinks, 0, *rows)
    world.topics.refuse += ["publish"] * 1000
    await sinks.commit(TARGET, "s", 0, [stage])
    await sinks.close()
    world.topics.refuse.clear()


async def test_what_broker_left_is_published_by_one_that_looks(world: World) -> None:
    await committed(world, "a", "b", "c")
    assert world.topics.target == []
    world.broker()
    await pass_s(SINK_SWEEP_S + 5)
    assert (world.topics.target, world.topics.stages) == (["a", "b", "c"], {})


def test_leader_dying_between_rows_is_followed_without_duplicates() -> None:
    for fatal in ("a", "b", "c", "d"):

        async def story(world: World, fatal: str = fatal) -> None:
            await committed(world, "a", "b", "c", "d")
            died: list[str] = []

            def interrupt(row: str) -> None:
                if row == fatal and not died:
                    died.append(row)
                    raise asyncio.CancelledError

            world.topics.interrupt = interrupt
            world.broker()
            await pass_s(SINK_SWEEP_S + 5)
            assert died == [fatal]
            world.broker()
            await pass_s(SINK_SWEEP_S + 5)
            assert world.topics.target == ["a", "b", "c", "d"]

        run(story)


async def test_one_leads_while_another_waits_for_its_turn(world: World) -> None:
    await committed(world, "a", "b")
    key = codec.digest(str(TARGET), "s")
    other = world.content
    await other.put(paths.sink_leader(key), b"somebody", ephemeral=True)
    world.broker()
    await pass_s(SINK_SWEEP_S + 5)
    assert world.topics.target == []
    await other.delete(paths.sink_leader(key))
    await pass_s(5)
    assert world.topics.target == ["a", "b"]


async def test_failed_call_is_retried_with_visible_reason(world: World) -> None:
    sinks = world.broker()
    world.topics.refuse += ["publish"] * 3 + ["delete"]
    await sinks.commit(TARGET, "s", 0, [await world.stage(sinks, 0, "a")])
    await settle()
    assert "publish fails" in sinks.trouble(await sinks.find(TARGET, "s"))
    await pass_s(10)
    assert (world.topics.target, world.topics.stages) == (["a"], {})
    assert sinks.trouble(await sinks.find(TARGET, "s")) == ""
    assert sinks.leader.rows == 1


async def test_publisher_over_limit_is_reported_and_is_no_other_leader(
    world: World,
) -> None:
    sinks = world.broker()
    world.topics.refusal = Conflict
    world.topics.refuse += ["publish"] * 3
    await sinks.commit(TARGET, "s", 0, [await world.stage(sinks, 0, "a")])
    await settle()
    assert "publish fails" in sinks.trouble(await sinks.find(TARGET, "s"))
    await pass_s(10)
    assert world.topics.target == ["a"]


async def test_orphan_goes_when_its_lease_ends(world: World) -> None:
    sinks = world.broker()
    await world.stage(sinks, 0, "a")
    await pass_s(STAGE_LEASE_S - 60)
    assert len(world.topics.stages) == 1
    await pass_s(60 + SINK_SWEEP_S + 5)
    assert world.topics.stages == {}


async def test_sink_of_single_job_is_forgotten_after_day(world: World) -> None:
    sinks = world.broker()
    for name, once in (("job", True), ("query", False)):
        begun = await sinks.begin(TARGET, name, 0, once=once)
        assert isinstance(begun, tuple)
        await sinks.seal(begun[0], anybody)
        await sinks.commit(TARGET, name, 0, [begun[0]])
    await pass_s(SINK_ONCE_S - 60)
    assert (await sinks.find(TARGET, "job")).once
    await pass_s(60 + 2 * SINK_SWEEP_S)
    assert (await sinks.find(TARGET, "query")).last == 0
    try:
        await sinks.find(TARGET, "job")
    except StageNotFound:
        return
    raise AssertionError("it is still there")
