"""Calls to the owner of a topic: repeated, late, of an older term, and for a topic that is not here."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Conflict, Fenced, NotReady, Refused, Sealed, SubscriptionNotFound
from magnetar.base.ids import Term
from magnetar.base.names import topic_name
from magnetar.cluster.calls.topic_calls import Create, Flush
from magnetar.topic.topic import Topic
from tests.support.broker_cluster import Cluster
from tests.unit.broker.world import TOPIC, World, settle

NAME = topic_name(TOPIC)


async def a_topic(world: World) -> Topic:
    found = await world.node.topics.get(NAME, create=False)
    assert isinstance(found, Topic)
    return found


async def test_create_makes_cursor_set_equal_however_often_it_comes(world: World) -> None:
    owner = world.node.peers.owner(NAME)
    assert (await owner.create("op-1", Term(1), ("a", "b"))).cursors == ("a", "b")
    assert (await owner.create("op-1", Term(1), ("a", "b"))).cursors == ("a", "b")
    assert (await owner.create("op-1", Term(2), ("b", "c"))).cursors == ("b", "c")
    await world.node.topics.unload(NAME)
    assert {found.name for found in (await a_topic(world)).subscriptions} == {"b", "c"}


async def test_late_create_takes_nothing_from_topic_in_use(world: World) -> None:
    owner = world.node.peers.owner(NAME)
    await owner.create("op-1", Term(1), ("a",))
    client = world.client()
    await client.produce()
    await client.subscribe(subscription="since")
    client.send(0, "m")
    await settle()
    assert (await owner.create("op-1", Term(1), ("a",))).cursors == ("a", "since")


async def test_topic_that_somebody_else_made_is_not_made_anew(world: World) -> None:
    await world.topic()
    with pytest.raises(Conflict, match="created by a client"):
        await world.node.peers.owner(NAME).create("op-1", Term(1))
    other = topic_name("persistent://public/default/other")
    await world.node.peers.owner(other).create("op-1", Term(1))
    with pytest.raises(Conflict, match="created by op-1"):
        await world.node.peers.owner(other).create("op-2", Term(2))


async def test_lower_term_is_fenced_also_by_next_owner(world: World) -> None:
    owner = world.node.peers.owner(NAME)
    await owner.create("op-1", Term(5), ("a",))
    await world.node.topics.unload(NAME)
    with pytest.raises(Fenced):
        await owner.create("op-1", Term(4), ())
    with pytest.raises(Fenced):
        await owner.seal("op-2", Term(4))
    with pytest.raises(Fenced):
        await owner.flush("op-2", Term(4), "a")
    with pytest.raises(Fenced):
        await owner.delete("op-2", Term(4), force=True)
    assert {found.name for found in (await a_topic(world)).subscriptions} == {"a"}


async def test_seal_is_final_and_says_same_again(world: World) -> None:
    client = world.client()
    await client.produce()
    client.send(0, "m")
    await settle()
    owner = world.node.peers.owner(NAME)
    first = await owner.seal("op-1", Term(1))
    await world.node.topics.unload(NAME)
    again = await owner.seal("op-1", Term(1))
    assert (again.end, again.messages) == (first.end, 1)
    assert isinstance((await a_topic(world)).refusal, Sealed)


async def test_delete_twice_is_deleted_once(world: World) -> None:
    client = world.client()
    await client.produce()
    owner = world.node.peers.owner(NAME)
    with pytest.raises(Conflict):
        await owner.delete("op-1", Term(1))
    assert (await owner.delete("op-1", Term(1), force=True)).existed
    assert not (await owner.delete("op-1", Term(1), force=True)).existed
    assert not await world.node.catalogue.exists(NAME)


async def test_flush_answers_what_crash_would_keep(world: World) -> None:
    client = world.client()
    await client.produce()
    await client.subscribe(permits=10)
    client.send(0, "m0")
    client.send(1, "m1")
    await settle()
    place = client.heard.delivered[0].position
    client.ack(1, place)
    owner = world.node.peers.owner(NAME)
    assert await owner.flush("op-1", Term(1), "s") == place
    assert (await a_topic(world)).subscriptions.get("s").cursor.drained(place)  # type: ignore[union-attr]
    with pytest.raises(SubscriptionNotFound):
        await owner.flush("op-1", Term(1), "nosuch")


async def test_calls_for_one_topic_wait_for_each_other(world: World) -> None:
    owner = world.node.peers.owner(NAME)
    await asyncio.gather(*(owner.create("op-1", Term(1), ("a", "b")) for _ in range(5)), owner.seal("o", Term(2)))
    assert (await a_topic(world)).managed.terminated is not None
    assert len(world.node.handlers._locks) == 0


async def test_topic_that_keeps_nothing_has_no_end(world: World) -> None:
    name = topic_name("non-persistent://public/default/loose")
    await world.node.topics.get(name, create=True)
    with pytest.raises(Refused):
        await world.node.peers.owner(name).seal("op", Term(1))
    assert (await world.node.peers.owner(name).delete("op", Term(1), force=True)).existed


async def test_topic_of_broker_that_is_not_reached_is_left_alone(cluster: Cluster) -> None:
    owner, other = await cluster.find()
    await owner.node.peers.owner(NAME).create("op-1", Term(1), ("a",))
    with pytest.raises(NotReady, match="no broker answers"):
        await other.node.peers.owner(NAME).seal("op-1", Term(1))
    # A call that reached the wrong broker over some carrier does nothing there.
    for request in (Create(op="op-1", term=Term(1)), Flush(op="op-1", term=Term(1), cursor="a")):
        with pytest.raises(NotReady):
            await other.node.handlers.handle(NAME, request)
    assert not other.loaded()
