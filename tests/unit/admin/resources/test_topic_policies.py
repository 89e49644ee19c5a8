"""Retention of single topics: set, read, applied, removed, and gone with the topic."""

from __future__ import annotations

import pytest

from magnetar.base.names import topic_name
from magnetar.topic.topic import Topic
from tests.unit.admin.world import World, a_world, run

pytestmark = pytest.mark.real_clock

NAMESPACE = "/admin/v2/namespaces/public/default"
PLAIN = "/admin/v2/persistent/public/default/t"
SCALABLE = "/admin/v2/scalable/public/default/s"
HOUR = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 512}
NONE = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
DAY = {"retentionTimeInMinutes": 1440, "retentionSizeInMB": 1024}
PATHS = pytest.mark.parametrize(("path", "default"), [(PLAIN, NONE), (SCALABLE, DAY)], ids=["plain", "scalable"])


async def made(world: World, path: str) -> None:
    await world.do("PUT", path)


@PATHS
def test_retention_of_topic_wins_until_it_is_removed(path: str, default: dict[str, int]) -> None:
    async def body() -> None:
        async with a_world() as world:
            await made(world, path)
            assert (await world.ask("GET", f"{path}/retention")).body == b""
            assert await world.get(f"{path}/retention?applied=true") == default
            await world.do("POST", f"{NAMESPACE}/retention", HOUR)
            assert await world.get(f"{path}/retention?applied=true") == HOUR
            await world.do("POST", f"{path}/retention", NONE)
            assert await world.get(f"{path}/retention") == NONE
            assert await world.get(f"{path}/retention?applied=true") == NONE
            await world.do("DELETE", f"{path}/retention")
            assert await world.get(f"{path}/retention?applied=true") == HOUR

    run(body())


async def test_loaded_topic_obeys_change_at_once() -> None:
    async with a_world() as world:
        topic = await world.topic("persistent://public/default/t")
        assert isinstance(topic, Topic)
        await world.do("POST", f"{PLAIN}/retention", HOUR)
        assert (topic.settings.retention.minutes, topic.settings.retention.megabytes) == (60, 512)


async def test_partitions_share_retention_of_their_topic() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{PLAIN}/partitions", 2)
        await world.do("POST", f"{PLAIN}-partition-1/retention", HOUR)
        assert await world.get(f"{PLAIN}/retention") == HOUR
        part = await world.topic("persistent://public/default/t-partition-0")
        assert isinstance(part, Topic)
        assert part.settings.retention.minutes == 60
        await world.do("DELETE", f"{PLAIN}/partitions")
        assert await world.node.topic_policies.of(topic_name("persistent://public/default/t")) == {}


@PATHS
def test_retention_goes_with_its_topic(path: str, default: dict[str, int]) -> None:
    async def body() -> None:
        async with a_world() as world:
            await made(world, path)
            await world.do("POST", f"{path}/retention", HOUR)
            await world.do("DELETE", path)
            await made(world, path)
            assert await world.get(f"{path}/retention?applied=true") == default

    run(body())


@PATHS
def test_missing_topic_is_not_found(path: str, default: dict[str, int]) -> None:
    async def body() -> None:
        async with a_world() as world:
            for method, document in (("GET", None), ("POST", HOUR), ("DELETE", None)):
                assert (await world.ask(method, f"{path}/retention", document)).status == 404

    run(body())


@pytest.mark.parametrize(
    "document", [{"retentionTimeInMinutes": 5, "retentionSizeInMB": 0}, {"retentionTimeInMinute": 5}]
)
async def test_bad_retention_is_refused_and_nothing_changes(document: dict[str, int]) -> None:
    async with a_world() as world:
        await made(world, PLAIN)
        assert (await world.ask("POST", f"{PLAIN}/retention", document)).status == 400
        assert (await world.ask("GET", f"{PLAIN}/retention")).body == b""


async def test_topic_that_stores_nothing_has_no_retention() -> None:
    async with a_world() as world:
        path = "/admin/v2/non-persistent/public/default/n/retention"
        assert (await world.ask("POST", path, HOUR)).status == 501
