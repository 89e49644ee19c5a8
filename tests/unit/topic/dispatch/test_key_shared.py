"""Key_Shared: each key at one consumer, in order, however consumers join, leave, nack and stall."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.hashes import key_shared_slot, murmur3
from magnetar.base.ids import Position
from magnetar.base.limits import KEYED_LOOKAHEAD_ENTRIES_MAX, REPLAY_TURN_ENTRIES_MAX
from magnetar.topic.dispatch.key_shared import KeySharedDispatcher
from magnetar.topic.subscriptions.consumer import Consumer, KeyShared
from magnetar.topic.subscriptions.subscription import KEY_SHARED
from magnetar.topic.topic import Topic
from magnetar.wire import message
from magnetar.wire.proto import pb
from tests.unit.topic.world import Out, World, ack, an_entry, settle, subscription_of


def keyed(topic: Topic) -> KeySharedDispatcher:
    dispatcher = subscription_of(topic).dispatcher
    assert isinstance(dispatcher, KeySharedDispatcher)
    return dispatcher


async def publish(world: World, topic: Topic, *keys: str) -> list[Position]:
    """Messages `key:place`."""
    return await world.store(topic, *[an_entry(f"{key}:{place}", partition_key=key) for place, key in enumerate(keys)])


def owner_of(topic: Topic, key: str) -> Consumer:
    selector = keyed(topic).selector
    found = selector.select(selector.slot(murmur3(key.encode())))
    assert found is not None
    return found


def keys_of(topic: Topic, consumer: Consumer, wanted: int = 1) -> list[str]:
    found = [key for key in map(str, range(5000)) if owner_of(topic, key) is consumer]
    return found[:wanted]


@pytest.mark.parametrize("ring", [True, False])
async def test_every_key_goes_to_its_owner_in_order(world: World, ring: bool) -> None:
    topic = await world.topic(key_shared_ring=ring)
    outs = [Out(number) for number in range(4)]
    consumers = [await world.consumer(topic, out, f"c{n}", kind=KEY_SHARED) for n, out in enumerate(outs)]
    for consumer in consumers:
        consumer.flow(1000)
    await publish(world, topic, *[str(number % 20) for number in range(100)])
    seen: dict[str, list[int]] = {}
    for out, consumer in zip(outs, consumers, strict=True):
        for text in out.texts:
            key, place = text.split(":")
            assert owner_of(topic, key) is consumer
            seen.setdefault(key, []).append(int(place))
    assert sum(map(len, seen.values())) == 100
    assert all(places == sorted(places) for places in seen.values())


async def test_newcomer_gets_key_only_when_old_owner_has_acknowledged_it(world: World) -> None:
    topic = await world.topic()
    old, new = Out(1), Out(2)
    first = await world.consumer(topic, old, "c1", kind=KEY_SHARED, permits=100)
    second = await world.consumer(topic, new, "c2", kind=KEY_SHARED)
    [key] = keys_of(topic, second)
    topic.remove_consumer(second)
    [position] = await publish(world, topic, key)
    again = await world.consumer(topic, new, "c2", kind=KEY_SHARED, permits=100)
    assert owner_of(topic, key) is again
    await publish(world, topic, key, key)
    assert len(old.texts) == 1
    assert new.texts == []  # held back behind the one that is unacknowledged elsewhere
    ack(topic, first, position)
    assert len(new.texts) == 2


async def test_other_keys_flow_past_one_that_is_held_back(world: World) -> None:
    topic = await world.topic()
    old, new = Out(1), Out(2)
    first = await world.consumer(topic, old, "c1", kind=KEY_SHARED, permits=1000)
    second = await world.consumer(topic, new, "c2", kind=KEY_SHARED)
    held, free = keys_of(topic, second, 2)
    [mine] = keys_of(topic, first)
    topic.remove_consumer(second)
    await publish(world, topic, held)
    await world.consumer(topic, new, "c2", kind=KEY_SHARED, permits=1000)
    old.clear()
    await publish(world, topic, held, free, mine)
    assert new.texts == [f"{free}:1"]
    assert old.texts == [f"{mine}:2"]


async def test_what_leaving_consumer_held_goes_to_new_owners_in_order(world: World) -> None:
    topic = await world.topic()
    gone, left = Out(1), Out(2)
    leaver = await world.consumer(topic, gone, "c1", kind=KEY_SHARED, permits=1000)
    await publish(world, topic, "a", "b", "a", "b")
    await world.consumer(topic, left, "c2", kind=KEY_SHARED, permits=1000)
    topic.remove_consumer(leaver)
    await settle()
    assert [text for text in left.texts if text.startswith("a")] == ["a:0", "a:2"]
    assert [text for text in left.texts if text.startswith("b")] == ["b:1", "b:3"]
    assert {one.redelivery for one in left.delivered} == {0}


async def test_rejected_message_is_not_overtaken_by_its_key(world: World) -> None:
    topic = await world.topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=KEY_SHARED, permits=1)
    [position] = await publish(world, topic, "a")
    subscription_of(topic).redeliver(consumer, [position])
    await world.store(topic, an_entry("a:later", partition_key="a"))
    consumer.flow(2)
    await settle()
    assert out.texts == ["a:0", "a:0", "a:later"]
    assert out.delivered[1].redelivery == 1


async def test_ordering_key_decides_before_partition_key(world: World) -> None:
    topic = await world.topic()
    outs = [Out(number) for number in range(3)]
    consumers = [await world.consumer(topic, out, f"c{n}", kind=KEY_SHARED, permits=100) for n, out in enumerate(outs)]
    await world.store(topic, *[an_entry(str(n), partition_key=str(n), ordering_key=b"the one") for n in range(20)])
    owner = owner_of(topic, "the one")
    assert [len(out.texts) for out in outs] == [20 if consumer is owner else 0 for consumer in consumers]


async def test_sticky_ranges_own_slots_and_unowned_ones_wait(world: World) -> None:
    topic = await world.topic()
    low, high = Out(1), Out(2)
    ranges = KeyShared(sticky=True, ranges=[(0, 32767)], out_of_order=False)
    await world.consumer(topic, low, kind=KEY_SHARED, permits=1000, key_shared=ranges)
    keys = [str(number) for number in range(60)]
    await publish(world, topic, *keys)
    lower = [key for key in keys if key_shared_slot(murmur3(key.encode())) <= 32767]
    assert [text.split(":")[0] for text in low.texts] == lower
    rest = KeyShared(sticky=True, ranges=[(32768, 65535)], out_of_order=False)
    await world.consumer(topic, high, kind=KEY_SHARED, permits=1000, key_shared=rest)
    await settle()
    assert [text.split(":")[0] for text in high.texts] == [key for key in keys if key not in lower]


async def test_only_so_many_entries_are_read_past_key_that_waits(world: World) -> None:
    topic = await world.topic()
    sleepy = Out(1)
    consumer = await world.consumer(topic, sleepy, "c1", kind=KEY_SHARED, permits=1)
    other = await world.consumer(topic, Out(2), "c2", kind=KEY_SHARED, permits=10)
    [key] = keys_of(topic, consumer)
    count = KEYED_LOOKAHEAD_ENTRIES_MAX + 500
    body_of = an_entry("m", partition_key=key)
    for _ in range(0, count, 500):
        await world.store(topic, *[body_of] * 500)
    await settle()
    dispatcher = keyed(topic)
    assert dispatcher.guard.waiting() <= KEYED_LOOKAHEAD_ENTRIES_MAX
    assert dispatcher.read_position <= topic.managed.last
    [free] = keys_of(topic, other)
    await publish(world, topic, free)
    consumer.flow(count)
    for _ in range(20):
        await settle()
    assert len(sleepy.texts) == count
    assert dispatcher.guard.waiting() == 0


async def test_acknowledging_what_waits_makes_room_to_read_on(world: World) -> None:
    topic = await world.topic()
    consumer = await world.consumer(topic, Out(1), "c1", kind=KEY_SHARED, permits=1)
    out = Out(2)
    other = await world.consumer(topic, out, "c2", kind=KEY_SHARED, permits=10)
    [mine] = keys_of(topic, consumer)
    [free] = keys_of(topic, other)
    positions: list[Position] = []
    for _ in range(0, KEYED_LOOKAHEAD_ENTRIES_MAX + 1, 500):
        positions += await world.store(topic, *[an_entry("m", partition_key=mine)] * 500)
    await publish(world, topic, free)
    assert out.texts == []
    ack(topic, other, *positions[1:])  # as clearing a backlog by ids would
    for _ in range(20):
        await settle()
    assert out.texts == [f"{free}:0"]


async def test_messages_without_key_are_spread(world: World) -> None:
    topic = await world.topic()
    outs = [Out(1), Out(2)]
    for number, out in enumerate(outs):
        await world.consumer(topic, out, f"c{number}", kind=KEY_SHARED, permits=1000)
    await world.store(topic, *[an_entry(str(n), n) for n in range(40)])
    assert all(out.texts for out in outs)
    assert sum(len(out.texts) for out in outs) == 40


async def test_what_is_given_back_is_read_again_from_files(world: World) -> None:
    topic = await world.without_cache().topic()
    out = Out()
    consumer = await world.consumer(topic, out, kind=KEY_SHARED, permits=1000)
    positions = await publish(world, topic, *[str(number % 5) for number in range(40)])
    await settle()
    out.clear()
    subscription_of(topic).redeliver(consumer, positions[3:30:9])
    await settle()
    assert [one.position for one in out.delivered] == positions[3:30:9]


@pytest.mark.parametrize("buckets", [False, True])
async def test_entries_beyond_one_turn_leave_when_owner_is_ready(world: World, buckets: bool) -> None:
    count = REPLAY_TURN_ENTRIES_MAX + 100
    asked = KeyShared(sticky=True, ranges=[(0, 32767), (32768, 65535)], out_of_order=False, buckets=True)

    topic = await world.topic()
    slow, quick = Out(1), Out(2)
    settings: dict[str, Any] = {"key_shared": asked} if buckets else {}
    first = await world.consumer(topic, slow, "c1", kind=KEY_SHARED, **settings)
    await world.consumer(topic, quick, "c2", kind=KEY_SHARED, permits=10, **settings)
    [mine] = keys_of(topic, first)
    await publish(world, topic, *[mine] * count)
    await settle()
    assert slow.texts == []
    first.flow(10 * count)
    await settle()
    assert [text.split(":")[1] for text in slow.texts] == [str(number) for number in range(count)]


@pytest.mark.parametrize("buckets", [True, False])
async def test_chunked_message_ends_with_first_owner_despite_move_h_f19(world: World, buckets: bool) -> None:
    topic = await world.topic()
    halves = KeyShared(sticky=True, ranges=[(0, 32767), (32768, 65535)], out_of_order=False, buckets=True)
    settings: dict[str, Any] = {"key_shared": halves} if buckets else {}
    old, new = Out(1), Out(2)
    first = await world.consumer(topic, old, "c1", kind=KEY_SHARED, permits=100, **settings)
    second = await world.consumer(topic, new, "c2", kind=KEY_SHARED, **settings)
    [key] = keys_of(topic, second)
    topic.remove_consumer(second)
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, partition_key=key)
    chunks = message.chunks(metadata, b"abcdef", 2)
    begun = await world.store(topic, *chunks[:2])
    again = await world.consumer(topic, new, "c2", kind=KEY_SHARED, permits=100, **settings)
    assert owner_of(topic, key) is again
    [rest] = await world.store(topic, chunks[2])
    assert old.texts == ["ab", "cd", "ef"]
    [behind] = await publish(world, topic, key)
    assert new.texts == []
    ack(topic, first, *begun, rest)
    assert new.texts == [f"{key}:0"]
    ack(topic, again, behind)
    assert not keyed(topic).begun


@pytest.mark.parametrize("given_up", ["acknowledged", "passed over", "given back", "without order"])
async def test_chunked_message_without_start_restarts_with_key_owner(world: World, given_up: str) -> None:
    topic = await world.topic()
    free = KeyShared(sticky=False, ranges=[], out_of_order=True, buckets=False)
    settings: dict[str, Any] = {"key_shared": free} if given_up == "without order" else {}
    old, new = Out(1), Out(2)
    first = await world.consumer(topic, old, "c1", kind=KEY_SHARED, permits=1, **settings)
    second = await world.consumer(topic, new, "c2", kind=KEY_SHARED, **settings)
    [key] = keys_of(topic, second)
    topic.remove_consumer(second)
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, partition_key=key)
    [begun] = await world.store(topic, message.chunks(metadata, b"abcd", 2)[0])
    await world.consumer(topic, new, "c2", kind=KEY_SHARED, permits=100, **settings)
    subscription = subscription_of(topic)
    if given_up == "given back":
        subscription.redeliver(first, [begun])
    elif given_up == "passed over":
        subscription.cursor.ack_to(begun)
        subscription.dispatcher.acked_to(begun)
    else:
        ack(topic, first, begun)
    await publish(world, topic, key)
    again = ["ab"] if given_up == "given back" else []
    assert (old.texts, new.texts) == (["ab"], [*again, f"{key}:0"])
