"""Consumers of several topics: partitions, lists, patterns; what comes later is attached, what is gone is let go."""

from __future__ import annotations

import asyncio
import re

import pytest

from magnetar.base.errors import ConsumerBusy, Misuse
from magnetar.client.consumer.config import SubscriptionType
from magnetar.wire import commands
from magnetar.wire.proto import pb
from tests.support.broker_script import K, World, single

pytestmark = pytest.mark.real_clock

T = "persistent://public/default/t"


def ids(world: World) -> dict[str, int]:
    return {topic: consumer_id for consumer_id, topic in world.broker.topic_of.items()}


async def test_partitions_are_merged_and_acknowledged_at_their_origin(world: World):
    world.broker.partitions[T] = 3
    consumer = await world.consumer("t", ack_group_s=0)
    assert consumer.topics == [T]
    assert sorted(consumer.partitions) == [f"{T}-partition-{index}" for index in range(3)]
    for index in range(3):
        world.broker.push(0, single(b"p%d" % index), consumer_id=ids(world)[f"{T}-partition-{index}"], partition=index)
    received = [await consumer.receive(60) for _ in range(3)]
    assert sorted(item.data for item in received) == [b"p0", b"p1", b"p2"]
    for item in received:
        assert item.topic == f"{T}-partition-{item.id.partition}"
        await consumer.acknowledge(item.id)
    await world.broker.until(lambda: len(world.broker.acked()) == 3)
    acked = {ack.consumer_id for ack in world.broker.said(K.ACK)}
    assert acked == set(ids(world).values())
    assert len(await consumer.last_message_ids()) == 3
    with pytest.raises(Misuse):
        await consumer.last_message_id()


async def test_added_partitions_are_noticed_and_read_from_their_first_message(world: World):
    world.broker.partitions[T] = 1
    consumer = await world.consumer("t")
    world.broker.partitions[T] = 3
    await consumer._parts.grow()
    assert len(consumer.partitions) == 3
    positions = [said.initialPosition for said in world.broker.said(K.SUBSCRIBE)]
    assert positions == [pb.CommandSubscribe.Latest] + [pb.CommandSubscribe.Earliest] * 2
    await consumer._parts.grow()
    assert len(world.broker.said(K.SUBSCRIBE)) == 3


async def test_growth_is_looked_for_by_itself(world: World):
    world.broker.partitions[T] = 1
    await world.consumer("t", discovery_s=0.01)
    world.broker.partitions[T] = 2
    await world.broker.until_said(K.SUBSCRIBE, 2)


async def test_one_topic_that_is_refused_means_none(world: World):
    world.broker.refuse[K.SUBSCRIBE] = [(5, "taken")]
    with pytest.raises(ConsumerBusy):
        await world.consumer(["a", "b", "c"])
    subscribed = len(world.broker.said(K.SUBSCRIBE))
    await world.broker.until(lambda: len(world.broker.said(K.CLOSE_CONSUMER)) >= subscribed)


async def test_several_topics_need_queue(world: World):
    with pytest.raises(Misuse):
        await world.consumer(["a", "b"], queue_messages=0)
    with pytest.raises(Misuse):
        await world.consumer([])


async def test_end_of_one_of_several_topics_is_not_end(world: World):
    consumer = await world.consumer(["a", "b"])
    first, second = ids(world).values()
    world.broker.tell(commands.reached_end_of_topic(first), first)
    world.broker.push(0, single(b"x"), consumer_id=second)
    assert (await consumer.receive(60)).data == b"x"
    assert not consumer.reached_end
    world.broker.tell(commands.reached_end_of_topic(second), second)
    assert [item async for item in consumer] == []


async def test_queue_is_shared_out(world: World):
    world.broker.partitions[T] = 4
    await world.consumer("t", queue_messages=100, queue_messages_total=200)
    assert {flow.messagePermits for flow in world.broker.said(K.FLOW)} == {50}


def names(world: World) -> set[str]:
    return {topic.rsplit("/", 1)[1] for topic in world.broker.topic_of.values()}


async def test_topics_of_pattern_come_and_go_by_watch(world: World):
    world.broker.topics = ["persistent://public/default/a1", "persistent://public/default/b1"]
    consumer = await world.consumer(re.compile("public/default/a.*"), type=SubscriptionType.SHARED)
    assert names(world) == {"a1"}
    watch = await world.broker.until_said(K.WATCH_TOPIC_LIST)
    assert watch.topics_pattern == "public/default/a.*"
    world.broker.topics += [
        "persistent://public/default/a2-partition-0",
        "persistent://public/default/a2-partition-1",
    ]
    world.broker.partitions["persistent://public/default/a2"] = 2
    update = commands.watch_topic_update(watch.watcher_id, world.broker.topics[2:], [], "4")
    world.broker.peers[0].write(update)
    await world.broker.until(lambda: names(world) == {"a1", "a2-partition-0", "a2-partition-1"})
    world.broker.topics = world.broker.topics[1:]
    world.broker.peers[0].write(commands.watch_topic_update(watch.watcher_id, [], ["a1"], "3"))
    await world.broker.until_said(K.CLOSE_CONSUMER)
    assert consumer.topics == ["persistent://public/default/a2"]
    await consumer.close()
    assert len(world.broker.said(K.WATCH_TOPIC_LIST_CLOSE)) == 1


async def test_pattern_that_matches_nothing_yet_waits_for_its_first_topic(world: World):
    consumer = await world.consumer(re.compile("public/default/a.*"), discovery_s=0.01)
    assert consumer.topics == []
    receiving = asyncio.create_task(consumer.receive())
    world.broker.topics = ["persistent://public/default/a1"]
    await world.broker.until_said(K.FLOW)
    world.broker.push(0, single(b"x"))
    assert (await receiving).data == b"x"


async def test_unattached_partition_is_attached_at_next_check(world: World):
    world.broker.partitions[T] = 1
    consumer = await world.consumer("t")
    world.broker.partitions[T] = 3
    world.broker.refuse[K.SUBSCRIBE] = [(5, "taken")]
    with pytest.raises(ConsumerBusy):
        await consumer._parts.grow()
    await consumer._parts.grow()
    assert len(consumer.partitions) == 3
    assert len(set(world.broker.topic_of.values())) == 3


async def test_pattern_broker_does_not_take_is_matched_here(world: World):
    world.broker.topics = ["persistent://public/default/a1", "persistent://public/default/b1"]
    world.broker.refuse[K.GET_TOPICS_OF_NAMESPACE] = [(22, "too long")]
    await world.consumer(re.compile("public/default/a.*"))
    assert names(world) == {"a1"}
    assert [said.topics_pattern for said in world.broker.said(K.GET_TOPICS_OF_NAMESPACE)][1:] == [""]
    assert world.broker.said(K.WATCH_TOPIC_LIST) == []


async def test_scalable_topic_is_refused_with_alternatives_named(world: World):
    with pytest.raises(Misuse, match="stream_consumer, queue_consumer or checkpoint_consumer"):
        await world.consumer(["t", "topic://public/default/t"])
    assert not world.broker.topic_of
