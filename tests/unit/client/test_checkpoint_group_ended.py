"""Members of a checkpoint group whose hold is ended under them, whatever they find it out by, or would end."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import DataLost, SubscriptionNotFound
from magnetar.client.checkpoint_group import renewed_after_s
from magnetar.wire import layouts
from magnetar.wire.proto import pb
from tests.unit.client.checkpointed import K
from tests.unit.client.scaled import TOPIC
from tests.unit.client.scripted import single
from tests.unit.client.test_checkpoint_group import LEFT, a_group
from tests.unit.client.world import run, turns


def test_a_member_whose_group_was_ended_ends_and_does_not_bring_it_back_h_d9():
    async def body() -> None:
        async with a_group(2) as (world, begin):
            consumer = await begin()
            world.scaled.deliver(0, 0, single(b"a"))
            await consumer.receive(60)
            world.held = None
            with pytest.raises(SubscriptionNotFound):  # before its controller said a word
                await consumer.checkpoint()
            [(id, link)] = world.scaled.registered.items()
            nothing = layouts.share(TOPIC, world.scaled.a_share(generation=2), extended=True)
            link.write(layouts.assigned(id, nothing, (pb.SubscriptionNotFound, "it was removed")))
            with pytest.raises(SubscriptionNotFound, match="it was removed"):
                await consumer.receive(60)
            assert world.held is None
            assert len(world.broker.kinds(K.SCALABLE_TOPIC_SUBSCRIBE)) == 1

    run(body)


def test_a_member_that_is_given_a_segment_of_a_group_that_was_ended_ends_h_d9():
    async def body() -> None:
        async with a_group(2) as (world, begin):
            consumer = await begin()
            world.held = None
            world.scaled.assign(0, generation=2)
            with pytest.raises(SubscriptionNotFound):
                await consumer.receive(60)
            assert world.held is None

    run(body)


def test_a_member_that_has_a_segment_to_its_end_when_its_group_is_ended_ends_h_d9():
    async def body() -> None:
        async with a_group() as (world, begin):
            consumer = await begin()
            world.held = None
            world.split(0)
            world.scaled.end(0)
            with pytest.raises(SubscriptionNotFound):
                await consumer.receive(60)
            assert world.held is None

    run(body)


@pytest.mark.parametrize(("left_ms", "after_s"), [(9_000, 3.0), (7 * 86_400_000, 600.0), (0, 1.0), (-5_000, 1.0)])
def test_a_hold_is_said_anew_three_times_in_its_life_and_not_all_the_time_where_clocks_differ(left_ms, after_s):
    assert renewed_after_s(left_ms) == after_s


def test_a_checkpoint_after_the_hold_had_expired_tells_what_is_gone():
    async def body() -> None:
        async with a_group(2) as (world, begin):
            consumer = await begin()
            world.expired, world.lost = True, (LEFT,)
            with pytest.raises(DataLost):
                await consumer.checkpoint()

    run(body)


def test_a_member_whose_segments_another_still_has_waits_no_longer_than_it_was_told_to_and_hears_of_failures_after():
    async def body() -> None:
        async with a_group() as (world, begin):
            world.scaled.refusals[world.scaled.name(0)] = [pb.ConsumerBusy] * 1000
            starting = asyncio.ensure_future(begin())
            await turns(lambda: hasattr(world, "consumer") and world.consumer._reading.parts is not None)
            parts = world.consumer._reading.parts
            assert parts is not None
            await parts.begun(0.01)
            consumer = await starting
            world.held = None
            with pytest.raises(SubscriptionNotFound):
                await consumer.checkpoint()
            parts._fail(SubscriptionNotFound("gone"))
            with pytest.raises(SubscriptionNotFound):
                await consumer.receive(60)

    run(body)
