"""A reshape or a deletion that nobody leads is found, beside records that nobody understands."""

from __future__ import annotations

from magnetar.scalable.sweep import unfinished
from tests.unit.scalable.test_controller import attempt
from tests.unit.scalable.world import NAME, Cluster, pass_s, run, spawn


def test_only_what_was_begun_is_found_and_a_broken_record_hides_nothing() -> None:
    async def body(cluster: Cluster) -> None:
        first, second = cluster.members
        await first.service.create(NAME)
        await second.metadata.put("/topics/public/default/broken", b"{}")
        assert [name async for name in unfinished(second.metadata)] == []
        first.kill_at("reshape.checked")
        work = spawn(attempt(spawn(first.service.split(NAME, 0))))
        await pass_s(1)
        assert first.dead
        assert [name async for name in unfinished(second.metadata)] == [NAME]
        await pass_s(70)  # nobody asks for the topic: the sweep alone sees to it
        assert [name async for name in unfinished(second.metadata)] == []
        work.cancel()

    run(body, 2)
