"""Stream consumers: who is given which segment, through joins, departures, seals, crashes and new leaders."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import pytest

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import Position, SegmentId
from magnetar.base.names import TopicName
from magnetar.scalable.service import Assignment, SubscriptionKind
from magnetar.wire.proto import pb
from tests.unit.broker.world import Client
from tests.unit.scalable.world import KEYS, NAME, Cluster, Ear, Member, Writer, ids, pass_s, settle

STREAM = SubscriptionKind.STREAM


async def register(member: Member, consumer: str, ear: Ear) -> Assignment:
    found: Assignment = await member.service.register(NAME, "s", consumer, 1, STREAM, ear)
    return found


async def attach(member: Member, segment: TopicName, consumer: str = "a") -> Client:
    client = Client(member.node).connect()
    client.wire.polite = True
    said = await client.ask(
        "SUBSCRIBE",
        topic=str(segment),
        consumer_id=1,
        consumer_name=f"{consumer}-seg",
        subscription="s",
        subType=pb.CommandSubscribe.Exclusive,
        initialPosition=pb.CommandSubscribe.Earliest,
    )
    assert said.HasField("success"), said
    client.flow(1, 1000)
    await settle()
    return client


def delivered(client: Client) -> list[Position]:
    found: list[Any] = [said.message.message_id for said, _ in client.heard.heard if said.HasField("message")]
    return [Position(one.ledgerId, one.entryId) for one in found]


async def test_segments_are_shared_and_move_only_after_release(cluster: Cluster) -> None:
    leader = cluster.members[0]
    record = await leader.service.create(NAME, segments=4)
    a, b = Ear("1"), Ear("2")
    assert ids(await register(leader, "a", a)) == [0, 1, 2, 3]
    last = record.layout.segment(SegmentId(3)).topic(NAME)
    client = await attach(leader, last)
    given = await register(leader, "b", b)
    await settle()
    assert ids(given) == [2] or ids(b.heard[-1]) == [2], "segment 3 is still being read"
    assert ids(a.heard[-1]) == [0, 1]
    client.lose()
    await settle()
    assert ids(b.heard[-1]) == [2, 3]
    await leader.service.streams.leave(NAME, "s", "b", b.heard[-1].session)
    await settle()
    assert ids(a.heard[-1]) == [0, 1, 2, 3]


async def test_lost_connection_keeps_its_segments_for_grace_period(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME, segments=2)
    a, b = Ear("1"), Ear("2")
    first = await register(leader, "a", a)
    await register(leader, "b", b)
    await settle()
    leader.service.connection_lost(NAME, "s", "a", first.session)
    await pass_s(50)
    assert ids(b.heard[-1]) == [1]
    back = Ear("3")
    again = await register(leader, "a", back)
    assert ids(again) == [0]
    leader.service.connection_lost(NAME, "s", "a", first.session)  # the late end of the old connection (H-F7)
    await pass_s(100)
    assert ids(b.heard[-1]) == [1]
    leader.service.connection_lost(NAME, "s", "a", again.session)
    await pass_s(61)
    assert ids(b.heard[-1]) == [0, 1]


async def test_consumer_beyond_grace_makes_way_for_next(cluster: Cluster) -> None:
    leader = cluster.members[0]
    record = await leader.service.create(NAME)
    a, b = Ear("1"), Ear("2")
    first = await register(leader, "a", a)
    client = await attach(leader, record.layout.segment(SegmentId(0)).topic(NAME))
    assert ids(await register(leader, "b", b)) == []
    leader.service.connection_lost(NAME, "s", "a", first.session)
    await pass_s(61)
    assert ids(b.heard[-1]) == [0]
    assert any(said.HasField("close_consumer") for said, _ in client.heard.heard), "its link to the segment (H-F10)"
    client.lose()


async def test_newest_of_two_connections_with_one_name_wins(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME)
    old, new = Ear("1"), Ear("2")
    await register(leader, "a", old)
    assert ids(await register(leader, "a", new)) == [0]
    assert old.gone
    assert not new.gone


async def test_children_are_assigned_when_parent_is_durably_drained(cluster: Cluster) -> None:
    leader = cluster.members[0]
    record = await leader.service.create(NAME)
    await leader.service.subscribe(NAME, "s", STREAM, earliest=True)
    writer = Writer(cluster)
    for key in KEYS:
        await writer.send(key)
    await leader.service.split(NAME, 0)
    ear = Ear("1")
    assert ids(await register(leader, "a", ear)) == [0]
    client = await attach(leader, record.layout.segment(SegmentId(0)).topic(NAME))
    entries = delivered(client)
    assert len(entries) == len(KEYS)
    client.ack(1, *entries[:-1])
    await settle()
    assert leader.marked("latch.written") == 0
    client.ack(1, entries[-1])
    await settle()
    assert leader.marked("latch.written") == 1, "told the moment it happened"
    assert ids(ear.heard[-1]) == [1, 2]
    client.lose()
    writer.close()


async def test_long_history_is_asked_for_generation_by_generation(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME)
    await leader.service.subscribe(NAME, "s", STREAM, earliest=True)
    writer = Writer(cluster)
    await writer.send(KEYS[0])
    for _ in range(4):
        active = (await cluster.record()).layout.active
        await leader.service.split(NAME, active[0].id)
    topics = leader.node.topics
    for topic in list(topics.loaded.values()):
        await topics.unload(topic.name)
    ear = Ear("1")
    assert ids(await register(leader, "a", ear)) == [0]
    await pass_s(5)
    parent = (await cluster.record()).layout.segment(SegmentId(0)).topic(NAME)
    assert list(topics.loaded) == [parent.canonical]
    client = await attach(leader, parent)
    client.ack(1, *delivered(client))
    await pass_s(1)
    active = (await cluster.record()).layout.active
    assert sorted(ids(ear.heard[-1])) == sorted(one.id for one in active), "empty ones are passed at once"
    client.lose()
    writer.close()


@pytest.mark.setup(2)
async def test_latch_survives_leader_and_owner(cluster: Cluster) -> None:
    first = cluster.members[0]
    record = await first.service.create(NAME)
    await first.service.subscribe(NAME, "s", STREAM, earliest=True)
    writer = Writer(cluster)
    await writer.send(KEYS[0])
    await first.service.split(NAME, 0)
    parent = record.layout.segment(SegmentId(0)).topic(NAME)
    ear = Ear("1")
    await register(first, "a", ear)
    client = await attach(await cluster.owner(parent), parent)
    client.ack(1, *delivered(client))
    await settle()
    assert ids(ear.heard[-1]) == [1, 2]
    first.kill()
    await pass_s(30)
    second = cluster.living[0]
    again = Ear("2")
    for _ in range(30):
        try:
            found = await register(second, "a", again)
            break
        except MagnetarError:
            await pass_s(1)
    assert ids(found) == [1, 2], "what was drained stays drained"
    assert found.epoch > ear.heard[-1].epoch, "assignments of the next leader come later (H-B7)"
    writer.close()


@pytest.mark.setup(2)
async def test_drain_that_only_memory_knew_is_forgotten_with_its_owner(cluster: Cluster) -> None:
    leader = cluster.members[0]
    record = await leader.service.create(NAME)
    await leader.service.subscribe(NAME, "s", STREAM, earliest=True)
    writer = Writer(cluster)
    await writer.send(KEYS[0])
    await leader.service.split(NAME, 0)
    parent = record.layout.segment(SegmentId(0)).topic(NAME)
    await register(leader, "a", Ear("1"))
    owner = await cluster.owner(parent)
    client = await attach(owner, parent)
    owner.ledgers.hold()  # the disk does not answer: nothing becomes durable
    client.ack(1, *delivered(client))
    await settle()
    assert leader.marked("latch.written") == 0
    owner.kill()
    await pass_s(30)
    again = Ear("2")
    for _ in range(30):
        try:
            found = await register(cluster.living[0], "a", again)
            break
        except MagnetarError:
            await pass_s(1)
    assert ids(found) == [0], "the parent is read again: its message comes back before any of its children's"
    writer.close()


async def test_new_subscription_of_consumer_starts_where_its_first_subscribe_says(cluster: Cluster) -> None:
    leader = cluster.members[0]
    record = await leader.service.create(NAME, segments=2)
    writer = Writer(cluster)
    for key in KEYS:
        await writer.send(key)
    await register(leader, "a", Ear("1"))
    client = Client(leader.node).connect()
    for id, start in ((0, pb.CommandSubscribe.Latest), (1, pb.CommandSubscribe.Earliest)):
        topic = record.layout.segment(SegmentId(id)).topic(NAME)
        said = await client.ask(
            "SUBSCRIBE",
            topic=str(topic),
            consumer_id=id + 1,
            subscription="s",
            subType=pb.CommandSubscribe.Exclusive,
            initialPosition=start,
        )
        assert said.HasField("success")
        client.flow(id + 1, 100)
    await settle()
    got = [said.message.consumer_id for said, _ in client.heard.heard if said.HasField("message")]
    assert got
    assert set(got) == {2}
    client.lose()
    writer.close()


async def test_work_of_ended_term_is_awaited_before_first_step(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME)
    await register(leader, "a", Ear("1"))
    term = leader.service.controller(NAME).term
    assert term is not None
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        term.coordinators["s"].refresh()
        await term.owner.close()
        gc.collect()
    assert heard == []
