"""What consumers say of a subscription is kept beside what we write about its cursors, on every segment alike."""

from __future__ import annotations

import pytest

from magnetar.base.names import topic_name
from magnetar.broker.migration.migration import migrate
from magnetar.broker.segments.cursors import given
from magnetar.scalable.record.subscription import Type
from magnetar.wire.proto import pb
from tests.support.scalable_topic import consume
from tests.unit.broker.world import TOPIC, World

NAME = topic_name("topic://public/default/x")
TEAM = [{"key": "team", "value": "x"}, {"key": "magnetar.life", "value": "99"}]
OTHER = [{"key": "team", "value": "y"}]


async def said(world: World, subscription: str = "s") -> dict[int, dict[str, str]]:
    """Of the cursors of all segments; none: there is no cursor."""
    record = await world.node.scalable.read(NAME)
    assert record is not None
    topics = {int(one.id): await world.topic(str(one.topic(NAME))) for one in record.layout.segments}
    found = {id: topic.subscriptions.get(subscription) for id, topic in topics.items()}
    return {id: given(one.cursor.properties) for id, one in found.items() if one is not None}


def segment(record_range: str) -> str:
    return f"segment://public/default/x/{record_range}"


async def test_queue_properties_are_first_ones_and_those_of_children(
    world: World,
) -> None:
    await world.node.scalable.create(NAME, segments=2)
    one = world.client()
    await one.subscribe(1, segment("0000-7fff-0"))
    assert await said(world) == {0: {}, 1: {}}
    assert (await one.subscribe(2, segment("0000-7fff-0"), subscription_properties=TEAM)).HasField("success")
    await one.subscribe(3, segment("8000-ffff-1"), subscription_properties=OTHER)
    assert await said(world) == {0: {"team": "x"}, 1: {"team": "x"}}
    one.lose()
    await world.node.scalable.split(NAME, 0)
    assert await said(world) == {id: {"team": "x"} for id in range(4)}
    [record] = await world.node.scalable.subscriptions(NAME)
    assert record.properties == (("team", "x"),)
    assert (await world.client().subscribe(4, segment("0000-3fff-2"))).HasField("success")  # the life is its own


async def test_stream_properties_come_with_first_segment_and_reach_all(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client()
    await consume(client, "a")
    exclusive = {"subType": pb.CommandSubscribe.Exclusive, "consumer_name": "a-seg-0"}
    answer = await client.subscribe(3, segment("0000-ffff-0"), subscription_properties=TEAM, **exclusive)
    assert answer.HasField("success")
    await world.node.scalable.split(NAME, 0)
    assert await said(world) == {id: {"team": "x"} for id in range(3)}
    [record] = await world.node.scalable.subscriptions(NAME)
    assert (record.type, record.properties) == (Type.STREAM, (("team", "x"),))
    assert [one.name for one in record.members] == ["a"]  # what its leader wrote beside it stands


@pytest.mark.parametrize("before", [None, OTHER])
async def test_plain_topic_properties_are_used_if_none_were_given(
    world: World, before: list[dict[str, str]] | None
) -> None:
    await world.client().subscribe(1, **({} if before is None else {"subscription_properties": before}))
    await world.client().subscribe(1, subscription_properties=TEAM)
    found = (await world.topic(TOPIC)).subscriptions.get("s")
    assert found is not None
    assert found.cursor.properties == {"team": "x" if before is None else "y"}


async def test_properties_of_migrated_topic_reach_its_segments(world: World) -> None:
    plain = "persistent://public/default/x"
    await world.client().subscribe(1, plain, subscription_properties=TEAM)
    await migrate(world.node, topic_name(plain), force=True)
    await world.client().subscribe(2, plain)
    await world.node.scalable.split(NAME, 1)
    assert (await said(world)) == {0: {"team": "x"}, 1: {}, 2: {"team": "x"}, 3: {"team": "x"}}
    await world.client().subscribe(3, segment("0000-ffff-1"))
    assert (await said(world))[1] == {"team": "x"}
