"""Queue consumers at the owners of segments: whoever comes first makes the subscription, of the whole topic."""

from __future__ import annotations

import pytest

from magnetar.base.ids import Position, SegmentId
from magnetar.base.names import topic_name
from magnetar.metadata.store import ABSENT
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Start, Subscription, Type
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from tests.unit.broker.world import Client, World, an_entry, pass_s, send_frame, settle

NAME = topic_name("topic://public/default/orders")
EXCLUSIVE, FAILOVER = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Failover
LATEST = pb.CommandSubscribe.Latest
END = pb.BaseCommand.REACHED_END_OF_TOPIC


def topic_of(record: Record, id: int) -> str:
    return str(record.layout.segment(SegmentId(id)).topic(NAME))


async def read(world: World) -> Record:
    found = await world.node.scalable.read(NAME)
    assert found is not None
    return found


async def segment(world: World, id: int) -> Topic:
    return await world.topic(topic_of(await read(world), id))


async def publish(world: World, id: int, count: int, **fields: int) -> None:
    client = world.client()
    await client.produce(1, topic=topic_of(await read(world), id), producer_name=f"p-seg-{id}")
    for number in range(count):
        client.say(send_frame(1, number, an_entry(f"m{number}", number, producer=f"p-seg-{id}", **fields)))
    await settle()
    assert sum(said.type == pb.BaseCommand.SEND_RECEIPT for said, _ in client.heard.heard) == count
    client.lose()


def delivered(client: Client) -> list[Position]:
    ids = [said.message.message_id for said, _ in client.heard.heard if said.type == pb.BaseCommand.MESSAGE]
    return [Position(id.ledgerId, id.entryId) for id in ids]


def ended(client: Client) -> bool:
    return any(said.type == END for said, _ in client.heard.heard)


async def test_first_consumer_creates_subscription_with_all_cursors_h_d3_h_d5(
    world: World,
) -> None:
    record = await world.node.scalable.create(NAME, segments=2)
    await publish(world, 0, 3)
    await world.node.scalable.split(NAME, 0)
    said = await world.client().subscribe(topic=topic_of(await read(world), 1))
    assert said.HasField("success")
    [made] = await world.node.scalable.subscriptions(NAME)
    assert (made.name, made.type, made.start, made.ready) == ("s", Type.QUEUE, Start.EARLIEST, True)
    backlogs = {}
    for one in (await read(world)).layout.segments:
        found = (await segment(world, one.id)).subscriptions.get("s")
        assert found is not None
        backlogs[int(one.id)] = found.backlog
    assert backlogs == {0: 3, 1: 0, 2: 0, 3: 0}
    assert record.incarnation == made.incarnation


async def test_consumer_at_end_skips_sealed_segments_and_reads_children_h_d4(
    world: World,
) -> None:
    await world.node.scalable.create(NAME)
    await publish(world, 0, 3)
    one = world.client()
    await one.subscribe(topic=topic_of(await read(world), 0), initialPosition=LATEST, permits=10)
    await settle()
    assert delivered(one) == []
    await world.node.scalable.split(NAME, 0)
    await publish(world, 1, 2)  # before anybody has attached to the child
    await one.subscribe(2, topic=topic_of(await read(world), 1), initialPosition=LATEST, permits=10)
    await settle()
    assert len(delivered(one)) == 2


async def test_concurrent_first_consumers_create_one_subscription_h_d3(world: World) -> None:
    record = await world.node.scalable.create(NAME, segments=4)
    client = world.client()
    asked = [world.spawn(client.subscribe(id + 1, topic=topic_of(record, id))) for id in range(4)]
    assert all([(await one).HasField("success") for one in asked])
    [made] = await world.node.scalable.subscriptions(NAME)
    now = await world.node.scalable.read(NAME)
    assert now is not None
    assert now.subs_gen == record.subs_gen + 1, "the others waited, and did not make it over again"
    lives = set()
    for id in range(4):
        found = (await segment(world, id)).subscriptions.get("s")
        assert found is not None
        assert len(found.consumers) == 1
        lives.add(found.cursor.properties["magnetar.life"])
    assert lives == {str(made.life)}


@pytest.mark.parametrize(("kind", "offered"), [(Type.STREAM, "Exclusive"), (Type.QUEUE, "Shared")])
async def test_consumer_of_wrong_kind_is_refused_with_both_named_h_d6(world: World, kind: Type, offered: str) -> None:
    record = await world.node.scalable.create(NAME)
    await world.node.scalable.subscribe(NAME, "s", kind, earliest=True)
    other = EXCLUSIVE if kind is Type.QUEUE else pb.CommandSubscribe.Shared
    for wrong in (other, FAILOVER):
        said = await world.client().subscribe(topic=topic_of(record, 0), subType=wrong)
        assert said.error.error == pb.NotAllowedError
        assert f"of type {kind}: its segments accept {offered} consumers" in said.error.message


async def test_sealed_segment_ends_when_every_consumer_finished_it_h_f13(
    world: World,
) -> None:
    record = await world.node.scalable.create(NAME)
    await publish(world, 0, 4)
    one, two = world.client(), world.client()
    await one.subscribe(topic=topic_of(record, 0), consumer_name="one", permits=2)
    await two.subscribe(topic=topic_of(record, 0), consumer_name="two", permits=2)
    await settle()
    assert sorted(delivered(one) + delivered(two)) == sorted({*delivered(one), *delivered(two)})
    await world.node.scalable.split(NAME, 0)
    for client in (one, two):
        client.flow(1, 10)
    one.ack(1, *delivered(one))
    await settle()
    assert not ended(one)  # the other one may still give its messages back
    two.ack(1, *delivered(two))
    topic = await segment(world, 0)
    found = topic.subscriptions.get("s")
    assert found is not None
    await found.cursor.flush()
    await settle()
    assert ended(one)
    assert ended(two)


async def test_delayed_message_delays_drain_until_delivery(
    world: World,
) -> None:
    record = await world.node.scalable.create(NAME)
    await publish(world, 0, 1, deliver_at_time=world.runtime.wall() + 5_000)
    client = world.client()
    await client.subscribe(topic=topic_of(record, 0), permits=10)
    await world.node.scalable.split(NAME, 0)
    await settle()
    assert delivered(client) == []
    assert not ended(client)
    await pass_s(7)
    assert len(delivered(client)) == 1
    client.ack(1, *delivered(client))
    found = (await segment(world, 0)).subscriptions.get("s")
    assert found is not None
    await found.cursor.flush()
    await settle()
    assert ended(client)


async def test_consumer_returning_to_removed_subscription_creates_none_h_d9(world: World) -> None:
    record = await world.node.scalable.create(NAME)
    client = world.client()
    await client.subscribe(topic=topic_of(record, 0))
    await world.node.scalable.unsubscribe(NAME, "s")
    said = await client.subscribe(2, topic=topic_of(record, 0), force_topic_creation=False)
    assert said.error.error == pb.SubscriptionNotFound
    assert await world.node.scalable.subscriptions(NAME) == []


@pytest.mark.setup(allowAutoSubscriptionCreation="false")
async def test_consumers_create_no_subscription_where_policy_forbids(world: World) -> None:
    record = await world.node.scalable.create(NAME)
    said = await world.client().subscribe(topic=topic_of(record, 0))
    assert said.error.error == pb.SubscriptionNotFound
    await world.node.scalable.subscribe(NAME, "s", Type.QUEUE, earliest=True)
    assert (await world.client().subscribe(topic=topic_of(record, 0))).HasField("success")


async def test_subscription_is_not_removed_from_one_segment_alone(world: World) -> None:
    record = await world.node.scalable.create(NAME)
    client = world.client()
    await client.subscribe(topic=topic_of(record, 0))
    said = await client.ask("UNSUBSCRIBE", consumer_id=1)
    assert said.error.error == pb.NotAllowedError
    assert (await segment(world, 0)).subscriptions.get("s") is not None


async def test_subscription_of_earlier_incarnation_is_ignored_h_c1(
    world: World,
) -> None:
    record = await world.node.scalable.create(NAME)
    left = Subscription("s", Type.STREAM, life=3, incarnation=record.incarnation - 1, ready=True)
    await world.node.scalable.records.write_subscription(NAME, left, ABSENT)
    assert (await world.client().subscribe(topic=topic_of(record, 0))).HasField("success")
    [made] = await world.node.scalable.subscriptions(NAME)
    assert (made.type, made.incarnation) == (Type.QUEUE, record.incarnation)
