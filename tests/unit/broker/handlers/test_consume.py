"""SUBSCRIBE and what follows it, over the wire: attached once, closed at any moment, nothing acknowledged too far."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.ids import Position
from magnetar.base.limits import NAME_BYTES_MAX
from magnetar.ledger.cursor.acks import AckBounds
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, World, command, publish, send_frame, settle
from tests.unit.topic.world import a_batch

_T = pb.BaseCommand
EXCLUSIVE, SHARED = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Shared
FAILOVER, KEY_SHARED = pb.CommandSubscribe.Failover, pb.CommandSubscribe.Key_Shared
LATEST = 2**63 - 1


async def test_success_comes_before_first_message(world: World) -> None:
    await publish(world, "a", "b")
    client = world.client()
    await client.subscribe(permits=10)
    await settle()
    assert client.heard.kinds == ["CONNECTED", "SUCCESS", "MESSAGE", "MESSAGE"]
    assert client.heard.texts == ["a", "b"]


async def test_empty_name_is_answered_as_pulsar_does(world: World) -> None:
    answer = await world.client().subscribe(subscription="")
    assert answer.error.error == pb.ProducerBusy


@pytest.mark.parametrize("field", ["subscription", "consumer_name"])
async def test_consumer_name_above_limit_is_refused_without_effect(world: World, field: str) -> None:
    client = world.client()
    answer = (await client.subscribe(1, **{field: "n" * (NAME_BYTES_MAX + 1)})).error
    assert answer.error == pb.NotAllowedError
    assert str(NAME_BYTES_MAX) in answer.message
    assert world.loaded() is None
    assert (await client.subscribe(1, **{field: "n" * NAME_BYTES_MAX})).HasField("success")


async def test_consumer_whose_topic_goes_while_it_closes_is_closed(world: World) -> None:
    client = world.client()
    await client.subscribe(1)
    loaded = world.loaded()
    assert loaded is not None
    closing = client.request("CLOSE_CONSUMER", consumer_id=1)
    [consumer] = next(iter(loaded.subscriptions)).consumers
    loaded.subscriptions.close_consumer(consumer)
    await settle()
    assert client.heard.of(_T.SUCCESS)[-1].success.request_id == closing


async def test_compacted_reading_needs_single_consumer(world: World) -> None:
    client = world.client()
    assert (await client.subscribe(1, read_compacted=True)).error.error == pb.NotAllowedError
    assert (await client.subscribe(2, read_compacted=True, subType=EXCLUSIVE)).type == _T.SUCCESS


@pytest.mark.setup(allowAutoTopicCreation="false")
async def test_topic_that_must_not_be_created_is_not(world: World) -> None:
    answer = await world.client().subscribe(topic="persistent://public/default/nope", force_topic_creation=False)
    assert answer.error.error == pb.TopicNotFound


async def test_consumers_without_name_get_different_ones(world: World) -> None:
    client = world.client()
    await client.subscribe(1, consumer_name="")
    await client.subscribe(2, consumer_name="")
    topic = await world.topic()
    found = topic.subscriptions.get("s")
    assert found is not None
    names = [consumer.name for consumer in found.consumers]
    assert len(set(names)) == 2
    assert all(names)


async def test_same_consumer_asked_for_twice_is_one_consumer(world: World) -> None:
    client = world.client()
    await client.subscribe(1, subType=EXCLUSIVE)
    assert (await client.subscribe(1, subType=EXCLUSIVE)).type == _T.SUCCESS


async def test_repeated_subscribe_during_creation_is_told_to_retry(world: World) -> None:
    client = world.client()
    world.metadata.hold()
    first = client.request("SUBSCRIBE", topic=TOPIC, subscription="s", subType=SHARED, consumer_id=1)
    second = client.request("SUBSCRIBE", topic=TOPIC, subscription="s", subType=SHARED, consumer_id=1)
    await settle()
    assert client.answers(second)[0].error.error == pb.ServiceNotReady
    world.metadata.release()
    await settle()
    assert client.answers(first)[0].type == _T.SUCCESS


async def test_consumer_closed_while_it_is_made_is_not_left_behind(world: World) -> None:
    client = world.client()
    await world.topic()
    world.metadata.hold()
    making = client.request("SUBSCRIBE", topic=TOPIC, subscription="s", subType=EXCLUSIVE, consumer_id=1)
    await settle()
    closing = client.request("CLOSE_CONSUMER", consumer_id=1)
    again = client.request("SUBSCRIBE", topic=TOPIC, subscription="s", subType=EXCLUSIVE, consumer_id=1)
    await settle()
    world.metadata.release()
    await settle()
    assert client.answers(closing)[0].type == _T.SUCCESS
    assert client.answers(making) == []
    assert client.answers(again)[0].type == _T.SUCCESS
    found = (await world.topic()).subscriptions.get("s")
    assert found is not None
    assert len(found.consumers) == 1


@pytest.mark.parametrize("passes", range(12))
async def test_connection_lost_at_any_step_of_subscribing_leaves_no_consumer(world: World, passes: int) -> None:
    client = world.client()
    world.metadata.hold(passes)
    client.request(
        "SUBSCRIBE",
        topic=TOPIC,
        subscription="s",
        subType=EXCLUSIVE,
        consumer_id=1,
        schema={"name": "s", "type": pb.Schema.String, "schema_data": b"null"},
    )
    await settle()
    client.lose()
    await settle()
    world.metadata.release()
    await settle()
    loaded = world.loaded()
    if isinstance(loaded, Topic):
        assert [item.name for item in loaded.subscriptions if item.consumers] == []
    other = world.client()
    assert (await other.subscribe(subType=EXCLUSIVE)).type == _T.SUCCESS


@pytest.mark.parametrize("passes", range(1, 10))
async def test_topic_unloaded_under_subscribe_is_loaded_again_and_answered(world: World, passes: int) -> None:
    topic = await world.topic()
    client = world.client()
    world.metadata.hold(passes)
    request = client.request("SUBSCRIBE", topic=TOPIC, subscription="s", subType=SHARED, consumer_id=1)
    await asyncio.sleep(0)
    unloading = world.spawn(world.node.topics.unload(topic.name))
    await settle()
    world.metadata.release()
    await unloading
    await settle(200)
    # The stock client repeats no first SUBSCRIBE: it must not be told to try again.
    attached = [item for item in (await world.topic()).subscriptions if item.consumers]
    closed = client.heard.of(_T.CLOSE_CONSUMER)
    assert [one.type for one in client.answers(request)] == [_T.SUCCESS]
    assert bool(attached) != bool(closed)


async def test_exclusive_consumer_takes_over_from_dead_one(world: World) -> None:
    old, new = world.client(), world.client()
    await old.subscribe(subType=EXCLUSIVE)
    request = new.request("SUBSCRIBE", topic=TOPIC, subscription="s", subType=EXCLUSIVE, consumer_id=1)
    await settle()
    assert old.heard.kinds[-1] == "PING"
    assert new.answers(request) == []
    old.lose()
    await settle()
    assert new.answers(request)[0].type == _T.SUCCESS


async def test_flow_and_acks_for_nobody_are_late_news(world: World) -> None:
    client = world.client()
    client.flow(7, 10)
    client.ack(7, Position(1, 0))
    client.say(command("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=7))
    await settle()
    assert client.heard.kinds == ["CONNECTED"]
    client.ack(7, Position(1, 0), request_id=5)
    said = client.heard.of(_T.ACK_RESPONSE)[0].ackResponse
    assert (said.consumer_id, said.request_id, said.error) == (7, 5, pb.ConsumerNotFound)


async def test_ack_with_request_is_answered(world: World) -> None:
    [position] = await publish(world, "a")
    client = world.client()
    await client.subscribe(permits=10)
    client.ack(1, position, request_id=9)
    said = client.heard.of(_T.ACK_RESPONSE)[0].ackResponse
    assert (said.request_id, said.HasField("error")) == (9, False)
    client.ack(1, position, request_id=10, txnid_least_bits=1, txnid_most_bits=1)
    assert client.heard.of(_T.ACK_RESPONSE)[1].ackResponse.error == pb.NotAllowedError


async def test_ack_to_middle_of_first_batch_of_ledger_acknowledges_nothing(world: World) -> None:
    writer = world.client()
    await writer.produce()
    writer.say(send_frame(1, 0, a_batch(["a", "b"]), num_messages=2) + send_frame(1, 1, a_batch(["c"])))
    await settle()
    first = writer.heard.receipts[0].position
    client = world.client()
    await client.subscribe(subType=EXCLUSIVE, permits=10)
    # The stock client names the entry before the batch: 0 - 1, unsigned.
    client.ack(1, Position(first.ledger, -1), cumulative=True)
    found = (await world.topic()).subscriptions.get("s")
    assert found is not None
    assert found.backlog == 2


async def test_cumulative_ack_of_several_ids_ends_connection(world: World) -> None:
    positions = await publish(world, "a", "b")
    client = world.client()
    await client.subscribe(subType=EXCLUSIVE, permits=10)
    client.ack(1, *positions, cumulative=True)
    assert client.wire.aborted


async def test_nack_brings_message_again_with_its_count(world: World) -> None:
    positions = await publish(world, "a", "b")
    client = world.client()
    await client.subscribe(permits=10)
    said = command("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1)
    said.redeliverUnacknowledgedMessages.message_ids.add(ledgerId=positions[0].ledger, entryId=positions[0].entry)
    client.say(said)
    await settle()
    assert [(one.payload, one.redelivery) for one in client.heard.delivered] == [(b"a", 0), (b"b", 0), (b"a", 1)]


async def test_counted_redelivery_raises_epoch_of_what_follows(world: World) -> None:
    await publish(world, "a")
    client = world.client()
    await client.subscribe(subType=EXCLUSIVE, permits=10, consumer_epoch=0)
    client.say(command("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, consumer_epoch=3))
    await settle()
    assert [one.message.consumer_epoch for one in client.heard.of(_T.MESSAGE)] == [0, 3]


async def test_lost_connection_hands_its_messages_to_another(world: World) -> None:
    await publish(world, "a", "b")
    gone, left = world.client(), world.client()
    await gone.subscribe(permits=10)
    await left.subscribe(permits=10)
    await settle()
    assert gone.heard.texts == ["a", "b"]
    gone.lose()
    await settle()
    assert left.heard.texts == ["a", "b"]


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
async def test_bad_combination_of_types_is_busy(world: World, kind: int) -> None:
    client, other = world.client(), world.client()
    client.wire.polite = True
    await client.subscribe(1, subType=kind)
    wrong = SHARED if kind != SHARED else FAILOVER
    assert (await other.subscribe(1, subType=wrong)).error.error == pb.ConsumerBusy


@pytest.mark.parametrize("words", [[], [1]])
async def test_acknowledgement_beyond_memory_bound_is_refused_and_redelivered(world: World, words: list[int]) -> None:
    positions = await publish(world, *"abcdef")
    client = world.client()
    await client.subscribe(permits=10)
    topic = await world.topic()
    one = topic.subscriptions.get("s")
    assert one is not None
    one.cursor._acks._bounds = AckBounds(gaps=1, batches_bytes=0)
    client.ack(1, positions[2], request_id=9)
    refused = command("ACK", consumer_id=1, ack_type=pb.CommandAck.Individual, request_id=10)
    refused.ack.message_id.add(ledgerId=positions[4].ledger, entryId=positions[4].entry, ack_set=words)
    client.say(refused)
    said = [answer.ackResponse for answer in client.heard.of(_T.ACK_RESPONSE)]
    assert [answer.HasField("error") for answer in said] == [False, True]
    assert said[1].error == pb.NotAllowedError
    assert "acknowledge older messages first" in said[1].message
    assert one.consumers[0].pending.messages == 5
    client.lose()
    other = world.client()
    await other.subscribe(permits=10)
    await settle()
    assert other.heard.texts == ["a", "b", "d", "e", "f"]
