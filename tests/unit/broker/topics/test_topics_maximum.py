"""The number of topics in memory has a bound, and so has that of the subscriptions of a topic."""

from __future__ import annotations

from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, World, settle

_T = pb.BaseCommand


async def test_topic_above_memory_maximum_waits_for_unload_of_another(world: World) -> None:
    world.node.topics.loaded_max = 2
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
