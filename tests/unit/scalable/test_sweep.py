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


def test_switched_off_nothing_is_touched_and_switched_on_again_it_is_finished() -> None:
    async def body(cluster: Cluster) -> None:
        first = cluster.members[0]
        await first.service.create(NAME)
        first.kill_at("reshape.sealed")
        work = spawn(attempt(spawn(first.service.split(NAME, 0))))
        await pass_s(1)
        assert first.dead
        cluster.settings["scalableTopicsEnabled"] = "false"
        off = await cluster.join()
        await pass_s(100)
        assert [name async for name in unfinished(off.metadata)] == [NAME]
        cluster.settings["scalableTopicsEnabled"] = "true"
        await cluster.join()
        await pass_s(100)
        assert [name async for name in unfinished(off.metadata)] == []
        work.cancel()

    run(body, 1)
