"""SUBSCRIBE and what follows it, over the wire: attached once, closed at any moment, nothing acknowledged too far."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.ids import Position
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, Client, World, command, run, send_frame, settle
from tests.unit.topic.world import a_batch

_T = pb.BaseCommand
EXCLUSIVE, SHARED = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Shared
FAILOVER, KEY_SHARED = pb.CommandSubscribe.Failover, pb.CommandSubscribe.Key_Shared
LATEST = 2**63 - 1


async def publish(world: World, *texts: str, topic: str = TOPIC) -> list[Position]:
    writer = world.client()
    await writer.produce(topic=topic)
    for sequence, text in enumerate(texts):
        writer.send(sequence, text)
    await settle()
    positions = [one.position for one in writer.heard.receipts]
    assert len(positions) == len(texts)
    writer.lose()
    return positions


def test_success_comes_before_the_first_message() -> None:
    async def body(world: World) -> None:
        await publish(world, "a", "b")
        client = world.client()
        await client.subscribe(permits=10)
        await settle()
        assert client.heard.kinds == ["CONNECTED", "SUCCESS", "MESSAGE", "MESSAGE"]
        assert client.heard.texts == ["a", "b"]

    run(body)


def test_an_empty_name_is_answered_as_pulsar_does() -> None:
    async def body(world: World) -> None:
        answer = await world.client().subscribe(subscription="")
        assert answer.error.error == pb.ProducerBusy

    run(body)


def test_compacted_reading_needs_a_single_consumer() -> None:
    async def body(world: World) -> None:
        client = world.client()
        assert (await client.subscribe(1, read_compacted=True)).error.error == pb.NotAllowedError
        assert (await client.subscribe(2, read_compacted=True, subType=EXCLUSIVE)).type == _T.SUCCESS

    run(body)


def test_a_topic_that_must_not_be_created_is_not() -> None:
    async def body(world: World) -> None:
        answer = await world.client().subscribe(topic="persistent://public/default/nope", force_topic_creation=False)
        assert answer.error.error == pb.TopicNotFound

    run(body, allowAutoTopicCreation="false")


def test_consumers_without_a_name_get_different_ones() -> None:
    async def body(world: World) -> None:
        client = world.client()
        await client.subscribe(1, consumer_name="")
        await client.subscribe(2, consumer_name="")
        topic = await world.topic()
        found = topic.subscriptions.get("s")
        assert found is not None
        names = [consumer.name for consumer in found.consumers]
        assert len(set(names)) == 2
        assert all(names)

    run(body)


def test_the_same_consumer_asked_for_twice_is_one_consumer() -> None:
    async def body(world: World) -> None:
        client = world.client()
        await client.subscribe(1, subType=EXCLUSIVE)
        assert (await client.subscribe(1, subType=EXCLUSIVE)).type == _T.SUCCESS

    run(body)


def test_a_consumer_asked_for_again_while_it_is_made_is_told_to_come_back() -> None:
    async def body(world: World) -> None:
        client = world.client()
        world.metadata.hold()
        first = client.request("SUBSCRIBE", topic=TOPIC, subscription="s", subType=SHARED, consumer_id=1)
        second = client.request("SUBSCRIBE", topic=TOPIC, subscription="s", subType=SHARED, consumer_id=1)
        await settle()
        assert client.answers(second)[0].error.error == pb.ServiceNotReady
        world.metadata.release()
        await settle()
        assert client.answers(first)[0].type == _T.SUCCESS

    run(body)


def test_a_consumer_closed_while_it_is_made_is_not_left_behind() -> None:
    async def body(world: World) -> None:
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

    run(body)


@pytest.mark.parametrize("passes", range(12))
def test_a_connection_lost_at_any_step_of_subscribing_leaves_no_consumer(passes: int) -> None:
    async def body(world: World) -> None:
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

    run(body)


@pytest.mark.parametrize("passes", range(1, 10))
def test_a_topic_unloaded_under_a_subscribe_is_loaded_again_and_answered(passes: int) -> None:
    async def body(world: World) -> None:
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

    run(body)


def test_an_exclusive_consumer_takes_over_from_a_dead_one() -> None:
    async def body(world: World) -> None:
        old, new = world.client(), world.client()
        await old.subscribe(subType=EXCLUSIVE)
        request = new.request("SUBSCRIBE", topic=TOPIC, subscription="s", subType=EXCLUSIVE, consumer_id=1)
        await settle()
        assert old.heard.kinds[-1] == "PING"
        assert new.answers(request) == []
        old.lose()
        await settle()
        assert new.answers(request)[0].type == _T.SUCCESS

    run(body)


def test_flow_and_acks_for_nobody_are_late_news() -> None:
    async def body(world: World) -> None:
        client = world.client()
        client.flow(7, 10)
        client.ack(7, Position(1, 0))
        client.say(command("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=7))
        await settle()
        assert client.heard.kinds == ["CONNECTED"]
        client.ack(7, Position(1, 0), request_id=5)
        said = client.heard.of(_T.ACK_RESPONSE)[0].ackResponse
        assert (said.consumer_id, said.request_id, said.error) == (7, 5, pb.ConsumerNotFound)

    run(body)


def test_an_ack_with_a_request_is_answered() -> None:
    async def body(world: World) -> None:
        [position] = await publish(world, "a")
        client = world.client()
        await client.subscribe(permits=10)
        client.ack(1, position, request_id=9)
        said = client.heard.of(_T.ACK_RESPONSE)[0].ackResponse
        assert (said.request_id, said.HasField("error")) == (9, False)
        client.ack(1, position, request_id=10, txnid_least_bits=1, txnid_most_bits=1)
        assert client.heard.of(_T.ACK_RESPONSE)[1].ackResponse.error == pb.NotAllowedError

    run(body)


def test_an_ack_to_the_middle_of_the_first_batch_of_a_ledger_acknowledges_nothing() -> None:
    async def body(world: World) -> None:
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

    run(body)


def test_a_cumulative_ack_of_several_ids_ends_the_connection() -> None:
    async def body(world: World) -> None:
        positions = await publish(world, "a", "b")
        client = world.client()
        await client.subscribe(subType=EXCLUSIVE, permits=10)
        client.ack(1, *positions, cumulative=True)
        assert client.wire.aborted

    run(body)


def test_a_nack_brings_the_message_again_with_its_count() -> None:
    async def body(world: World) -> None:
        positions = await publish(world, "a", "b")
        client = world.client()
        await client.subscribe(permits=10)
        said = command("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1)
        said.redeliverUnacknowledgedMessages.message_ids.add(ledgerId=positions[0].ledger, entryId=positions[0].entry)
        client.say(said)
        await settle()
        assert [(one.payload, one.redelivery) for one in client.heard.delivered] == [(b"a", 0), (b"b", 0), (b"a", 1)]

    run(body)


def test_a_counted_redelivery_raises_the_epoch_of_what_follows() -> None:
    async def body(world: World) -> None:
        await publish(world, "a")
        client = world.client()
        await client.subscribe(subType=EXCLUSIVE, permits=10, consumer_epoch=0)
        client.say(command("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, consumer_epoch=3))
        await settle()
        assert [one.message.consumer_epoch for one in client.heard.of(_T.MESSAGE)] == [0, 3]

    run(body)


# Seek


async def seek(client: Client, **target: object) -> pb.BaseCommand:
    return await client.ask("SEEK", consumer_id=1, **target)


@pytest.mark.parametrize(
    ("place", "texts"),
    [((2**64 - 1, 2**64 - 1), "abc"), ((LATEST, LATEST), ""), ((1, 1), "bc"), ((1, 2**64 - 1), "abc")],
)
def test_a_seek_closes_the_consumer_before_it_is_answered(place: tuple[int, int], texts: str) -> None:
    async def body(world: World) -> None:
        await publish(world, "a", "b", "c")
        client = world.client()
        await client.subscribe(subType=EXCLUSIVE, permits=10)
        answer = await seek(client, message_id={"ledgerId": place[0], "entryId": place[1]})
        assert answer.type == _T.SUCCESS
        assert client.heard.kinds[-2:] == ["CLOSE_CONSUMER", "SUCCESS"]
        client.heard.clear()
        await client.subscribe(subType=EXCLUSIVE, permits=10)
        await settle()
        assert "".join(client.heard.texts) == texts

    run(body)


def test_a_seek_names_a_place_or_a_time_and_a_consumer_that_is_there() -> None:
    async def body(world: World) -> None:
        client = world.client()
        await client.subscribe(subType=EXCLUSIVE)
        assert (await seek(client)).error.error == pb.NotAllowedError
        assert (await client.ask("SEEK", consumer_id=9, message_publish_time=1)).error.error == pb.ConsumerNotFound
        assert (await seek(client, message_publish_time=2**63)).type == _T.SUCCESS

    run(body)


def test_a_reader_seeks_by_time_and_finds_its_cursor_again() -> None:
    async def body(world: World) -> None:
        await publish(world, "a", "b")
        client = world.client()
        reader = {"subType": EXCLUSIVE, "durable": False, "subscription": "reader-1"}
        start = {"ledgerId": LATEST, "entryId": LATEST}
        await client.subscribe(permits=10, start_message_id=start, **reader)
        assert client.heard.texts == []
        await seek(client, message_publish_time=0)
        await client.subscribe(permits=10, **reader)
        await settle()
        assert client.heard.texts == ["a", "b"]

    run(body)


# The last message


def test_the_last_message_tells_index_and_mark() -> None:
    async def body(world: World) -> None:
        writer = world.client()
        await writer.produce()
        client = world.client()
        await client.subscribe(subType=EXCLUSIVE, permits=10)
        empty = (await client.ask("GET_LAST_MESSAGE_ID", consumer_id=1)).getLastMessageIdResponse
        assert (empty.last_message_id.ledgerId, empty.last_message_id.entryId) == (2**64 - 1, 2**64 - 1)
        assert empty.HasField("consumer_mark_delete_position")
        writer.say(send_frame(1, 0, a_batch(list("abc")), num_messages=3))
        await settle()
        position = writer.heard.receipts[0].position
        said = (await client.ask("GET_LAST_MESSAGE_ID", consumer_id=1)).getLastMessageIdResponse
        last = said.last_message_id
        assert (last.ledgerId, last.entryId, last.batch_index, last.partition) == (*position, 2, -1)
        client.ack(1, position)
        said = (await client.ask("GET_LAST_MESSAGE_ID", consumer_id=1)).getLastMessageIdResponse
        mark = said.consumer_mark_delete_position
        assert (mark.ledgerId, mark.entryId) == position

    run(body)


# Leaving


def test_unsubscribing_deletes_and_closing_keeps() -> None:
    async def body(world: World) -> None:
        client = world.client()
        await client.subscribe(1, subscription="kept")
        await client.subscribe(2, subscription="gone")
        assert (await client.ask("CLOSE_CONSUMER", consumer_id=1)).type == _T.SUCCESS
        assert (await client.ask("UNSUBSCRIBE", consumer_id=2)).type == _T.SUCCESS
        assert [item.name for item in (await world.topic()).subscriptions] == ["kept"]
        assert (await client.ask("CLOSE_CONSUMER", consumer_id=1)).type == _T.SUCCESS
        assert (await client.ask("UNSUBSCRIBE", consumer_id=2)).error.error == pb.ConsumerNotFound

    run(body)


def test_unsubscribing_with_others_attached_is_a_metadata_error() -> None:
    async def body(world: World) -> None:
        client, other = world.client(), world.client()
        await client.subscribe(1)
        await other.subscribe(1)
        assert (await client.ask("UNSUBSCRIBE", consumer_id=1)).error.error == pb.MetadataError
        assert (await client.ask("UNSUBSCRIBE", consumer_id=1, force=True)).type == _T.SUCCESS
        assert other.heard.kinds[-1] == "CLOSE_CONSUMER"

    run(body)


def test_a_lost_connection_hands_its_messages_to_another() -> None:
    async def body(world: World) -> None:
        await publish(world, "a", "b")
        gone, left = world.client(), world.client()
        await gone.subscribe(permits=10)
        await left.subscribe(permits=10)
        await settle()
        assert gone.heard.texts == ["a", "b"]
        gone.lose()
        await settle()
        assert left.heard.texts == ["a", "b"]

    run(body)


# Statistics


def test_consumer_stats_answer_for_every_kind_of_topic() -> None:
    async def body(world: World) -> None:
        await publish(world, "a", "b")
        client = world.client()
        await client.subscribe(1, permits=10, consumer_name="me")
        await client.subscribe(2, topic="non-persistent://public/default/n", subType=EXCLUSIVE)
        await settle()
        said = (await client.ask("CONSUMER_STATS", consumer_id=1)).consumerStatsResponse
        assert (said.consumerName, said.availablePermits, said.unackedMessages, said.msgBacklog) == ("me", 8, 2, 2)
        assert said.type == "Shared"
        assert (await client.ask("CONSUMER_STATS", consumer_id=2)).consumerStatsResponse.type == "Exclusive"
        missing = (await client.ask("CONSUMER_STATS", consumer_id=3)).consumerStatsResponse
        assert missing.error_code == pb.ConsumerNotFound

    run(body)


def test_a_non_persistent_topic_refuses_what_it_cannot_do() -> None:
    async def body(world: World) -> None:
        client = world.client()
        await client.subscribe(1, topic="non-persistent://public/default/n", subType=EXCLUSIVE)
        assert (await seek(client, message_publish_time=1)).error.error == pb.NotAllowedError
        assert (await seek(client, message_id={"ledgerId": 0, "entryId": 0})).error.error == pb.NotAllowedError
        last = (await client.ask("GET_LAST_MESSAGE_ID", consumer_id=1)).getLastMessageIdResponse
        assert last.last_message_id.entryId == 2**64 - 1
        client.ack(1, Position(0, 0))
        client.say(command("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1))
        assert (await client.ask("UNSUBSCRIBE", consumer_id=1)).type == _T.SUCCESS

    run(body)


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
def test_a_bad_combination_of_types_is_busy(kind: int) -> None:
    async def body(world: World) -> None:
        client, other = world.client(), world.client()
        client.wire.polite = True
        await client.subscribe(1, subType=kind)
        wrong = SHARED if kind != SHARED else FAILOVER
        assert (await other.subscribe(1, subType=wrong)).error.error == pb.ConsumerBusy

    run(body)
