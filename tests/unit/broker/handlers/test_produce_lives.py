"""Producers and topics whose lives cross: connections lost, topics unloaded, failed or ended, places in a queue."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Fenced
from magnetar.base.ids import Position, Term
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, World, settle

_T = pb.BaseCommand
EXCLUSIVE, WAIT = pb.Exclusive, pb.WaitForExclusive


async def test_producer_closed_while_it_is_made_is_not_left_behind(world: World) -> None:
    client = world.client()
    world.metadata.hold()
    making = client.request("PRODUCER", topic=TOPIC, producer_id=1, producer_name="p")
    await settle()
    closing = client.request("CLOSE_PRODUCER", producer_id=1)
    again = client.request("PRODUCER", topic=TOPIC, producer_id=1, producer_name="p", epoch=1)
    await settle()
    world.metadata.release()
    await settle()
    assert client.answers(closing)[0].type == _T.SUCCESS
    assert client.answers(making) == []
    assert client.answers(again)[0].type == _T.PRODUCER_SUCCESS
    assert [item.epoch for item in (await world.topic()).producers] == [1]
    assert client.connection.making_producers == {}


async def test_waiting_producer_that_is_closed_leaves_queue(world: World) -> None:
    client, other = world.client(), world.client()
    await client.produce(1, producer_name="shared")
    queued = await other.produce(2, producer_name="w", producer_access_mode=WAIT)
    assert not queued.producer_success.producer_ready
    refused = await client.produce(3, producer_name="late")
    assert refused.error.error == pb.ProducerBusy
    assert (await other.ask("CLOSE_PRODUCER", producer_id=2)).type == _T.SUCCESS
    assert (await client.produce(4, producer_name="later")).type == _T.PRODUCER_SUCCESS


async def test_waiting_producer_is_answered_twice_with_one_request(world: World) -> None:
    client, other = world.client(), world.client()
    await client.produce(1, producer_name="x", producer_access_mode=EXCLUSIVE)
    request = other.request("PRODUCER", topic=TOPIC, producer_id=1, producer_name="w", producer_access_mode=WAIT)
    await settle()
    client.lose()
    await settle()
    ready = [one.producer_success.producer_ready for one in other.answers(request)]
    assert ready == [False, True]
    assert other.answers(request)[1].producer_success.topic_epoch == 1


async def test_refused_producer_can_ask_again_under_its_id(world: World) -> None:
    client, other = world.client(), world.client()
    client.wire.polite = True
    await client.produce(1, producer_name="x", producer_access_mode=EXCLUSIVE)
    refused = await other.produce(1, producer_name="y", producer_access_mode=EXCLUSIVE)
    assert refused.error.error == pb.ProducerFenced
    client.lose()
    again = await other.produce(1, producer_name="y", producer_access_mode=EXCLUSIVE)
    assert again.type == _T.PRODUCER_SUCCESS


@pytest.mark.parametrize("passes", range(12))
async def test_connection_lost_at_any_step_of_making_producer_leaves_nothing(world: World, passes: int) -> None:
    client = world.client()
    world.metadata.hold(passes)
    client.request(
        "PRODUCER",
        topic=TOPIC,
        producer_id=1,
        producer_name="p",
        producer_access_mode=EXCLUSIVE,
        initial_subscription_name="dlq",
        schema={"name": "s", "type": pb.Schema.String, "schema_data": b"null"},
    )
    await settle()
    client.lose()
    await settle()
    world.metadata.release()
    await settle()
    loaded = world.loaded()
    if isinstance(loaded, Topic):
        assert len(loaded.producers) == 0
        assert loaded.producers.access.producers == []
    other = world.client()
    again = await other.produce(producer_name="p", producer_access_mode=EXCLUSIVE)
    assert again.type == _T.PRODUCER_SUCCESS


async def test_one_client_going_away_does_not_spoil_load_for_another(world: World) -> None:
    first, second = world.client(), world.client()
    world.metadata.hold()
    first.request("PRODUCER", topic=TOPIC, producer_id=1)
    await settle()
    request = second.request("PRODUCER", topic=TOPIC, producer_id=1)
    await settle()
    first.lose()
    await settle()
    world.metadata.release()
    await settle()
    assert second.answers(request)[0].type == _T.PRODUCER_SUCCESS


async def test_topic_that_fails_sends_its_producers_to_recovered_one(world: World) -> None:
    client = world.client()
    await client.produce(producer_name="p")
    client.send(0, "a")
    await settle()
    world.ledgers.fail_append(Fenced("another owner"))
    client.send(1, "b")
    await settle()
    assert client.heard.answered == [(0, None), (1, pb.PersistenceError)]
    assert client.heard.kinds[-1] == "CLOSE_PRODUCER"
    again = await client.produce(producer_name="p", epoch=1)
    assert again.type == _T.PRODUCER_SUCCESS
    client.send(1, "b")
    await settle()
    assert client.heard.answered[-1] == (1, None)
    assert (await world.topic()).managed.entries == 2


async def test_unloading_and_coming_back_neither_loses_nor_doubles(world: World) -> None:
    client = world.client()
    await client.produce(producer_name="p")
    world.ledgers.hold()
    client.send(0, "a")
    await settle()
    unloading = world.spawn(world.node.topics.unload((await world.topic()).name))
    await settle()
    client.send(1, "b")
    world.ledgers.release()
    await unloading
    assert client.heard.answered == [(0, None)]
    assert client.heard.kinds[-1] == "CLOSE_PRODUCER"
    await client.produce(producer_name="p", epoch=1)
    client.send(1, "b")
    await settle()
    assert client.heard.answered == [(0, None), (1, None)]
    assert client.heard.receipts[1].position > client.heard.receipts[0].position > Position(-1, -1)


async def test_terminated_topic_refuses_producers_for_good(world: World) -> None:
    await (await world.topic()).seal("op", Term(1))
    refused = await world.client().produce()
    assert refused.error.error == pb.TopicTerminatedError


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("persistent://public/nowhere/t", pb.TopicNotFound),
        ("topic://public/default/t", pb.NotAllowedError),
        ("persistent://not a name", pb.InvalidTopicName),
    ],
)
async def test_topic_that_cannot_be_is_refused_with_its_own_code(world: World, topic: str, code: int) -> None:
    client = world.client()
    assert (await client.produce(topic=topic)).error.error == code
    assert client.connection.making_producers == {}
