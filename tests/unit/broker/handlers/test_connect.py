"""CONNECT: what both sides know, and nothing before it is known."""

from __future__ import annotations

import pytest

from magnetar.wire.proto import pb
from tests.unit.broker.world import World, command

_T = pb.BaseCommand


@pytest.mark.parametrize(("asked", "answered"), [(21, 21), (20, 20), (6, 6), (0, 0), (99, 21)])
async def test_smaller_protocol_version_is_answered(world: World, asked: int, answered: int) -> None:
    client = world.client(protocol_version=asked)
    said = client.heard.of(_T.CONNECTED)[0].connected
    assert said.protocol_version == answered
    assert said.server_version.startswith("Magnetar-")
    assert said.max_message_size == 5 * 1024 * 1024


async def test_extensions_are_announced_only_to_peers_with_extensions(world: World) -> None:
    plain = world.client().heard.of(_T.CONNECTED)[0].connected.feature_flags
    assert plain.supports_topic_watchers
    assert not plain.HasField("magnetar_extensions")
    ours = world.client(feature_flags={"magnetar_extensions": 7}).heard.of(_T.CONNECTED)[0].connected
    assert ours.feature_flags.magnetar_extensions == 1


async def test_ping_is_answered_at_once_and_pong_not_at_all(world: World) -> None:
    client = world.client()
    client.say(command("PING"))
    client.say(command("PONG"))
    client.say(command("AUTH_RESPONSE"))
    assert client.heard.kinds == ["CONNECTED", "PONG"]


@pytest.mark.setup(brokerMaxConnectionsPerIp="1")
async def test_one_address_gets_only_so_many_connections(world: World) -> None:
    first = world.client(address="10.0.0.1")
    world.client(address="10.0.0.2")
    second = world.bare_client()
    assert second.wire.aborted
    assert not first.wire.closing
