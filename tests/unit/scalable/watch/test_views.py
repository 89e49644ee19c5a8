"""What watchers are shown: the newest layout, its owners and its leader, and the end of the topic."""

from __future__ import annotations

import pytest

from magnetar.scalable.watch.views import TopicView
from tests.unit.scalable.leader.test_controller import attempt
from tests.unit.scalable.world import NAME, Cluster, pass_s, settle, spawn


@pytest.mark.setup(2)
async def test_watch_receives_state_changes_and_end(cluster: Cluster) -> None:
    leader, other = cluster.members
    await leader.service.create(NAME)
    seen: list[TopicView | None] = []
    late: list[TopicView | None] = []
    stop = other.service.watch(NAME, seen.append)
    await settle()
    assert seen[-1] is not None
    assert seen[-1].leader is None
    await leader.service.split(NAME, 0)
    await settle()
    last = seen[-1]
    assert last is not None
    assert [one.id for one in last.record.layout.active] == [1, 2]
    assert last.leader is not None
    assert last.leader.id == leader.node.ownership.me.id
    assert last.leader.urls.broker == leader.node.addresses.url
    assert set(last.owners) == {1, 2}, "each was provisioned somewhere; of a sealed one nobody is told"
    whole = await leader.service.view(NAME)
    assert whole is not None
    assert set(whole.owners) == {0, 1, 2}
    other.service.watch(NAME, late.append)
    assert late == [last], "the present one, at once"
    epochs = [view.record.epoch for view in seen if view is not None]
    assert epochs == sorted(epochs)
    stop()
    count = len(seen)
    await leader.service.delete(NAME, force=True)
    await settle()
    assert late[-1] is None
    assert len(seen) == count


@pytest.mark.setup(2)
async def test_whoever_shows_reshape_that_nobody_leads_has_it_finished(cluster: Cluster) -> None:
    leader, other = cluster.members
    await leader.service.create(NAME)
    seen: list[TopicView | None] = []
    other.service.watch(NAME, seen.append)
    await settle()
    leader.kill_at("reshape.intended")
    work = spawn(attempt(spawn(leader.service.split(NAME, 0))))
    await settle()
    assert leader.dead
    await pass_s(10)  # the sweep looks every thirty seconds: this was the watch
    assert seen[-1] is not None
    assert len(seen[-1].record.layout.active) == 2
    work.cancel()


@pytest.mark.setup(2)
async def test_watch_receives_new_leader_and_moved_segments(cluster: Cluster) -> None:
    await cluster.join()
    leader, other, third = cluster.members
    await leader.service.create(NAME, segments=8)
    seen: list[TopicView | None] = []
    third.service.watch(NAME, seen.append)
    await leader.service.controller(NAME).lead()
    await settle()
    before = seen[-1]
    assert before is not None
    assert before.leader == leader.node.ownership.me
    assert leader.node.ownership.me in before.owners.values()
    leader.kill()
    await pass_s(30)
    await other.service.controller(NAME).lead()
    for one in before.record.layout.segments:
        await cluster.owner(one.topic(NAME))
    await settle()
    after = seen[-1]
    assert after is not None
    assert after.leader == other.node.ownership.me
    assert len(after.owners) == 8
    assert leader.node.ownership.me not in after.owners.values()
