"""Calls of clients, answered by any broker: each may be repeated, and none of them is believed beyond the record."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Busy, InvalidName, NotReady, Refused, StageNotFound
from magnetar.base.limits import BATCHES_PUBLISHING_MAX, STAGE_LEASE_S
from magnetar.base.names import namespace_name, topic_name
from magnetar.staged import codec
from magnetar.staged.codec import StageId
from magnetar.staged.machine import AlreadyCommitted, Committed
from tests.support.virtual_clock import pass_s, settle
from tests.unit.staged.world import TARGET, World, anybody


async def test_stage_begun_at_one_broker_commits_at_others(world: World) -> None:
    one, two = world.broker(), world.broker()
    begun = await one.begin(TARGET, "s", 0)
    assert not isinstance(begun, AlreadyCommitted)
    world.topics.stages[begun[1]] += ["a", "b"]
    assert await two.seal(begun[0], anybody) == 2
    assert (await one.commit(TARGET, "s", 0, [begun[0]]))[0] == Committed()
    await settle()
    assert (world.topics.target, world.topics.stages) == (["a", "b"], {})


async def test_tasks_that_begin_at_once_get_stage_each(world: World) -> None:
    brokers = [world.broker(), world.broker()]
    begun = await asyncio.gather(*(brokers[task % 2].begin(TARGET, "s", 0) for task in range(12)))
    assert len({one[0] for one in begun if not isinstance(one, AlreadyCommitted)}) == 12


async def test_commit_repeated_after_lost_answer_is_success_that_changes_nothing(world: World) -> None:
    sinks = world.broker()
    stage = await world.stage(sinks, 0, "a")
    await sinks.commit(TARGET, "s", 0, [stage])
    await sinks.drop(stage, anybody)
    assert (await sinks.commit(TARGET, "s", 0, [stage]))[0] == AlreadyCommitted()
    await settle()
    assert await sinks.commit(TARGET, "s", 0, []) == (AlreadyCommitted(), True)
    assert world.topics.target == ["a"]


async def test_query_of_another_checkpoint_is_refused_and_leaves_record_alone(world: World) -> None:
    sinks = world.broker()
    begun = await sinks.begin(TARGET, "s", 0, run="old/1")
    assert not isinstance(begun, AlreadyCommitted)
    await sinks.seal(begun[0], anybody)
    await sinks.commit(TARGET, "s", 0, [begun[0]])
    await settle()
    before = await sinks.find(TARGET, "s")
    assert await sinks.begin(TARGET, "s", 0, run="old/2") == AlreadyCommitted()
    with pytest.raises(Refused, match="sinkId"):
        await sinks.begin(TARGET, "s", 0, run="new/1")
    assert await sinks.find(TARGET, "s") == before


async def test_stages_of_another_sink_or_incarnation_are_refused(world: World) -> None:
    sinks = world.broker()
    other = await world.stage(sinks, 0, "x", name="other")
    with pytest.raises(StageNotFound):
        await sinks.commit(TARGET, "s", 0, [other])
    stage = await world.stage(sinks, 0, "a")
    await sinks.forget(TARGET, "s")
    again = await world.stage(sinks, 0, "b")
    assert (again.number, again.life == stage.life) == (stage.number, False)
    for call in (sinks.seal(stage, anybody), sinks.renew(stage, anybody), sinks.commit(TARGET, "s", 0, [stage])):
        with pytest.raises(StageNotFound):
            await call
    await sinks.drop(stage, anybody)  # forgotten already
    assert (await sinks.commit(TARGET, "s", 0, [again]))[0] == Committed()


async def test_stage_with_failed_topic_is_error_and_expires(world: World) -> None:
    sinks = world.broker()
    world.topics.refuse.append("create")
    with pytest.raises(NotReady):
        await sinks.begin(TARGET, "s", 0)
    assert len((await sinks.find(TARGET, "s")).stages) == 1
    await pass_s(STAGE_LEASE_S + 60)
    assert (await sinks.find(TARGET, "s")).stages == ()


async def test_commit_waits_for_room_and_is_told_at_last(world: World) -> None:
    sinks = world.broker(started=False)
    world.topics.refuse += ["publish"] * 1000
    for batch in range(BATCHES_PUBLISHING_MAX):
        await sinks.commit(TARGET, "s", batch, [await world.stage(sinks, batch, str(batch))])
    stage = await world.stage(sinks, 99, "last")
    with pytest.raises(Busy):
        await sinks.commit(TARGET, "s", 99, [stage])
    waiting = asyncio.ensure_future(sinks.commit(TARGET, "s", 99, [stage]))
    await pass_s(1)
    world.topics.refuse.clear()
    assert (await waiting)[0] == Committed()
    await pass_s(5)
    assert world.topics.target == [*map(str, range(BATCHES_PUBLISHING_MAX)), "last"]


async def test_topic_of_stage_may_exist_while_record_lists_it(world: World) -> None:
    sinks = world.broker(started=False)
    world.topics.refuse += ["delete"] * 1000
    begun = await sinks.begin(TARGET, "s", 0)
    assert not isinstance(begun, AlreadyCommitted)
    id, topic, _ = begun
    assert await sinks.listed(topic)
    assert not await sinks.listed(codec.stage_topic(TARGET, StageId(id.sink, "00000000", id.number)))
    assert not await sinks.listed(topic_name("persistent://t/n/__stage-other"))
    await sinks.drop(id, anybody)
    assert not await sinks.listed(topic)


async def test_sink_needs_name_and_is_forgotten_with_its_namespace(world: World) -> None:
    sinks = world.broker()
    with pytest.raises(InvalidName):
        await sinks.begin(TARGET, "", 0)
    await world.stage(sinks, 0, "a")
    elsewhere = topic_name("persistent://t/other/rows")
    await sinks.begin(elsewhere, "s", 0)
    await sinks.forget_all(namespace_name("t/n"))
    with pytest.raises(StageNotFound):
        await sinks.find(TARGET, "s")
    assert (await sinks.find(elsewhere, "s")).issued == 1
    assert [topic.namespace.text for topic in world.topics.stages] == ["t/other"]
