"""Holds keep what retention would drop, through failovers and races with a trim, and their end is loud."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from magnetar.base.errors import AlreadyExists, Misuse, Refused, SubscriptionNotFound, Unknown
from magnetar.base.ids import AFTER_ALL, SegmentId
from magnetar.base.limits import HOLD_ASK_S, HOLD_EXPIRED_KEPT_S, HOLD_LOOK_S, HOLD_NAME_CHARS_MAX
from magnetar.broker.batch_read.holds import HoldRequest, Holds
from magnetar.layout.readable_range import DONE, START, ReadPosition
from magnetar.scalable.machines.read_plan import MeasureRequest
from magnetar.scalable.record.subscription import Type
from magnetar.topic.topic import Topic
from tests.unit.broker.world import World
from tests.unit.scalable.world import KEYS, NAME, Cluster, Member, Writer, pass_s, settle, spawn

A, B = SegmentId(0), SegmentId(1)
DROP = {"defaultRetentionTimeInMinutes": "0", "defaultRetentionSizeInMB": "0", "managedLedgerMaxEntriesPerLedger": "5"}
DROP["managedLedgerMinLedgerRolloverTimeMinutes"] = "0"


async def written(cluster: Cluster, messages: int = 32) -> None:
    """Nobody subscribes: nothing but a hold keeps anything."""
    writer = Writer(cluster)
    for number in range(messages):
        await writer.send(KEYS[number % len(KEYS)])
    writer.close()


def holds(member: Member) -> Holds:
    return member.node.handlers.holds


async def segment(cluster: Cluster, id: SegmentId = A) -> Topic:
    name = (await cluster.record()).layout.segment(id).topic(NAME)
    return await (await cluster.owner(name)).segment(name)


async def all_of_it(member: Member, id: SegmentId = A, **asked: Any) -> Any:
    return (await member.node.handlers.plans.plan(NAME, MeasureRequest(**asked))).stretches[id]


@pytest.mark.setup(**DROP)
async def test_messages_ahead_of_hold_are_kept_and_passed_ones_deleted(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await holds(one).hold(NAME, HoldRequest("q"))
    await written(cluster)
    topic = await segment(cluster)
    assert await topic.trim() == 0
    whole = await all_of_it(one)
    assert whole.messages == 32
    middle = next(mark for mark in whole.marks if mark.messages >= 17)
    await holds(one).hold(NAME, HoldRequest("q", {A: middle.place}))
    assert await topic.trim() > 0
    rest = await all_of_it(one, places={A: middle.place})
    assert (rest.lost, rest.messages, rest.start) == (False, 32 - middle.messages, middle.place)
    await holds(one).release(NAME, "q")
    await topic.trim()
    assert topic.managed.messages < 5  # those of the ledger that is being written
    assert (await all_of_it(one, places={A: middle.place})).lost


async def test_where_hold_begins_counts_once_however_often_it_is_said(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await written(cluster)
    places = [mark.place for mark in (await all_of_it(one)).marks]
    for place in (places[1], places[2], START):
        found = await holds(one).hold(NAME, HoldRequest("q", {A: place}, begins=True))
        assert dict(found.held.places) == {A: places[1]}
    found = await holds(one).hold(NAME, HoldRequest("q", {A: places[2]}))
    assert dict(found.held.places) == {A: places[2]}


async def test_query_for_future_hold_does_not_create_it(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    for _ in range(2):
        with pytest.raises(SubscriptionNotFound):
            await holds(one).hold(NAME, HoldRequest("q", begins=True))
    assert await holds(one).list(NAME) == []
    await holds(one).hold(NAME, HoldRequest("q", {A: START}, begins=True))
    assert not (await holds(one).hold(NAME, HoldRequest("q", begins=True))).moved
    await one.service.subscribe(NAME, "of-others", Type.CHECKPOINT, earliest=True)  # a group that has no hold
    with pytest.raises(SubscriptionNotFound):
        await holds(one).hold(NAME, HoldRequest("of-others", begins=True))


async def test_ended_hold_is_not_recreated_for_its_owner_h_d9(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await holds(one).hold(NAME, HoldRequest("q", {A: START}, begins=True))
    await holds(one).hold(NAME, HoldRequest("q", {A: START}, resumes=True))
    await holds(one).release(NAME, "q")
    for places in (None, {A: START}):
        with pytest.raises(SubscriptionNotFound):
            await holds(one).hold(NAME, HoldRequest("q", places, resumes=True))
        assert await one.service.subscriptions(NAME) == []
    await holds(one).hold(NAME, HoldRequest("q", {A: START}))


@pytest.mark.setup(brokers=2, **DROP)
async def test_sealed_segment_and_children_are_kept_for_reader_across_owners(
    cluster: Cluster,
) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await holds(one).hold(NAME, HoldRequest("q"))
    await written(cluster)
    await one.service.split(NAME, 0)
    await written(cluster, 24)
    one.kill()
    left = cluster.living[0]
    for listed in (await cluster.record()).layout.segments:
        topic = await segment(cluster, listed.id)
        assert await topic.trim() == 0
    found = (await left.node.handlers.plans.plan(NAME, MeasureRequest())).stretches
    assert sum(stretch.messages for stretch in found.values()) == 56
    assert not any(stretch.lost for stretch in found.values())
    passed = {A: DONE, B: found[B].end}
    await holds(left).hold(NAME, HoldRequest("q", passed))
    for listed in (await cluster.record()).layout.segments:
        await (await segment(cluster, listed.id)).trim()
    after = (await left.node.handlers.plans.plan(NAME, MeasureRequest(passed))).stretches
    assert not any(stretch.lost for stretch in after.values())
    assert (await segment(cluster, A)).managed.messages == 0


@pytest.mark.setup(**DROP)
async def test_hold_created_during_trim_learns_what_was_deleted(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await written(cluster)
    topic = await segment(cluster)
    whole = await all_of_it(one)
    looked, go = topic.kept, spawn(pass_s(5))
    assert looked is not None

    async def late() -> Any:
        found = await looked()
        await go  # it has seen no hold, and drops only now
        return found

    topic.kept = late
    trimming = spawn(topic.trim())
    await settle()
    made = await holds(one).hold(NAME, HoldRequest("q", {A: whole.start}))
    assert await trimming > 0
    assert made.lost == (A,)
    topic.kept = looked
    kept = await holds(one).hold(NAME, HoldRequest("q", {A: whole.start}))
    assert (kept.lost, kept.moved) == ((), False)


@pytest.mark.setup(**DROP)
async def test_while_store_is_away_nothing_is_trimmed(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await written(cluster)
    topic = await segment(cluster)

    async def away() -> Any:
        raise Unknown("the store does not answer")

    topic.kept = away
    with pytest.raises(Unknown):
        await topic.trim()
    assert topic.managed.messages == 32


@pytest.mark.setup(brokers=2, **DROP)
async def test_end_of_hold_is_announced_and_late_reader_learns_loss(
    cluster: Cluster,
) -> None:
    one, two = cluster.members
    await one.service.create(NAME)
    await written(cluster)
    start = (await all_of_it(one)).start
    await holds(one).hold(NAME, HoldRequest("q", {A: start}, expires_s=1000, owner="a query"))
    for _ in range(int(890 / HOLD_LOOK_S)):
        await pass_s(HOLD_LOOK_S)
    assert one.marked("hold.warned") + two.marked("hold.warned") == 0
    await pass_s(4 * HOLD_LOOK_S)
    assert one.marked("hold.warned") + two.marked("hold.warned") == 1
    [listed] = await holds(two).list(NAME)
    assert listed.held.warned_ms
    assert (await segment(cluster)).managed.messages == 32
    await pass_s(20 * HOLD_LOOK_S)
    assert one.marked("hold.expired") + two.marked("hold.expired") == 1
    [listed] = await holds(two).list(NAME)
    assert (listed.held.expired_ms > 0, listed.held.owner) == (True, "a query")
    await (await segment(cluster)).trim()
    back = await holds(two).hold(NAME, HoldRequest("q", {A: start}))
    assert (back.expired, back.lost, back.held.keeps) == (True, (A,), True)
    assert (await all_of_it(two, places={A: start})).lost


async def test_hold_that_its_reader_renews_is_never_announced(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    for _ in range(4):
        await holds(one).hold(NAME, HoldRequest("q", expires_s=1000))
        await pass_s(500)
    assert one.marked("hold.warned") == 0


async def test_hold_that_was_over_for_long_is_forgotten(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    made = await holds(one).hold(NAME, HoldRequest("q"))
    found, version = await one.service.records.subscription(NAME, "q")
    long_ago = replace(made.held, expired_ms=one.runtime.wall() - int(HOLD_EXPIRED_KEPT_S * 1000))
    await one.service.records.write_subscription(NAME, replace(found, hold=long_ago), version)
    await holds(one).expiry.look()
    assert await one.service.subscriptions(NAME) == []


async def test_answer_names_owner_of_before(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    told = [
        (await holds(one).hold(NAME, HoldRequest("q", owner=owner))).owner for owner in ("first", "second", "", "third")
    ]
    assert told == ["", "first", "second", "second"]


@pytest.mark.setup(brokers=2)
async def test_lag_owner_and_end_are_listed_and_measured_once(cluster: Cluster) -> None:
    one, two = cluster.members
    await one.service.create(NAME)
    await holds(one).hold(NAME, HoldRequest("q", owner="a query", expires_s=900))
    await written(cluster)
    await one.service.split(NAME, 0)
    await written(cluster, 12)
    for member in cluster.members:
        await holds(member).expiry.look()
        [listed] = await holds(member).list(NAME)
        assert (listed.lag.messages, listed.held.owner, listed.name) == (44, "a query", "q")
        assert listed.lag.bytes > 44
    lines = [line for member in (one, two) for line in member.node.registry.text().splitlines()]
    [lag] = [line for line in lines if line.startswith("magnetar_hold_lag_messages")]
    assert f'topic="{NAME.canonical}",hold="q",owner="a query"' in lag
    assert lag.endswith(" 44")
    [left] = [line for line in lines if line.startswith("magnetar_hold_expires_seconds")]
    assert 800 <= int(left.rpartition(" ")[2]) <= 900


async def test_invalid_names_positions_and_texts_of_hold_are_refused(
    cluster: Cluster,
) -> None:
    one = cluster.members[0]
    made = await one.service.create(NAME)
    await one.service.subscribe(NAME, "s", Type.STREAM, earliest=True)
    with pytest.raises(AlreadyExists):
        await holds(one).hold(NAME, HoldRequest("s"))
    with pytest.raises(Refused):
        await holds(one).hold(NAME, HoldRequest("q", {A: START}, incarnation=made.incarnation + 1))
    for name, owner in (("", ""), ("x" * (HOLD_NAME_CHARS_MAX + 1), ""), ("q", "x" * (HOLD_NAME_CHARS_MAX + 1))):
        with pytest.raises(Misuse):
            await holds(one).hold(NAME, HoldRequest(name, owner=owner))
    with pytest.raises(SubscriptionNotFound):
        await holds(one).release(NAME, "s")
    await one.service.delete(NAME, force=True)
    await one.service.create(NAME)
    again = await holds(one).hold(NAME, HoldRequest("q"))
    assert again.record.incarnation > made.incarnation


@pytest.mark.setup(brokers=2)
async def test_missing_position_is_refused_and_changes_no_hold(cluster: Cluster) -> None:
    one, two = cluster.members
    await one.service.create(NAME)
    await written(cluster)
    await one.service.split(NAME, 0)
    await written(cluster, 24)
    plan = (await one.node.handlers.plans.plan(NAME, MeasureRequest())).stretches
    beyond = {id: ReadPosition(told.end.ledger, told.end.entry + 1) for id, told in plan.items()}
    inside = {id: ReadPosition(told.end.ledger, told.end.entry, 1) for id, told in plan.items()}
    of_another = plan[SegmentId(2)].end
    wrong = [{id: place} for said in (beyond, inside) for id, place in said.items()]
    wrong += [{B: of_another, SegmentId(2): of_another}, {SegmentId(7): START}]
    for member in (one, two):
        for places in wrong:
            for asking in (HoldRequest("q", places), HoldRequest("q", places, begins=True)):
                with pytest.raises(Misuse, match="the hold is unchanged; give positions that were read"):
                    await holds(member).hold(NAME, asking)
    assert await one.service.subscriptions(NAME) == []
    ends = {id: told.end for id, told in plan.items()}
    held = (await holds(two).hold(NAME, HoldRequest("q", {A: ends[A]}))).held
    for places in wrong:
        with pytest.raises(Misuse):
            await holds(one).hold(NAME, HoldRequest("q", places))
    [listed] = await holds(one).list(NAME)
    assert (listed.held, dict(held.places)) == (held, {A: ends[A]})
    moved = await holds(one).hold(NAME, HoldRequest("q", {**ends, A: DONE}))
    assert {id: dict(moved.held.places)[id] for id in ends if id != A} == {id: ends[id] for id in ends if id != A}


@pytest.mark.setup(**DROP)
async def test_position_behind_present_one_changes_nothing(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await written(cluster)
    whole = await all_of_it(one)
    await holds(one).hold(NAME, HoldRequest("q", {A: whole.end}))
    nowhere = ReadPosition(whole.start.ledger, 99)
    assert nowhere < whole.end
    assert not (await holds(one).hold(NAME, HoldRequest("q", {A: nowhere}))).moved
    assert not (await holds(one).hold(NAME, HoldRequest("q", {A: whole.end}))).moved
    assert not (await holds(one).hold(NAME, HoldRequest("q", {A: ReadPosition(99, 9)}, begins=True))).moved


@pytest.mark.setup(brokers=2)
async def test_positions_are_accepted_while_segment_owner_is_silent(cluster: Cluster) -> None:
    await cluster.members[0].service.create(NAME)
    await written(cluster)
    owner = await cluster.owner((await cluster.record()).layout.segment(A).topic(NAME))
    [other] = [member for member in cluster.members if member is not owner]
    whole = await all_of_it(other)
    with pytest.raises(Misuse):
        await holds(other).hold(NAME, HoldRequest("q", {A: ReadPosition(whole.end.ledger, 99)}))
    await holds(other).hold(NAME, HoldRequest("q"))
    other.carrier.losing = 0
    place = ReadPosition(whole.end.ledger, 99)
    assert dict((await holds(other).hold(NAME, HoldRequest("q", {A: place}))).held.places) == {A: place}
    other.carrier.losing = None
    owner.metadata.hold()  # it cannot know whether it was replaced, and says nothing
    place = ReadPosition(whole.end.ledger, 100)
    moving = spawn(holds(other).hold(NAME, HoldRequest("q", {A: place})))
    await settle()
    assert not moving.done()
    await pass_s(HOLD_ASK_S)
    assert dict((await moving).held.places) == {A: place}
    owner.metadata.release()


async def test_plain_topic_is_held_by_nobody(alone: World) -> None:
    topic = await alone.topic()
    assert topic.kept is not None
    assert await topic.kept() == AFTER_ALL
