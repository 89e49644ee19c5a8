"""Holds over REST: listed with lag and owner, shown with their places, ended by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.broker.batch_read.holds import HoldRequest
from magnetar.layout.readable_range import ReadPosition
from magnetar.scalable.machines import hold
from magnetar.scalable.record.subscription import Member
from tests.unit.admin.world import a_world

pytestmark = pytest.mark.real_clock

X = "/admin/v2/scalable/public/default/x"
NAME = topic_name("topic://public/default/x")


async def test_holds_are_listed_with_lag_and_can_be_deleted() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{X}?numInitialSegments=2")
        assert await world.get(f"{X}/holds") == {}
        holds = world.node.handlers.holds
        await holds.hold(NAME, HoldRequest("q/1", {SegmentId(0): ReadPosition(3, 0)}, owner="a query", expires_s=60))
        found = await world.get(f"{X}/holds")
        one = found["q/1"]
        assert (one["hold"], one["owner"], one["state"], one["lagMessages"]) == ("q/1", "a query", "KEEPS", 0)
        assert (one["expiresS"], one["untilMs"] - one["movedMs"]) == (60, 60_000)
        assert one["places"] == {"0": "3:0"}
        assert await world.get(f"{X}/holds/q%2F1") == one
        listed = await world.get(f"{X}/subscriptions")
        assert listed["q/1"]["type"] == "CHECKPOINT"
        await world.do("DELETE", f"{X}/holds/q%2F1")
        assert await world.get(f"{X}/holds") == {}
        for method, path in (("DELETE", f"{X}/holds/q"), ("GET", f"{X}/holds/q"), ("GET", f"{X}none/holds")):
            assert (await world.ask(method, path)).status == 404


async def test_hold_that_group_uses_ends_by_force_only() -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        await world.node.handlers.holds.hold(NAME, HoldRequest("g"))
        records = world.node.scalable.records
        found, version = await records.subscription(NAME, "g")
        assert found is not None
        await records.write_subscription(NAME, replace(found, members=(Member("a", 1), Member("b", 1))), version)
        assert (await world.get(f"{X}/holds/g"))["members"] == ["a", "b"]
        refused = await world.ask("DELETE", f"{X}/holds/g")
        assert refused.status == 409
        assert b"(a, b): close them, or use force" in refused.body
        assert list(await world.get(f"{X}/holds")) == ["g"]
        await world.do("DELETE", f"{X}/holds/g?force=true")
        assert await world.get(f"{X}/holds") == {}


async def test_end_that_was_announced_or_came_is_shown() -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        made = await world.node.handlers.holds.hold(NAME, HoldRequest("q", expires_s=60))
        records = world.node.scalable.records
        for state, held in (("WARNED", hold.warned(made.held, 5)), ("EXPIRED", hold.expired(made.held, 6))):
            found, version = await records.subscription(NAME, "q")
            assert found is not None
            await records.write_subscription(NAME, replace(found, hold=held), version)
            assert (await world.get(f"{X}/holds/q"))["state"] == state
