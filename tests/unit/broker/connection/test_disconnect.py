"""What one connection has, in numbers: it joins, leaves and is resumed without stopping the others (D3)."""

from __future__ import annotations

import pytest

from magnetar.base.limits import CONNECTION_CONSUMERS_MAX, CONNECTION_PRODUCERS_MAX
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb
from tests.support.virtual_clock import no_turn_longer, pass_s
from tests.unit.broker.world import Client, World, command, publish, settle

TURN_S = 0.1  # the aim is 0.02: a slow machine is no defect
MANY = 800
TOPICS = ["persistent://public/default/orders", "non-persistent://public/default/orders"]
TYPES = [pb.CommandSubscribe.Failover, pb.CommandSubscribe.Key_Shared, pb.CommandSubscribe.Shared]


async def many_consumers(client: Client, topic: str, kind: int, count: int = MANY) -> None:
    asked = [
        command(
            "SUBSCRIBE",
            topic=topic,
            request_id=number,
            consumer_id=number,
            subscription="s",
            subType=kind,
            consumer_name=f"c-{count - number:05}",  # each takes over where the first by name is active
        )
        for number in range(count)
    ]
    client.say(b"".join(map(encode_command, asked)))
    for _ in range(count):
        if len(client.connection.consumers) == count:
            return
        await settle()
    raise AssertionError(f"{len(client.connection.consumers)} of {count} consumers")


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("kind", TYPES, ids=pb.CommandSubscribe.SubType.Name)
@pytest.mark.setup(activeConsumerFailoverDelayTimeMillis="0")
async def test_consumers_of_lost_connection_leave_over_many_turns(world: World, topic: str, kind: int) -> None:
    client, neighbour = world.client(), world.client()
    await neighbour.subscribe(topic=topic, subType=kind, consumer_name="z", permits=10)
    async with no_turn_longer(TURN_S):
        await many_consumers(client, topic, kind)
        client.lose()
        await settle()
    loaded = world.loaded(topic)
    assert loaded is not None
    found = loaded.subscriptions.get("s")
    assert found is not None
    assert [consumer.name for consumer in found.consumers] == ["z"]
    await neighbour.produce(topic=topic)
    neighbour.send(0, "after all have left")
    await pass_s(2.0)  # the delay before a Failover consumer is active
    assert len(neighbour.heard.of(pb.BaseCommand.MESSAGE)) == 1


@pytest.mark.parametrize("kind", TYPES, ids=pb.CommandSubscribe.SubType.Name)
@pytest.mark.setup(activeConsumerFailoverDelayTimeMillis="0")
async def test_consumers_closed_one_by_one_leave_without_stop(world: World, kind: int) -> None:
    client = world.client()
    await many_consumers(client, TOPICS[0], kind)
    async with no_turn_longer(TURN_S):
        asked = [command("CLOSE_CONSUMER", consumer_id=number, request_id=number) for number in range(MANY)]
        client.say(b"".join(map(encode_command, asked)))
        await settle()
    assert client.connection.consumers == {}


async def test_entries_of_consumers_that_left_go_to_others(world: World) -> None:
    client, neighbour = world.client(), world.client()
    await many_consumers(client, TOPICS[0], pb.CommandSubscribe.Shared, 300)
    for number in range(300):
        client.flow(number, 1)
    await settle()
    await publish(world, *(f"m-{number}" for number in range(300)))
    await settle()
    assert len(client.heard.of(pb.BaseCommand.MESSAGE)) == 300
    await neighbour.subscribe(permits=1_000)
    client.lose()
    await settle()
    assert len(neighbour.heard.of(pb.BaseCommand.MESSAGE)) == 300


async def test_producers_of_lost_connection_leave_over_many_turns(world: World) -> None:
    client = world.client()
    count = 3_000
    async with no_turn_longer(TURN_S):
        asked = [command("PRODUCER", topic=TOPICS[0], producer_id=n, request_id=n) for n in range(count)]
        client.say(b"".join(map(encode_command, asked)))
        while len(client.connection.producers) < count:
            await settle()
        client.lose()
        await settle(count)
    topic = await world.topic()
    assert len(topic.producers) == 0


async def test_newcomer_does_not_wait_for_those_that_leave(world: World) -> None:
    client, neighbour = world.client(), world.client()
    for number in range(200):
        await client.subscribe(
            number, subscription=f"s-{number}", subType=pb.CommandSubscribe.Exclusive, topic=TOPICS[0]
        )
    client.lose()
    answer = await neighbour.subscribe(subscription="s-199", subType=pb.CommandSubscribe.Exclusive)
    assert answer.type == pb.BaseCommand.SUCCESS


async def test_peer_that_reads_again_costs_each_subscription_once(world: World) -> None:
    client = world.client()
    await many_consumers(client, TOPICS[0], pb.CommandSubscribe.Shared)
    for number in range(MANY):
        client.flow(number, 1)
    await settle()
    async with no_turn_longer(0.05):
        client.connection.pause_writing()
        client.connection.resume_writing()
        await settle()


@pytest.mark.parametrize(
    ("kind", "many"), [("PRODUCER", CONNECTION_PRODUCERS_MAX), ("SUBSCRIBE", CONNECTION_CONSUMERS_MAX)]
)
async def test_connection_with_too_many_clients_is_refused_one_more(world: World, kind: str, many: int) -> None:
    client = world.client()
    attached = {"PRODUCER": client.connection.producers, "SUBSCRIBE": client.connection.consumers}[kind]
    if kind == "PRODUCER":
        await client.produce(0)
        fields = {"topic": TOPICS[0], "producer_id": many}
    else:
        await client.subscribe(0)
        fields = {"topic": TOPICS[0], "consumer_id": many, "subscription": "s", "subType": 1}
    for number in range(1, many):
        attached[number] = attached[0]  # ten thousand real ones take half a minute
    answer = await client.ask(kind, **fields)
    assert answer.error.error == pb.NotAllowedError
    assert str(many) in answer.error.message
    client.say(command("PING"))
    assert not client.connection.closed
    for number in range(1, many):
        del attached[number]
