"""Checkpoint groups: who is given which segment, and when what comes after it."""

from __future__ import annotations

from magnetar.base.ids import SegmentId
from magnetar.base.names import TopicName
from magnetar.broker.batch_read.holds import HoldRequest
from magnetar.layout.layout import initial
from magnetar.layout.readable_range import DONE, ReadPosition
from magnetar.scalable.consumers.group import ungated
from magnetar.scalable.service import Assignment, SubscriptionKind
from magnetar.wire.proto import pb
from tests.unit.broker.world import Client
from tests.unit.scalable.world import NAME, Cluster, Ear, Member, ids, settle

ROOT, LEFT, RIGHT = (SegmentId(id) for id in range(3))


async def register(member: Member, consumer: str, ear: Ear) -> Assignment:
    found: Assignment = await member.service.register(NAME, "g", consumer, 1, SubscriptionKind.CHECKPOINT, ear)
    return found


async def hold(member: Member, places: dict[SegmentId, ReadPosition] | None) -> None:
    await member.node.handlers.holds.hold(NAME, HoldRequest("g", places, 0, 0, ""))


async def read(member: Member, segment: TopicName) -> Client:
    """A reader of the group on a segment."""
    client = Client(member.node).connect()
    client.wire.polite = True
    said = await client.ask(
        "SUBSCRIBE",
        topic=str(segment),
        consumer_id=1,
        consumer_name="a-seg",
        subscription="g",
        subType=pb.CommandSubscribe.Exclusive,
        durable=False,
    )
    assert said.HasField("success"), said
    return client


async def test_group_reporting_progress_gets_children_after_parent_h_g5(
    cluster: Cluster,
) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME, segments=1)
    await hold(leader, None)
    ear = Ear("1")
    assert ids(await register(leader, "a", ear)) == [0]
    await leader.service.split(NAME, 0)
    await settle()
    assert ids(ear.heard[-1] if ear.heard else await register(leader, "a", ear)) == [0]
    await hold(leader, {ROOT: DONE})
    await settle()
    assert ids(ear.heard[-1]) == [1, 2]
    [record] = await leader.service.subscriptions(NAME)
    assert record.latched == (0,)


async def test_group_without_reported_progress_gets_everything_immediately(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME, segments=1)
    ear = Ear("1")
    await register(leader, "a", ear)
    await leader.service.split(NAME, 0)
    await settle()
    assert ids(ear.heard[-1]) == [0, 1, 2]


async def test_segment_moves_when_no_reader_of_group_is_attached(cluster: Cluster) -> None:
    leader = cluster.members[0]
    record = await leader.service.create(NAME, segments=2)
    await hold(leader, None)
    a, b = Ear("1"), Ear("2")
    assert ids(await register(leader, "a", a)) == [0, 1]
    client = await read(leader, record.layout.segment(LEFT).topic(NAME))
    given = await register(leader, "b", b)
    await settle()
    assert ids(a.heard[-1]) == [0]
    assert ids(b.heard[-1] if b.heard else given) == []
    client.lose()
    await settle()
    assert ids(b.heard[-1]) == [1]


async def test_group_makes_no_cursors_h_d8(cluster: Cluster) -> None:
    leader = cluster.members[0]
    record = await leader.service.create(NAME, segments=1)
    await register(leader, "a", Ear("1"))
    topic = await leader.node.topics.get(record.layout.segment(ROOT).topic(NAME), create=False)
    assert [one.name for one in topic.subscriptions] == []


def test_layout_without_order_has_same_segments() -> None:
    layout = initial(1, now_ms=0).split(ROOT, now_ms=1)
    flat = ungated(layout)
    assert [(one.id, one.range, one.state) for one in flat.segments] == [
        (one.id, one.range, one.state) for one in layout.segments
    ]
    assert all(not one.parents and not one.children for one in flat.segments)
