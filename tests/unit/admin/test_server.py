"""The skin over real sockets: what a client sends reaches the routes as it was, and stopping lets go of everything."""

from __future__ import annotations

import asyncio

import httpx2 as httpx
import pytest

from magnetar.admin.monitoring.start_page import LINKS
from magnetar.admin.server import WebServer
from magnetar.base.errors import Conflict
from magnetar.base.limits import HTTP_ANSWER_HEADERS_BYTES_MAX, HTTP_BODY_BYTES_MAX, HTTP_METADATA_BYTES_MAX
from magnetar.wire.proto import pb
from tests.unit.admin.world import World, a_world

pytestmark = pytest.mark.real_clock


async def started(world: World) -> tuple[WebServer, str]:
    server = WebServer(world.node)
    port = await server.start("127.0.0.1", 0)
    return server, f"http://127.0.0.1:{port}"


async def test_call_goes_through_as_it_was_sent() -> None:
    async with a_world() as world:
        server, url = await started(world)
        async with httpx.AsyncClient(base_url=url) as client:
            made = await client.put("/admin/v2/persistent/public/default/with%20space", json={"owner": "blue"})
            assert (made.status_code, made.content, "content-length" in made.headers) == (204, b"", False)
            listed = await client.get("/admin/v2/namespaces/public/default/topics?mode=ALL&limit=5")
            assert listed.json() == ["persistent://public/default/with space"]
            assert listed.headers["content-type"] == "application/json"
            slash = await client.put("/admin/v2/persistent/public/default/sl%2Fash")
            assert slash.status_code == 412
            unset = await client.get("/admin/v2/namespaces/public/default/retention")
            assert (unset.status_code, unset.content, unset.headers["content-length"]) == (200, b"", "0")
            wrong = await client.patch("/admin/v2/tenants")
            assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET,OPTIONS")
            assert (await client.head("/admin/v2/tenants")).headers["content-length"] == "19"
            assert wrong.headers["server"] == "magnetar"
            assert wrong.headers["date"].endswith("GMT")
        await server.stop()


async def test_plus_in_path_is_space() -> None:
    """Pulsar's Java admin client writes spaces so."""

    async with a_world() as world:
        server, url = await started(world)
        async with httpx.AsyncClient(base_url=url) as client:
            await client.put("/admin/v2/persistent/public/default/a+b")
            await client.put("/admin/v2/persistent/public/default/c%2Bd")
            listed = await client.get("/admin/v2/persistent/public/default")
            assert sorted(listed.json()) == [f"persistent://public/default/{name}" for name in ("a b", "c+d")]
        await server.stop()


async def test_header_names_keep_their_case() -> None:
    """Pulsar's Java admin client compares `X-Pulsar-PROPERTY` by case."""

    async with a_world() as world:
        server, url = await started(world)
        await world.publish("persistent://public/default/t", b"x", properties=[pb.KeyValue(key="k", value="v")])
        async with httpx.AsyncClient(base_url=url) as client:
            await client.put("/admin/v2/persistent/public/default/t/subscription/s", json="earliest")
            peeked = await client.get("/admin/v2/persistent/public/default/t/subscription/s/position/1")
            assert (b"X-Pulsar-PROPERTY", b'{"k":"v"}') in peeked.headers.raw
        await server.stop()


async def test_headers_beyond_their_bound_become_refusal() -> None:
    """A property of control characters is six times as long in JSON."""

    async with a_world() as world:
        server, url = await started(world)
        pair = pb.KeyValue(key="k", value="\x01" * (HTTP_METADATA_BYTES_MAX // 2))
        await world.publish("persistent://public/default/t", b"x", properties=[pair])
        async with httpx.AsyncClient(base_url=url) as client:
            answer = await client.get("/admin/v2/persistent/public/default/t/examinemessage")
            assert answer.status_code == 413
            assert str(HTTP_ANSWER_HEADERS_BYTES_MAX) in answer.json()["reason"]
        await server.stop()


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "text/html; charset=utf-8"),
        ("*/*", "text/html; charset=utf-8"),
        ("application/json", "application/json"),
        ("application/json, text/html;q=0.5", "application/json"),
    ],
)
async def test_root_shows_start_page_with_links_that_work(accept: str, kind: str) -> None:
    async with a_world() as world:
        server, url = await started(world)
        async with httpx.AsyncClient(base_url=url) as client:
            page = await client.get("/", headers={"accept": accept})
            assert (page.status_code, page.headers["content-type"]) == (200, kind)
            for path in LINKS.values():
                assert path in page.text
                assert (await client.get(path)).status_code == 200
        await server.stop()


async def test_large_answer_is_compressed_where_that_is_asked_for() -> None:
    async with a_world() as world:
        server, url = await started(world)
        async with httpx.AsyncClient(base_url=url) as client:
            answer = await client.get("/openapi.json", headers={"accept-encoding": "gzip"})
            assert answer.headers["content-encoding"] == "gzip"
            assert answer.json()["openapi"] == "3.1.0"
            plain = await client.get("/openapi.json", headers={"accept-encoding": "identity"})
            assert "content-encoding" not in plain.headers
        await server.stop()


async def test_oversized_body_is_refused_before_it_is_buffered() -> None:
    async with a_world() as world:
        server, url = await started(world)

        async def endless() -> object:
            for _ in range(HTTP_BODY_BYTES_MAX // 65536 + 2):
                yield b" " * 65536

        async with httpx.AsyncClient(base_url=url) as client:
            answer = await client.put("/admin/v2/tenants/acme", content=endless())  # type: ignore[arg-type]
            assert answer.status_code == 413
            assert (await client.get("/livez")).status_code == 200
        await server.stop()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PUT /admin/v2/tenants/x HTTP/1.1\r\nHost: x\r\nContent-Length: nonsense\r\n\r\n",
    ],
)
async def test_invalid_http_closes_only_its_connection(raw: bytes) -> None:
    async with a_world() as world:
        server, url = await started(world)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        writer.write(raw)
        try:
            answer = await reader.read()
        except ConnectionResetError:
            answer = b""
        assert answer == b"" or answer.split(b" ")[1] in (b"400", b"431")
        writer.close()
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/readyz")).text == "ok"
        await server.stop()


async def test_stopping_closes_idle_connections_and_port_is_free_again() -> None:
    async with a_world() as world:
        server, url = await started(world)
        port = int(url.rsplit(":", 1)[1])
        with pytest.raises(Conflict, match="webServicePort"):
            await WebServer(world.node).start("127.0.0.1", port)
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/livez")).status_code == 200
            await server.stop()
            again = WebServer(world.node)
            assert await again.start("127.0.0.1", port) == port
            await again.stop()
        await again.stop()  # nothing to do
