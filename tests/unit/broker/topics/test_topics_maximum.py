"""The number of topics in memory has a bound, and so has that of the subscriptions of a topic."""

from __future__ import annotations

import pytest

from magnetar.base.limits import DEDUP_PRODUCER_BYTES, LOADED_SUBSCRIPTION_BYTES, LOADED_TOPIC_BYTES
from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, World, settle

_T = pb.BaseCommand


async def test_topic_above_memory_maximum_waits_for_unload_of_another(world: World) -> None:
    world.node.managed_config.loaded.limit(2)
    client = world.client()
    assert (await client.produce(1, f"{TOPIC}-1")).type == _T.PRODUCER_SUCCESS
    assert (await client.produce(2, f"{TOPIC}-2")).type == _T.PRODUCER_SUCCESS
    refused = await client.produce(3, f"{TOPIC}-3")
    assert refused.error.error == pb.ServiceNotReady  # clients ask again
    assert "maximum of 2 topics" in refused.error.message
    assert (await client.produce(4, f"{TOPIC}-2")).type == _T.PRODUCER_SUCCESS
    await client.ask("CLOSE_PRODUCER", producer_id=1)
    topic = world.loaded(f"{TOPIC}-1")
    assert topic is not None
    await world.node.topics.unload(topic.name)
    await settle()
    assert (await client.produce(3, f"{TOPIC}-3")).type == _T.PRODUCER_SUCCESS


async def test_plain_topic_has_maximum_of_subscriptions_by_default(world: World) -> None:
    assert world.node.settings.number("maxSubscriptionsPerTopic") == 10_000
    topic = await world.topic()
    assert topic.settings.subscriptions_max == 10_000


async def test_subscriptions_of_loaded_topics_count_with_them(world: World) -> None:
    account = world.node.managed_config.loaded
    client = world.client()
    assert (await client.produce(1)).type == _T.PRODUCER_SUCCESS
    account.limit(2)
    room = LOADED_TOPIC_BYTES // LOADED_SUBSCRIPTION_BYTES + 2  # one is counted with its topic, one goes beyond
    for number in range(room):
        assert (await client.subscribe(number, subscription=f"s{number}")).type == _T.SUCCESS
    refused = await client.subscribe(room, subscription="more")
    assert refused.error.error == pb.ServiceNotReady
    assert "with their subscriptions" in refused.error.message
    assert (await client.subscribe(50, subscription=f"s{room - 1}")).type == _T.SUCCESS, "it is there already"
    assert (await client.produce(2, f"{TOPIC}-2")).error.error == pb.ServiceNotReady
    for number in range(2):
        await client.ask("UNSUBSCRIBE", consumer_id=number)
    assert (await client.subscribe(room, subscription="more")).type == _T.SUCCESS
    topic = world.loaded(TOPIC)
    assert topic is not None
    await world.node.topics.unload(topic.name)
    await settle()
    assert account.bytes == 0


@pytest.mark.setup(brokerDeduplicationEnabled="true")
async def test_names_that_deduplication_remembers_count_with_topics(world: World) -> None:
    account = world.node.managed_config.loaded
    client = world.client()
    made = await client.produce(1, producer_name="first")
    assert made.type == _T.PRODUCER_SUCCESS
    topic = world.loaded(TOPIC)
    assert topic is not None
    assert topic.recall is not None
    assert topic.dedup is not None
    for number in range(100):
        topic.dedup.persisted(f"{number}", 1)
    topic.recall.settle()
    assert account.bytes >= 100 * DEDUP_PRODUCER_BYTES
    account.limit(1)
    refused = await client.produce(2, producer_name="second")
    assert refused.error.error == pb.ServiceNotReady
    assert (await client.produce(3, producer_name="7")).type == _T.PRODUCER_SUCCESS, "it is remembered already"
    topic.dedup.forget(2**62)
    await world.node.topics.unload(topic.name)
    await settle()
    assert account.bytes == 0
