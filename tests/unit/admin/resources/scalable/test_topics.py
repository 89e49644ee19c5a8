"""Scalable topics over REST: what the recorded exchanges do not show, and where Pulsar breaks and this does not."""

from __future__ import annotations

import asyncio
import random
from typing import Any
from urllib.parse import quote

import pytest

from magnetar.admin.resources.scalable import segments, topics
from magnetar.base.names import topic_name
from magnetar.scalable.record.subscription import Type
from tests.support.virtual_clock import settle
from tests.unit.admin.world import World, a_world
from tests.unit.scalable.world import Ear

pytestmark = pytest.mark.real_clock

X = "/admin/v2/scalable/public/default/x"
NAME = topic_name("topic://public/default/x")


async def active(world: World, path: str = X) -> dict[int, tuple[int, int]]:
    segments = (await world.get(path))["segments"].values()
    return {
        one["segmentId"]: (one["hashRange"]["start"], one["hashRange"]["end"])
        for one in segments
        if one["state"] == "ACTIVE"
    }


async def test_split_cuts_in_halves_or_at_hash_or_into_many() -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        await world.do("POST", f"{X}/split/0?at=4000")
        assert await active(world) == {1: (0, 0x3FFF), 2: (0x4000, 0xFFFF)}
        await world.do("POST", f"{X}/split/2?into=3")
        assert await active(world) == {
            1: (0, 0x3FFF),
            3: (0x4000, 0x7FFF),
            4: (0x8000, 0xBFFF),
            5: (0xC000, 0xFFFF),
        }
        await world.do("POST", f"{X}/split/1")
        assert set(await active(world)) == {3, 4, 5, 6, 7}


async def test_adjacent_segments_merge_in_any_number_and_order() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{X}?numInitialSegments=4")
        await world.do("POST", f"{X}/merge?segments=2,0,1")
        assert await active(world) == {3: (0xC000, 0xFFFF), 4: (0, 0xBFFF)}
        await world.do("POST", f"{X}/merge/3/4")
        assert await active(world) == {5: (0, 0xFFFF)}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "split/99", 404),
        ("POST", "split/-1", 404),
        ("POST", "split/x", 404),
        ("POST", "split/99999999999999999999", 404),
        ("POST", "split/0", 412),  # sealed
        ("POST", "split/1?into=1", 412),
        ("POST", "split/1?into=70000", 412),
        ("POST", "split/1?into=x", 404),
        ("POST", "split/1?at=zz", 412),
        ("POST", "split/1?at=0000", 412),
        ("POST", "split/1?at=f000", 412),
        ("POST", "split/1?at=4000&into=3", 412),
        ("POST", "merge/1/1", 412),
        ("POST", "merge/1/99", 404),
        ("POST", "merge/0/1", 412),
        ("POST", "merge/x/1", 404),
        ("POST", "merge", 412),
        ("POST", "merge?segments=", 412),
        ("POST", "merge?segments=1", 412),
        ("POST", "merge?segments=1,a", 412),
        ("POST", "merge?segments=1,4", 412),  # not neighbours
        ("GET", "operations/nosuch", 404),
        ("GET", "segments/99/stats", 404),
        ("GET", "segments/x/stats", 404),
        ("PUT", "subscriptions/s?type=NOSUCH", 404),
    ],
)
async def test_what_cannot_be_is_callers_fault(method: str, path: str, status: int) -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        await world.do("POST", f"{X}/split/0")
        await world.do("POST", f"{X}/split/2")
        before = await world.get(X)
        answer = await world.ask(method, f"{X}/{path}")
        assert answer.status == status, answer
        assert answer.reason
        assert await world.get(X) == before


@pytest.mark.parametrize(
    ("method", "tail"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/stats"),
        ("POST", "/split/0"),
        ("POST", "/merge/0/1"),
        ("POST", "/merge?segments=0,1"),
        ("PUT", "/subscriptions/s"),
        ("DELETE", "/subscriptions/s"),
        ("GET", "/subscriptions"),
        ("GET", "/operations"),
        ("GET", "/segments/0/stats"),
    ],
)
async def test_missing_topic_is_404_everywhere(method: str, tail: str) -> None:
    async with a_world() as world:
        answer = await world.ask(method, X + tail)
        assert (answer.status, answer.reason) == (404, f"Scalable topic not found: {NAME}")


async def test_operation_status_shows_its_steps() -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        answer = await world.ask("POST", f"{X}/split/0?show=operation&reason=hot")
        assert answer.status == 200
        done = answer.document
        assert (done["kind"], done["phase"], done["error"]) == ("SPLIT", "DONE", "")
        assert [step["name"] for step in done["steps"]][-1] == "committed"
        assert (done["parentIds"], done["childIds"], done["reason"]) == ([0], [1, 2], "hot")
        found = await world.get(f"{X}/operations/{done['op']}")
        assert found == done
        [past] = await world.get(f"{X}/operations")
        assert (past["op"], past["reason"], past["parentIds"], past["childIds"]) == (done["op"], "hot", [0], [1, 2])


async def test_reshape_without_wait_returns_id_and_is_found_by_it() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{X}?numInitialSegments=2")
        for path in ("split/0?into=3", "merge/2/3?reason=calm"):
            joint = "&" if "?" in path else "?"
            answer = await world.ask("POST", f"{X}/{path}{joint}show=operation&wait=false")
            assert answer.status == 202
            begun = answer.document
            assert [step["name"] for step in begun["steps"]] == ["intended"]
            assert begun["parentIds"]
            assert begun["childIds"]
            while (found := await world.get(f"{X}/operations/{begun['op']}"))["phase"] != "DONE":  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert found["childIds"] == begun["childIds"]
        assert len(await active(world)) == 3


async def test_reshape_that_is_refused_is_refused_also_where_nobody_waits() -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        await world.do("POST", f"{X}/split/0")
        answer = await world.ask("POST", f"{X}/split/0?show=operation&wait=false")
        assert answer.status == 412


async def test_filter_by_several_properties_requires_all() -> None:
    async with a_world() as world:
        await world.do("PUT", X, {"a": "1", "b": "2"})
        await world.do("PUT", "/admin/v2/scalable/public/default/y", {"a": "1"})
        path = "/admin/v2/scalable/public/default"
        assert await world.get(f"{path}?property=a=1") == ["topic://public/default/x", "topic://public/default/y"]
        assert await world.get(f"{path}?property=a=1&property=b=2") == ["topic://public/default/x"]


async def test_name_with_slash_keeps_it() -> None:
    async with a_world() as world:
        await world.do("PUT", "/admin/v2/scalable/public/default/a%2Fb")
        assert await world.get("/admin/v2/scalable/public/default") == ["topic://public/default/a/b"]
        stats = await world.get("/admin/v2/scalable/public/default/a%2Fb/stats")
        assert stats["segments"]["0"]["name"] == "segment://public/default/a/b/0000-ffff-0"


async def test_statistics_say_who_serves_leads_and_reads() -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        await world.do("PUT", f"{X}/subscriptions/s")
        await world.do("POST", f"{X}/split/0")
        stats = await world.get(f"{X}/stats")
        assert (stats["totalSegments"], stats["activeSegments"], stats["sealedSegments"]) == (3, 2, 1)
        assert stats["controller"] == stats["segments"]["1"]["ownerBroker"] == "localhost:8080"
        assert stats["segments"]["1"]["parentIds"] == [0]
        assert stats["subscriptions"]["s"]["type"] == "STREAM"
        assert (await world.get(f"{X}/subscriptions"))["s"]["consumerCount"] == 0
        of_one = await world.get(f"{X}/segments/1/stats")
        assert "s" in of_one["subscriptions"]


async def test_namespace_that_has_scalable_topic_is_not_empty() -> None:
    async with a_world() as world:
        await world.do("PUT", "/admin/v2/namespaces/public/mine")
        await world.do("PUT", "/admin/v2/scalable/public/mine/x")
        assert (await world.ask("DELETE", "/admin/v2/namespaces/public/mine")).status == 409
        await world.do("DELETE", "/admin/v2/scalable/public/mine/x")
        await world.do("DELETE", "/admin/v2/namespaces/public/mine")


async def test_namespace_deleted_by_force_takes_its_scalable_topics_along() -> None:
    async with a_world(forceDeleteNamespaceAllowed="true") as world:
        await world.do("PUT", "/admin/v2/namespaces/public/mine")
        await world.do("PUT", "/admin/v2/scalable/public/mine/x")
        await world.do("POST", "/admin/v2/scalable/public/mine/x/split/0")
        await world.do("DELETE", "/admin/v2/namespaces/public/mine?force=true")
        assert await world.get("/admin/v2/scalable/public/mine") == []


async def test_deleted_topic_leaves_every_list_and_frees_its_name() -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        await world.do("PUT", f"{X}/subscriptions/s")
        await world.do("POST", f"{X}/split/0")
        await world.do("DELETE", f"{X}?force=true")
        assert await world.get("/admin/v2/scalable/public/default") == []
        assert (await world.ask("GET", X)).status == 404
        await world.do("PUT", X)
        assert len(await active(world)) == 1
        assert await world.get(f"{X}/subscriptions") == {}
        await world.do("POST", f"{X}/split/{next(iter(await active(world)))}")


async def test_disabled_scalable_topics_refuse_every_route_and_keep_data() -> None:
    async with a_world(scalableTopicsEnabled="false") as world:
        for method, path in (
            ("GET", "/admin/v2/scalable/public/default"),
            ("PUT", X),
            ("GET", X),
            ("GET", "/lookup/v2/topic/topic/public/default/x"),
            ("PUT", "/admin/v2/segments/public/default/x/0000-ffff-0"),
        ):
            answer = await world.ask(method, path)
            assert answer.status == 404
            assert "disabled on this broker" in answer.reason
        assert await world.node.scalable.read(NAME) is None
        await world.node.scalable.create(NAME)
        assert await world.node.scalable.read(NAME) is not None


async def test_lookup_of_scalable_topic_names_broker() -> None:
    async with a_world() as world:
        found: dict[str, Any] = await world.get("/lookup/v2/topic/topic/public/default/x")
        assert found["brokerUrl"].startswith("pulsar://localhost")


# Segments


async def test_segment_is_what_its_topic_says_and_nothing_else() -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        await world.node.scalable.subscribe(NAME, "s", Type.STREAM, earliest=True)
        here = "/admin/v2/segments/public/default/x/0000-ffff-0"
        await world.do("PUT", here, ["s"])
        await world.do("PUT", f"{here}/subscription/s")
        assert await world.get(f"{here}/subscription/s/backlog") == 0
        for method, path in (
            ("POST", f"{here}/terminate"),
            ("DELETE", here),
            ("PUT", f"{here}/subscription/other"),
            ("DELETE", f"{here}/subscription/s"),
        ):
            answer = await world.ask(method, path)
            assert answer.status == 409, (method, path, answer)
        await world.do("DELETE", f"{here}/subscription/other")
        await world.do("POST", f"{X}/split/0")
        await world.do("POST", f"{here}/terminate")
        for wrong in ("0000-7fff-0", "0000-ffff-1", "0000-ffff-9"):
            answer = await world.ask("PUT", f"/admin/v2/segments/public/default/x/{wrong}")
            assert answer.status == 404, answer
        for missing in ("nosuch/backlog", "nosuch/position/1", "s/position/1"):
            assert (await world.ask("GET", f"{here}/subscription/{missing}")).status == 404


async def test_subscription_says_who_reads_what_and_who_is_waited_for() -> None:
    async with a_world() as world:
        await world.do("PUT", f"{X}?numInitialSegments=2")
        assert (await world.ask("GET", f"{X}/subscriptions/s")).status == 404
        await world.do("PUT", f"{X}/subscriptions/s")
        told = await world.get(f"{X}/subscriptions/s")
        assert (told["consumers"], told.get("controller")) == ([], None)
        ear = Ear("1")
        given = await world.node.scalable.register(NAME, "s", "a", 1, Type.STREAM, ear)
        told = await world.get(f"{X}/subscriptions/s")
        assert told["controller"] == world.node.ownership.me.id
        assert [(one["consumerName"], one["connected"]) for one in told["consumers"]] == [("a", True)]
        assert [(one["segmentId"], one["consumerName"]) for one in told["segments"]] == [(0, "a"), (1, "a")]
        world.node.scalable.connection_lost(NAME, "s", "a", given.session)
        await settle()
        [one] = (await world.get(f"{X}/subscriptions/s"))["consumers"]
        assert not one["connected"]
        assert one["graceUntilMs"] > world.node.runtime.wall()


GARBAGE = [
    "",
    "-1",
    "x",
    "0x",
    "%00",
    "%ff",
    "..",
    "%2F",
    "a" * 300,
    "99999999999999999999",
    "nul%00l",
    "1,1",
    "{x}",
    "%C3%A9",
]
VALUES = ["", "-1", "x", "1e9", "9" * 40, "true", "\x00", "ffff", "10000", "0,0", "1,,2", "STREAM", "\ud7ff"]
BODIES = [b"", b"{", b"[]", b"null", b"0", b'{"a": 1}', b'["a", 1]', b"\xff\xfe", b"[" * 2000, b'{"type": "Seal"}']
QUERIES = ["numInitialSegments", "force", "at", "into", "segments", "type", "property", "timestamp", "wait", "reason"]


def garbled(path: str, chance: random.Random) -> str:
    """A path of the template: some parts as they should be, some not."""
    good = {"tenant": "public", "namespace": "default", "topic": "x", "descriptor": "0000-7fff-0", "subscription": "s"}
    parts = []
    for part in path.split("/"):
        name = part.strip("{}")
        right = good.get(name, "0") if part.startswith("{") else part
        wrong = part.startswith("{") and chance.random() < 0.4
        parts.append(chance.choice(GARBAGE) if wrong else right)
    query = "&".join(f"{name}={quote(chance.choice(VALUES))}" for name in chance.sample(QUERIES, chance.randrange(4)))
    return "/".join(parts) + (f"?{query}" if query else "")


@pytest.mark.parametrize("room", ["scalable", "segments"])
async def test_whatever_is_asked_answer_is_never_error_of_ours(room: str) -> None:
    routes = [one for one in topics.ROUTES + segments.ROUTES if one.path.startswith(f"/admin/v2/{room}")]

    chance = random.Random(6)
    async with a_world() as world:
        for number in range(60):
            if number % 10 == 0:
                await world.ask("DELETE", f"{X}?force=true")
                await world.do("PUT", f"{X}?numInitialSegments=2")
            for route in routes:
                path = garbled(route.path, chance)
                raw = chance.choice(BODIES)
                answer = await world.ask(route.method, path, raw=raw, content_type="application/json")
                assert answer.status < 500 or answer.status == 501, (route.method, path, raw, answer)
        assert world.node.metrics.request_failures.value == 0
