"""Bytes that peers do not read have a bound for all connections together."""

from __future__ import annotations

from magnetar.base.limits import (
    CONNECTION_WRITE_BYTES_HIGH,
    CONNECTION_WRITE_BYTES_LOW,
    UNREAD_BYTES_MAX,
)
from magnetar.broker.connection.unread import Unread, write_bytes_high
from magnetar.wire import commands
from tests.unit.broker.world import Client, World, settle

MIB = 1024 * 1024


def congest(client: Client, size: int) -> None:
    """The transport says so: the peer does not read."""
    client.wire.unread = size
    client.connection.pause_writing()


async def test_connection_over_its_bound_for_longest_time_is_closed(world: World) -> None:
    one, two, three = (world.client() for _ in range(3))
    congest(one, UNREAD_BYTES_MAX // 2)
    congest(two, UNREAD_BYTES_MAX // 2)
    assert not one.connection.closed
    assert world.node.unread.bytes == UNREAD_BYTES_MAX
    congest(three, 1)
    await settle()
    assert one.connection.closed
    assert not two.connection.closed
    assert world.node.unread.bytes == UNREAD_BYTES_MAX // 2 + 1
    two.lose()
    three.lose()
    await settle()
    assert (world.node.unread.bytes, len(world.node.unread)) == (0, 0)


async def test_peer_that_reads_goes_to_end_of_line(world: World) -> None:
    slow, stalled = world.client(), world.client()
    congest(slow, UNREAD_BYTES_MAX // 4)
    congest(stalled, UNREAD_BYTES_MAX // 4)
    slow.connection.resume_writing()
    assert world.node.unread.bytes == UNREAD_BYTES_MAX // 4
    congest(slow, UNREAD_BYTES_MAX // 4)
    congest(world.client(), UNREAD_BYTES_MAX)
    await settle()
    assert stalled.connection.closed


async def test_answers_to_peer_that_does_not_read_count(world: World) -> None:
    client = world.client()
    congest(client, 1_000)
    client.connection.write(commands.PONG)
    assert world.node.unread.bytes == 1_000 + len(commands.PONG)
    client.connection.write(commands.PONG * (UNREAD_BYTES_MAX // len(commands.PONG)))  # more than all may have
    assert client.connection.closed
    assert client.wire.raw < 10_000
    assert world.node.unread.bytes == 0


def test_bound_of_connection_falls_with_their_number() -> None:
    assert write_bytes_high(0) == write_bytes_high(64) == CONNECTION_WRITE_BYTES_HIGH == MIB
    assert write_bytes_high(128) == MIB // 2
    assert write_bytes_high(1_024) == write_bytes_high(50_000) == CONNECTION_WRITE_BYTES_LOW


def test_one_that_is_removed_twice_counts_once() -> None:
    unread = Unread(100)
    unread.remove(None)  # type: ignore[arg-type]
    assert unread.bytes == 0
