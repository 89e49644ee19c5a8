"""Seeks of a real cluster in memory: nobody reads before all is moved, and who leads next finishes what was begun."""

from __future__ import annotations

import pytest

from magnetar.base.errors import MagnetarError, SubscriptionNotFound
from magnetar.base.ids import SegmentId
from magnetar.scalable.machines.seek_target import Target, TargetKind
from magnetar.scalable.service import SubscriptionKind
from magnetar.topic.subscriptions.subscription import Subscription
from magnetar.wire.proto import pb
from tests.unit.broker.world import Client
from tests.unit.scalable.world import KEYS, NAME, Cluster, Ear, Member, Writer, ids, pass_s, settle, spawn

STREAM, QUEUE = SubscriptionKind.STREAM, SubscriptionKind.QUEUE
EARLIEST, LATEST = Target(TargetKind.EARLIEST), Target(TargetKind.LATEST)
STEPS = ["seek.list", "seek.move", "seek.segment_moved", "seek.finish", "seek.done"]


async def a_topic(cluster: Cluster, kind: SubscriptionKind = QUEUE) -> Member:
    """Split once, with messages before and after; the one who leads."""
    leader = cluster.members[0]
    await leader.service.create(NAME)
    await leader.service.subscribe(NAME, "s", kind, earliest=True)
    writer = Writer(cluster)
    for key in KEYS:
        await writer.send(key)
    await leader.service.split(NAME, 0)
    for key in KEYS:
        await writer.send(key)
    writer.close()
    return leader


async def cursors(cluster: Cluster) -> dict[int, Subscription]:
    found = {}
    for one in (await cluster.record()).layout.segments:
        name = one.topic(NAME)
        topic = await (await cluster.owner(name)).segment(name)
        subscription = topic.subscriptions.get("s")
        assert subscription is not None
        found[int(one.id)] = subscription
    return found


async def backlog(cluster: Cluster) -> int:
    return sum([one.backlog for one in (await cursors(cluster)).values()])


@pytest.mark.setup(2)
async def test_everything_is_skipped_and_comes_again(cluster: Cluster) -> None:
    leader = await a_topic(cluster)
    assert await backlog(cluster) == 2 * len(KEYS)
    await leader.service.seek(NAME, "s", LATEST)
    assert await backlog(cluster) == 0
    [one] = await leader.service.subscriptions(NAME)
    assert (one.seek, one.seeks, one.latched) == (None, 1, (0,))
    await leader.service.seek(NAME, "s", EARLIEST)
    assert await backlog(cluster) == 2 * len(KEYS)
    [one] = await leader.service.subscriptions(NAME)
    assert (one.seek, one.seeks, one.latched) == (None, 2, ())


async def test_subscription_that_is_not_there_is_refused(cluster: Cluster) -> None:
    leader = await a_topic(cluster)
    with pytest.raises(SubscriptionNotFound):
        await leader.service.seek(NAME, "other", LATEST)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.setup(2)
async def test_leader_killed_at_any_step_is_replaced_and_finished(cluster: Cluster, step: str) -> None:
    leader = await a_topic(cluster)
    other = cluster.members[1]
    leader.kill_at(step)
    work = spawn(_attempt(leader))
    await settle()
    assert leader.dead
    await pass_s(60)  # its session and its locks are over
    await other.service.controller(NAME).lead()
    await pass_s(30)
    [one] = await other.service.subscriptions(NAME)
    assert (one.seek, one.seeks) == (None, 1)
    assert await backlog(cluster) == 0
    work.cancel()


@pytest.mark.setup(2)
async def test_leader_killed_before_target_is_written_has_moved_nothing(cluster: Cluster) -> None:
    leader = await a_topic(cluster)
    leader.kill_at("seek.intend")
    work = spawn(_attempt(leader))
    await settle()
    assert leader.dead
    await pass_s(60)
    [one] = await cluster.members[1].service.subscriptions(NAME)
    assert (one.seek, one.seeks) == (None, 0)
    assert await backlog(cluster) == 2 * len(KEYS)
    work.cancel()


async def _attempt(leader: Member) -> None:
    try:
        await leader.service.seek(NAME, "s", LATEST)
    except MagnetarError:
        pass


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.setup(2)
async def test_lost_calls_to_owners_are_repeated_and_move_nothing_twice(cluster: Cluster, happened: bool) -> None:
    leader = await a_topic(cluster)
    for number in range(4):
        leader.carrier.losing, leader.carrier.happened = number, happened
        await leader.service.seek(NAME, "s", LATEST if number % 2 else EARLIEST)
        assert await backlog(cluster) == (0 if number % 2 else 2 * len(KEYS))
    assert leader.carrier.lost
    assert sum(one.marked("cursor.sought") for one in cluster.members) == 4 * 3


@pytest.mark.setup(2)
async def test_nobody_attaches_or_drains_during_seek(cluster: Cluster) -> None:
    leader = await a_topic(cluster)
    held: list[str] = []

    def stop(name: str, facts: dict[str, object]) -> None:
        if name == "seek.move" and not held:
            held.append(name)
            leader.carrier.losing, leader.carrier.happened = 0, False  # the first two moves do not arrive

    leader.runtime.told = stop
    work = spawn(leader.service.seek(NAME, "s", EARLIEST))
    await settle()
    assert held
    assert not work.done()
    [one] = await leader.service.subscriptions(NAME)
    assert one.seek is not None
    name = (await cluster.record()).layout.segment(SegmentId(0)).topic(NAME)
    owner = await cluster.owner(name)
    client = Client(owner.node).connect()
    refused = await client.subscribe(1, str(name), subscription="s", subType=pb.CommandSubscribe.Shared)
    assert refused.error.error == pb.ServiceNotReady
    await pass_s(10)
    await work
    admitted = await client.subscribe(2, str(name), subscription="s", subType=pb.CommandSubscribe.Shared)
    assert admitted.HasField("success")
    client.lose()


@pytest.mark.setup(2)
async def test_children_wait_again_for_parent_that_was_moved_back(cluster: Cluster) -> None:
    leader = await a_topic(cluster, STREAM)
    await leader.service.seek(NAME, "s", LATEST)
    ear = Ear("1")
    first = await leader.service.register(NAME, "s", "c", 1, STREAM, ear)
    await pass_s(5)
    assert sorted(ids(ear.heard[-1] if ear.heard else first)) == [1, 2], "of the parent everything is skipped"
    await leader.service.seek(NAME, "s", EARLIEST)
    await pass_s(5)
    assert ids(ear.heard[-1]) == [0], "the past first"
    [parent] = [one for id, one in (await cursors(cluster)).items() if id == 0]
    parent.cursor.ack_to(parent.topic.managed.last)
    await parent.cursor.flush()
    parent.topic.stir(parent)
    await pass_s(30)
    assert sorted(ids(ear.heard[-1])) == [1, 2]


@pytest.mark.setup(2)
async def test_consumer_that_is_refused_has_unfinished_seek_finished(cluster: Cluster) -> None:
    leader = await a_topic(cluster)
    leader.kill_at("seek.move")
    work = spawn(_attempt(leader))
    await settle()
    assert leader.dead
    await pass_s(60)
    name = (await cluster.record()).layout.segment(SegmentId(1)).topic(NAME)
    owner = await cluster.owner(name)
    client = Client(owner.node).connect()
    for number in range(20):
        said = await client.subscribe(number, str(name), subscription="s", subType=pb.CommandSubscribe.Shared)
        if said.HasField("success"):
            break
        await pass_s(5)
    assert said.HasField("success")
    assert await backlog(cluster) == 0
    client.lose()
    work.cancel()
