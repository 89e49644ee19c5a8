"""SEEK, the last message, statistics and leaving: what a consumer that is there asks for."""

from __future__ import annotations

import pytest

from magnetar.base.ids import Position
from magnetar.base.names import topic_name
from magnetar.broker.migration.migration import migrate
from magnetar.cluster.calls.topic_calls import InspectPlainTopic
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb
from simulation.stores.metadata import lost_answer
from tests.unit.admin.resources.scalable.test_migration import migrating
from tests.unit.broker.world import TOPIC, Client, World, an_entry, command, publish, send_frame, settle
from tests.unit.topic.world import a_batch

_T = pb.BaseCommand
EXCLUSIVE, SHARED = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Shared
FAILOVER, KEY_SHARED = pb.CommandSubscribe.Failover, pb.CommandSubscribe.Key_Shared
LATEST = 2**63 - 1


async def seek(client: Client, **target: object) -> pb.BaseCommand:
    return await client.ask("SEEK", consumer_id=1, **target)


@pytest.mark.parametrize(
    ("place", "texts"),
    [((2**64 - 1, 2**64 - 1), "abc"), ((LATEST, LATEST), ""), ((1, 1), "bc"), ((1, 2**64 - 1), "abc")],
)
async def test_seek_closes_consumer_before_it_is_answered(world: World, place: tuple[int, int], texts: str) -> None:
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


async def test_seek_names_place_or_time_and_consumer_that_is_there(world: World) -> None:
    client = world.client()
    await client.subscribe(subType=EXCLUSIVE)
    assert (await seek(client)).error.error == pb.NotAllowedError
    assert (await client.ask("SEEK", consumer_id=9, message_publish_time=1)).error.error == pb.ConsumerNotFound
    assert (await seek(client, message_publish_time=2**63)).type == _T.SUCCESS


async def test_reader_seeks_by_time_and_finds_its_cursor_again(world: World) -> None:
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


@pytest.mark.parametrize("start", [(2**64 - 1, 2**64 - 1), (1, 0), (LATEST, LATEST)])
async def test_reader_that_seeks_keeps_its_place_despite_start_id(world: World, start: tuple[int, int]) -> None:
    """Clients repeat the start id of their first SUBSCRIBE after a SEEK by time."""

    writer = world.client()
    await writer.produce()
    for sequence, when in enumerate([10, 20, 30, 40]):
        writer.say(send_frame(1, sequence, an_entry(str(when), sequence, publish_time=when)))
    await settle()
    client = world.client()
    reader = {
        "subType": EXCLUSIVE,
        "durable": False,
        "subscription": "reader-1",
        "start_message_id": {"ledgerId": start[0], "entryId": start[1]},
    }
    await client.subscribe(permits=10, **reader)
    await seek(client, message_publish_time=25)
    client.heard.clear()
    await client.subscribe(permits=10, **reader)
    await settle()
    assert client.heard.texts == ["30", "40"]


async def test_last_message_tells_index_and_mark(world: World) -> None:
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


@pytest.mark.parametrize("cached", [True, False])
async def test_last_message_is_answered_before_messages_of_later_permits(world: World, cached: bool) -> None:
    """The Go client decides by the answer what it drops after a seek."""

    await publish(world, "a", "b")
    if not cached:
        await world.node.topics.unload(topic_name(TOPIC))
    client = world.client()
    await client.subscribe(subType=EXCLUSIVE)
    client.heard.clear()
    asked = command("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=7)
    flow = command("FLOW", consumer_id=1, messagePermits=10)
    client.say(encode_command(asked) + encode_command(flow))
    await settle()
    assert client.heard.kinds == ["GET_LAST_MESSAGE_ID_RESPONSE", "MESSAGE", "MESSAGE"]


async def test_unsubscribing_deletes_and_closing_keeps(world: World) -> None:
    client = world.client()
    await client.subscribe(1, subscription="kept")
    await client.subscribe(2, subscription="gone")
    assert (await client.ask("CLOSE_CONSUMER", consumer_id=1)).type == _T.SUCCESS
    assert (await client.ask("UNSUBSCRIBE", consumer_id=2)).type == _T.SUCCESS
    assert [item.name for item in (await world.topic()).subscriptions] == ["kept"]
    assert (await client.ask("CLOSE_CONSUMER", consumer_id=1)).type == _T.SUCCESS
    assert (await client.ask("UNSUBSCRIBE", consumer_id=2)).error.error == pb.ConsumerNotFound


async def test_unsubscribing_with_others_attached_is_metadata_error(world: World) -> None:
    client, other = world.client(), world.client()
    await client.subscribe(1)
    await other.subscribe(1)
    assert (await client.ask("UNSUBSCRIBE", consumer_id=1)).error.error == pb.MetadataError
    assert (await client.ask("UNSUBSCRIBE", consumer_id=1, force=True)).type == _T.SUCCESS
    assert other.heard.kinds[-1] == "CLOSE_CONSUMER"


@pytest.mark.parametrize("happened", [False, True])
async def test_unsubscribing_whose_outcome_nobody_knows_is_not_told_as_undone(world: World, happened: bool) -> None:
    client = world.client()
    await client.subscribe(1, subscription="gone")
    world.metadata.faults.append(lost_answer(happened=happened))
    assert (await client.ask("UNSUBSCRIBE", consumer_id=1)).error.error == pb.UnknownError


async def test_consumer_stats_answer_for_every_kind_of_topic(world: World) -> None:
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


async def test_non_persistent_topic_refuses_what_it_cannot_do(world: World) -> None:
    client = world.client()
    await client.subscribe(1, topic="non-persistent://public/default/n", subType=EXCLUSIVE)
    assert (await seek(client, message_publish_time=1)).error.error == pb.NotAllowedError
    assert (await seek(client, message_id={"ledgerId": 0, "entryId": 0})).error.error == pb.NotAllowedError
    last = (await client.ask("GET_LAST_MESSAGE_ID", consumer_id=1)).getLastMessageIdResponse
    assert last.last_message_id.entryId == 2**64 - 1
    client.ack(1, Position(0, 0))
    client.say(command("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1))
    assert (await client.ask("UNSUBSCRIBE", consumer_id=1)).type == _T.SUCCESS


@pytest.mark.parametrize(
    "target", [{"message_id": {"ledgerId": 2**64 - 1, "entryId": 2**64 - 1}}, {"message_publish_time": 1}]
)
async def test_consumer_cannot_seek_single_segment_of_scalable_topic_h_d7(
    world: World, target: dict[str, object]
) -> None:
    """What it brings back would come to nobody, or behind what came later."""

    await publish(world, "a", "b")
    client = world.client()
    await client.subscribe(1, subType=EXCLUSIVE, permits=10)
    await client.subscribe(2, subType=EXCLUSIVE, durable=False, subscription="reader")
    assert (await seek(client, **target)).type == _T.SUCCESS, "a plain topic's, as ever"
    await migrate(world.node, topic_name(TOPIC), force=True)
    client.heard.clear()
    await client.subscribe(1, subType=EXCLUSIVE, permits=10)
    await settle()
    one = (await world.topic(TOPIC)).subscriptions.get("s")
    assert one is not None
    one.cursor.ack_to(one.topic.managed.last)
    refused = (await seek(client, **target)).error
    assert (refused.error, "seek topic://" in refused.message) == (pb.NotAllowedError, True)
    assert one.backlog == 0
    assert "".join(client.heard.texts) == "ab", "and it gets what is left"
    assert "CLOSE_CONSUMER" not in client.heard.kinds
    assert (await client.ask("SEEK", consumer_id=2, **target)).type == _T.SUCCESS, "a reader's own cursor"


async def test_seek_during_migration_is_refused_until_cancellation(
    world: World,
) -> None:
    await publish(world, "a")
    plains, records = world.node.segments.plains, world.node.scalable.records
    name = topic_name(TOPIC)
    await plains.stand_in(name)
    client = world.client()
    await client.subscribe(1, subType=EXCLUSIVE)
    await records.change(name.scalable, migrating)
    await world.node.peers.owner(name).ask(InspectPlainTopic(op="m", guard=True))
    assert (await seek(client, message_publish_time=1)).error.error == pb.ServiceNotReady
    await records.change(name.scalable, lambda one: one.abandoned("why").cleared(now_ms=9))
    assert (await seek(client, message_publish_time=1)).type == _T.SUCCESS
