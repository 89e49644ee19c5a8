"""PLAN and HOLD as a client meets them: for whoever announced our extensions, with the right to consume."""

from __future__ import annotations

from typing import Any

from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.broker.migration.migration import migrate
from magnetar.layout.readable_range import DONE, START, ReadPosition
from magnetar.wire.proto import pb
from magnetar.wire.scalable.plans import columns, read_places, read_stretches
from tests.support.scalable_topic import NAME, OURS, X, split
from tests.unit.broker.world import Client, World, command, run, settle

A = SegmentId(0)


async def filled(world: World, messages: int = 5) -> None:
    await world.node.scalable.create(NAME)
    client = world.client()
    await client.produce(topic="segment://public/default/x/0000-ffff-0")
    for sequence in range(messages):
        client.send(sequence)
        await settle()
    client.lose()


async def plan(client: Client, topic: str = X, places: Any = None, **fields: Any) -> pb.CommandPlanResponse:
    said = command("PLAN", request_id=9, topic=topic, **fields)
    if places is not None:
        said.plan.places.CopyFrom(columns(places))
    return (await answered(client, said)).planResponse


async def hold(client: Client, name: str = "q", places: Any = None, **fields: Any) -> pb.CommandHoldResponse:
    said = command("HOLD", request_id=9, topic=fields.pop("topic", X), name=name, **fields)
    if places is not None:
        said.hold.places.CopyFrom(columns(places))
    return (await answered(client, said)).holdResponse


async def answered(client: Client, said: pb.BaseCommand) -> pb.BaseCommand:
    before = len(client.answers(9))
    client.say(said)
    for _ in range(40):
        if len(client.answers(9)) > before:
            return client.answers(9)[-1]
        await settle()
    raise AssertionError("it was not answered")


async def test_plan_tells_layout_once_and_then_only_what_changed(world: World) -> None:
    await filled(world)
    client = world.client(**OURS)
    first = await plan(client)
    assert (len(first.dag.segments), first.dag.epoch, first.dag.incarnation) == (1, first.epoch, first.incarnation)
    assert read_stretches(first.stretches)[A].messages == 5
    known = {"known_incarnation": first.incarnation, "known_epoch": first.epoch}
    again = await plan(client, **known)
    assert not again.HasField("dag")
    await split(world)
    newer = await plan(client, **known)
    assert len(newer.dag.segments) == 3
    assert read_stretches(newer.stretches)[A].sealed


async def test_time_and_limits_and_targets_are_taken_from_command(world: World) -> None:
    await filled(world)
    client = world.client(**OURS)
    late = read_stretches((await plan(client, start=pb.FROM_TIME, publish_time=10**12)).stretches)[A]
    assert late.messages == 0
    early = read_stretches((await plan(client, start=pb.FROM_TIME, publish_time=1)).stretches)[A]
    assert early.messages == 5
    few = read_stretches((await plan(client, messages_max=2)).stretches)[A]
    assert [mark.messages for mark in few.marks] == [1, 2]
    said = command("PLAN", request_id=9, topic=X)
    said.plan.targets.CopyFrom(columns({A: few.marks[1].place}))
    clipped = read_stretches((await answered(client, said)).planResponse.stretches)[A]
    assert (clipped.messages, clipped.end) == (2, few.marks[1].place)
    assert (await plan(client, start=pb.FROM_TIME)).error == pb.NotAllowedError


async def test_peer_that_announced_nothing_is_not_answered_and_stays_connected(world: World) -> None:
    await filled(world)
    client = world.client()
    lag = command("LAG", request_id=9, topic=X, subscription="s")
    for said in (command("PLAN", request_id=9, topic=X), command("HOLD", request_id=9, topic=X, name="q"), lag):
        client.say(said)
    await settle()
    assert client.answers(9) == []
    assert world.node.metrics.unknown_commands.value == 3
    assert not client.wire.closing


async def test_missing_topic_and_hold_have_their_own_replies(world: World) -> None:
    client = world.client(**OURS)
    assert (await plan(client, topic="topic://public/default/none")).error == pb.TopicNotFound
    assert (await hold(client, topic="topic://public/default/none")).error == pb.TopicNotFound
    await filled(world)
    assert (await hold(client, release=True)).error == pb.SubscriptionNotFound
    assert (await hold(client, incarnation=5)).error == pb.NotAllowedError
    assert (await hold(client, "")).HasField("error")
    assert not client.wire.closing


async def test_hold_is_made_moved_and_released(world: World) -> None:
    await filled(world)
    client = world.client(**OURS)
    made = await hold(client, owner="a query", expires_s=60)
    assert (made.moved, made.expired, read_places(made.places)) == (True, False, {})
    end = read_stretches((await plan(client)).stretches)[A].end
    moved = await hold(client, places={A: end}, incarnation=made.incarnation)
    assert (moved.moved, read_places(moved.places)) == (True, {A: end})
    back = await hold(client, places={A: START})
    assert (back.moved, read_places(back.places)) == (False, {A: end})
    assert not list(back.lost_segment_id)
    assert (await hold(client, places={A: DONE})).HasField("error")
    assert not (await hold(client, release=True)).HasField("error")
    assert await world.node.handlers.holds.list(NAME) == []


async def test_invalid_position_is_refused_permanently_and_not_as_disk_error(world: World) -> None:
    await filled(world)
    client = world.client(**OURS)
    for places in ({A: ReadPosition(-7, 3)}, {A: ReadPosition(3, -1)}, {A: ReadPosition(-1, -1, 1)}):
        assert (await plan(client, places=places)).error == pb.NotAllowedError
        said = command("PLAN", request_id=9, topic=X)
        said.plan.targets.CopyFrom(columns(places))
        assert (await answered(client, said)).planResponse.error == pb.NotAllowedError
        refused = await hold(client, places=places)
        assert (refused.error, "a position in a segment must be" in refused.message) == (pb.NotAllowedError, True)
    torn = command("HOLD", request_id=9, topic=X, name="q")
    torn.hold.places.CopyFrom(columns({A: START}))
    torn.hold.places.around_ledger_id.append(1)
    assert (await answered(client, torn)).holdResponse.error == pb.NotAllowedError
    assert await world.node.handlers.holds.list(NAME) == []


P = "persistent://public/default/plain"


def test_plain_topic_is_planned_as_layout_and_held() -> None:
    async def story(world: World) -> None:
        client = world.client(**OURS)
        assert (await plan(client, P)).error == pb.TopicNotFound
        await client.produce(topic=P)
        for sequence in range(10):
            client.send(sequence)
            await settle()
        first = await plan(client, P)
        assert [one.legacy_topic_name for one in first.dag.segments] == [P]
        found = read_stretches(first.stretches)[A]
        assert (found.messages, found.lost) == (10, False)
        again = await plan(client, P, known_incarnation=first.incarnation, known_epoch=first.epoch)
        assert not again.HasField("dag")
        held = await hold(client, places={A: found.marks[3].place}, topic=P)
        assert (held.moved, list(held.lost_segment_id), held.incarnation > 0) == (True, [], True)
        topic = await world.topic(P)
        assert await topic.trim() == 1
        rest = read_stretches((await plan(client, P, {A: found.marks[3].place})).stretches)[A]
        assert (rest.messages, rest.lost, rest.start) == (10 - found.marks[3].messages, False, found.marks[3].place)
        [listed] = await world.node.handlers.holds.list(topic_name(P))
        assert (listed.name, listed.lag.messages) == ("q", rest.messages)
        await hold(client, topic=P, release=True)
        await topic.trim()
        assert read_stretches((await plan(client, P, {A: found.marks[3].place})).stretches)[A].lost

    settings = {"managedLedgerMaxEntriesPerLedger": "3", "managedLedgerMinLedgerRolloverTimeMinutes": "0"}
    run(story, **settings)


async def test_migrated_topic_is_planned_and_held_by_old_name(world: World) -> None:
    client = world.client(**OURS)
    await client.produce(topic=P)
    client.send(0)
    await settle()
    assert not (await hold(client, places={A: START}, topic=P)).HasField("error")
    await migrate(world.node, topic_name(P), force=True)
    said = await plan(client, P)
    assert not said.HasField("error"), said.message
    assert [(id, one.messages, one.sealed) for id, one in read_stretches(said.stretches).items()] == [
        (0, 1, True),
        (1, 0, False),
    ]
    assert not (await hold(client, places={A: DONE}, topic=P)).HasField("error")
    [listed] = await world.node.handlers.holds.list(topic_name(P))
    assert listed.lag.messages == 0


async def test_partitions_of_topic_are_its_segments(world: World) -> None:
    await world.node.catalogue.create_partitioned(topic_name(P), 3)
    client = world.client(**OURS)
    for index in range(3):
        await client.produce(index + 1, topic=f"{P}-partition-{index}")
        client.send(0, producer_id=index + 1)
        await settle()
    said = await plan(client, P)
    found = read_stretches(said.stretches)
    assert {id: one.messages for id, one in found.items()} == {0: 1, 1: 1, 2: 1}
    assert (await hold(client, topic=P)).moved
    assert (await plan(client, f"{P}-partition-1")).error == pb.TopicNotFound
    assert (await plan(client, "non-persistent://public/default/x")).error == pb.NotAllowedError
