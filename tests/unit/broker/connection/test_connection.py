"""One client's connection: any cut of the bytes, any nonsense in them, and a peer that stops reading or answering."""

from __future__ import annotations

import random

import pytest

from magnetar.base.limits import (
    ALIVE_WAIT_S,
)
from magnetar.security.access import Open
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, Client, World, an_entry, command, cut, pass_s, send_frame, settle

_T = pb.BaseCommand


# Bytes in


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 100])
async def test_frames_arrive_in_any_pieces(world: World, piece: int) -> None:
    client = world.client()
    await client.produce()
    data = b"".join(send_frame(1, n, an_entry(f"m{n}", n)) for n in range(5)) + encode_command(command("PING"))
    for part in cut(data, piece):
        client.wire.feed(part)
    await settle()
    assert [one.sequence for one in client.heard.receipts] == [0, 1, 2, 3, 4]
    assert "PONG" in client.heard.kinds


async def test_many_frames_and_half_frame_in_one_read(world: World) -> None:
    client = world.client()
    await client.produce()
    data = b"".join(send_frame(1, n, an_entry(f"m{n}", n)) for n in range(50))
    at = random.Random(7).randrange(len(data))
    client.wire.feed(data[:at])
    await settle()
    client.wire.feed(data[at:])
    await settle()
    assert [one.sequence for one in client.heard.receipts] == list(range(50))


@pytest.mark.parametrize("piece", [4096, 65536, 1 << 20])
async def test_large_frame_in_small_pieces_costs_its_size(world: World, piece: int) -> None:
    client = world.client()
    await client.produce()
    large = send_frame(1, 0, an_entry("x" * (5 * 1024 * 1024 - 100)))
    data = large + send_frame(1, 1, an_entry("small", 1))
    for part in cut(data, piece):
        client.wire.feed(part)
    await settle()
    assert [one.sequence for one in client.heard.receipts] == [0, 1]


async def test_frame_above_limit_ends_connection_before_it_is_read(world: World) -> None:
    client = world.client()
    client.wire.feed((5 * 1024 * 1024 + 10 * 1024 + 1).to_bytes(4, "big"))
    assert client.wire.aborted


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x02\x00\x00\x00\x05",  # sizes that contradict each other
        b"\x00\x00\x00\x06\x00\x00\x00\x02\xff\xff",  # no command
        encode_command(pb.BaseCommand(type=_T.PING))[:-2] + b"\x08\x03",  # a type without its message
        encode_command(pb.BaseCommand(type=_T.SUCCESS, success=pb.CommandSuccess(request_id=1))),  # a broker's answer
    ],
)
async def test_nonsense_ends_this_connection_and_no_other(world: World, data: bytes) -> None:
    bad, good = world.client(), world.client()
    bad.wire.feed(data)
    await settle()
    assert bad.wire.aborted
    good.say(command("PING"))
    assert good.heard.kinds[-1] == "PONG"
    assert good.connection in world.node.connections
    assert bad.connection not in world.node.connections


async def test_nothing_is_taken_after_end(world: World) -> None:
    client = world.client()
    client.connection.abort("a test says so")
    client.connection.data_received(encode_command(command("PING")))
    client.connection.write(b"late")
    await settle()
    assert client.heard.kinds == ["CONNECTED"]


@pytest.mark.parametrize(
    "first",
    [
        command("PING"),
        command("PRODUCER", topic=TOPIC, producer_id=1, request_id=1),
        command("FLOW", consumer_id=1, messagePermits=1),
    ],
)
async def test_anything_before_connect_ends_connection(world: World, first: pb.BaseCommand) -> None:
    client = world.bare_client()
    client.say(first)
    assert client.wire.aborted
    assert client.heard.kinds == []


async def test_second_connect_ends_connection(world: World) -> None:
    client = world.client()
    client.connect()
    assert client.wire.aborted


async def test_unknown_command_is_ignored_and_counted(world: World) -> None:
    client = world.client()
    client.wire.feed(b"\x00\x00\x00\x07\x00\x00\x00\x03\x08\xe7\x07")  # type 999
    client.say(command("PING"))
    assert client.heard.kinds == ["CONNECTED", "PONG"]
    assert world.node.metrics.unknown_commands.value == 1


class Broken(Open):
    """An access check with a bug in it."""

    def authenticate(self, method: str, data: bytes) -> str | None:
        raise ZeroDivisionError("a bug")


async def test_bug_in_handler_ends_that_connection_and_is_written_down(world: World) -> None:
    good = world.client()
    kept, world.node.access = world.node.access, Broken()
    bad = world.client()
    world.node.access = kept
    assert bad.wire.aborted
    assert bad.heard.kinds == []
    good.say(command("PING"))
    assert good.heard.kinds[-1] == "PONG"
    world.bugs = 1


# Being there


async def test_silent_peer_is_asked_and_then_gone(world: World) -> None:
    client = world.client()
    await pass_s(31)
    assert client.heard.kinds.count("PING") == 1
    client.say(command("PONG"))
    await pass_s(30)
    assert not client.wire.closing
    await pass_s(30)
    assert client.wire.aborted


async def test_peer_that_never_connects_is_gone_after_ten_seconds(world: World) -> None:
    client = world.bare_client()
    await pass_s(9)
    assert not client.wire.closing
    await pass_s(2)
    assert client.wire.aborted


async def test_dead_peer_is_cut_off_although_it_has_unread_bytes(world: World) -> None:
    client = world.client()
    await client.subscribe(permits=10)
    client.connection.pause_writing()
    await pass_s(61)
    assert client.wire.aborted  # a close would wait for the unread bytes, and the consumer with it
    topic = await world.topic()
    found = topic.subscriptions.get("s")
    assert found is not None
    assert found.consumers == []


async def asks(client: Client) -> bool:
    return await client.connection.alive()


async def test_whoever_answers_ping_is_alive(world: World) -> None:
    client = world.client()
    asking = world.spawn(asks(client))
    await settle()
    assert client.heard.kinds[-1] == "PING"
    client.say(command("PONG"))
    assert await asking
    assert not client.wire.closing


async def test_whoever_does_not_answer_in_time_is_cut_off(world: World) -> None:
    client = world.client()
    asking = world.spawn(asks(client))
    await pass_s(ALIVE_WAIT_S + 1)
    assert not await asking
    assert client.wire.aborted
    assert not await asks(client)


async def test_whoever_hangs_up_while_it_is_asked_is_dead(world: World) -> None:
    client = world.client()
    asking = world.spawn(asks(client))
    await settle()
    client.lose()
    assert not await asking
