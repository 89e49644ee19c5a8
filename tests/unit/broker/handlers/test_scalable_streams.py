"""Stream consumers of scalable topics as they come and go: shares, leaving, connections that die, refusals."""

from __future__ import annotations

import pytest

from magnetar.base.ids import Term
from magnetar.scalable.record.subscription import Start
from magnetar.wire.proto import pb
from tests.support.scalable_topic import M1, NAME, OURS, X, consume, ids, pushes
from tests.unit.broker.world import Client, World, command, pass_s, settle


async def test_stream_consumer_gets_share_and_later_ones_take_theirs(world: World) -> None:
    await world.node.scalable.create(NAME, segments=2)
    one, other = world.client(client_version=M1), world.client(client_version=M1)
    first = await consume(one, "a")
    assert (first.assignment.layout_epoch, sorted(ids(first.assignment))) == (0, [0, 1])
    assert first.assignment.segments[0].segment_topic == "segment://public/default/x/0000-7fff-0"
    second = await consume(other, "b")
    await settle()
    left = ids(pushes(one)[-1].assignment)
    gained = ids(pushes(other)[-1].assignment) if pushes(other) else ids(second.assignment)
    assert sorted(left + gained) == [0, 1]
    assert len(left) == 1


async def test_leaving_returns_segments_and_unknown_consumer_is_ignored(world: World) -> None:
    await world.node.scalable.create(NAME, segments=2)
    one, other = world.client(), world.client()
    await consume(one, "a")
    await consume(other, "b", consumer_id=7)
    await settle()
    stranger = await one.ask("SCALABLE_TOPIC_UNSUBSCRIBE", consumer_id=7)  # of another connection
    assert stranger.type == pb.BaseCommand.SUCCESS
    gone = await other.ask("SCALABLE_TOPIC_UNSUBSCRIBE", consumer_id=7)
    assert gone.type == pb.BaseCommand.SUCCESS
    await settle()
    assert sorted(ids(pushes(one)[-1].assignment)) == [0, 1]
    again = await other.ask("SCALABLE_TOPIC_UNSUBSCRIBE", consumer_id=7)
    assert again.type == pb.BaseCommand.SUCCESS


@pytest.mark.parametrize(("position", "start"), [("Latest", Start.LATEST), ("Earliest", Start.EARLIEST)])
async def test_our_client_sets_start_of_new_subscription_on_all_segments(
    world: World, position: str, start: Start
) -> None:
    await world.node.scalable.create(NAME, segments=2)
    where = pb.CommandSubscribe.InitialPosition.Value(position)
    answer = await consume(world.client(), "a", initial_position=where)
    assert sorted(ids(answer.assignment)) == [0, 1]
    [found] = await world.node.scalable.subscriptions(NAME)
    assert found.start is start


async def attach(client: Client, segment: str, name: str, consumer_id: int) -> None:
    fields = {"subscription": "s", "subType": pb.CommandSubscribe.Exclusive, "consumer_name": name}
    answer = await client.subscribe(consumer_id, f"segment://public/default/x/{segment}", **fields)
    assert answer.type == pb.BaseCommand.SUCCESS, answer


async def members(world: World) -> list[str]:
    await settle()
    found = await world.node.scalable.subscriptions(NAME)
    return [member.name for one in found for member in one.members]


async def test_closing_segment_that_is_to_be_read_is_leaving(world: World) -> None:
    """The Java client says it in no other way."""

    await world.node.scalable.create(NAME, segments=2)
    client = world.client(client_version=M1)
    await consume(client, "a")
    await attach(client, "0000-7fff-0", "a-seg-0", 1)
    await client.ask("CLOSE_CONSUMER", consumer_id=1)
    assert await members(world) == []
    assert client.connection.shares == {}


async def test_segment_closed_on_another_connection_ends_stream_consumer(world: World) -> None:
    """The Java client registers at its service URL and attaches where the lookup points: these may be two."""

    await world.node.scalable.create(NAME, segments=2)
    registers, attaches, other = (world.client(client_version=M1) for _ in range(3))
    await consume(registers, "a")
    await attach(attaches, "0000-7fff-0", "a-seg-0", 1)
    await attach(attaches, "8000-ffff-1", "a-seg-1", 2)
    await attaches.ask("CLOSE_CONSUMER", consumer_id=1)
    await attaches.ask("CLOSE_CONSUMER", consumer_id=2)
    assert await members(world) == []
    assert registers.connection.shares == {}
    again = await consume(other, "b")
    assert sorted(ids(again.assignment)) == [0, 1]


async def test_segment_closed_by_another_name_keeps_stream_consumer(world: World) -> None:
    await world.node.scalable.create(NAME, segments=2)
    registers, attaches = world.client(client_version=M1), world.client(client_version=M1)
    await consume(registers, "a")
    for consumer_id, name in enumerate(["a", "b-seg-0", "a-seg-1", "a-seg-x"]):
        await attach(attaches, "0000-7fff-0", name, consumer_id)
        await attaches.ask("CLOSE_CONSUMER", consumer_id=consumer_id)
    assert await members(world) == ["a"]


async def test_closing_revoked_finished_or_foreign_segment_is_not_leaving(
    world: World,
) -> None:
    await world.node.scalable.create(NAME, segments=2)
    one, other = world.client(client_version=M1), world.client(client_version=M1)
    await consume(one, "a")
    await attach(one, "0000-7fff-0", "a-seg-0", 1)
    await attach(one, "8000-ffff-1", "a-seg-1", 2)
    await consume(other, "b")
    await settle()
    [kept] = ids(pushes(one)[-1].assignment)
    await one.ask("CLOSE_CONSUMER", consumer_id=2 - kept)  # the revoked one
    assert await members(world) == ["a", "b"]
    assert ids(pushes(other)[-1].assignment) == [1 - kept]
    name = f"segment://public/default/x/{['0000-7fff-0', '8000-ffff-1'][kept]}"
    await (await world.topic(name)).seal("op", Term(9))
    await one.ask("CLOSE_CONSUMER", consumer_id=1 + kept)  # at its end, and the next share is not there yet
    assert ids(pushes(one)[-1].assignment) == [kept]
    assert await members(world) == ["a", "b"]


@pytest.mark.parametrize(
    "body",
    [b"", b"\x0a\x01x", b"\x08\x05", b"\x08\x05\x12\x01y"],
    ids=["empty", "other types", "no consumer", "another consumer type"],
)
async def test_bad_word_of_leaving_never_closes_connection(world: World, body: bytes) -> None:
    client = world.client()
    kind = bytes([8, 82])
    inner = kind + bytes([82 << 3 & 0x7F | 0x80 | 2, 82 >> 4, len(body)]) + body
    for raw in (inner, kind):
        client.say((len(raw) + 4).to_bytes(4, "big") + len(raw).to_bytes(4, "big") + raw)
    await settle()
    assert not client.wire.closing
    client.say(command("PING"))
    assert client.heard.heard[-1][0].type == pb.BaseCommand.PONG


async def test_late_end_of_old_connection_keeps_reconnected_consumer(world: World) -> None:
    """H-F7."""

    await world.node.scalable.create(NAME)
    old, new = world.client(), world.client()
    new.wire.polite = True
    await consume(old, "a")
    again = await consume(new, "a")
    assert ids(again.assignment) == [0]
    old.lose()
    await settle()
    [found] = await world.node.scalable.subscriptions(NAME)
    assert [member.name for member in found.members] == ["a"]
    await pass_s(120)
    await settle()
    [found] = await world.node.scalable.subscriptions(NAME)
    assert [member.name for member in found.members] == ["a"]


async def test_registration_of_dead_connection_is_kept_for_grace_only(
    world: World,
) -> None:
    """H-F8."""

    await world.node.scalable.create(NAME)
    client = world.client()
    client.request(
        "SCALABLE_TOPIC_SUBSCRIBE",
        topic=X,
        subscription="s",
        consumer_name="a",
        consumer_id=0,
        consumer_type=pb.STREAM,
    )
    client.lose()
    await settle()
    await pass_s(120)
    await settle()
    found = await world.node.scalable.subscriptions(NAME)
    assert [member.name for one in found for member in one.members] == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "topic://public/default/missing"}, pb.TopicNotFound),
        ({"subscription": "s" * 1_025}, pb.NotAllowedError),
        ({"name": "c" * 1_025}, pb.NotAllowedError),
        ({"topic": "bad://x"}, pb.InvalidTopicName),
        ({"subscription": ""}, pb.NotAllowedError),
        ({"name": ""}, pb.NotAllowedError),
    ],
)
async def test_registration_that_cannot_be_is_refused(world: World, fields: dict[str, str], code: int) -> None:
    await world.node.scalable.create(NAME)
    client = world.client()
    answer = await consume(client, **fields)
    assert answer.error == code, answer
    assert client.connection.shares == {}


async def test_request_ids_use_all_64_bits(world: World) -> None:
    client = world.client()
    client._ids = 2**64 - 3
    answer = await consume(client, topic="topic://public/default/missing")
    assert answer.request_id == 2**64 - 2


async def test_returning_consumer_does_not_recreate_removed_subscription_h_d9(world: World) -> None:
    await world.node.scalable.create(NAME)
    client = world.client(**OURS)
    for kind in (pb.STREAM, pb.CHECKPOINT):
        answer = await consume(client, resumes=True, initial_position="Latest", consumer_type=kind)
        assert answer.error == pb.SubscriptionNotFound
        assert await world.node.scalable.subscriptions(NAME) == []
    assert client.connection.shares == {}
    answer = await consume(client, initial_position="Latest")
    assert ids(answer.assignment) == [0]
    again = await consume(world.client(**OURS), resumes=True, initial_position="Latest")
    assert ids(again.assignment) == [0]


async def test_consumer_learns_of_removed_subscription_if_it_understands_h_d9(world: World) -> None:
    await world.node.scalable.create(NAME)
    stock, ours = world.client(client_version=M1), world.client(**OURS)
    await consume(stock, "a")
    await consume(ours, "b")
    await world.node.scalable.unsubscribe(NAME, "s")
    await settle()
    for client, code in ((stock, None), (ours, pb.SubscriptionNotFound)):
        told = pushes(client)[-1]
        assert ids(told.assignment) == []
        assert (told.error if told.HasField("error") else None) == code
        assert client.connection.shares == {}


async def test_deleted_topic_does_not_report_removed_subscription_to_consumer(
    world: World,
) -> None:
    await world.node.scalable.create(NAME)
    client = world.client(**OURS)
    await consume(client)
    await world.node.scalable.delete(NAME, force=True)
    await settle()
    assert [told.error for told in pushes(client) if told.HasField("error")] == [pb.TopicNotFound]


async def test_consumer_with_taken_name_learns_why_if_it_understands_h_f9(world: World) -> None:
    await world.node.scalable.create(NAME)
    stock, ours, last = world.client(client_version=M1), world.client(**OURS), world.client(**OURS)
    await consume(stock, "a")
    await consume(ours, "a")
    await consume(last, "a")
    await settle()
    for client, code in ((stock, None), (ours, pb.ConsumerBusy)):
        told = pushes(client)[-1]
        assert ids(told.assignment) == []
        assert (told.error if told.HasField("error") else None) == code
        assert client.connection.shares == {}
    assert not any(told.HasField("error") for told in pushes(last))
