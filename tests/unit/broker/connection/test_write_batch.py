"""What is written soon leaves at the end of the turn, before whatever is written later, and not after the end."""

from __future__ import annotations

from magnetar.wire import broker_frames, commands
from tests.unit.broker.world import World, settle


def receipt(sequence: int) -> bytes:
    return broker_frames.receipt(1, sequence, -1, 1, sequence)


async def test_receipts_of_turn_leave_in_one_write_per_connection(world: World) -> None:
    one, other = world.client(), world.client()
    for client in (one, other):
        for sequence in range(3):
            client.connection.write_soon(receipt(sequence))
    assert one.heard.receipts == []
    await settle()
    for client in (one, other):
        assert [found.sequence for found in client.heard.receipts] == [0, 1, 2]
        client.connection.write_soon(receipt(3))
    await settle()
    assert [found.sequence for found in other.heard.receipts] == [0, 1, 2, 3]


async def test_direct_write_stays_behind_deferred_write(world: World) -> None:
    client = world.client()
    client.connection.write_soon(receipt(0))
    client.connection.write(commands.PING)
    assert client.heard.kinds[-2:] == ["SEND_RECEIPT", "PING"]
    await settle()
    assert len(client.heard.receipts) == 1


async def test_close_flushes_deferred_writes_and_abort_does_not(world: World) -> None:
    closed, aborted = world.client(), world.client()
    for client in (closed, aborted):
        client.connection.write_soon(receipt(0))
    closed.connection.close()
    aborted.connection.abort("a test")
    aborted.connection.write_soon(receipt(1))
    await settle()
    assert [len(client.heard.receipts) for client in (closed, aborted)] == [1, 0]
