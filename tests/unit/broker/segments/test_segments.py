"""Segments at their owner: what deduplication carries over, who is admitted, and what the record decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import Conflict, ConnectionLost, NotReady, TopicNotFound
from magnetar.base.ids import SegmentId, Term
from magnetar.base.names import TopicName, topic_name
from magnetar.broker.segments.cursors import place
from magnetar.broker.segments.key_routing import misrouted
from magnetar.cluster.calls.topic_calls import (
    Fence,
    ProvisionSegment,
    RemoveCursor,
    Stale,
    SubscriptionLife,
    TermFenced,
)
from magnetar.layout.layout import Child
from magnetar.layout.routing import DEFAULT, Routing
from magnetar.metadata import paths
from magnetar.scalable.record.record import Intent, Kind, Record
from magnetar.scalable.record.subscription import Type
from magnetar.scalable.service import SubscriptionKind
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from simulation.stores.metadata import InjectedFault, lost_answer
from tests.unit.broker.world import Client, World, an_entry, send_frame, settle

NAME = topic_name("topic://public/default/orders")
KEYS = [f"key-{number}" for number in range(40)]
SOUND = InjectedFault(None, happened=True)


def topic_of(record: Record, id: int) -> str:
    return str(record.layout.segment(SegmentId(id)).topic(NAME))


async def read(world: World) -> Record:
    found = await world.node.scalable.read(NAME)
    assert found is not None
    return found


async def attach(client: Client, record: Record, id: int, name: str = "p") -> pb.BaseCommand:
    return await client.produce(id + 1, topic=topic_of(record, id), producer_name=f"{name}-seg-{id}")


async def send(client: Client, id: int, sequence: int, key: str) -> str:
    """ "stored", "duplicate" or the error's number."""
    client.heard.heard.clear()
    body = an_entry(f"={sequence}", sequence, producer=f"p-seg-{id}", partition_key=key)
    client.say(send_frame(id + 1, sequence, body))
    await settle()
    said = client.heard.heard[-1][0]
    if said.HasField("send_receipt"):
        return "stored" if said.send_receipt.message_id.ledgerId < 2**63 else "duplicate"
    return str(int(said.send_error.error))


def keys_of(record: Record, id: int) -> list[str]:
    return [key for key in KEYS if record.layout.route_key(key, DEFAULT).id == id]


@pytest.mark.setup(brokerDeduplicationEnabled="true")
async def test_duplicate_of_parent_is_detected_on_child_after_splits(world: World) -> None:
    service = world.node.scalable
    record = await service.create(NAME)
    client = world.client()
    await attach(client, record, 0)
    for sequence, key in enumerate(KEYS):
        assert await send(client, 0, sequence, key) == "stored"
    await service.split(NAME, 0)
    await service.split(NAME, 1)
    record = await read(world)
    made = await attach(client, record, 3)
    assert made.producer_success.last_sequence_id == len(KEYS) - 1, "Java numbers from it"
    mine = keys_of(record, 3)
    assert await send(client, 3, KEYS.index(mine[-1]), mine[-1]) == "duplicate"
    assert await send(client, 3, len(KEYS), mine[0]) == "stored"
    await world.node.topics.unload(topic_name(topic_of(record, 3)))
    await attach(client, record, 3)
    assert await send(client, 3, len(KEYS), mine[0]) == "duplicate", "after a reload too"


@pytest.mark.setup(brokerDeduplicationEnabled="true")
async def test_after_merge_each_half_keeps_its_own_mark(world: World) -> None:
    service = world.node.scalable
    record = await service.create(NAME, segments=2)
    client = world.client()
    await attach(client, record, 0)
    await attach(client, record, 1)
    low, high = keys_of(record, 0)[0], keys_of(record, 1)[0]
    assert await send(client, 0, 3, low) == "stored"
    assert await send(client, 1, 9, high) == "stored"
    await service.merge(NAME, [0, 1])
    record = await read(world)
    made = await attach(client, record, 2)
    assert made.producer_success.last_sequence_id == 9
    assert await send(client, 2, 9, high) == "duplicate"
    assert await send(client, 2, 5, low) == "stored", "the maximum of both would have lost it"
    assert await send(client, 2, 5, low) == "duplicate"
    await world.node.topics.unload(topic_name(topic_of(record, 2)))
    await attach(client, record, 2)
    assert await send(client, 2, 5, low) == "duplicate"
    assert await send(client, 2, 6, low) == "stored"
    await service.split(NAME, 2)
    record = await read(world)
    await attach(client, record, 3)
    assert await send(client, 3, 6, low) == "duplicate"
    assert await send(client, 3, 7, low) == "stored"


async def test_producer_that_routes_otherwise_is_refused_with_reason(world: World) -> None:
    record = await world.node.scalable.create(NAME)
    java, newer = (
        world.client(client_version="Pulsar-Java-v5.0.0-M1"),
        world.client(client_version="Pulsar-Java-v5"),
    )
    ours = world.client(client_version="Magnetar-1")
    assert (await attach(java, record, 0)).HasField("producer_success")
    assert (await read(world)).routing is Routing.LOW16
    said = await attach(newer, record, 0, "q")
    assert "routed by low16" in said.error.message
    assert (await attach(ours, record, 0, "r")).HasField("producer_success")


async def test_key_of_another_segment_is_refused(world: World) -> None:
    record = await world.node.scalable.create(NAME, segments=2)
    client = world.client()
    await attach(client, record, 0)
    assert await send(client, 0, 0, keys_of(record, 1)[0]) == str(int(pb.NotAllowedError))
    assert await send(client, 0, 1, keys_of(record, 0)[0]) == "stored"


async def test_foreign_key_in_batch_is_found_anywhere_h_e10(
    world: World,
) -> None:
    record = await world.node.scalable.create(NAME, segments=2)
    topic = topic_name(topic_of(record, 0))
    refusal = misrouted(topic, DEFAULT)
    assert refusal is not None
    own, foreign = (an_entry("x", 0, producer="p", partition_key=keys_of(record, id)[0]) for id in (0, 1))
    keyless = an_entry("x", 0, producer="p")
    for entries, counts, refused in (
        ([own, own, foreign], [1, 1, 1], True),
        ([foreign, own], [1, 1], True),
        ([own, keyless, own], [1, 1, 1], False),
        ([own, foreign], [1, 7], False),  # seven messages in one entry: their keys are inside
    ):
        offsets = [0]
        for one in entries:
            offsets.append(offsets[-1] + len(one))
        assert (refusal(b"".join(entries), offsets, counts) is not None) == refused


async def test_stream_subscription_is_made_on_topic_and_not_on_segment(world: World) -> None:
    record = await world.node.scalable.create(NAME)
    said = await world.client().subscribe(topic=topic_of(record, 0), subType=pb.CommandSubscribe.Exclusive)
    assert said.error.error == pb.SubscriptionNotFound


async def test_consumer_at_replaced_owner_looks_topic_up_again_h_d15(world: World) -> None:
    """The subscription was created at the next owner of the segment."""
    record = await world.node.scalable.create(NAME)
    await world.node.scalable.subscribe(NAME, "s", Type.STREAM, earliest=True)
    topic = await world.topic(topic_of(record, 0))
    del topic.subscriptions.by_name["s"]
    said = await world.client().subscribe(topic=topic_of(record, 0), subType=pb.CommandSubscribe.Exclusive)
    assert said.error.error == pb.ServiceNotReady


async def test_late_calls_of_plan_that_is_over_change_nothing(world: World) -> None:
    service = world.node.scalable
    record = await service.create(NAME)
    await service.split(NAME, 0)
    record = await read(world)
    child = record.layout.segment(SegmentId(1)).topic(NAME)
    owner = world.node.peers.owner(child)
    term, life = record.term, record.incarnation
    late = ProvisionSegment(op="split-1", term=term, incarnation=life, subs_gen=0, cursors=(SubscriptionLife("x", 0),))
    assert isinstance(await owner.ask(late), Stale)
    topic = world.node.topics.loaded[child.canonical]
    assert isinstance(topic, Topic)
    assert [each.name for each in topic.subscriptions] == []


async def test_child_that_has_messages_is_refused_h_c3(world: World) -> None:
    record = await world.node.scalable.create(NAME)
    client = world.client()
    await attach(client, record, 0)
    assert await send(client, 0, 1, KEYS[0]) == "stored"
    segment = record.layout.segment(SegmentId(0))
    adopted = Child(segment.id, segment.range)

    def plan(record: Record) -> Record:
        return replace(record, intent=Intent("op", Kind.SPLIT, (SegmentId(0),), (adopted,), record.term))

    record = await world.node.scalable.records.change(NAME, plan)
    adopts = ProvisionSegment(op="op", term=record.term, incarnation=record.incarnation, subs_gen=0, cursors=())
    with pytest.raises(Conflict, match="not empty"):
        await world.node.peers.owner(segment.topic(NAME)).ask(adopts)


async def test_end_of_seal_is_told_in_order_receipts_first(world: World) -> None:
    service = world.node.scalable
    record = await service.create(NAME)
    client = world.client()
    await attach(client, record, 0)
    world.ledgers.hold()
    for sequence in range(3):
        client.send(sequence, "m", producer_id=1)
    await settle()
    client.heard.heard.clear()
    work = world.spawn(service.split(NAME, 0))
    await settle()
    world.ledgers.release()
    await work
    kinds = [pb.BaseCommand.Type.Name(said.type) for said, _ in client.heard.heard]
    assert kinds == ["SEND_RECEIPT"] * 3 + ["CLOSE_PRODUCER"]


async def test_segment_under_deletion_is_not_recreated_by_load(world: World) -> None:
    record = await world.node.scalable.create(NAME)
    name = topic_name(topic_of(record, 0))
    path = paths.topic(name, 1)
    await world.node.topics.get(name, create=False)
    await world.node.topics.unload(name)
    node = await world.node.metadata.get(path)
    assert node is not None
    await world.node.metadata.put(path, node.value[:-1] + b',"deleting":true}')
    with pytest.raises(TopicNotFound):
        await world.node.topics.get(name, create=False)
    assert await world.node.metadata.get(path) is None


async def a_removal(world: World) -> tuple[TopicName, RemoveCursor, str]:
    """A segment with a cursor, what asks for its removal, and where it is kept."""
    service = world.node.scalable
    record = await service.create(NAME)
    await service.subscribe(NAME, "s", SubscriptionKind.STREAM, earliest=True)
    name = topic_name(topic_of(record, 0))
    found, _ = await service.records.subscription(NAME, "s")
    assert found is not None
    remove = RemoveCursor(op="x", incarnation=record.incarnation, subscription=SubscriptionLife("s", found.life))
    return name, remove, paths.cursor(paths.topic(name, 1), "s")


async def test_unconfirmed_cursor_removal_is_repeated_on_next_request(world: World) -> None:
    name, remove, path = await a_removal(world)
    world.metadata.faults.append(lost_answer(happened=False))
    with pytest.raises(ConnectionLost):
        await world.node.handlers.handle(name, remove)
    assert await world.metadata.exists(path)
    await world.node.handlers.handle(name, remove)
    assert not await world.metadata.exists(path)


async def test_unconfirmed_cursor_creation_is_undone_with_subscription(world: World) -> None:
    name, remove, path = await a_removal(world)
    await world.node.handlers.handle(name, remove)
    topic = await world.node.topics.get(name, create=False)
    assert isinstance(topic, Topic)
    world.metadata.faults.extend([SOUND, lost_answer(happened=True), *[lost_answer(happened=False)] * 20])
    with pytest.raises(ConnectionLost):
        await place(topic, remove.subscription, at_end=False)
    world.metadata.faults.clear()
    assert await world.metadata.exists(path), "it happened, and nobody was told"
    await world.node.handlers.handle(name, remove)
    assert not await world.metadata.exists(path)


async def test_segment_changed_by_another_owner_is_reopened_and_leader_stays(
    world: World,
) -> None:
    record = await world.node.scalable.create(NAME)
    name = topic_name(topic_of(record, 0))
    path = paths.topic(name, 1)
    stale = await world.node.topics.get(name, create=False)
    node = await world.node.metadata.get(path)
    assert node is not None
    await world.node.metadata.put(path, node.value)
    fence = Fence(op="split-1", term=Term(7), incarnation=record.incarnation)
    with pytest.raises(NotReady, match="is being reopened"):
        await world.node.handlers.handle(name, fence)
    await settle()
    assert isinstance(await world.node.handlers.handle(name, fence), TermFenced)
    assert world.node.topics.loaded[name.canonical] is not stale
