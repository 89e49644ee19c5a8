"""A leader dies at every step of a split, a merge and a deletion, and another one finishes: the crash matrix."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Conflict, MagnetarError, NotReady
from magnetar.base.limits import TERM_WAIT_S
from magnetar.metadata import paths
from magnetar.scalable.record.record import Record
from magnetar.scalable.service import SubscriptionKind
from simulation.stores.metadata import InjectedFault, lost_answer
from tests.support.reshape_steps import MERGE, SPLIT
from tests.unit.scalable.world import KEYS, NAME, Cluster, Member, Writer, pass_s, settle, spawn


async def attempt(work: asyncio.Task[object]) -> object:
    try:
        return await work
    except MagnetarError as error:
        return error


ROWS = [
    *((mark, "split") for mark in SPLIT),
    *((mark, "merge") for mark in MERGE),
]


@pytest.mark.parametrize(("mark", "kind"), ROWS)
@pytest.mark.setup(3, brokerDeduplicationEnabled="true")
async def test_leader_that_dies_anywhere_in_reshape_is_finished_by_another(
    cluster: Cluster, mark: str, kind: str
) -> None:
    first = cluster.members[0]
    await first.service.create(NAME, segments=2)
    writer = Writer(cluster)
    for key in KEYS:
        await writer.send(key)
    for member in cluster.members:
        member.kill_at(mark)
    work = first.service.split(NAME, 0) if kind == "split" else first.service.merge(NAME, [0, 1])
    task = spawn(attempt(spawn(work)))
    await settle()
    for _ in range(20):
        if any(one.dead for one in cluster.members):
            break
        await pass_s(0.1)
    assert sum(one.dead for one in cluster.members) >= 1, "the mark was never reached"
    for member in cluster.living:
        member.runtime.told = lambda name, facts: None
    after = await cluster.until(lambda record: record.intent is None and len(record.layout.segments) > 2)
    assert len(after.layout.active) == (3 if kind == "split" else 1)
    for key in KEYS:
        await writer.send(key)
    assert await cluster.contents() == writer.sent, "lost, invented, doubled or out of order"
    task.cancel()
    writer.close()


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("kind", ["split", "merge"])
@pytest.mark.setup(1, brokerDeduplicationEnabled="true")
async def test_store_answer_lost_anywhere_in_reshape_is_harmless(cluster: Cluster, kind: str, happened: bool) -> None:
    """Each answer in turn; a lost one may have been written or not (H-A7)."""

    only = cluster.members[0]
    await only.service.create(NAME, segments=2)
    writer = Writer(cluster)
    rounds = 0
    while rounds < 70:
        await writer.send(KEYS[rounds % len(KEYS)])
        only.metadata.faults.extend([*[InjectedFault(None, True)] * rounds, lost_answer(happened=happened)])
        active = (await only_read(only)).layout.active
        work = only.service.split(NAME, active[0].id)
        if kind == "merge" and len(active) > 1:
            work.close()
            work = only.service.merge(NAME, [one.id for one in active])
        await attempt(spawn(work))  # the caller may be told that nobody knows; the topic must
        missed = bool(only.metadata.faults)
        only.metadata.faults.clear()
        record = await cluster.until(lambda record: record.intent is None)
        if kind == "split" and len(record.layout.active) > 5:
            await only.service.merge(NAME, [one.id for one in record.layout.active])
        rounds += 1
    assert len(record.history) > 30
    assert missed, "more answers were lost than a reshape needs: the last rounds lost none of its own"
    assert await cluster.contents() == writer.sent
    writer.close()


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("kind", ["split", "merge", "subscribe", "delete"])
@pytest.mark.setup(2, brokerDeduplicationEnabled="true")
async def test_broker_call_lost_anywhere_is_repeated_harmlessly(cluster: Cluster, kind: str, happened: bool) -> None:
    leader = cluster.members[0]
    struck = 0
    for rounds in range(12):
        await leader.service.create(NAME, segments=2)
        await leader.service.subscribe(NAME, "before", SubscriptionKind.STREAM, earliest=True)
        writer = Writer(cluster, f"w{rounds}")
        for key in KEYS[:4]:
            await writer.send(key)
        leader.carrier.losing, leader.carrier.happened, leader.carrier.lost = rounds, happened, 0
        active = (await only_read(leader)).layout.active
        match kind:
            case "split":
                await leader.service.split(NAME, active[0].id)
            case "merge":
                await leader.service.merge(NAME, [one.id for one in active])
            case "subscribe":
                await leader.service.subscribe(NAME, "during", SubscriptionKind.STREAM, earliest=True)
            case "delete":
                await leader.service.delete(NAME, force=True)
                await leader.service.create(NAME, segments=2)
                writer.sent.clear()
        leader.carrier.losing = None
        struck += leader.carrier.lost
        for key in KEYS[:4]:
            await writer.send(key)
        assert await cluster.contents() == writer.sent
        writer.close()
        await leader.service.delete(NAME, force=True)
    records = leader.metadata.content.records
    assert [path for path in records if path.startswith("/managed-ledgers/public/default/segment")] == []
    assert struck >= 3


async def only_read(member: Member) -> Record:
    """A fault that is due may strike this read: then ask again."""
    while True:
        try:
            found, _ = await member.service.records.fresh(NAME)
        except MagnetarError:
            continue
        assert found is not None
        return found


@pytest.mark.setup(2)
async def test_deaf_idle_leader_learns_that_it_is_deposed(cluster: Cluster) -> None:
    """Its session ended and nobody told it; without the proof it would believe for ever (H-B11)."""

    deaf, other = cluster.members
    await deaf.service.create(NAME)
    await deaf.service.split(NAME, 0)
    controller = deaf.service.controller(NAME)
    assert controller.leading
    deaf.metadata._listeners.clear()
    deaf.metadata.content.end_session(deaf.metadata.session_id)
    await settle()
    await other.service.split(NAME, 1)
    assert (await cluster.record()).term == 2
    await pass_s(30)
    assert not controller.leading
    deaf.kill()


@pytest.mark.setup(2)
async def test_leader_that_nobody_needs_lets_go(cluster: Cluster) -> None:
    first, second = cluster.members
    await first.service.create(NAME)
    await first.service.split(NAME, 0)
    await pass_s(90)
    assert await second.service.split(NAME, 1) is not None
    assert (await cluster.record()).term == 2


async def test_topic_in_use_is_deleted_only_by_force(cluster: Cluster) -> None:
    leader = cluster.members[0]
    await leader.service.create(NAME)
    writer = Writer(cluster)
    await writer.send(KEYS[0])
    with pytest.raises(Conflict):
        await leader.service.delete(NAME, force=False)
    await writer.send(KEYS[0])
    await leader.service.delete(NAME, force=True)
    writer.close()


@pytest.mark.parametrize("answers", [True, False])
async def test_request_waits_until_take_over_is_complete_h_b10(cluster: Cluster, answers: bool) -> None:
    """The store stops answering as soon as the lock is won: the record is neither read nor claimed yet."""
    only = cluster.members[0]
    await only.service.create(NAME)
    content = only.metadata.content
    before = content.records[paths.scalable(NAME)]

    def changed(path: str, record: object) -> None:
        if path == paths.controller(NAME) and record is not None and only.metadata.passes is None:
            only.metadata.hold()

    content.watchers.append(changed)
    task = spawn(attempt(spawn(only.service.split(NAME, 0))))
    await settle()
    await pass_s(1)
    assert paths.controller(NAME) in content.records, "the lock is won"
    assert not task.done()
    assert only.metadata.waiting > 0
    content.watchers.remove(changed)
    if answers:
        only.metadata.release()
        await task
        assert len((await only_read(only)).layout.active) == 2
        return
    await pass_s(TERM_WAIT_S)
    assert isinstance(await task, NotReady), "the request has a deadline"
    assert content.records[paths.scalable(NAME)] == before
