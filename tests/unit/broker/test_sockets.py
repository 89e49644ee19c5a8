"""However few descriptors there are, files keep theirs and each door has at least one; the log is not filled with who
is refused."""

from __future__ import annotations

import pytest

from magnetar.base.limits import DESCRIPTORS_KEPT_MIN, HTTP_CONNECTIONS_MAX, MAINTENANCE_S
from magnetar.broker.sockets import shared_out
from tests.unit.broker.world import World, pass_s, run, settle


@pytest.mark.parametrize("descriptors", [128, 256, 1024, 4096, 20_000, 1 << 20])
def test_connections_of_both_doors_leave_room_for_files(descriptors: int) -> None:
    found = shared_out(descriptors)
    assert descriptors - found.clients - found.web >= max(DESCRIPTORS_KEPT_MIN, descriptors // 4)
    assert found.clients >= found.web >= 1
    assert found.web <= HTTP_CONNECTIONS_MAX


def test_a_process_that_may_open_nothing_still_lets_one_in_at_each_door() -> None:
    found = shared_out(8)
    assert (found.clients, found.web) == (1, 1)


def test_who_is_refused_again_and_again_gets_a_line_a_round_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def lines() -> list[str]:
        found = [line.getMessage() for line in caplog.records if "refused" in line.getMessage()]
        caplog.clear()
        return found

    async def body(world: World) -> None:
        why = "reason=the broker has its maximum of 1 connections (brokerMaxConnections)"
        world.client().wire.polite = True
        for _ in range(40):
            assert world.bare_client().wire.aborted
            await settle()
        assert lines() == [f"connection refused peer=10.0.0.1:50000 {why}"]
        await pass_s(MAINTENANCE_S + 0.1)
        assert lines() == [f"connections refused more=39 {why}"]
        for _ in range(7):
            world.bare_client()
            await settle()
        assert lines() == []
        await pass_s(MAINTENANCE_S)
        assert lines() == [f"connections refused more=7 {why}"]
        await pass_s(MAINTENANCE_S)  # a round without any: the next one is news
        assert lines() == []
        world.bare_client()
        assert lines() == [f"connection refused peer=10.0.0.1:50000 {why}"]
        assert world.node.metrics.connections_aborted.value == 48

    run(body, brokerMaxConnections="1")
