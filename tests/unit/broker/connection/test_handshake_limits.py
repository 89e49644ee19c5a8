"""Connections before CONNECT have little time, few bytes and a bounded number (D22)."""

from __future__ import annotations

import pytest

from magnetar.base.errors import BadFrame
from magnetar.base.limits import HANDSHAKE_FRAME_BYTES_MAX, HANDSHAKE_S, HANDSHAKES_MAX
from magnetar.broker.connection.handshake_limits import HandshakeLimiter
from magnetar.wire import frames
from magnetar.wire.frames import encode_command
from tests.unit.broker.world import World, command, pass_s, settle


async def test_connection_without_connect_ends_after_ten_seconds(world: World) -> None:
    silent, slow, client = world.bare_client(), world.bare_client(), world.client()
    await pass_s(HANDSHAKE_S - 1)
    slow.say(b"\0\0\0\x40")
    assert not silent.wire.aborted
    await pass_s(1.5)
    assert silent.wire.aborted
    assert slow.wire.aborted
    assert not client.wire.closing
    assert len(world.node.handshakes) == 0


async def test_connect_in_time_is_served_for_longer(world: World) -> None:
    late = world.bare_client()
    await pass_s(HANDSHAKE_S - 1)
    late.connect()
    await pass_s(HANDSHAKE_S)
    assert (await late.produce()).HasField("producer_success")


async def test_frame_before_connect_beyond_limit_ends_connection(world: World) -> None:
    wide = encode_command(command("CONNECT", client_version="x", auth_data=b"t" * HANDSHAKE_FRAME_BYTES_MAX))
    with pytest.raises(BadFrame, match=str(HANDSHAKE_FRAME_BYTES_MAX)):
        frames.split(wide, 0, HANDSHAKE_FRAME_BYTES_MAX)
    refused, served = world.bare_client(), world.bare_client()
    refused.say(wide[:100])
    assert refused.wire.aborted
    served.connect(auth_data=b"t" * (HANDSHAKE_FRAME_BYTES_MAX - 100))
    assert served.heard.kinds == ["CONNECTED"]


class FakeConnection:
    def __init__(self) -> None:
        self.told = ""

    def abort(self, reason: str) -> None:
        self.told = reason


async def test_oldest_connection_ends_when_too_many_wait(world: World) -> None:
    handshakes = HandshakeLimiter(handshakes_max=3)
    came = [FakeConnection() for _ in range(5)]
    for one in came:
        handshakes.add(one)
    assert len(handshakes) == 3
    assert [bool(one.told) for one in came] == [True, True, False, False, False]
    assert "3" in came[0].told
    await pass_s(HANDSHAKE_S + 1)
    await settle()
    assert all(one.told for one in came)


def test_connections_before_connect_hold_bounded_memory() -> None:
    assert HANDSHAKES_MAX * HANDSHAKE_FRAME_BYTES_MAX <= 64 * 1024 * 1024
