"""Scalable topics on real nodes in memory: made, split, merged, deleted and made again."""

from __future__ import annotations

import pytest

from magnetar.base.errors import AlreadyExists, NotFound, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.scalable.record.record import Record
from tests.unit.broker.world import World, settle

NAME = topic_name("topic://public/default/orders")


def topic_of(record: Record, id: int) -> str:
    return str(record.layout.segment(SegmentId(id)).topic(NAME))


async def test_split_seals_parent_and_opens_its_children(world: World) -> None:
    service = world.node.scalable
    record = await service.create(NAME, segments=2)
    client = world.client()
    assert (await client.produce(topic=topic_of(record, 0))).HasField("producer_success")
    client.send(0, "m")
    await settle()
    operation = await service.split(NAME, 0)
    assert [step.name for step in operation.steps] == [
        "intended",
        "child_provisioned",
        "provisioned",
        "checked",
        "sealed",
        "committed",
    ]
    after = await service.read(NAME)
    assert after is not None
    assert [one.id for one in after.layout.active] == [2, 3, 1]
    ending = after.layout.segment(SegmentId(0)).ending
    assert ending is not None
    assert (ending.messages, ending.first_publish_ms, ending.last_publish_ms) == (1, 1, 1)
    assert (await client.produce(2, topic=topic_of(after, 2))).HasField("producer_success")
    refused = await client.produce(3, topic=topic_of(after, 0))
    assert refused.error.error == 15, "a sealed segment says so"


async def test_what_record_does_not_list_is_not_made(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client()
    for wrong in ("0000-7fff-0", "0000-ffff-1", "0000-ffff-7"):
        said = await client.produce(topic=f"segment://public/default/orders/{wrong}")
        assert said.error.error == 11, said
    said = await client.produce(topic="segment://public/default/nobody/0000-ffff-0")
    assert said.error.error == 11
    assert (await client.produce(topic="segment://public/default/orders/0000-ffff-0")).HasField("producer_success")


async def test_deleted_name_begins_new_life_with_other_segments(world: World) -> None:
    service = world.node.scalable
    first = await service.create(NAME, segments=2)
    with pytest.raises(AlreadyExists):
        await service.create(NAME)
    await service.delete(NAME, force=True)
    assert await service.read(NAME) is None
    with pytest.raises(TopicNotFound):
        await service.split(NAME, 0)
    second = await service.create(NAME)
    assert second.incarnation > first.incarnation
    assert [one.id for one in second.layout.active] == [2]
    with pytest.raises(NotFound):
        await service.split(NAME, 0)
    await service.split(NAME, 2)
