"""A broker that is alone takes no calls of brokers (D2): anybody could seal, fence and delete through them."""

from __future__ import annotations

import pytest

from tests.unit.admin.world import a_world

TOPIC = "/admin/v2/persistent/public/default/victim"
CALL = {"topic": "persistent://public/default/victim", "request": {"type": "Seal", "op": "x", "term": 2**62}}


@pytest.mark.parametrize("path", ["/admin/v2/peers", "/admin/v2/peers/", "/admin/v2/%70eers"])
@pytest.mark.real_clock
async def test_call_to_broker_alone_finds_no_path_and_seals_nothing(path: str) -> None:
    async with a_world() as world:
        assert (await world.ask("PUT", TOPIC)).status == 204
        assert (await world.ask("POST", path, CALL)).status == 404
        assert (await world.ask("DELETE", f"{TOPIC}?force=true")).status == 204
