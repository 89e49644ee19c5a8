"""Readers: where they start, what they must not touch, and how long their cursors live."""

from __future__ import annotations

import pytest

from magnetar.base.errors import (
    Refused,
)
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.ledger.cursor.cursor import Cursor
from magnetar.topic.subscriptions.subscription import EXCLUSIVE
from tests.unit.topic.world import Out, World, pass_s, settle, subscription_of


@pytest.mark.parametrize(
    ("start", "texts"),
    [
        (BEFORE_ALL, "abcd"),
        (AFTER_ALL, "d"),
        (None, "d"),
        (Position(1, 1), "bcd"),  # AT the entry named
        (Position(1, 99), "d"),  # behind the end: latest
        (Position(0, 5), "abcd"),  # a ledger of nobody, before all
        (Position(1, -1), "abcd"),
    ],
)
async def test_reader_starts_at_entry_it_names(world: World, start: Position | None, texts: str) -> None:
    topic = await world.topic()
    await world.publish(topic, *"abc")
    out = Out()
    await world.consumer(
        topic,
        out,
        subscription="reader-1",
        kind=EXCLUSIVE,
        durable=False,
        start=start,
        earliest=False,
        permits=10,
    )
    await world.publish(topic, "d")
    assert "".join(out.texts) == texts


@pytest.mark.parametrize(("earliest", "texts"), [(True, "abcd"), (False, "d")])
async def test_non_durable_without_start_begins_at_its_initial_position(
    world: World, earliest: bool, texts: str
) -> None:
    topic = await world.topic()
    await world.publish(topic, *"abc")
    out = Out()
    await world.consumer(topic, out, subscription="r", kind=EXCLUSIVE, durable=False, earliest=earliest, permits=10)
    await world.publish(topic, "d")
    assert "".join(out.texts) == texts


@pytest.mark.parametrize("start", [BEFORE_ALL, AFTER_ALL, Position(1, 0)])
async def test_roll_back_with_start_id_begins_at_roll_back(world: World, start: Position) -> None:
    topic = await world.topic()
    wall = world.runtime.wall()
    await world.publish(topic, "old", publish_time=wall - 60_000)
    await world.publish(topic, "new", publish_time=wall - 10_000)
    out = Out()
    await world.consumer(
        topic, out, subscription="r", kind=EXCLUSIVE, durable=False, rollback_s=30, start=start, permits=10
    )
    await settle()
    assert out.texts == ["new"]


async def test_reader_can_start_some_time_back(world: World) -> None:
    topic = await world.topic()
    wall = world.runtime.wall()
    await world.publish(topic, "old", publish_time=wall - 60_000)
    await world.publish(topic, "new", publish_time=wall - 10_000)
    out = Out()
    await world.consumer(topic, out, subscription="reader-1", kind=EXCLUSIVE, durable=False, rollback_s=30, permits=10)
    await settle()
    assert out.texts == ["new"]


async def test_readers_cursor_vanishes_with_it(world: World) -> None:
    topic = await world.topic()
    reader = await world.consumer(topic, Out(), subscription="reader-1", kind=EXCLUSIVE, durable=False)
    assert len(topic.subscriptions) == 1
    topic.remove_consumer(reader)
    assert len(topic.subscriptions) == 0
    assert await Cursor.names(topic.managed) == []


async def test_reader_cannot_move_durable_subscription_nor_other_way_round(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(1), subscription="s", kind=EXCLUSIVE)
    topic.remove_consumer(consumer)
    with pytest.raises(Refused):
        await world.consumer(topic, Out(2), subscription="s", kind=EXCLUSIVE, durable=False)
    await world.consumer(topic, Out(3), subscription="r", kind=EXCLUSIVE, durable=False)
    with pytest.raises(Refused):
        await world.consumer(topic, Out(4), subscription="r", kind=EXCLUSIVE)


async def test_reader_replacing_dead_one_receives_new_messages(world: World) -> None:
    topic = await world.topic()
    dead = Out(1)
    await world.consumer(topic, dead, subscription="r", kind=EXCLUSIVE, durable=False)
    dead.answers = False
    out = Out(2)
    await world.consumer(topic, out, subscription="r", kind=EXCLUSIVE, durable=False, permits=10)
    await world.publish(topic, "a")
    assert out.texts == ["a"]
    assert len(topic.subscriptions) == 1


async def test_reader_kept_for_seek_is_dropped_if_absent(world: World) -> None:
    topic = await world.topic()
    await world.publish(topic, "a")
    await world.consumer(topic, Out(), subscription="r", kind=EXCLUSIVE, durable=False, permits=1)
    await subscription_of(topic, "r").seek(BEFORE_ALL)
    assert len(topic.subscriptions) == 1
    await pass_s(61)
    assert len(topic.subscriptions) == 0
