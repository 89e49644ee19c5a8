"""Sealed segments whose messages retention has deleted: their topics go, then the record forgets them; and what keeps
them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.base.errors import TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.broker.batch_read.holds import HoldRequest
from magnetar.layout.readable_range import START
from magnetar.metadata import paths
from magnetar.scalable.machines.seek_target import Target, TargetKind
from magnetar.scalable.record import codec
from magnetar.scalable.record.record import Kind, Record
from magnetar.scalable.service import SubscriptionKind
from magnetar.wire.proto import pb
from tests.unit.scalable.leader.test_term import cursors, left_over
from tests.unit.scalable.world import KEYS, NAME, Cluster, Member, Writer, pass_s, spawn

HOUR = {"defaultScalableTopicRetentionTimeInMinutes": "60", "defaultScalableTopicRetentionSizeInMB": "-1"}
MEGABYTE = {"defaultScalableTopicRetentionTimeInMinutes": "-1", "defaultScalableTopicRetentionSizeInMB": "1"}
NOTHING = {"defaultScalableTopicRetentionTimeInMinutes": "0", "defaultScalableTopicRetentionSizeInMB": "0"}
QUEUE, STREAM = SubscriptionKind.QUEUE, SubscriptionKind.STREAM
MANY = 1_000_000  # operations
LONG_S = 6_000.0  # clocks are trusted after ten minutes; trimming, sweeps of ledgers and of topics take their turns


def listed(record: Record) -> list[int]:
    return [int(one.id) for one in record.layout.segments]


def topics(cluster: Cluster) -> list[int]:
    """The segments that have a topic."""
    return sorted({int(path.split("/")[6].rpartition("-")[2]) for path in left_over(cluster)})


async def filled(cluster: Cluster, *splits: int, padding_bytes: int = 0) -> None:
    """A message of every key before each split and after the last one."""
    leader = cluster.members[0]
    await leader.service.create(NAME)
    writer = Writer(cluster, padding_bytes=padding_bytes)
    for split in splits:
        for key in KEYS:
            await writer.send(key)
        await leader.service.split(NAME, split)
    for key in KEYS:
        await writer.send(key)
    writer.close()


def record_bytes(cluster: Cluster) -> int:
    return len(cluster.members[0].metadata.content.records[paths.scalable(NAME)].value)


def at_mark(cluster: Cluster, mark: str, work: Any) -> list[asyncio.Task[Any]]:
    """Starts the work when the leader makes this mark for the first time."""
    begun: list[asyncio.Task[Any]] = []

    def told(name: str, facts: dict[str, object]) -> None:
        if name == mark and not begun:
            begun.append(spawn(work()))

    for member in cluster.members:
        member.runtime.told = told
    return begun


@pytest.mark.setup(1, kept=False, **HOUR)
async def test_segments_go_when_retention_time_is_over(cluster: Cluster) -> None:
    await filled(cluster, 0, 1)
    await pass_s(1_800)
    assert listed(await cluster.record()) == [0, 1, 2, 3, 4]
    await pass_s(3_600 + LONG_S)
    record = await cluster.record()
    assert listed(record) == topics(cluster) == [2, 3, 4]
    assert record.layout.segment(SegmentId(3)).parents == ()
    assert len(record.history) == 2, "the history of reshapes stays"
    await cluster.members[0].service.split(NAME, 3)
    assert listed(await cluster.record()) == [2, 3, 4, 5, 6]


@pytest.mark.setup(1, kept=False, **MEGABYTE)
async def test_segments_go_when_retention_size_is_exceeded(cluster: Cluster) -> None:
    await filled(cluster, 0, 1, padding_bytes=40_000)
    await pass_s(LONG_S)
    assert listed(await cluster.record()) == [0, 1, 2, 3, 4], "all segments together hold less than the limit"
    writer = Writer(cluster, "w2", padding_bytes=100_000)
    for _ in range(2):
        for key in KEYS:
            await writer.send(key)
    writer.close()
    await pass_s(LONG_S)
    assert listed(await cluster.record()) == topics(cluster) == [2, 3, 4]


@pytest.mark.setup(1, kept=False, **NOTHING)
async def test_subscription_with_backlog_keeps_segment_and_descendants(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME)
    await leader.service.subscribe(NAME, "slow", STREAM, earliest=True)
    writer = Writer(cluster)
    for key in KEYS:
        await writer.send(key)
    await leader.service.split(NAME, 0)
    await leader.service.split(NAME, 1)
    writer.close()
    await pass_s(LONG_S)
    assert listed(await cluster.record()) == [0, 1, 2, 3, 4], "segment 1 is empty, its parent is not (H-H8)"
    await leader.service.unsubscribe(NAME, "slow")
    await pass_s(LONG_S)
    assert listed(await cluster.record()) == topics(cluster) == [2, 3, 4]


@pytest.mark.setup(1, kept=False, **NOTHING)
async def test_hold_of_reader_keeps_segment_until_released(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await filled(cluster)
    await leader.node.handlers.holds.hold(NAME, HoldRequest("q", {SegmentId(0): START}, expires_s=100_000))
    await leader.service.split(NAME, 0)
    await pass_s(LONG_S)
    assert listed(await cluster.record()) == [0, 1, 2]
    await leader.node.handlers.holds.release(NAME, "q")
    await pass_s(LONG_S)
    assert listed(await cluster.record()) == topics(cluster) == [1, 2]


@pytest.mark.setup(1, kept=False, **HOUR)
async def test_clock_that_jumps_prunes_nothing_h_h6(cluster: Cluster) -> None:
    await filled(cluster, 0)
    await pass_s(1_500)
    cluster.members[0].runtime.clock_offset_s = 30 * 86_400.0
    await pass_s(1_500)
    assert listed(await cluster.record()) == [0, 1, 2]
    cluster.members[0].runtime.clock_offset_s = 0.0
    await pass_s(600)
    assert listed(await cluster.record()) == [0, 1, 2]


@pytest.mark.parametrize("mark", ["pruning.marked", "pruning.deleted", "pruning.forgotten"])
@pytest.mark.setup(2, kept=False, **NOTHING)
async def test_crash_during_pruning_is_finished_by_next_leader_h_h1(cluster: Cluster, mark: str) -> None:
    await filled(cluster, 0)
    for member in cluster.members:

        def told(name: str, facts: dict[str, object], member: Member = member) -> None:
            if name == mark and len(cluster.living) == 2:
                member.kill()

        member.runtime.told = told
    await pass_s(2 * LONG_S)
    assert sum(member.dead for member in cluster.members) == 1
    record = await cluster.record()
    assert listed(record) == topics(cluster) == [1, 2]


@pytest.mark.setup(1, kept=False, **NOTHING)
async def test_pruned_segment_is_listed_until_its_topic_is_gone_h_h1(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await filled(cluster, 0)
    seen: list[tuple[str, list[int], list[int]]] = []

    def told(name: str, facts: dict[str, object]) -> None:
        if name in ("pruning.marked", "pruning.deleted"):
            stored = codec.decode(leader.metadata.content.records[paths.scalable(NAME)].value)
            seen.append((name, [int(id) for id in stored.going()], topics(cluster)))

    leader.runtime.told = told
    await pass_s(LONG_S)
    assert seen == [("pruning.marked", [0], [0, 1, 2]), ("pruning.deleted", [0], [1, 2])]


@pytest.mark.parametrize("mark", ["pruning.marked", "pruning.deleted"])
@pytest.mark.setup(1, kept=False, **NOTHING)
async def test_subscription_and_split_beside_pruning_succeed_h_h2(cluster: Cluster, mark: str) -> None:
    leader = cluster.members[0]
    await filled(cluster, 0)

    async def both() -> None:
        await leader.service.subscribe(NAME, "s", QUEUE, earliest=True)
        await leader.service.split(NAME, 2)

    begun = at_mark(cluster, mark, both)
    await pass_s(LONG_S)
    await asyncio.gather(*begun)
    assert begun
    record = await cluster.record()
    assert listed(record)[:1] == [1]
    assert {id for id, names in (await cursors(cluster, record)).items() if names != {"s"}} == set()


@pytest.mark.parametrize("mark", ["pruning.marked", "pruning.deleted"])
@pytest.mark.setup(1, kept=False, **NOTHING)
async def test_deletion_beside_pruning_leaves_nothing_h_h3(cluster: Cluster, mark: str) -> None:
    leader = cluster.members[0]
    await filled(cluster, 0)
    begun = at_mark(cluster, mark, lambda: leader.service.delete(NAME, force=True))
    await pass_s(LONG_S)
    await asyncio.gather(*begun)
    assert begun
    assert left_over(cluster) == []
    with pytest.raises(TopicNotFound):
        await leader.service.split(NAME, 1)
    await leader.service.create(NAME)
    assert listed(await cluster.record()) == topics(cluster) == [3], "ids go on (H-C1)"


@pytest.mark.parametrize("mark", ["pruning.marked", "pruning.deleted"])
@pytest.mark.setup(1, kept=False, **NOTHING)
async def test_seek_beside_pruning_ends(cluster: Cluster, mark: str) -> None:
    leader = cluster.members[0]
    await filled(cluster, 0)
    await leader.service.subscribe(NAME, "s", STREAM, earliest=False)
    begun = at_mark(cluster, mark, lambda: leader.service.seek(NAME, "s", Target(TargetKind.EARLIEST)))
    await pass_s(LONG_S)
    await asyncio.gather(*begun)
    assert begun
    [stored] = await leader.service.subscriptions(NAME)
    assert stored.seek is None
    assert listed(await cluster.record()) == [1, 2]


@pytest.mark.setup(1, kept=False, **NOTHING)
async def test_late_producer_does_not_revive_pruned_segment_h_e9(cluster: Cluster) -> None:
    await filled(cluster, 0)
    gone = (await cluster.record()).layout.segment(SegmentId(0)).topic(NAME)
    await pass_s(LONG_S)
    for create in (True, False):
        with pytest.raises(TopicNotFound):
            await cluster.members[0].node.topics.get(gone, create=create)
    assert topics(cluster) == [1, 2]


@pytest.mark.setup(1, kept=False, **NOTHING)
async def test_schema_of_topic_outlives_its_segments(cluster: Cluster) -> None:
    node = cluster.members[0].node
    await filled(cluster, 0)
    segment = (await cluster.record()).layout.segment(SegmentId(0)).topic(NAME)
    schema = pb.Schema(name="s", type=1, schema_data=b"")  # type: ignore[arg-type]
    version = await node.schemas.add(segment, schema)
    await pass_s(LONG_S)
    assert listed(await cluster.record()) == topics(cluster) == [1, 2]
    assert await node.schemas.add(NAME, schema) == version
    assert (await node.schemas.get(NAME, version))[0] == version


@pytest.mark.setup(1, kept=False, **NOTHING)
async def test_merge_depth_survives_pruning(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME, segments=2)
    await leader.service.merge(NAME, [0, 1])
    await leader.service.split(NAME, 2)
    await leader.service.merge(NAME, [3, 4])
    await pass_s(LONG_S)
    record = await cluster.record()
    assert listed(record) == [5]
    assert record.layout.segment(SegmentId(5)).merge_depth == 2
    assert [past.kind for past in record.history] == [Kind.MERGE, Kind.SPLIT, Kind.MERGE]


@pytest.mark.setup(1, kept=False, managedLedgerMinLedgerRolloverTimeMinutes="0", **NOTHING)
async def test_split_costs_same_after_hundreds_of_reshapes(cluster: Cluster) -> None:
    """Counted in operations of the metadata store, and in bytes of the record."""
    leader, reshapes = cluster.members[0], 400
    await leader.service.create(NAME)
    await leader.service.subscribe(NAME, "s", STREAM, earliest=True)
    cost: dict[int, tuple[int, int]] = {}
    await pass_s(700)  # the clock is trusted
    for done in range(0, reshapes + 20, 2):
        [only] = (await cluster.record()).layout.active
        leader.metadata.hold(MANY)
        await leader.service.split(NAME, only.id)
        assert leader.metadata.passes is not None
        cost[done + 1] = MANY - leader.metadata.passes, record_bytes(cluster)
        await leader.service.merge(NAME, [one.id for one in (await cluster.record()).layout.active])
        if done % 50 == 0:
            await pass_s(61)
    assert cost[reshapes + 11][0] <= cost[11][0] + 2, "operations of the store"
    assert max(size for _, size in cost.values()) < 64 * 1024, "the record is not even compressed"
    record = await cluster.record()
    assert len(record.history) <= 200
    assert len(record.layout) < 120
    [subscription] = await leader.service.subscriptions(NAME)
    assert len(subscription.latched) < 120
    await pass_s(400)
    assert len(left_over(cluster)) < 20, "topics and cursors of pruned segments are gone"
