"""However few descriptors there are, files keep theirs and each door has at least one; the log is not filled with who
is refused."""

from __future__ import annotations

import pytest

from magnetar.base.limits import ADDRESS_CONNECTIONS_MAX, DESCRIPTORS_KEPT_MIN, HTTP_CONNECTIONS_MAX, MAINTENANCE_S
from magnetar.broker.connection.limits import ConnectionLimits, allowed, refusal, shared_out
from magnetar.policy.settings import Settings
from tests.unit.broker.world import World, pass_s, settle


@pytest.mark.parametrize("descriptors", [128, 256, 1024, 4096, 20_000, 1 << 20])
def test_connections_of_both_doors_leave_room_for_files(descriptors: int) -> None:
    found = shared_out(descriptors)
    assert descriptors - found.clients - found.web >= max(DESCRIPTORS_KEPT_MIN, descriptors // 4)
    assert found.clients >= found.web >= 1
    assert found.web <= HTTP_CONNECTIONS_MAX


def test_process_without_descriptors_still_accepts_one_at_each_port() -> None:
    found = shared_out(8)
    assert (found.clients, found.web) == (1, 1)


class Opened:
    def __init__(self, address: str) -> None:
        self.address = address


@pytest.mark.parametrize(("setting", "limit"), [("0", 75), ("90", 90)])
def test_one_address_leaves_places_to_others(setting: str, limit: int) -> None:
    settings = Settings(None, {"brokerMaxConnectionsPerIp": setting})
    opened = [Opened("a")] * limit
    assert refusal(opened, "a", ConnectionLimits(clients=100), settings) is None
    more = refusal([*opened, Opened("a")], "a", ConnectionLimits(clients=100), settings)
    assert more is not None
    assert "brokerMaxConnectionsPerIp" in more
    assert refusal([*opened, Opened("b")], "b", ConnectionLimits(clients=100), settings) is None


def test_memory_bounds_connections_unless_setting_does() -> None:
    limits, opened = ConnectionLimits(clients=1_000, memory=10), [Opened(f"10.0.0.{number}") for number in range(11)]
    refused = refusal(opened, "10.0.0.1", limits, Settings(None, {}))
    assert refused is not None
    assert "memory" in refused
    assert refusal(opened[:-1], "10.0.0.1", limits, Settings(None, {})) is None
    assert refusal(opened, "10.0.0.1", limits, Settings(None, {"brokerMaxConnections": "20"})) is None
    assert allowed(limits, Settings(None, {}))["clients"] == 10


@pytest.mark.parametrize(
    ("address", "limit"), [("10.0.0.1", ADDRESS_CONNECTIONS_MAX), ("127.0.0.1", 7_500), ("::1", 7_500)]
)
def test_another_machine_has_thousand_connections(address: str, limit: int) -> None:
    settings, limits = Settings(None, {}), ConnectionLimits(clients=10_000)
    assert refusal([Opened(address)] * limit, address, limits, settings) is None
    assert refusal([Opened(address)] * (limit + 1), address, limits, settings) is not None


@pytest.mark.setup(brokerMaxConnections="1")
async def test_repeatedly_refused_address_is_logged_as_round_number(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> list[str]:
        found = [line.getMessage() for line in caplog.records if "refused" in line.getMessage()]
        caplog.clear()
        return found

    why = "reason=the broker has reached its maximum of 1 connections (brokerMaxConnections)"
    world.client().wire.polite = True
    for _ in range(40):
        assert world.bare_client().wire.aborted
        await settle()
    assert lines() == [f"connection_refused peer=10.0.0.1:50000 {why}"]
    await pass_s(MAINTENANCE_S + 0.1)
    assert lines() == [f"connections_refused more=39 {why}"]
    for _ in range(7):
        world.bare_client()
        await settle()
    assert lines() == []
    await pass_s(MAINTENANCE_S)
    assert lines() == [f"connections_refused more=7 {why}"]
    await pass_s(MAINTENANCE_S)  # a round without any: the next one is news
    assert lines() == []
    world.bare_client()
    assert lines() == [f"connection_refused peer=10.0.0.1:50000 {why}"]
    assert world.node.metrics.connections_aborted.value == 48
