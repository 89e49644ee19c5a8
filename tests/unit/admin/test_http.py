"""Peers that send half a request, or do not read: each wait ends, with a status where one can still be told."""

from __future__ import annotations

import asyncio
import socket

import httpx2 as httpx
import pytest

from magnetar.admin.http import Patience
from magnetar.admin.server import WebServer
from magnetar.base.limits import HTTP_BODY_BYTES_MAX, HTTP_HEADER_BYTES_MAX
from magnetar.broker.sockets import Sockets
from tests.unit.admin.world import World, a_world, run

SOON = 0.05


async def started(world: World, *, head_s: float = 60.0, unread_s: float = 60.0) -> tuple[WebServer, int]:
    server = WebServer(world.node, Patience(head_s, unread_s))
    return server, await server.start("127.0.0.1", 0)


async def answered(port: int, sent: bytes) -> tuple[bytes, bytes]:
    """Status line and body of what comes back until the broker hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0], body


@pytest.mark.parametrize("sent", [b"G", b"GET /livez HTTP/1.1\r\n", b"GET /livez HTTP/1.1\r\nHost: x\r\nA: "])
def test_a_head_that_never_ends_is_answered_408_and_hung_up_on(sent: bytes) -> None:
    async def body() -> None:
        async with a_world() as world:
            server, port = await started(world, head_s=SOON)
            status, words = await answered(port, sent)
            assert status == b"HTTP/1.1 408 Request Timeout"
            assert b"head did not arrive within" in words
            await server.stop()

    run(body())


def test_a_head_that_trickles_in_gets_no_new_time_with_every_byte() -> None:
    async def body() -> None:
        async with a_world() as world:
            server, port = await started(world, head_s=SOON)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            answer = asyncio.ensure_future(reader.read())
            writer.write(b"GET /livez HTTP/1.1\r\nX: ")
            while not answer.done():  # each turn some more of the same header, for as long as anybody listens
                writer.write(b"x")
                await asyncio.wait([answer], timeout=SOON / 10)
            assert answer.exception() is not None or (await answer).startswith(b"HTTP/1.1 408 ")
            writer.close()
            await server.stop()

    run(body())


def test_a_connection_that_says_nothing_at_all_is_closed() -> None:
    async def body() -> None:
        async with a_world() as world:
            server, port = await started(world, head_s=SOON)
            assert await answered(port, b"") == (b"", b"")
            await server.stop()

    run(body())


def test_idle_connections_beyond_the_limit_are_not_taken_and_the_others_are_served() -> None:
    async def body() -> None:
        async with a_world() as world:
            world.node.sockets_max = Sockets(web=2)
            server, port = await started(world)
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            assert await asyncio.wait_for(answered(port, b""), 20) == (
                b"",
                b"",
            )  # long before a head is late
            for reader, writer in held:
                writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b" 200 " in await reader.readline()
                writer.close()
            await server.stop()

    run(body())


def test_half_a_second_request_is_answered_408_after_the_first_was_served() -> None:
    async def body() -> None:
        async with a_world() as world:
            server, port = await started(world, head_s=SOON)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in await reader.readline()
            await reader.readuntil(b"ok")
            writer.write(b"GET /livez HT")
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
            writer.close()
            await server.stop()

    run(body())


def test_the_time_for_a_head_is_not_the_time_for_the_answer_or_for_the_body() -> None:
    async def body() -> None:
        async with a_world() as world:
            server, port = await started(world, head_s=SOON)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"PUT /admin/v2/tenants/acme HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: 2\r\n\r\n{")
            late = asyncio.Event()
            asyncio.get_running_loop().call_later(SOON * 3, late.set)
            await late.wait()
            writer.write(b"}")
            assert b" 408 " not in await reader.readline()
            writer.close()
            await server.stop()

    run(body())


def test_a_head_that_is_too_large_is_431_and_says_the_bound() -> None:
    async def body() -> None:
        async with a_world() as world:
            server, port = await started(world)
            head = b"GET /livez HTTP/1.1\r\nHost: x\r\nX: "
            status, words = await answered(port, head + b"x" * (HTTP_HEADER_BYTES_MAX + 1 - len(head)))
            assert status == b"HTTP/1.1 431 Request Header Fields Too Large"
            assert str(HTTP_HEADER_BYTES_MAX).encode() in words
            await server.stop()

    run(body())


def test_what_is_no_http_is_400_in_json() -> None:
    async def body() -> None:
        async with a_world() as world:
            server, port = await started(world)
            status, words = await answered(port, b"\x00\x01\x02\r\n\r\n")
            assert (status, words) == (b"HTTP/1.1 400 Bad Request", b'{"reason":"this is no HTTP request"}')
            await server.stop()

    run(body())


def test_the_sender_of_a_body_much_too_large_hears_413_and_not_a_broken_connection() -> None:
    async def body() -> None:
        async with a_world() as world:
            server, port = await started(world)
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                for _ in range(5):
                    answer = await client.put("/admin/v2/tenants/acme", content=b" " * (HTTP_BODY_BYTES_MAX * 8))
                    assert (answer.status_code, str(HTTP_BODY_BYTES_MAX) in answer.text) == (413, True)
            await server.stop()

    run(body())


class Guarded:
    """Only who says the word is a broker."""

    def authenticate(self, method: str, data: bytes) -> str | None:
        return data.decode() or None

    def allowed(self, principal: str | None, action: str, resource: str) -> bool:
        return principal == "broker"


def test_a_broker_may_send_more_than_anybody_else_and_only_to_brokers() -> None:
    """A seal's knowledge of producers does not fit into what policies and schemas need."""

    async def body() -> None:
        async with a_world() as world:
            world.node.access = Guarded()
            server, port = await started(world)
            content = b'{"topic": "bad://x", "request": {"type": "Seal", "op": "%s", "term": 1}}' % (
                b"x" * (HTTP_BODY_BYTES_MAX * 2)
            )
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                for token, path, status in (
                    ("broker", "/admin/v2/peers", 200),
                    ("somebody", "/admin/v2/peers", 413),
                    ("broker", "/admin/v2/tenants/acme", 413),
                ):
                    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
                    method = "POST" if path.endswith("peers") else "PUT"
                    answer = await client.request(method, path, content=content, headers=headers)
                    assert answer.status_code == status, (token, path, answer.text)
                refused = await client.post("/admin/v2/peers", json={"topic": "x", "request": {}})
                assert refused.status_code == 403
            await server.stop()

    run(body())


def test_who_asks_before_sending_too_large_a_body_is_refused_at_once() -> None:
    async def body() -> None:
        async with a_world() as world:
            server, port = await started(world)
            ask = b"PUT /admin/v2/tenants/a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
            status, _ = await answered(port, ask + b"Content-Length: %d\r\n\r\n" % (2**40))
            assert status.startswith(b"HTTP/1.1 413 ")
            await server.stop()

    run(body())


def test_a_peer_that_reads_nothing_of_its_answers_is_cut_off() -> None:
    async def body() -> None:
        async with a_world() as world:
            server, port = await started(world, unread_s=SOON)
            plain = socket.create_connection(("127.0.0.1", port))
            plain.setblocking(False)
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                await asks_without_end(plain)
            plain.close()
            await server.stop()

    run(body())


async def asks_without_end(plain: socket.socket) -> None:
    """And never reads."""
    while True:
        await asyncio.get_running_loop().sock_sendall(plain, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
