"""Namespaces over REST: topics page by page whatever the buckets, and deletions that leave nothing behind."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from magnetar.admin.request import Request
from magnetar.admin.resources.namespaces import topics
from magnetar.base.errors import InvalidName
from magnetar.base.limits import HTTP_PIECE_BYTES
from magnetar.base.names import topic_name
from tests.unit.admin.world import World, a_world

pytestmark = pytest.mark.real_clock

LIST = "/admin/v2/namespaces/public/many/topics"


async def many(world: World, buckets: int, count: int) -> list[str]:
    await world.do("PUT", "/admin/v2/namespaces/public/many", {"numberOfTopicBuckets": buckets})
    names = [f"persistent://public/many/topic-{number:04}" for number in range(count)]
    for name in names:
        await world.do("PUT", f"/admin/v2/persistent/public/many/{name.rsplit('/', 1)[1]}")
    return names


@pytest.mark.parametrize("buckets", [1, 5])
@pytest.mark.parametrize("limit", [1, 7, 1000])
async def test_pages_hold_every_topic_once_and_follow_whole_list(buckets: int, limit: int) -> None:
    async with a_world() as world:
        names = await many(world, buckets, 40)
        whole = await world.get(LIST)
        assert sorted(whole) == names
        paged: list[str] = []
        page = await world.get(f"{LIST}?limit={limit}")
        while page:
            assert len(page) <= limit
            paged += page
            page = await world.get(f"{LIST}?limit={limit}&after={page[-1]}")
        assert paged == whole


async def test_page_goes_on_behind_topic_that_was_deleted_meanwhile() -> None:
    async with a_world() as world:
        await many(world, 3, 10)
        whole = await world.get(LIST)
        await world.do("DELETE", f"/admin/v2/persistent/public/many/{whole[4].rsplit('/', 1)[1]}")
        assert await world.get(f"{LIST}?after={whole[4]}") == whole[5:]


async def test_non_persistent_topics_follow_persistent_ones_on_any_page() -> None:
    async with a_world() as world:
        await many(world, 2, 3)
        for name in ("b", "a"):
            await world.do("PUT", f"/admin/v2/non-persistent/public/many/{name}")
        whole = await world.get(f"{LIST}?mode=ALL")
        assert [name.partition(":")[0] for name in whole] == ["persistent"] * 3 + ["non-persistent"] * 2
        assert whole[3:] == await world.get(f"{LIST}?mode=NON_PERSISTENT")
        for number, last in enumerate(whole):
            assert await world.get(f"{LIST}?mode=ALL&after={last}&limit=2") == whole[number + 1 : number + 3]


async def test_long_list_is_written_in_pieces() -> None:
    async with a_world() as world:
        await many(world, 4, 900)
        parts = {"tenant": "public", "namespace": "many"}
        response = await topics(world.node, Request("GET", LIST, parts=parts))
        assert not isinstance(response.body, bytes)
        pieces = [piece async for piece in response.body]
        assert len(pieces) > 1
        assert max(map(len, pieces)) < HTTP_PIECE_BYTES + 100


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=-1", 412),
        ("limit=x", 404),
        ("mode=NOSUCH", 404),
        ("after=persistent://public/default/t", 412),
        ("after=%20://x", 412),
    ],
)
async def test_page_that_makes_no_sense_is_refused(query: str, status: int) -> None:
    async with a_world() as world:
        await many(world, 2, 1)
        assert (await world.ask("GET", f"{LIST}?{query}")).status == status


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_number_of_buckets_is_fixed_at_creation(method: str) -> None:
    async with a_world() as world:
        await many(world, 4, 1)
        one = "/admin/v2/namespaces/public/many/numberOfTopicBuckets"
        assert await world.get(one) == 4
        answer = await world.ask(method, one, 8)
        assert answer.status == 412
        assert "creation" in answer.reason
        assert (await world.ask(method, one, 4)).status == 204
        for wrong in (0, -1, 1_000_000):
            given = {"numberOfTopicBuckets": wrong}
            assert (await world.ask("PUT", "/admin/v2/namespaces/public/x", given)).status == 412
        assert await world.get("/admin/v2/namespaces/public/default/numberOfTopicBuckets") == 1


async def test_used_namespace_is_deleted_only_by_force_with_contents() -> None:
    async with a_world(forceDeleteNamespaceAllowed="true", forceDeleteTenantAllowed="true") as world:
        await world.do("PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})
        await world.do("PUT", "/admin/v2/namespaces/acme/full", {"numberOfTopicBuckets": 3})
        await world.do("PUT", "/admin/v2/persistent/acme/full/parts/partitions", 3)
        await world.publish("persistent://acme/full/t", b"1", b"2")
        assert (await world.ask("DELETE", "/admin/v2/namespaces/acme/full")).status == 409
        assert (await world.ask("DELETE", "/admin/v2/tenants/acme")).status == 409
        await world.do("DELETE", "/admin/v2/tenants/acme?force=true")
        assert (await world.ask("GET", "/admin/v2/namespaces/acme/full")).status == 404
        assert not world.node.topics.loaded
        assert await world.node.ledgers.list({}) == []
        left = [path for path in world.node.metadata.content.records if "acme" in path]  # type: ignore[attr-defined]
        assert left == []


async def test_unloading_bundle_unloads_its_topics_and_no_others() -> None:
    async with a_world() as world:
        for number in range(8):
            await world.publish(f"persistent://public/default/t{number}", b"x")
        bundles: dict[str, list[str]] = {}
        for topic in list(world.node.topics.loaded):
            path = topic.replace("persistent://", "/lookup/v2/topic/persistent/") + "/bundle"
            bundles.setdefault((await world.ask("GET", path)).body.decode(), []).append(topic)
        assert len(bundles) > 1
        chosen = sorted(bundles)[0]
        await world.do("PUT", f"/admin/v2/namespaces/public/default/{chosen}/unload")
        assert set(world.node.topics.loaded).isdisjoint(bundles[chosen])
        assert len(world.node.topics.loaded) == 8 - len(bundles[chosen])
        await world.do("PUT", "/admin/v2/namespaces/public/default/unload")
        assert not world.node.topics.loaded


@pytest.mark.parametrize("name", [".", "..", "a%0Ab", "a%00", "%1B%5B2J", "a%C2%9Bb", "x%7F", "a%E2%80%A8b"])
async def test_name_that_paths_or_terminals_mean_otherwise_is_not_made(name: str) -> None:
    """D26"""

    async with a_world() as world:
        made = [
            (f"/admin/v2/tenants/{name}", {"allowedClusters": ["standalone"]}),
            (f"/admin/v2/namespaces/public/{name}", {}),
            (f"/admin/v2/persistent/public/default/{name}", None),
            (f"/admin/v2/non-persistent/public/default/{name}", None),
            (f"/admin/v2/persistent/public/default/{name}/partitions", 2),
            (f"/admin/v2/scalable/public/default/{name}", None),
        ]
        for path, document in made:
            answer = await world.ask("PUT", path, document)
            assert answer.status == 412, (path, answer)
        with pytest.raises(InvalidName):
            await world.topic(f"persistent://public/default/{unquote(name)}")
        assert await world.get("/admin/v2/tenants") == ["public", "pulsar"]
        assert await world.get("/admin/v2/namespaces/public") == ["public/default"]
        assert await world.get("/admin/v2/persistent/public/default") == []


async def test_name_of_before_can_be_used_and_deleted() -> None:
    """D26"""

    async with a_world() as world:
        name = topic_name("persistent://public/default/a\nb")
        await world.node.catalogue._make([name], None)  # as an older version did
        await world.publish(str(name), b"x")
        path = "/admin/v2/persistent/public/default/a%0Ab"
        assert (await world.get(f"{path}/stats"))["msgInCounter"] == 1
        await world.do("DELETE", f"{path}?force=true")
