"""The periodic work of scalable topics is shared out: one broker reads a topic, and only while it needs work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from magnetar.base.limits import RECORDS_READ_AT_ONCE_MAX, WALK_REST_S
from magnetar.base.names import namespace_name, topic_name
from magnetar.broker.batch_read.holds import HoldRequest
from magnetar.metadata import paths
from magnetar.policy.policies import Policies
from magnetar.scalable.leader.topic_walk import TopicWalk
from tests.unit.broker.batch_read.test_holds import holds
from tests.unit.scalable.world import NAME, Cluster, pass_s

TOPICS = 200
CALLS = ("get", "fresh", "sync", "exists", "children", "names", "put", "delete")


def count_calls(cluster: Cluster) -> Counter[str]:
    """All calls on the metadata store from now on, a listing counted as one."""
    counted: Counter[str] = Counter()

    def counting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted_call(*arguments: Any, **options: Any) -> Any:
            counted[name] += 1
            return call(*arguments, **options)

        return counted_call

    for member in cluster.members:
        for name in (*CALLS, "scan"):
            setattr(member.metadata, name, counting(name, getattr(member.metadata, name)))
    return counted


def number(index: int) -> Any:
    return topic_name(f"topic://public/default/t-{index}")


@pytest.mark.setup(3)
async def test_idle_topics_cost_few_calls_on_three_brokers(cluster: Cluster) -> None:
    for index in range(TOPICS):
        await cluster.members[index % 3].service.create(number(index))
    await pass_s(120)  # leaders of the creations are gone, and every topic was looked at
    counted = count_calls(cluster)
    await pass_s(WALK_REST_S)
    rate = counted.total() / WALK_REST_S
    assert rate < 8, f"{rate:.2f} calls a second: {dict(counted)}"


@pytest.mark.setup(3)
async def test_every_topic_is_walked_by_one_broker(cluster: Cluster) -> None:
    for index in range(30):
        await cluster.members[0].service.create(number(index))
    for _ in range(2):
        walked: Counter[str] = Counter()
        for member in cluster.living:
            walk = member.service.walk()
            walked.update([str(name) async for name in walk.names()])
            walk.close()
        assert walked == Counter(str(number(index)) for index in range(30))
        cluster.members[0].kill()
        await pass_s(5)


async def test_resting_topic_is_read_after_change(cluster: Cluster) -> None:
    member = cluster.members[0]
    await member.service.create(NAME)
    walk = member.service.walk()

    async def walked(rests: bool = True) -> int:
        count = 0
        async for name, _, _ in walk.changed():
            count += 1
            if rests:
                walk.rest(name)
        return count

    assert (await walked(), await walked()) == (1, 0)
    await member.metadata.put(f"{paths.scalable(NAME)}/subscriptions/s", b"{}")
    assert (await walked(), await walked()) == (1, 0)
    member.metadata.resync()
    assert (await walked(), await walked()) == (1, 0)
    await pass_s(WALK_REST_S + 1)
    assert (await walked(rests=False), await walked()) == (1, 1)
    walk.close()


async def test_change_during_visit_keeps_topic_awake(cluster: Cluster) -> None:
    member = cluster.members[0]
    await member.service.create(NAME)
    walk = member.service.walk()
    async for name, _, _ in walk.changed():
        await member.metadata.put(f"{paths.scalable(NAME)}/subscriptions/s", b"{}")
        await pass_s(1)
        walk.rest(name)
    assert [str(name) async for name, _, _ in walk.changed()] == [str(NAME)]
    walk.close()


async def test_topic_that_returns_does_not_rest(cluster: Cluster) -> None:
    member = cluster.members[0]
    await member.service.create(NAME)
    mine = True

    async def minds(name: Any) -> bool:
        return mine

    walk = TopicWalk(member.metadata, member.runtime, minds)
    async for name, _, _ in walk.changed():
        walk.rest(name)
    mine = False
    assert [name async for name in walk.names()] == []
    mine = True
    assert [name async for name, _, _ in walk.changed()] == [NAME]
    walk.close()


async def test_many_topics_are_read_in_bounded_groups(cluster: Cluster) -> None:
    member = cluster.members[0]
    for index in range(2 * RECORDS_READ_AT_ONCE_MAX + 3):
        await member.service.create(number(index))
    walk = member.service.walk()
    names = [str(name) async for name, _, _ in walk.changed()]
    assert len(names) == len(set(names)) == 2 * RECORDS_READ_AT_ONCE_MAX + 3
    walk.close()


@pytest.mark.setup(3)
async def test_hold_expires_when_its_owner_was_killed(cluster: Cluster) -> None:
    await cluster.members[0].service.create(NAME)
    (owner,) = [one for one in cluster.members if await one.node.served.minds(NAME)]
    await holds(owner).hold(NAME, HoldRequest("q", expires_s=40))
    await pass_s(5)
    owner.kill()
    await pass_s(100)
    assert sum(one.marked("hold.expired") for one in cluster.living) == 1


@pytest.mark.setup(2)
async def test_damaged_bundles_of_namespace_stop_no_other_topic(cluster: Cluster) -> None:
    for index in range(4):
        await cluster.members[0].service.create(number(index))
    damaged = namespace_name("public/aaa")
    await cluster.members[0].node.namespaces.create(damaged, Policies())
    await cluster.members[0].metadata.put(f"{paths.SCALABLE_TOPICS}/{damaged}/broken", b"{}")
    await cluster.members[0].metadata.put(paths.local_policies(damaged), b'{"bundles":5}')
    await pass_s(1)
    walked: Counter[str] = Counter()
    for member in cluster.living:
        walk = member.service.walk()
        walked.update([str(name) async for name in walk.names()])
        walk.close()
    assert {str(number(index)) for index in range(4)} <= set(walked)
