"""Commands that name very many messages: over many turns, in order, and not past the end of their consumer (D14)."""

from __future__ import annotations

import pytest

from magnetar.base.ids import Position
from magnetar.base.limits import (
    COMMAND_BYTES_MAX,
    COMMAND_PIECE_IDS_MAX,
    CONNECTION_PENDING_BYTES_MAX,
    ID_BYTES_MAX,
    LISTING_COMMAND_BYTES_MAX,
)
from magnetar.topic.topic import Topic
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb
from tests.support.virtual_clock import no_turn_longer
from tests.unit.broker.world import TOPIC, Client, World, command, publish, settle

TURN_S = 0.1  # the aim is 0.02: a slow machine is no defect
MANY = 800_000


def acknowledgement(positions: list[Position], **fields: int) -> bytes:
    made = command("ACK", consumer_id=1, ack_type=pb.CommandAck.Individual, **fields)
    for one in positions:
        made.ack.message_id.add(ledgerId=one.ledger, entryId=one.entry)
    return encode_command(made)


def redelivery(positions: list[Position]) -> bytes:
    made = command("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1)
    for one in positions:
        made.redeliverUnacknowledgedMessages.message_ids.add(ledgerId=one.ledger, entryId=one.entry)
    return encode_command(made)


async def turns(client: Client) -> int:
    """Until no command waits."""
    for turn in range(10_000):
        if client.connection._rest is None:
            return turn
        await settle(1)
    raise AssertionError("a command does not end")


async def mark(world: World) -> Position:
    topic = await world.topic()
    found = topic.subscriptions.get("s")
    assert found is not None
    return found.mark


@pytest.mark.parametrize("kind", [pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared])
async def test_large_acknowledgement_takes_many_turns_and_keeps_order(world: World, kind: int) -> None:
    client = world.client()
    await client.subscribe(permits=10, subType=kind)
    positions = await publish(world, "a", "b", "c")
    data = acknowledgement([positions[0]] * (MANY - 2) + positions[1:], request_id=1_007)
    data += encode_command(command("PING"))
    async with no_turn_longer(TURN_S):
        client.say(data)
        assert await turns(client) >= MANY // COMMAND_PIECE_IDS_MAX
    assert await mark(world) == positions[-1]
    assert client.heard.kinds[-2:] == ["ACK_RESPONSE", "PONG"]
    assert client.answers(1_007)[-1].ackResponse.message == ""


async def test_large_redelivery_takes_many_turns(world: World) -> None:
    client = world.client()
    await client.subscribe(permits=10)
    positions = await publish(world, "a", "b", "c")
    nowhere = Position(positions[0].ledger, 100)
    data = redelivery([nowhere] * (MANY - 3) + positions)
    async with no_turn_longer(TURN_S):
        client.say(data)
        await turns(client)
        await settle()
    assert len(client.heard.of(pb.BaseCommand.MESSAGE)) == 6


async def test_large_redelivery_of_exclusive_consumer_rewinds_once(world: World) -> None:
    client = world.client()
    await client.subscribe(permits=100, subType=pb.CommandSubscribe.Exclusive)
    positions = await publish(world, "a", "b", "c")
    client.say(redelivery(positions * COMMAND_PIECE_IDS_MAX))
    await turns(client)
    await settle()
    assert len(client.heard.of(pb.BaseCommand.MESSAGE)) == 6


async def test_consumer_detached_between_pieces_acknowledges_no_more(world: World) -> None:
    client = world.client()
    await client.subscribe(permits=10)
    positions = await publish(world, "a", "b")
    client.say(acknowledgement([positions[0]] * 10_000 + [positions[1]], request_id=1_007))
    for _ in range(10_000 // COMMAND_PIECE_IDS_MAX + 3):  # past the walk over the fields, before the last piece
        await settle(1)
    assert await mark(world) == positions[0]
    topic = world.loaded()
    assert isinstance(topic, Topic)
    topic.subscriptions.close_consumer(client.connection.consumers[1])
    await turns(client)
    assert await mark(world) == positions[0]


async def test_acknowledgement_among_many_consumers_takes_smaller_steps(world: World) -> None:
    client = world.client()
    for number in range(1, 200):
        await client.subscribe(number)
    client.flow(2, 1_000)
    positions = await publish(world, *(f"m-{number}" for number in range(500)))
    await settle()
    client.say(acknowledgement(positions, request_id=1_007))  # by another consumer than the one that has them
    assert await turns(client) >= 2
    assert await mark(world) == positions[-1]
    assert len(client.answers(1_007)) == 1


async def test_long_set_of_bits_acknowledges_nothing_and_costs_nothing(world: World) -> None:
    client = world.client()
    await client.subscribe(permits=10)
    (position,) = await publish(world, "a")
    before = await mark(world)
    made = command("ACK", consumer_id=1, ack_type=pb.CommandAck.Individual)
    words = made.ack.message_id.add(ledgerId=position.ledger, entryId=position.entry).ack_set
    words.extend([1] * 100_000)
    async with no_turn_longer(TURN_S):
        client.say(encode_command(made))
        await turns(client)
    assert await mark(world) == before
    assert not client.connection.closed


async def test_large_cumulative_acknowledgement_names_one_id(world: World) -> None:
    client = world.client()
    await client.subscribe(permits=10, subType=pb.CommandSubscribe.Exclusive)
    positions = await publish(world, "a", "b")
    made = command("ACK", consumer_id=1, ack_type=pb.CommandAck.Cumulative)
    made.ack.message_id.add(ledgerId=positions[1].ledger, entryId=positions[1].entry).ack_set.extend([1] * 10_000)
    client.say(encode_command(made))
    await turns(client)
    assert await mark(world) == positions[0]
    made.ack.message_id.add(ledgerId=positions[1].ledger, entryId=positions[1].entry)
    client.say(encode_command(made))
    await settle()
    assert client.connection.closed


async def test_large_acknowledgement_of_no_consumer_is_answered_once(world: World) -> None:
    client = world.client()
    client.say(acknowledgement([Position(0, 1)] * 10_000, request_id=1_007))
    await turns(client)
    (answer,) = client.answers(1_007)
    assert answer.ackResponse.error == pb.ConsumerNotFound


def strange(change: str) -> bytes:
    """A frame that is not as any client writes it."""
    ids = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
    for entry in range(10_000):
        ids.message_id.add(ledgerId=1, entryId=entry)
    if change == "an id of many bytes":
        ids.message_id.add(ledgerId=1, entryId=1).ack_set.extend([1] * ID_BYTES_MAX)
    inner = ids.SerializeToString()
    if change == "many other fields":
        inner += b"\x20\x01" * 10_000
    if change == "cut off":
        inner += b"\x1a"
    if change == "an id that is a number":
        inner += b"\x18\x01"
    if change == "an id without an entry":
        inner += b"\x1a\x02\x08\x01"
    if change == "a fixed number":
        inner += b"\x1d\x00\x00\x00\x00"
    size = len(inner)
    body = b"\x08\x0a\x52" + bytes((size & 127 | 128, size >> 7 & 127 | 128, size >> 14)) + inner
    if change == "the body twice":
        body += body[2:]
    return (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "change",
    [
        "an id of many bytes",
        "many other fields",
        "cut off",
        "an id that is a number",
        "an id without an entry",
        "a fixed number",
        "the body twice",
    ],
)
async def test_large_command_of_unusual_form_ends_connection(world: World, change: str) -> None:
    client, neighbour = world.client(), world.client()
    await client.subscribe(permits=10)
    client.say(strange(change))
    await settle()
    assert client.connection.closed
    assert not neighbour.connection.closed


def a_schema(size: int) -> dict[str, object]:
    return {"name": "s", "type": pb.Schema.String, "schema_data": b"x" * size}


OVERHEAD = 200  # of a command beside its longest field


@pytest.mark.parametrize("more", [0, 1], ids=["at the limit", "beyond"])
@pytest.mark.parametrize(
    ("kind", "limit"), [("LOOKUP", COMMAND_BYTES_MAX), ("GET_OR_CREATE_SCHEMA", LISTING_COMMAND_BYTES_MAX)]
)
async def test_other_command_over_its_size_ends_connection(world: World, kind: str, limit: int, more: int) -> None:
    client, neighbour = world.client(), world.client()

    def made(size: int) -> pb.BaseCommand:
        if kind == "LOOKUP":
            return command(kind, topic=TOPIC, request_id=1, advertised_listener_name="x" * size)
        return command(kind, topic=TOPIC, request_id=1, schema=a_schema(size))

    size = limit - OVERHEAD
    said = made(size + limit + more - made(size).ByteSize())
    assert said.ByteSize() == limit + more
    client.say(encode_command(said))
    await settle()
    assert client.connection.closed is bool(more)
    assert not neighbour.connection.closed
    assert world.node.pending_bytes == 0


async def test_large_requests_in_flight_are_held_by_their_bytes(world: World) -> None:
    """1,000 requests of a megabyte each would be a gigabyte of one connection."""

    client, leaver = world.client(), world.client()
    await world.topic()
    world.metadata.hold()
    one = encode_command(command("GET_OR_CREATE_SCHEMA", topic=TOPIC, request_id=1, schema=a_schema(1_000_000)))
    for _ in range(30):
        client.say(one)
        leaver.say(one)
    assert not client.wire.reading
    assert CONNECTION_PENDING_BYTES_MAX < client.connection._pending_bytes < CONNECTION_PENDING_BYTES_MAX + len(one)
    leaver.lose()
    await settle()
    assert world.node.pending_bytes == client.connection._pending_bytes
    world.metadata.release()
    await settle(100)
    assert len(client.heard.of(pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE)) == 30
    assert world.node.pending_bytes == 0


async def test_large_acknowledgement_is_held_until_it_is_taken(world: World) -> None:
    client = world.client()
    await client.subscribe(permits=10)
    [position] = await publish(world, "a")
    data = acknowledgement([position] * 50_000)
    client.say(data)
    assert len(data) - 100 < world.node.pending_bytes < len(data)
    assert await turns(client) > 1
    assert world.node.pending_bytes == 0
    client.say(data)
    client.lose()
    await settle()
    assert world.node.pending_bytes == 0


async def test_command_behind_large_one_is_read_after_it(world: World) -> None:
    """The last read of the large frame holds the beginning of the next ones too."""

    client = world.client()
    await client.subscribe(permits=10)
    [position] = await publish(world, "a")
    data = acknowledgement([position] * 50_000) + encode_command(command("PING"))
    more = acknowledgement([position] * 50_000, request_id=9) + encode_command(command("PING"))
    client.say(data[:100_000])
    client.say(data[100_000:] + more[:10])
    client.say(more[10:])
    for _ in range(3):  # a read that waited is fed in the next turn
        await turns(client)
        await settle()
    assert len(client.heard.of(pb.BaseCommand.PONG)) == 2
    assert len(client.heard.of(pb.BaseCommand.ACK_RESPONSE)) == 1
