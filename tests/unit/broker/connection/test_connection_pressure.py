"""A connection under pressure: peers that never read, floods of commands, and turns that belong to neighbours too."""

from __future__ import annotations

from magnetar.base.limits import (
    CONNECTION_PENDING_BYTES_MAX,
    CONNECTION_REQUESTS_MAX,
    CONNECTION_TURN_COMMANDS_MAX,
    CONNECTION_WRITE_BYTES_HIGH,
    REFUSALS_PAUSE_S,
)
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb
from tests.unit.broker.connection.test_connection import asks
from tests.unit.broker.world import World, an_entry, command, pass_s, send_frame, settle

_T = pb.BaseCommand


async def test_reading_pauses_while_disk_is_behind_and_resumes(world: World) -> None:
    client = world.client()
    await client.produce()
    world.ledgers.hold()
    size = 4 * 1024 * 1024
    count = CONNECTION_PENDING_BYTES_MAX // size + 1
    for sequence in range(count + 2):
        client.send(sequence, "x" * size)
    assert not client.wire.reading
    assert world.node.pending_bytes > CONNECTION_PENDING_BYTES_MAX
    other = world.client()
    await other.produce(topic="persistent://public/default/other")
    assert other.wire.reading
    world.ledgers.release()
    await settle()
    assert client.wire.reading
    assert [one.sequence for one in client.heard.receipts] == list(range(count + 2))
    assert world.node.pending_bytes == 0


async def test_peer_that_is_not_read_is_neither_dead_nor_silent(world: World) -> None:
    client = world.client()
    await client.produce()
    world.ledgers.hold()
    for sequence in range(5):
        client.send(sequence, "x" * (4 * 1024 * 1024))
    assert not client.wire.reading
    assert await asks(client)
    await pass_s(200)
    assert not client.wire.closing
    world.ledgers.release()
    await settle()
    assert len(client.heard.receipts) == 5


async def test_too_many_requests_at_once_pause_reading(world: World) -> None:
    client = world.client()
    world.metadata.hold()
    for number in range(CONNECTION_REQUESTS_MAX + 10):
        client.request("LOOKUP", topic=f"persistent://public/fresh-{number}/t")
    await settle()
    assert not client.wire.reading
    world.metadata.release()
    await settle(200)
    await pass_s(REFUSALS_PAUSE_S + 0.1)  # all of them are refused, which is another reason to pause
    assert client.wire.reading
    assert len(client.heard.of(_T.LOOKUP_RESPONSE)) == CONNECTION_REQUESTS_MAX + 10


async def test_peer_that_asks_and_never_reads_is_not_read_either(world: World) -> None:
    client = world.client()
    client.connection.pause_writing()
    before = client.wire.raw
    pings = encode_command(command("PING")) * 1000
    for _ in range(500):
        client.wire.feed(pings)
        await settle(1000 // CONNECTION_TURN_COMMANDS_MAX + 1)
    assert client.wire.raw - before < CONNECTION_WRITE_BYTES_HIGH + 2 * len(pings)
    assert not client.wire.reading
    client.connection.resume_writing()
    assert client.wire.reading


async def test_one_that_never_reads_its_answers_is_gone_after_while(world: World) -> None:
    client = world.client()
    client.connection.pause_writing()
    for _ in range(200):
        client.wire.feed(encode_command(command("PING")) * 1000)
    await pass_s(61)
    assert client.wire.aborted


async def test_peer_that_reads_again_gets_what_waited_for_it(world: World) -> None:
    client = world.client()
    await client.subscribe(permits=100)
    client.connection.pause_writing()
    writer = world.client()
    await writer.produce()
    writer.send(0, "a")
    await settle()
    assert client.heard.texts == []
    client.connection.resume_writing()
    assert client.heard.texts == ["a"]


async def test_lost_connection_gives_back_what_it_held(world: World) -> None:
    client = world.client()
    await client.produce()
    world.ledgers.hold()
    for sequence in range(5):
        client.send(sequence, "x" * (4 * 1024 * 1024))
    client.lose()
    world.ledgers.release()
    await settle()
    assert world.node.pending_bytes == 0
    assert world.node.paused == {}
    assert (await world.topic()).producers.access.producers == []


async def test_flood_of_pings_leaves_neighbour_its_part_of_turn(world: World) -> None:
    flooders = [world.client() for _ in range(10)]
    neighbour = world.client()
    ping = encode_command(command("PING"))
    for flooder in flooders:
        flooder.wire.feed(ping * 10_000)
    answered = [len(flooder.heard.of(_T.PONG)) for flooder in flooders]
    assert answered == [CONNECTION_TURN_COMMANDS_MAX] * 10  # one turn each, whatever they sent
    neighbour.wire.feed(ping)
    assert len(neighbour.heard.of(_T.PONG)) == 1
    await settle(1)
    assert [len(flooder.heard.of(_T.PONG)) for flooder in flooders] == [2 * CONNECTION_TURN_COMMANDS_MAX] * 10


async def test_deferred_commands_are_answered_in_order_without_loss(world: World) -> None:
    client = world.client()
    await client.produce()
    ping, many = encode_command(command("PING")), 3 * CONNECTION_TURN_COMMANDS_MAX + 7
    frames = ping * many + send_frame(1, 0, an_entry("a", 0)) + ping + send_frame(1, 1, an_entry("b", 1))
    client.wire.feed(frames[:-5])
    assert not client.wire.reading
    client.connection.data_received(frames[-5:])  # read before the transport heard of the pause
    await settle()
    assert client.wire.reading
    assert len(client.heard.of(_T.PONG)) == many + 1
    assert [receipt.send_receipt.sequence_id for receipt in client.heard.of(_T.SEND_RECEIPT)] == [0, 1]


async def test_connection_lost_with_deferred_commands_handles_none_of_them(world: World) -> None:
    client = world.client()
    client.wire.feed(encode_command(command("PING")) * (3 * CONNECTION_TURN_COMMANDS_MAX))
    client.lose()
    await settle()
    assert len(client.heard.of(_T.PONG)) == CONNECTION_TURN_COMMANDS_MAX


async def test_invalid_frame_behind_deferred_commands_closes_connection_in_order(
    world: World,
) -> None:
    client = world.client()
    client.wire.feed(encode_command(command("PING")) * (CONNECTION_TURN_COMMANDS_MAX + 1))
    client.connection.data_received(b"\xff" * 8)
    assert not client.wire.aborted
    await settle()
    assert client.wire.aborted
