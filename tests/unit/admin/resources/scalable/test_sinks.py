"""Sinks over REST: how far each is, by any broker, and what deleting one leaves."""

from __future__ import annotations

import pytest

from magnetar.base.names import topic_name
from tests.unit.admin.world import a_world
from tests.unit.staged.world import anybody

pytestmark = pytest.mark.real_clock

TOPIC = topic_name("topic://public/default/rows")
ALL = "/admin/v2/sinks/public/default"
ONE = "/admin/v2/sinks/topic/public/default/rows/nightly"


async def test_sinks_are_listed_shown_and_deleted_with_their_stages() -> None:
    async with a_world() as world:
        assert await world.get(ALL) == []
        sinks = world.node.sinks
        begun = await sinks.begin(TOPIC, "nightly", 3, run="r")
        assert isinstance(begun, tuple)
        await sinks.seal(begun[0], anybody)
        await sinks.begin(TOPIC, "nightly", 4)
        await sinks.commit(TOPIC, "nightly", 3, [begun[0]])
        one = await world.get(ONE)
        assert (one["sink"], one["topic"], one["lastBatch"], one["openStages"]) == ("nightly", str(TOPIC), 3, 1)
        assert (one["publishing"], one["backlogMessages"], one["run"], one["trouble"]) == ([], 0, "r", "")
        assert await world.get(ALL) == [one]
        assert await world.get("/admin/v2/sinks/public/other") == []
        await world.do("DELETE", ONE)
        assert await world.get(ALL) == []
        for method in ("GET", "DELETE"):
            assert (await world.ask(method, ONE)).status == 404
        names = [name async for name in world.node.catalogue.topics(TOPIC.namespace, stages=True)]
        assert names == []


async def test_figures_of_sinks_are_among_metrics() -> None:
    async with a_world() as world:
        await world.node.sinks.begin(TOPIC, "nightly", 0)
        await world.node.sinks.commit(TOPIC, "nightly", 0, [])
        text = (await world.ask("GET", "/metrics")).body.decode()
        for line in ("magnetar_stages_begun", "magnetar_stage_batches_committed"):
            assert any(said.startswith(line) and said.endswith(" 1") for said in text.splitlines()), line
