"""Members of a checkpoint group whose hold is ended under them, whatever they find it out by, or would end."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import DataLost, SubscriptionNotFound
from magnetar.client.consumer.scalable.checkpoint.group import renewed_after_s
from magnetar.layout import readable_range
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from magnetar.wire.scalable import layouts
from tests.support.broker_script import single
from tests.support.checkpoint_consumer import K
from tests.support.scalable_broker_script import TOPIC
from tests.unit.client.consumer.scalable.checkpoint.test_group import LEFT, ROOT, a_group
from tests.unit.client.world import turns

pytestmark = pytest.mark.real_clock


async def test_member_of_deleted_group_ends_without_recreation_h_d9() -> None:
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


async def test_member_assigned_segment_of_deleted_group_ends_h_d9() -> None:
    async with a_group(2) as (world, begin):
        consumer = await begin()
        world.held = None
        world.scaled.assign(0, generation=2)
        with pytest.raises(SubscriptionNotFound):
            await consumer.receive(60)
        assert world.held is None


async def test_member_at_segment_end_ends_with_deleted_group_h_d9() -> None:
    async with a_group() as (world, begin):
        consumer = await begin()
        world.held = None
        world.split(0)
        world.scaled.end(0)
        with pytest.raises(SubscriptionNotFound):
            await consumer.receive(60)
        assert world.held is None


@pytest.mark.parametrize(("left_ms", "after_s"), [(9_000, 3.0), (7 * 86_400_000, 600.0), (0, 1.0), (-5_000, 1.0)])
def test_hold_is_renewed_three_times_per_lifetime(left_ms, after_s):
    assert renewed_after_s(left_ms) == after_s


async def test_checkpoint_after_hold_had_expired_tells_what_is_gone() -> None:
    async with a_group(2) as (world, begin):
        consumer = await begin()
        world.expired, world.lost = True, (LEFT,)
        with pytest.raises(DataLost):
            await consumer.checkpoint()


async def test_member_waits_for_held_segments_until_timeout_then_reports_failures() -> None:
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


async def test_segment_that_group_has_finished_is_not_opened_h_r4() -> None:
    """The controller may hand a segment out before it hears that the group is done with it."""

    async with a_group() as (world, begin):
        world.scaled.layout = world.scaled.layout.split(ROOT, now_ms=1)
        world.scaled.share = world.scaled.a_share(0, 1, 2)
        world.held = {ROOT: readable_range.DONE}
        world.mark[0] = MessageId(-1, -1)  # nothing was ever stored there
        consumer = await begin()
        await world.on(1, 2)
        world.scaled.deliver(1, 0, single(b"child"))
        assert (await consumer.receive(60)).data == b"child"
        assert world.scaled.name(0) not in world.starts()
