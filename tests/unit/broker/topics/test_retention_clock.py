"""A wall clock that is wrong for a while deletes nothing that retention keeps."""

from __future__ import annotations

import pytest

from magnetar.base.limits import CLOCK_START_TRUSTED_S, MAINTENANCE_S, TRIM_S
from magnetar.base.names import topic_name
from tests.unit.broker.world import World, pass_s, settle

DAY_S = 86_400.0
PLAIN = "persistent://public/default/plain"


async def a_full_topic(world: World) -> None:
    client = world.client()
    await client.produce(topic=PLAIN)
    for sequence in range(5):
        client.send(sequence)
        await settle()
    client.lose()
    await settle()
    await world.node.topics.unload(topic_name(PLAIN))


@pytest.mark.setup(defaultRetentionTimeInMinutes="10080", defaultRetentionSizeInMB="-1")
async def test_clock_wrong_for_minute_deletes_nothing(world: World) -> None:
    await pass_s(CLOCK_START_TRUSTED_S + MAINTENANCE_S)
    await a_full_topic(world)
    topic = await world.topic(PLAIN)
    world.runtime.clock_offset_s = 30 * DAY_S
    await pass_s(75)
    world.runtime.clock_offset_s = 0.0
    await pass_s(TRIM_S)
    assert topic.managed.entries == 5
    await world.node.topics.unload(topic_name(PLAIN))
    assert (await world.topic(PLAIN)).managed.entries == 5


@pytest.mark.setup(defaultRetentionTimeInMinutes="10080", defaultRetentionSizeInMB="-1")
async def test_ledger_closed_under_clock_set_back_does_not_expire(world: World) -> None:
    await pass_s(CLOCK_START_TRUSTED_S + MAINTENANCE_S)
    world.runtime.clock_offset_s = -30 * DAY_S
    await pass_s(30)
    await a_full_topic(world)
    world.runtime.clock_offset_s = 0.0
    topic = await world.topic(PLAIN)
    await pass_s(2 * TRIM_S)
    assert topic.managed.entries == 5


@pytest.mark.setup(brokerDeduplicationEnabled="true")
async def test_clock_wrong_for_minute_forgets_no_producer(world: World) -> None:
    await pass_s(CLOCK_START_TRUSTED_S + MAINTENANCE_S)
    client = world.client()
    await client.produce(topic=PLAIN, producer_name="p")
    client.send(0)
    await settle()
    client.lose()
    await settle()
    topic = await world.topic(PLAIN)
    world.runtime.clock_offset_s = 30 * DAY_S
    await pass_s(30)
    world.runtime.clock_offset_s = 0.0
    assert topic.highest_sequence("p") == 0
