"""Plain topics as clients of scalable ones meet them: shown, watched, consumed in order; and what stays everybody's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from magnetar.base.errors import AlreadyExists, NotReady, Refused, SubscriptionNotFound
from magnetar.base.limits import DRAINED_ASK_S
from magnetar.base.names import topic_name
from magnetar.broker.migration.migration import migrate
from magnetar.broker.migration.plain_topics import GUARD_PROPERTY
from magnetar.cluster.calls.topic_calls import AwaitDrained, Awaited, InspectPlainTopic, PlainFacts, SubscriptionLife
from magnetar.scalable.machines.seek_target import Seek, Target, TargetKind
from magnetar.scalable.record.subscription import Type
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from tests.support.recorded_traces import as_fields, trace
from tests.support.scalable_topic import M1, NAME, OURS, consume, ids, pushes, updates, watch
from tests.unit.broker.world import Client, World, command, pass_s, settle

PLAIN = topic_name("persistent://public/default/x")
EXCLUSIVE = pb.CommandSubscribe.Exclusive


async def attach(client: Client, told: pb.ScalableConsumerAssignment, name: str, consumer_id: int = 10) -> None:
    for one in told.segments:
        answer = await client.subscribe(
            consumer_id + one.segment_id,
            topic=one.segment_topic,
            subType=EXCLUSIVE,
            consumer_name=f"{name}-seg-{one.segment_id}",
            permits=100,
        )
        assert answer.HasField("success"), answer


def payloads(client: Client) -> list[bytes]:
    return [rest[-1:] for said, rest in client.heard.heard if said.type == pb.BaseCommand.MESSAGE]


async def test_plain_topic_is_shown_to_client_as_by_pulsar(world: World) -> None:
    said = trace("regular")
    [asked, *_] = [one.fields for one in said if one.command == "SCALABLE_TOPIC_LOOKUP"]
    [told, *_] = [one.fields for one in said if one.command == "SCALABLE_TOPIC_UPDATE"]
    ours = as_fields(await watch(world.client(client_version=M1), **asked))
    assert len(ours["dag"].pop("segment_brokers")) == 1, "told beyond what Pulsar tells: who has it"
    assert ours == told
    assert not await world.node.catalogue.exists(topic_name(asked["topic"])), "looking makes nothing"


async def test_partitions_are_segments_and_those_that_come_are_told(world: World) -> None:
    await world.node.catalogue.create_partitioned(PLAIN, 2)
    client = world.client(**OURS)
    first = await watch(client, str(PLAIN))
    assert [one.legacy_topic_name for one in first.dag.segments] == [str(PLAIN.partition(k)) for k in range(2)]
    assert not first.dag.HasField("incarnation")
    await world.node.catalogue.grow(PLAIN, 3)
    await settle()
    newest = updates(client)[-1].dag
    assert len(newest.segments) == 3
    assert newest.epoch > first.dag.epoch, "clients follow what is newer only"


@pytest.mark.parametrize("partitions", [0, 2])
async def test_stream_consumer_of_plain_topic_continues_after_migration(world: World, partitions: int) -> None:
    if partitions:
        await world.node.catalogue.create_partitioned(PLAIN, partitions)
    client = world.client(client_version=M1)
    told = (await consume(client, topic=str(PLAIN))).assignment
    parts = [str(PLAIN.partition(k)) for k in range(partitions)] or [str(PLAIN)]
    assert [one.segment_topic for one in told.segments] == parts
    await attach(client, told, "a")
    await client.produce(1, topic=parts[0])
    client.send(0, "1")
    await settle()
    assert payloads(client) == [b"1"]
    await migrate(world.node, PLAIN, force=True)
    await settle()
    assert all(max(ids(one.assignment)) < len(parts) for one in pushes(client)), "one is not drained yet"
    topic = await world.topic(parts[0])
    client.ack(10, topic.managed.last)
    for _ in range(20):
        await pass_s(0.5)
    newest = pushes(client)[-1].assignment
    count = len(parts)
    assert [id for id in ids(newest) if id >= count] == list(range(count, 2 * count))
    assert all(one.segment_topic.startswith("segment://") for one in newest.segments if one.segment_id >= count)


async def test_stream_consumer_that_marks_nothing_follows_migration_all_same(world: World) -> None:
    """As the Java client 5.0.0-M1, whose own broker gives it no plain topics."""

    client = world.client(client_version=M1)
    await attach(client, (await consume(client, topic=str(PLAIN))).assignment, "a")
    await migrate(world.node, PLAIN, force=False)


@pytest.mark.parametrize(("where", "backlog"), [(pb.CommandSubscribe.Latest, 0), (pb.CommandSubscribe.Earliest, 1)])
async def test_start_missing_at_registration_is_given_at_attach(world: World, where: int, backlog: int) -> None:
    client = world.client(client_version=M1)
    await client.produce(1, topic=str(PLAIN))
    client.send(0, "1")
    await settle()
    told = (await consume(client, topic=str(PLAIN))).assignment
    segment = told.segments[0]
    await client.subscribe(
        1, topic=segment.segment_topic, subType=EXCLUSIVE, consumer_name="a-seg-0", initialPosition=where
    )
    found = (await world.topic(str(PLAIN))).subscriptions.get("s")
    assert found is not None
    assert found.backlog == backlog


async def test_released_client_closing_consumer_of_plain_topic_leaves_others(
    world: World,
) -> None:
    await world.node.catalogue.create_partitioned(PLAIN, 2)
    first, second = world.client(client_version=M1), world.client(client_version=M1)
    await attach(first, (await consume(first, "a", str(PLAIN))).assignment, "a")
    waiting = world.spawn(consume(second, "b", str(PLAIN)))
    for _ in range(5):
        await settle()
    for id in (10, 11):
        assert (await first.ask("CLOSE_CONSUMER", consumer_id=id)).HasField("success")
    await waiting
    for _ in range(5):
        await settle()
    assert ids(pushes(second)[-1].assignment) == [0, 1]


async def test_subscription_of_stream_consumers_is_not_removed_on_plain_topic(world: World) -> None:
    client = world.client(client_version=M1)
    await attach(client, (await consume(client, topic=str(PLAIN))).assignment, "a")
    said = await client.ask("UNSUBSCRIBE", consumer_id=10)
    assert "topic://public/default/x" in said.error.message
    await client.subscribe(3, topic=str(PLAIN), subscription="plain")
    assert (await client.ask("UNSUBSCRIBE", consumer_id=3)).HasField("success"), "one of its own is"


async def test_record_of_plain_topic_is_no_scalable_topic(world: World) -> None:
    node = world.node
    client = world.client(client_version=M1)
    await consume(client, topic=str(PLAIN))
    record = await node.scalable.read(NAME)
    assert record is not None
    assert record.is_plain
    assert await node.scalable.names("public/default") == []
    with pytest.raises(AlreadyExists):
        await node.scalable.create(NAME)
    watched = await watch(client, str(PLAIN), 7)
    assert watched.dag.controller_broker_url
    client.lose()
    await node.topics.delete(PLAIN, force=True)
    await node.segments.plains.forget(PLAIN)
    assert await node.scalable.read(NAME) is None
    await node.scalable.create(NAME)


async def test_partitions_that_come_are_given_out_to_stream_consumers(world: World) -> None:
    node = world.node
    await node.catalogue.create_partitioned(PLAIN, 1)
    client = world.client(client_version=M1)
    await attach(client, (await consume(client, topic=str(PLAIN))).assignment, "a")
    await node.catalogue.grow(PLAIN, 2)
    await node.segments.plains.grown(PLAIN)
    for _ in range(20):
        await pass_s(1)
    assert ids(pushes(client)[-1].assignment) == [0, 1]


async def test_subscription_created_at_guard_time_is_carried_h_d10(
    world: World,
) -> None:
    topic = await world.topic(str(PLAIN))
    await topic.managed.set_properties({GUARD_PROPERTY: "x"})  # so that the guard itself waits for nothing
    client = world.client()
    world.metadata.hold()
    client.request(
        "SUBSCRIBE", topic=str(PLAIN), consumer_id=1, subscription="late", subType=pb.CommandSubscribe.Shared
    )
    await settle()
    looking = world.spawn(world.node.peers.owner(PLAIN).ask(InspectPlainTopic(op="x", guard=True)))
    await settle()
    assert not looking.done()
    world.metadata.release()
    found = await looking
    assert isinstance(found, PlainFacts)
    assert [one.name for one in found.subscriptions] == ["late"]


async def test_plain_topic_changed_by_another_owner_is_reopened_and_guarded(
    world: World,
) -> None:
    stale = await world.topic(str(PLAIN))
    path = stale.managed.path
    node = await world.node.metadata.get(path)
    assert node is not None
    await world.node.metadata.put(path, node.value)
    guard = InspectPlainTopic(op="x", guard=True)
    with pytest.raises(NotReady, match="is being reopened"):
        await world.node.segments.plains.handle(PLAIN, guard)
    await settle()
    assert isinstance(await world.node.segments.plains.handle(PLAIN, guard), PlainFacts)
    assert world.node.topics.loaded[PLAIN.canonical] is not stale


async def test_end_of_migrated_plain_topic_is_reported_when_durable_h_f2(world: World) -> None:
    """Whoever is told leaves for good: nobody would take what a crash brings back."""

    client = world.client()
    await client.produce(1, topic=str(PLAIN))
    await client.subscribe(1, topic=str(PLAIN), permits=10)
    client.send(0, "1")
    await settle()
    await migrate(world.node, PLAIN, force=True)
    world.ledgers.hold()
    client.ack(1, (await world.topic(str(PLAIN))).managed.last)
    for _ in range(5):
        await pass_s(1)
    assert not ends(client)
    world.ledgers.release()
    for _ in range(20):
        await pass_s(1)
    assert ends(client)


async def test_migrated_plain_topic_is_not_drained_during_seek_h_d7(
    world: World,
) -> None:
    """What a seek brings back would be taken for read, and what comes after it be read first."""

    node = world.node
    await node.catalogue.create(PLAIN)
    await migrate(node, PLAIN, force=False)
    await node.scalable.subscribe(NAME, "s", Type.STREAM, earliest=True)
    one, version = await node.scalable.records.subscription(NAME, "s")
    assert one is not None
    life = SubscriptionLife("s", one.life)
    asks = partial(node.peers.owner(PLAIN).ask, AwaitDrained(op="x", subscription=life, wait_s=1))
    assert (await asks()).happened
    moving = replace(one, seek=Seek("op", Target(TargetKind.EARLIEST)), seeks=1)
    await node.scalable.records.write_subscription(NAME, moving, version)
    assert not (await asks()).happened
    client = world.client()
    asked = {"topic": str(PLAIN), "subscription": "s", "subType": EXCLUSIVE}
    said = await client.ask("SUBSCRIBE", consumer_id=1, **asked)
    assert said.error.error == pb.ServiceNotReady
    one, version = await node.scalable.records.subscription(NAME, "s")
    assert one is not None
    await node.scalable.records.write_subscription(NAME, replace(one, seek=None, sought="op"), version)
    said = await client.ask("SUBSCRIBE", consumer_id=1, consumer_name="late-seg-0", **asked)
    assert said.error.error == pb.ServiceNotReady, "the plan gives it to nobody of this name"


async def test_question_for_drained_segment_is_answered_in_time(world: World) -> None:
    """D27: a peer may ask to wait for a year."""

    node, client = world.node, world.client()
    await node.catalogue.create(PLAIN)
    await client.produce(topic=str(PLAIN))
    client.send(0)
    await settle()
    await migrate(node, PLAIN, force=True)
    await node.scalable.subscribe(NAME, "s", Type.STREAM, earliest=True)
    one, _ = await node.scalable.records.subscription(NAME, "s")
    assert one is not None
    request = AwaitDrained(op="x", subscription=SubscriptionLife("s", one.life), wait_s=1e9)
    asking = asyncio.ensure_future(node.peers.owner(PLAIN).ask(request))
    await pass_s(DRAINED_ASK_S + 1)
    assert asking.done()
    assert await asking == Awaited(False)


async def test_consumer_of_migrated_plain_topic_learns_number_of_seeks(
    world: World,
) -> None:
    """Else its acknowledgements of before a seek would undo it."""

    node, client = world.node, world.client(**OURS)
    await node.catalogue.create(PLAIN)
    await migrate(node, PLAIN, force=False)
    await node.scalable.subscribe(NAME, "s", Type.STREAM, earliest=True)
    for count in (1, 2):
        await node.scalable.seek(NAME, "s", Target(TargetKind.EARLIEST))
        said = await client.subscribe(count, topic=str(PLAIN), subType=EXCLUSIVE)
        assert said.success.seeks == count


def ends(client: Client) -> int:
    return sum(said.type == pb.BaseCommand.REACHED_END_OF_TOPIC for said, _ in client.heard.heard)


async def test_migrated_name_is_reserved_and_guard_outlives_owner(world: World) -> None:
    node = world.node
    await node.catalogue.create(PLAIN)
    await migrate(node, PLAIN, force=False)
    await node.topics.unload(PLAIN)
    topic = await node.topics.get(PLAIN, create=False)
    assert isinstance(topic, Topic)
    assert topic.part_of == NAME
    with pytest.raises(SubscriptionNotFound):
        await topic.subscriptions.create("by an administrator", topic.managed.last)
    await node.topics.delete(PLAIN, force=True)  # as when its retention is over
    client = world.client()
    said = await client.produce(1, topic=str(PLAIN))
    assert said.HasField("error"), "it would hide what is written to it"
    with pytest.raises(Refused):
        await node.segments.plains.check_free(PLAIN)


async def test_new_subscription_of_unable_client_is_refused(
    world: World,
) -> None:
    """It would be told of success, get nothing for ever, and keep all that comes after from being dropped."""

    node = world.node
    client = world.client()
    asking = partial(client.subscribe, topic=str(PLAIN), initialPosition=pb.CommandSubscribe.Latest)
    assert (await asking(1, subscription="carried")).HasField("success")
    await migrate(node, PLAIN, force=True)
    said = await asking(2, subscription="new")
    assert said.error.error == pb.TopicTerminatedError
    producers = (await client.produce(1, topic=str(PLAIN))).error.message
    assert f"use a client with support for scalable topics (magnetar, or Pulsar's V5 client) with {NAME}" in producers
    assert said.error.message.startswith(producers.split(" (end")[0]), "what producers are told"
    assert [one.name for one in await node.scalable.subscriptions(NAME)] == ["carried"]
    assert (await asking(3, subscription="carried")).HasField("success")
    follows = [{"key": "__pulsar.v5.managed", "value": "true"}]
    assert (await asking(4, subscription="new", metadata=follows)).HasField("success")
    assert (await client.subscribe(5, topic=str(PLAIN), subscription="rest")).HasField("success"), "from the start"


async def test_watch_of_plain_topic_reports_migration_and_deletion(world: World) -> None:
    node = world.node
    await node.catalogue.create(PLAIN)
    client = world.client(**OURS)
    first = await watch(client, str(PLAIN))
    await migrate(node, PLAIN, force=False)
    await settle()
    newest = updates(client)[-1]
    assert newest.dag.epoch > first.dag.epoch
    assert [one.legacy_topic_name for one in newest.dag.segments] == [str(PLAIN), ""]
    assert newest.resolved_topic_name == str(NAME)
    await node.scalable.delete(NAME, force=True)
    await settle()
    assert updates(client)[-1].error == pb.TopicNotFound
    client.say(command("SCALABLE_TOPIC_CLOSE", session_id=1))
