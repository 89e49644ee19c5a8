"""The scalable topics of a namespace, followed: nothing that changes while they are listed is missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from magnetar.base.names import namespace_name, topic_name
from magnetar.broker.migration.migration import migrate
from magnetar.metadata import paths
from magnetar.metadata.store import Node
from magnetar.scalable.record import codec, record
from magnetar.scalable.watch.namespace import NamespaceIndex
from magnetar.scalable.watch.namespace_diff import Member
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore
from tests.unit.scalable.world import NAME, Cluster, pass_s, settle
from tests.unit.topic.world import NoFiles

HERE = namespace_name("public/default")
OTHER = topic_name("topic://public/default/other")


class Seen:
    def __init__(self) -> None:
        self.first: list[dict[str, Member]] = []
        self.now: dict[str, Member] = {}
        self.heard: list[str] = []

    def begun(self, members: Mapping[str, Member]) -> None:
        self.first.append(dict(members))
        self.now = dict(members)

    def noted(self, name: str, member: Member | None) -> None:
        self.heard.append(name)
        if member is None:
            del self.now[name]
        else:
            self.now[name] = member


@pytest.mark.setup(2)
async def test_every_broker_learns_created_and_deleted_topics(cluster: Cluster) -> None:
    one, other = cluster.members
    await one.service.create(NAME, properties={"k": "v"})
    seen, late = Seen(), Seen()
    stop = other.service.members.watch(HERE, seen)
    await settle()
    [first] = seen.first
    assert [(name, one.properties) for name, one in first.items()] == [(str(NAME), (("k", "v"),))]
    await one.service.create(OTHER)
    await settle()
    assert list(seen.now) == [str(NAME), str(OTHER)]
    other.service.members.watch(HERE, late)
    assert late.first == [seen.now], "who comes later is told what is known, at once"
    await one.service.split(NAME, 0)
    await settle()
    assert seen.heard == [str(OTHER)], "a reshape changes nothing here"
    await one.service.delete(NAME, force=True)
    await settle()
    assert list(seen.now) == [str(OTHER)]
    stop()
    await one.service.delete(OTHER, force=True)
    await settle()
    assert (list(seen.now), late.now) == ([str(OTHER)], {})


@pytest.mark.setup(1)
async def test_topic_that_is_made_anew_is_another_life(cluster: Cluster) -> None:
    [one] = cluster.members
    seen = Seen()
    one.service.members.watch(HERE, seen)
    lives = []
    for _ in range(2):
        await one.service.create(NAME)
        await settle()
        lives += [member.incarnation for member in seen.now.values()]
        await one.service.delete(NAME, force=True)
        await settle()
        assert seen.now == {}
    assert lives[0] < lives[1]


@pytest.mark.setup(1)
async def test_unreadable_record_is_no_topic_and_harms_no_other(cluster: Cluster) -> None:
    [one] = cluster.members
    await one.service.create(NAME)
    await one.metadata.put(paths.scalable(OTHER), b"{")
    seen = Seen()
    one.service.members.watch(HERE, seen)
    await settle()
    assert list(seen.now) == [str(NAME)]


@pytest.mark.setup(1)
async def test_plain_topic_with_stream_consumers_is_no_member_before_migration(cluster: Cluster) -> None:
    [one] = cluster.members
    plain = topic_name("persistent://public/default/orders")
    await one.node.segments.plains.stand_in(plain)
    seen = Seen()
    one.service.members.watch(HERE, seen)
    await settle()
    assert list(seen.now) == []
    await migrate(one.node, plain, force=True)
    await settle()
    assert list(seen.now) == [str(NAME)]


class Paged(MemoryStore):
    """What it lists was so when it was asked, and comes when the test says."""

    asked = 0
    go_on: asyncio.Event

    async def scan(self, path: str, **how: Any) -> AsyncIterator[tuple[str, Node]]:
        found = [item async for item in super().scan(path, **how)]
        self.asked += 1
        await self.go_on.wait()
        for item in found:
            yield item


async def test_what_changes_while_topics_are_listed_is_heard() -> None:
    files: Any = NoFiles()
    runtime = InlineRuntime(files)
    store = Paged(runtime)
    store.go_on = asyncio.Event()
    value = codec.encode(record.created(None, 1, now_ms=1))
    await store.put(paths.scalable(NAME), value)
    members, seen = NamespaceIndex(runtime, store), Seen()
    members.watch(HERE, seen)
    await settle()
    assert store.asked == 1
    await store.put(paths.scalable(OTHER), value)
    await store.delete(paths.scalable(NAME))
    store.go_on.set()
    await settle()
    assert list(seen.first[0]) == [str(NAME)], "as it was when it was listed"
    assert list(seen.now) == [str(OTHER)]
    assert store.asked == 1
    store.resync()
    await settle()
    assert store.asked == 2
    await members.close()


@pytest.mark.setup(2)
async def test_lost_events_cause_full_listing(cluster: Cluster) -> None:
    one, other = cluster.members
    await one.service.create(NAME)
    seen = Seen()
    other.service.members.watch(HERE, seen)
    await settle()
    other.metadata.disconnect()
    await one.service.create(OTHER)
    await one.service.delete(NAME, force=True)
    await settle()
    other.metadata.reconnect()
    await settle()
    await pass_s(60)
    assert list(seen.now) == [str(OTHER)]
