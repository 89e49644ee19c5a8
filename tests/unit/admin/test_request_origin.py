"""Web pages and borrowed names reach nothing (D11)."""

from __future__ import annotations

import socket

import pytest

from tests.unit.admin.world import World, a_world

pytestmark = pytest.mark.real_clock

TOPIC = "/admin/v2/persistent/public/default/bomb"
EVIL = "http://evil.example"


async def terminated(world: World) -> bool:
    topic = await world.topic("persistent://public/default/bomb")
    return topic.managed.terminated is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": EVIL, "host": "evil.example", "content_type": "text/plain"},
        {"origin": EVIL, "host": "localhost:8080"},
        {"origin": "null", "host": "localhost:8080"},
        {"origin": "http://localhost:3000", "host": "localhost:8080"},
        {"origin": "http://[", "host": "localhost:8080"},
        {"sec_fetch_site": "cross-site", "host": "localhost:8080"},
        {"sec_fetch_site": "same-site", "host": "localhost:8080"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "host": "localhost:8080"},
        {"origin": EVIL},
    ],
    ids=str,
)
async def test_page_of_another_site_changes_nothing(headers: dict[str, str]) -> None:
    async with a_world() as world:
        await world.do("PUT", TOPIC)
        for method, path in (
            ("POST", f"{TOPIC}/terminate"),
            ("POST", "/admin/v2/brokers/configuration/maxTopicsPerNamespace/1"),
            ("DELETE", f"{TOPIC}?force=true"),
        ):
            answer = await world.ask(method, path, **headers)
            assert answer.status in (403, 421), (path, answer)
            assert "cross-site request" in answer.reason or "is not allowed" in answer.reason
        assert not await terminated(world)
        assert await world.get("/admin/v2/brokers/configuration/values") == {}


async def test_page_of_another_site_makes_no_topic_by_reading() -> None:
    async with a_world() as world:
        path = f"{TOPIC}/partitions?checkAllowAutoCreation=true"
        answer = await world.ask("GET", path, host="localhost:8080", sec_fetch_site="cross-site", sec_fetch_mode="cors")
        assert answer.status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "localhost:8080"},
        {"host": "LOCALHOST"},
        {"host": "127.0.0.1:8080"},
        {"host": "[::1]:8080"},
        {"host": "broker.example:8080"},
        {"host": "outside.example"},
        {"host": "also.example."},
        {"host": socket.gethostname()},
        {"host": "localhost:8080", "origin": "http://localhost:8080", "sec_fetch_site": "same-origin"},
        {"host": "localhost:8080", "sec_fetch_site": "none", "sec_fetch_mode": "navigate"},
        {"host": "localhost:8080", "sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"},
    ],
    ids=str,
)
async def test_own_names_and_people_are_served(headers: dict[str, str]) -> None:
    settings = {
        "advertisedAddress": "broker.example",
        "advertisedListeners": "out:pulsar://outside.example:6650",
        "webServiceHosts": "also.example",
    }
    async with a_world(**settings) as world:
        assert (await world.ask("GET", "/admin/v2/tenants", **headers)).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8080", "[evil", "localhost:8080@evil"]
)
async def test_name_that_is_not_ours_is_misdirected(host: str) -> None:
    async with a_world() as world:
        for path in ("/admin/v2/tenants", "/metrics", "/"):
            answer = await world.ask("GET", path, host=host)
            assert (answer.status, "webServiceHosts" in answer.reason) == (421, True), path
        assert (await world.ask("GET", "/livez", host=host)).status == 200
    async with a_world(webServiceHosts="*") as world:
        assert (await world.ask("GET", "/admin/v2/tenants", host=host)).status == 200
