"""Segments that are shared by entry buckets, on the wire: who is told of buckets, who is let in, who gets what. No
released client of Pulsar knows them, so these say what one would.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from magnetar.base.errors import ConsumerAssignError
from magnetar.base.hashes import low16, murmur3
from magnetar.layout.segment import bucket_ranges, bucket_splits
from magnetar.wire.proto import pb
from tests.support.scalable_topic import M1, NAME, OURS, consume, ids, pushes
from tests.unit.broker.world import Client, World, an_entry, command, pass_s, send_frame, settle

M2 = "Pulsar-Java-v5.0.0-M2"
SEGMENT = "segment://public/default/x/0000-ffff-0"
FOUR = bucket_ranges(bucket_splits(4))
_requests = itertools.count(1_000)
KEYS = {0: "key-1", 1: "a", 3: "hello"}  # by their bucket of four


def told(assignment: pb.ScalableConsumerAssignment) -> list[list[tuple[int, int]]]:
    return [[(one.start, one.end) for one in segment.bucket_ranges] for segment in assignment.segments]


async def join(client: Client, name: str, consumer_id: int, ranges: Sequence[tuple[int, int]] = FOUR) -> pb.BaseCommand:
    """Attach to the segment as one that shares it."""
    request_id = next(_requests)
    asked = command("SUBSCRIBE", topic=SEGMENT, consumer_id=consumer_id, request_id=request_id, subscription="s")
    asked.subscribe.subType = pb.CommandSubscribe.Key_Shared
    asked.subscribe.consumer_name = f"{name}-seg-0"
    asked.subscribe.keySharedMeta.keySharedMode = pb.STICKY
    asked.subscribe.keySharedMeta.entryBucketDispatch = True
    for first, last in ranges:
        asked.subscribe.keySharedMeta.hashRanges.add(start=first, end=last)
    client.say(asked)
    for _ in range(40):
        if client.answers(request_id):
            return client.answers(request_id)[0]
        await settle()
    raise AssertionError("the subscribe was not answered")


def send(client: Client, number: int, text: str, **metadata: Any) -> None:
    client.say(send_frame(1, number, an_entry(text, number, **metadata)))


@pytest.mark.parametrize("who", [{"client_version": M2}, OURS], ids=["a newer client of Pulsar's", "ours"])
async def test_client_with_buckets_receives_all_boundaries_of_shared_segment(world: World, who: dict[str, Any]) -> None:
    await world.node.scalable.create(NAME)
    one, other = world.client(**who), world.client(**who)
    first = await consume(one, "a")
    assert told(first.assignment) == [[]]  # alone: no boundaries
    second = await consume(other, "b")
    assert ids(second.assignment) == []
    await settle()
    for client in (one, other):
        assert told(pushes(client)[-1].assignment) == [list(FOUR)]
    assert [ids(push.assignment) for push in pushes(one)][-2:] == [[], [0]]  # revoked before it is shared


async def test_client_without_buckets_never_shares_or_sees_them(
    world: World,
) -> None:
    await world.node.scalable.create(NAME)
    old, new = world.client(client_version=M1), world.client(**OURS)
    first = await consume(old, "a")
    second = await consume(new, "b")
    await settle()
    assert ids(first.assignment) == [0]
    assert ids(second.assignment) == []
    assert pushes(old) == pushes(new) == []


async def test_other_boundaries_and_key_shared_without_buckets_are_refused(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client(**OURS)
    await consume(client, "a")
    refused = await join(client, "a", 1, bucket_ranges(bucket_splits(2)))
    assert refused.error.error == ConsumerAssignError.wire
    plain = await client.subscribe(2, SEGMENT, subType=pb.CommandSubscribe.Key_Shared, consumer_name="a")
    assert plain.type == pb.BaseCommand.ERROR
    assert "accept Exclusive consumers" in plain.error.message
    assert (await join(client, "a", 3)).type == pb.BaseCommand.SUCCESS


def texts(client: Client, consumer_id: int) -> list[str]:
    found = [(said, body) for said, body in client.heard.heard if said.type == pb.BaseCommand.MESSAGE]
    return [body[-2:].decode() for said, body in found if said.message.consumer_id == consumer_id and body]


async def shared(world: World, clients: int = 2) -> tuple[list[Client], Client]:
    """As many consumers on one segment, with room for much, and a producer."""
    await world.node.scalable.create(NAME)
    made = [world.client(**OURS) for _ in range(clients)]
    for place, client in enumerate(made):
        await consume(client, f"c{place}")
    await settle()
    for place, client in enumerate(made):
        assert (await join(client, f"c{place}", 9)).type == pb.BaseCommand.SUCCESS
        client.flow(9, 100)
    producer = world.client(**OURS)
    await producer.produce(1, SEGMENT)
    return made, producer


async def test_bucket_has_one_owner_and_spanning_entry_waits_for_both(world: World) -> None:
    (low, high), producer = await shared(world)  # buckets 0 and 1, buckets 2 and 3
    assert {bucket: low16(murmur3(key.encode())) * 4 >> 16 for bucket, key in KEYS.items()} == {0: 0, 1: 1, 3: 3}
    send(producer, 0, "k0", partition_key=KEYS[0])
    send(producer, 1, "k3", partition_key=KEYS[3])
    send(producer, 2, "ss", entry_hash_min=0x7FFF, entry_hash_max=0xFFFF, num_messages_in_batch=1)  # 1 to 3
    send(producer, 3, "l3", partition_key=KEYS[3])
    send(producer, 4, "l0", partition_key=KEYS[0])
    await settle()
    assert (texts(low, 9), texts(high, 9)) == (["k0", "l0"], ["k3"])
    topic = await world.topic(SEGMENT)
    first = topic.managed.first
    high.ack(9, first._replace(entry=first.entry + 1))
    await settle()
    assert (texts(low, 9), texts(high, 9)) == (["k0", "l0", "ss"], ["k3"])  # and what is behind it still waits
    low.ack(9, first._replace(entry=first.entry + 2))
    await settle()
    assert (texts(low, 9), texts(high, 9)) == (["k0", "l0", "ss"], ["k3", "l3"])


async def test_transferred_bucket_waits_for_unacknowledged_entries_of_old_owner(world: World) -> None:
    (one,), producer = await shared(world, 1)
    send(producer, 0, "k3", partition_key=KEYS[3])
    await settle()
    assert texts(one, 9) == ["k3"]
    other = world.client(**OURS)
    assert (await join(other, "d", 4)).type == pb.BaseCommand.SUCCESS
    other.flow(4, 100)
    send(producer, 1, "l3", partition_key=KEYS[3])
    await settle()
    assert (texts(one, 9), texts(other, 4)) == (["k3"], [])
    one.ack(9, (await world.topic(SEGMENT)).managed.first)
    await settle()
    assert (texts(one, 9), texts(other, 4)) == (["k3"], ["l3"])


async def test_closing_segment_keeps_registration_of_explicit_leaver(world: World) -> None:
    (one, other), _ = await shared(world)
    await one.ask("CLOSE_CONSUMER", consumer_id=9)
    await settle()
    [found] = await world.node.scalable.subscriptions(NAME)
    assert [member.name for member in found.members] == ["c0", "c1"]
    await one.ask("SCALABLE_TOPIC_UNSUBSCRIBE", consumer_id=0)
    await settle()
    assert ids(pushes(other)[-1].assignment) == []  # to be read alone it is let go of first
    await other.ask("CLOSE_CONSUMER", consumer_id=9)
    await settle()
    assert told(pushes(other)[-1].assignment) == [[]]


async def test_only_sharer_beyond_grace_is_disconnected(world: World) -> None:
    (one, other), _ = await shared(world)
    apart = world.client(**OURS)
    await consume(apart, "c2")
    assert (await join(apart, "c2", 9)).type == pb.BaseCommand.SUCCESS
    link = world.client(**OURS)
    assert (await join(link, "c2", 5)).type == pb.BaseCommand.SUCCESS  # its link to the segment is another one
    for client in (one, other, link):
        client.wire.polite = True
    apart.lose()
    await pass_s(120)
    await settle()
    topic = await world.topic(SEGMENT)
    found = topic.subscriptions.get("s")
    assert found is not None
    assert sorted(consumer.name for consumer in found.consumers) == ["c0-seg-0", "c1-seg-0"]
