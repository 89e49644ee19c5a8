"""Table views: complete when they are there, then in step with their topic; the newest value of each key."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.table_view import TableView
from magnetar.client.message import MessageId
from magnetar.client.schema import STRING
from tests.support.broker_script import K, World, single

pytestmark = pytest.mark.real_clock


async def a_view(world: World, *entries: bytes) -> TableView[str]:
    asked = ConsumerConfig("reader-1", durable=False, start=MessageId.EARLIEST, read_compacted=True)
    view: TableView[str] = TableView(world.lookup, "t", asked, schema=STRING)
    world.made.append(view)
    world.broker.last = MessageId(1, len(entries) - 1) if entries else MessageId(-1, -1)
    starting = asyncio.create_task(view._start())
    await world.broker.until_said(K.FLOW)
    for number, entry in enumerate(entries):
        world.broker.push(number, entry)
    await starting
    return view


async def test_it_is_complete_when_it_is_there(world: World):
    view = await a_view(
        world,
        single(b"1", partition_key="a"),
        single(b"2", partition_key="b"),
        single(b"nobody's"),
        single(b"3", partition_key="a"),
        single(b"", partition_key="b"),
        single(b"4", partition_key="c"),
    )
    assert dict(view) == {"a": "3", "c": "4"}
    assert (view["a"], len(view), "b" in view, view.get("b")) == ("3", 2, False, None)
    assert world.broker.said(K.SUBSCRIBE)[0].read_compacted
    with pytest.raises(KeyError):
        view["b"]


async def test_it_follows_and_tells_of_every_change(world: World):
    view = await a_view(world, single(b"1", partition_key="a"))
    told: list[tuple[str, str | None]] = []
    done = asyncio.Event()

    def heard(key, value):
        told.append((key, value))
        if len(told) == 4:
            done.set()
        if value == "bad":
            raise ValueError("the listener's own fault")

    view.for_each_and_listen(heard)
    world.broker.push(1, single(b"bad", partition_key="b"))
    world.broker.push(2, single(b"\xff", partition_key="c"))  # not text
    world.broker.push(3, single(b"", partition_key="a"))
    world.broker.push(4, single(b"9", partition_key="z"))
    await done.wait()
    assert told == [("a", "1"), ("b", "bad"), ("a", None), ("z", "9")]
    assert dict(view) == {"b": "bad", "z": "9"}


async def test_empty_topic_is_empty_table(world: World):
    view = await a_view(world)
    assert list(view) == []
    assert view != {}
