"""A connection creates topics in a burst and then at a rate; a request beyond it waits, or is refused and repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from magnetar.base.errors import Throttled
from magnetar.base.limits import CREATION_WAIT_S_MAX, CREATIONS_BURST_MAX, CREATIONS_PER_S_MAX
from magnetar.broker.connection.creation_rate import CreationRate
from magnetar.wire.proto import pb
from tests.unit.broker.world import Client, World, pass_s, settle

T = pb.BaseCommand
PREFIX = "persistent://public/default/new"
STEP_S = 1 / CREATIONS_PER_S_MAX


async def create(charge: Callable[[], None]) -> None:
    charge()


async def spend(rate: CreationRate, topics: int = CREATIONS_BURST_MAX) -> None:
    for _ in range(topics):
        await rate.paced(create)


async def test_burst_is_free_and_next_topic_waits(world: World) -> None:
    loop, rate = asyncio.get_running_loop(), CreationRate(lambda: "peer")
    began = loop.time()
    await spend(rate)
    assert loop.time() == began
    waiting = [world.spawn(rate.paced(create)) for _ in range(3)]
    await settle()
    assert not any(one.done() for one in waiting)
    await pass_s(2.5 * STEP_S)
    assert [one.done() for one in waiting] == [True, True, False]
    await asyncio.gather(*waiting)


async def test_rate_refills_burst_and_no_more(world: World) -> None:
    rate = CreationRate(lambda: "peer")
    await spend(rate)
    await pass_s(1.0)
    await spend(rate, CREATIONS_PER_S_MAX)
    waiting = world.spawn(rate.paced(create))
    await settle()
    assert not waiting.done()
    await waiting
    await pass_s(3_600.0)
    await spend(rate)
    waiting = world.spawn(rate.paced(create))
    await settle()
    assert not waiting.done()
    await waiting


async def test_far_turn_is_refused_so_that_clients_retry(world: World) -> None:
    rate = CreationRate(lambda: "peer")
    await spend(rate)
    waiting = [world.spawn(rate.paced(create)) for _ in range(int(CREATION_WAIT_S_MAX * CREATIONS_PER_S_MAX))]
    await settle()
    with pytest.raises(Throttled, match="100 topics in a second: create them more slowly") as refused:
        await rate.paced(create)
    assert refused.value.wire_code == pb.ServiceNotReady
    await asyncio.gather(*waiting)


async def test_topic_that_exists_costs_nothing(world: World) -> None:
    client, other = world.client(), world.client()
    await spend(client.connection.creations)
    assert (await other.produce(1, f"{PREFIX}-1")).HasField("producer_success")
    assert (await client.produce(1, f"{PREFIX}-1")).HasField("producer_success")


@pytest.mark.parametrize("kind", ["PRODUCER", "SUBSCRIBE"])
async def test_new_topic_beyond_burst_is_answered_in_its_turn(world: World, kind: str) -> None:
    client, neighbour = world.client(), world.client()
    await spend(client.connection.creations)
    fields = {"PRODUCER": {"producer_id": 1}, "SUBSCRIBE": {"consumer_id": 1, "subscription": "s", "subType": 1}}[kind]
    asked = client.request(kind, topic=f"{PREFIX}-1", **fields)
    await settle()
    assert client.answers(asked) == []
    assert (await neighbour.produce(1, f"{PREFIX}-2")).HasField("producer_success")
    await pass_s(2 * STEP_S)
    assert [one.type for one in client.answers(asked)] == [T.PRODUCER_SUCCESS if kind == "PRODUCER" else T.SUCCESS]


async def test_neighbour_does_not_wait_for_turn_of_another(world: World) -> None:
    slow, neighbour = world.client(), world.client()
    await spend(slow.connection.creations)
    asked = slow.request("PRODUCER", topic=f"{PREFIX}-1", producer_id=1)
    assert (await neighbour.produce(1, f"{PREFIX}-1")).HasField("producer_success")
    await pass_s(2 * STEP_S)
    assert [one.type for one in slow.answers(asked)] == [T.PRODUCER_SUCCESS]


async def test_connection_that_ends_in_its_wait_creates_nothing(world: World) -> None:
    client = world.client()
    await spend(client.connection.creations)
    client.request("PRODUCER", topic=f"{PREFIX}-1", producer_id=1)
    await settle()
    client.lose()
    await pass_s(1.0)
    assert world.loaded(f"{PREFIX}-1") is None


async def refused(client: Client) -> None:
    rate = client.connection.creations
    await spend(rate)
    for _ in range(int(CREATION_WAIT_S_MAX * CREATIONS_PER_S_MAX)):
        client.connection.node.runtime.spawn(client.connection.owner, rate.paced(create))
    await settle()


async def test_refused_consumer_of_c_client_is_told_to_retry(world: World) -> None:
    """It repeats no first SUBSCRIBE that was refused (SC-A0)."""
    client = world.client(client_version="Pulsar-CPP-v4.2.0")
    await refused(client)
    answer = await client.subscribe(1, f"{PREFIX}-1")
    assert answer.error.error == pb.ServiceNotReady
    assert len(client.heard.of(T.CLOSE_CONSUMER)) == 1
    assert world.loaded(f"{PREFIX}-1") is None


@pytest.mark.setup(allowAutoTopicCreationType="partitioned", defaultNumPartitions="5")
async def test_partitioned_topic_counts_once(world: World) -> None:
    client = world.client()
    await spend(client.connection.creations, CREATIONS_BURST_MAX - 1)
    fields = {"metadata_auto_creation_enabled": True}
    first = await client.ask("PARTITIONED_METADATA", topic=f"{PREFIX}-1", **fields)
    assert first.partitionMetadataResponse.partitions == 5
    asked = client.request("PARTITIONED_METADATA", topic=f"{PREFIX}-2", **fields)
    await settle()
    assert client.answers(asked) == []
    assert (await client.produce(1, f"{PREFIX}-1-partition-4")).HasField("producer_success")
    await pass_s(2 * STEP_S)
    assert client.answers(asked)[0].partitionMetadataResponse.partitions == 5


async def test_scalable_topic_beyond_burst_is_created_in_its_turn(world: World) -> None:
    client = world.client()
    await spend(client.connection.creations)
    topic = "topic://public/default/new"
    client.say(_lookup(topic))
    await settle()
    assert client.heard.of(T.SCALABLE_TOPIC_UPDATE) == []
    await pass_s(2 * STEP_S)
    assert len(client.heard.of(T.SCALABLE_TOPIC_UPDATE)) == 1


def _lookup(topic: str) -> pb.BaseCommand:
    made = pb.BaseCommand(type=T.SCALABLE_TOPIC_LOOKUP)
    made.scalableTopicLookup.session_id, made.scalableTopicLookup.topic = 1, topic
    made.scalableTopicLookup.create_if_missing = True
    return made
