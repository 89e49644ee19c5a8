"""Frames that do not become whole hold a bounded sum, and the oldest of them pays."""

from __future__ import annotations

from magnetar.base.limits import FRAME_JOIN_BYTES_MAX, PARTIAL_FRAMES_BYTES_MAX
from magnetar.broker.connection.partial_frames import PartialFrames
from tests.unit.broker.world import World, an_entry, send_frame, settle

MIB = 1024 * 1024


class Sender:
    def __init__(self) -> None:
        self.reason = ""

    def abort(self, reason: str) -> None:
        self.reason = reason


def test_frame_that_began_first_goes_at_limit() -> None:
    frames = PartialFrames(100)
    first, second, third = Sender(), Sender(), Sender()
    frames.add(first, 40)
    frames.add(second, 40)
    frames.add(first, 20)
    assert (frames.bytes, first.reason) == (100, "")
    frames.add(third, 1)
    assert "exceed 100 bytes" in first.reason
    assert (frames.bytes, second.reason, third.reason) == (41, "", "")
    frames.remove(second)
    frames.remove(second)
    assert frames.bytes == 1


async def test_halves_of_large_frames_close_oldest_connection(world: World) -> None:
    half = send_frame(1, 0, an_entry("x" * 5 * MIB, 0))[: 4 * MIB]
    count = PARTIAL_FRAMES_BYTES_MAX // len(half)
    clients = [world.client() for _ in range(count + 1)]
    for client in clients[:-1]:
        client.say(half)
    assert world.node.partial_frames.bytes == PARTIAL_FRAMES_BYTES_MAX
    assert not any(client.wire.aborted for client in clients)
    clients[-1].say(half)
    assert [client.wire.aborted for client in clients] == [True] + [False] * count
    clients[1].lose()
    await settle()
    assert world.node.partial_frames.bytes == PARTIAL_FRAMES_BYTES_MAX - len(half)


async def test_frame_that_becomes_whole_is_counted_no_longer(world: World) -> None:
    client = world.client()
    await client.produce()
    frame = send_frame(1, 0, an_entry("x" * MIB, 0))
    client.say(frame[:MIB])
    assert world.node.partial_frames.bytes == MIB
    client.say(frame[MIB:])
    assert world.node.partial_frames.bytes == 0
    small = send_frame(1, 1, an_entry("x" * 1_000, 1))
    assert len(small) < FRAME_JOIN_BYTES_MAX
    client.say(small[:500])
    assert world.node.partial_frames.bytes == 0
    client.say(small[500:])
    await settle()
    assert [one.sequence for one in client.heard.receipts] == [0, 1]
