"""A reshape or a deletion that nobody leads is found, beside records that nobody understands."""

from __future__ import annotations

import pytest

from magnetar.base.limits import TOMBSTONE_S
from magnetar.base.names import TopicName
from magnetar.metadata import paths
from magnetar.scalable.leader.sweep import sweep_once
from magnetar.scalable.record.record import Record
from tests.unit.scalable.leader.test_controller import attempt
from tests.unit.scalable.world import NAME, Cluster, Member, pass_s, spawn


async def nothing_to_prune(name: TopicName, record: Record) -> bool:
    return False


async def unfinished(member: Member) -> list[TopicName]:
    return await swept(member, member.runtime.wall())


async def swept(member: Member, now_ms: int) -> list[TopicName]:
    walk = member.service.walk()
    try:
        return await sweep_once(walk, now_ms, nothing_to_prune)
    finally:
        walk.close()


@pytest.mark.setup(2)
async def test_only_started_operations_are_found_despite_broken_record(cluster: Cluster) -> None:
    first, second = cluster.members
    await first.service.create(NAME)
    await second.metadata.put("/topics/public/default/broken", b"{}")
    assert await unfinished(second) == []
    first.kill_at("reshape.checked")
    work = spawn(attempt(spawn(first.service.split(NAME, 0))))
    await pass_s(1)
    assert first.dead
    assert await unfinished(second) == [NAME]
    await pass_s(70)  # nobody asks for the topic: the sweep alone sees to it
    assert await unfinished(second) == []
    work.cancel()


@pytest.mark.setup(1)
async def test_disabled_topics_are_untouched_and_finished_when_enabled(cluster: Cluster) -> None:
    first = cluster.members[0]
    await first.service.create(NAME)
    first.kill_at("reshape.sealed")
    work = spawn(attempt(spawn(first.service.split(NAME, 0))))
    await pass_s(1)
    assert first.dead
    cluster.settings["scalableTopicsEnabled"] = "false"
    off = await cluster.join()
    await pass_s(100)
    assert await unfinished(off) == [NAME]
    off.kill()
    cluster.settings["scalableTopicsEnabled"] = "true"
    on = await cluster.join()
    await pass_s(100)
    assert await unfinished(on) == []
    work.cancel()


async def test_tombstone_is_removed_after_its_time(cluster: Cluster) -> None:
    member = cluster.members[0]
    await member.service.create(NAME)
    await member.service.delete(NAME, force=True)
    buried_ms = member.runtime.wall()
    over_ms = buried_ms + int(TOMBSTONE_S * 1000) + 1
    await swept(member, over_ms - 2)
    again = await member.service.create(NAME)
    assert [one.id for one in again.layout.segments] == [1], "its ids went on (H-C1)"
    await swept(member, over_ms)
    assert await member.service.read(NAME) == again, "it lives"
    await pass_s(1)
    await member.service.delete(NAME, force=True)
    await swept(member, over_ms)
    assert await member.metadata.get(paths.scalable(NAME)) is not None, "its time began anew"
    await swept(member, over_ms + 2000)
    assert await member.metadata.get(paths.scalable(NAME)) is None
    assert [one.id for one in (await member.service.create(NAME)).layout.segments] == [0]
