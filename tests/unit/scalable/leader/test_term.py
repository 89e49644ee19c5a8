"""What meets in one term: two reshapes at once, subscriptions and deletions beside them, zombies, refusals, writers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.base.errors import AlreadyExists, Conflict, MagnetarError, Moved, SubscriptionNotFound
from magnetar.base.ids import SegmentId
from magnetar.cluster.calls.topic_calls import ProvisionSegment, Request
from magnetar.metadata import paths
from magnetar.scalable.record.record import Lifecycle, Record
from magnetar.scalable.service import SubscriptionKind
from tests.unit.scalable.leader.test_controller import attempt
from tests.unit.scalable.world import KEYS, NAME, Cluster, Direct, Member, Writer, pass_s, settle, spawn

STREAM = SubscriptionKind.STREAM


async def cursors(cluster: Cluster, record: Record) -> dict[int, set[str]]:
    found = {}
    for one in record.layout.segments:
        name = one.topic(NAME)
        topic = await (await cluster.owner(name)).segment(name)
        found[int(one.id)] = {each.name for each in topic.subscriptions if each.durable}
    return found


def left_over(cluster: Cluster) -> list[str]:
    """Records of segments and cursors in the store."""
    records = cluster.members[0].metadata.content.records
    return sorted(path for path in records if path.startswith("/managed-ledgers/public/default/segment"))


async def test_two_splits_at_once_both_happen(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME, segments=2)
    await asyncio.gather(leader.service.split(NAME, 0), leader.service.split(NAME, 1))
    record = await cluster.record()
    assert len(record.layout.active) == 4
    assert len(record.history) == 2
    with pytest.raises(MagnetarError):
        await asyncio.gather(leader.service.split(NAME, 2), leader.service.merge(NAME, [2, 3]))
    record = await cluster.record()
    assert record.intent is None


@pytest.mark.parametrize("kind", ["split", "merge"])
async def test_listed_but_missing_segment_is_created_by_reshape(cluster: Cluster, kind: str) -> None:
    """Its owner could not be reached when the topic was made: the reshape asked for ever."""

    leader = cluster.members[0]
    record = await leader.service.create(NAME, segments=2)
    for one in record.layout.active:
        await leader.node.topics.delete(one.topic(NAME), force=True)
    if kind == "split":
        await leader.service.split(NAME, 0)
    else:
        await leader.service.merge(NAME, [0, 1])
    assert len((await cluster.record()).layout.active) == (3 if kind == "split" else 1)


@pytest.mark.setup(2)
async def test_another_broker_says_who_leads(cluster: Cluster) -> None:
    first, second = cluster.members
    await first.service.create(NAME)
    await first.service.split(NAME, 0)
    with pytest.raises(Moved) as moved:
        await second.service.split(NAME, 1)
    assert moved.value.facts["owner"] == first.node.ownership.me.id
    assert len((await cluster.record()).layout.active) == 2


@pytest.mark.parametrize("mark", ["reshape.intended", "reshape.provisioned", "reshape.checked", "reshape.sealed"])
async def test_subscription_made_during_split_is_on_children(cluster: Cluster, mark: str) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME)
    await leader.service.subscribe(NAME, "before", STREAM, earliest=True)
    made: list[asyncio.Task[Any]] = []

    def told(name: str, facts: dict[str, object]) -> None:
        if name == mark and not made:
            made.append(spawn(leader.service.subscribe(NAME, "during", STREAM, earliest=True)))
            made.append(spawn(leader.service.unsubscribe(NAME, "before")))

    leader.runtime.told = told
    await leader.service.split(NAME, 0)
    await asyncio.gather(*made)
    found = await cursors(cluster, await cluster.record())
    assert found == {0: {"during"}, 1: {"during"}, 2: {"during"}}, "missed (H-D1), or a ghost (H-D2)"


async def test_subscriptions_start_where_they_were_asked_to(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME)
    writer = Writer(cluster)
    await writer.send(KEYS[0])
    await leader.service.split(NAME, 0)
    for key in KEYS:
        await writer.send(key)
    await leader.service.subscribe(NAME, "early", STREAM, earliest=True)
    await leader.service.subscribe(NAME, "late", STREAM, earliest=False)
    with pytest.raises(AlreadyExists):
        await leader.service.subscribe(NAME, "late", SubscriptionKind.QUEUE, earliest=False)
    record = await cluster.record()
    backlog = {"early": 0, "late": 0}
    for one in record.layout.segments:
        topic = await (await cluster.owner(one.topic(NAME))).segment(one.topic(NAME))
        for each in topic.subscriptions:
            backlog[each.name] += each.backlog
    assert backlog == {"early": 1 + len(KEYS), "late": 0}
    by_name = {one.name: one for one in await leader.service.subscriptions(NAME)}
    assert by_name["late"].latched == (0,), "sealed segments are done for it"
    await leader.service.unsubscribe(NAME, "early")
    with pytest.raises(SubscriptionNotFound):
        await leader.service.unsubscribe(NAME, "early")
    writer.close()


@pytest.mark.parametrize("mark", ["reshape.intended", "reshape.provisioned", "topic.sealed", "reshape.sealed"])
async def test_deletion_beside_split_leaves_nothing(cluster: Cluster, mark: str) -> None:
    leader = cluster.members[0]
    first = await leader.service.create(NAME)
    await leader.service.subscribe(NAME, "s", STREAM, earliest=True)
    made: list[asyncio.Task[Any]] = []

    def told(name: str, facts: dict[str, object]) -> None:
        if name == mark and not made:
            made.append(spawn(leader.service.delete(NAME, force=True)))

    leader.runtime.told = told
    await attempt(spawn(leader.service.split(NAME, 0)))
    await asyncio.gather(*made)
    await pass_s(5)
    assert left_over(cluster) == []
    records = leader.metadata.content.records
    assert [path for path in records if path.startswith(paths.scalable_subscriptions(NAME))] == []
    again = await leader.service.create(NAME)
    assert again.incarnation > first.incarnation
    assert again.layout.segments[0].id > 0, "ids never restart (H-C1)"
    await leader.service.split(NAME, again.layout.segments[0].id)


@pytest.mark.parametrize("mark", ["deletion.marked", "deletion.cleaned", "deletion.unsubscribed", "deletion.buried"])
@pytest.mark.setup(2)
async def test_deletion_that_its_leader_left_is_finished_by_another(cluster: Cluster, mark: str) -> None:
    first = cluster.members[0]
    await first.service.create(NAME, segments=3)
    await first.service.subscribe(NAME, "s", STREAM, earliest=True)
    first.kill_at(mark)
    task = spawn(attempt(spawn(first.service.delete(NAME, force=True))))
    await settle()
    await cluster.until(lambda record: record.lifecycle is Lifecycle.GONE)
    assert first.dead
    await pass_s(5)
    assert left_over(cluster) == []
    assert await cluster.living[0].service.create(NAME) is not None
    task.cancel()


@pytest.mark.parametrize("mark", ["reshape.intended", "reshape.provisioned", "reshape.checked", "reshape.sealed"])
@pytest.mark.setup(2)
async def test_zombie_that_wakes_up_changes_nothing(cluster: Cluster, mark: str) -> None:
    """Its session is gone and it does not know; a successor leads and finishes; then it goes on."""

    zombie, other = cluster.members
    await zombie.service.create(NAME, segments=2)
    writer = Writer(cluster)
    for key in KEYS:
        await writer.send(key)

    def told(name: str, facts: dict[str, object]) -> None:
        if name == mark:
            zombie.runtime.told = lambda name, facts: None
            zombie.metadata.hold()  # as if it were stopped: nothing it asks for is answered

    zombie.runtime.told = told
    task = spawn(attempt(spawn(zombie.service.split(NAME, 0))))
    await settle()
    session = zombie.metadata.session_id
    listeners = zombie.metadata._listeners
    zombie.metadata._listeners = type(listeners)()
    zombie.metadata.content.end_session(session)
    await settle()
    for _ in range(40):
        found, _ = await other.service.records.fresh(NAME)
        if found is not None and found.term > 1 and found.intent is None:
            break
        other.service.poke(NAME)
        await pass_s(1)
    assert found is not None
    assert found.intent is None, "the successor finished it"
    before = await cluster_record(other)
    zombie.metadata.release()
    await pass_s(10)
    after = await cluster_record(other)
    assert (after.layout, after.intent) == (before.layout, None)
    assert after.term >= before.term
    task.cancel()
    zombie.kill()
    await pass_s(30)
    for key in KEYS:
        await writer.send(key)
    assert await cluster.contents() == writer.sent
    writer.close()


async def cluster_record(member: Member) -> Record:
    found: Record | None = await member.service.read(NAME)
    assert found is not None
    return found


async def test_child_that_is_refused_for_good_takes_plan_back(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME)
    carry = Direct.carry

    async def refuse(self: Direct, name: Any, request: Request) -> Any:
        if isinstance(request, ProvisionSegment) and name.segment.id == 2:
            raise Conflict("no room for it")
        return await carry(self, name, request)

    Direct.carry = refuse  # type: ignore[method-assign]
    try:
        with pytest.raises(Conflict, match="no room"):
            await leader.service.split(NAME, 0)
    finally:
        Direct.carry = carry  # type: ignore[method-assign]
    record = await cluster.record()
    assert record.intent is None
    assert [one.id for one in record.layout.active] == [0]
    assert record.layout.next_segment_id == 3, "ids stay burned (H-C2)"
    assert len(left_over(cluster)) == 1
    writer = Writer(cluster)
    await writer.send(KEYS[0])
    await leader.service.split(NAME, 0)
    await writer.send(KEYS[0])
    assert await cluster.contents() == writer.sent
    writer.close()


@pytest.mark.setup(2, brokerDeduplicationEnabled="true")
async def test_splits_and_merges_under_writers_lose_double_and_reorder_nothing(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME, segments=2)
    writers = [Writer(cluster, f"w{number}") for number in range(4)]

    async def write(writer: Writer, keys: list[str]) -> None:
        for _ in range(12):
            for key in keys:
                await writer.send(key)

    tasks = [spawn(write(writer, KEYS[index::4])) for index, writer in enumerate(writers)]
    for _ in range(6):
        active = (await cluster.record()).layout.active
        await leader.service.split(NAME, active[0].id)
        await pass_s(0.2)
        active = (await cluster.record()).layout.active
        await leader.service.merge(NAME, [active[0].id, active[1].id])
    await asyncio.gather(*tasks)
    expected = {key: numbers for writer in writers for key, numbers in writer.sent.items()}
    assert await cluster.contents() == expected
    record = await cluster.record()
    assert len(record.history) == 12
    total = sum(one.ending.messages for one in record.layout.segments if one.ending is not None)
    live = sum([await messages(cluster, one.id) for one in record.layout.active])
    assert total + live == sum(len(numbers) for numbers in expected.values())
    for writer in writers:
        writer.close()


async def messages(cluster: Cluster, id: SegmentId) -> int:
    name = (await cluster.record()).layout.segment(id).topic(NAME)
    return (await (await cluster.owner(name)).segment(name)).managed.messages


@pytest.mark.setup(1, brokerDeduplicationEnabled="true")
async def test_store_that_fails_before_seal_leaves_parent_open_h_a11(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME)
    writer = Writer(cluster)
    for key in KEYS:
        await writer.send(key)
    parent = await leader.segment((await cluster.record()).layout.active[0].topic(NAME))
    stored = parent.managed.entries

    def told(name: str, facts: dict[str, object]) -> None:
        if name == "reshape.provisioned":
            leader.metadata.hold()

    leader.runtime.told = told
    task = spawn(attempt(spawn(leader.service.split(NAME, 0))))
    await settle()
    await pass_s(20)
    assert leader.metadata.waiting > 0
    assert leader.marked("reshape.provisioned") == 1
    assert leader.marked("topic.sealed") == 0, "the outage is not over: no seal"
    await writer.send_attached(KEYS[0])
    assert parent.managed.entries == stored + 1, "the parent stores messages during the outage"

    leader.metadata.release()
    await task
    assert leader.marked("topic.sealed") == 1
    await cluster.until(lambda record: record.intent is None and len(record.layout.active) == 2)
    for key in KEYS:
        await writer.send(key)
    assert await cluster.contents() == writer.sent
    writer.close()


async def test_lock_of_living_leader_outlives_deletion_h_h5(cluster: Cluster) -> None:
    """The tombstone comes last and in place; subscriptions go before it, the lock only when its leader releases it."""
    leader = cluster.members[0]
    await leader.service.create(NAME, segments=3)
    await leader.service.subscribe(NAME, "s", STREAM, earliest=True)
    records = leader.metadata.content.records
    steps: list[tuple[str, bool, bool]] = []

    def told(name: str, facts: dict[str, object]) -> None:
        if name.startswith("deletion."):
            steps.append((name, paths.controller(NAME) in records, paths.scalable(NAME) in records))

    leader.runtime.told = told
    await leader.service.delete(NAME, force=True)
    assert steps == [(f"deletion.{name}", True, True) for name in ("marked", "cleaned", "unsubscribed", "buried")], (
        "the lock and the record stand at every step"
    )
    tombstone, _ = await leader.service.records.fresh(NAME)
    assert tombstone.lifecycle is Lifecycle.GONE
