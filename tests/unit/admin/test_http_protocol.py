"""Peers that send half a request, or do not read: each wait ends, with a status where one can still be told."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass

import h11
import httpx2 as httpx
import pytest
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from magnetar.admin.http_protocol import HttpTimeouts, TimedH11Protocol, longest_idle
from magnetar.admin.server import WebServer
from magnetar.base.limits import HTTP_ADDRESS_CONNECTIONS_MAX, HTTP_BODY_BYTES_MAX, HTTP_HEADER_BYTES_MAX
from magnetar.broker.connection.limits import ConnectionLimits
from magnetar.policy.settings import Settings
from tests.unit.admin.world import World, a_world, run

pytestmark = pytest.mark.real_clock

SOON = 0.05


async def started(world: World, *, head_s: float = 60.0, unread_s: float = 60.0) -> tuple[WebServer, int]:
    server = WebServer(world.node, HttpTimeouts(head_s, unread_s))
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
async def test_endless_head_is_answered_408_and_disconnected(sent: bytes) -> None:
    async with a_world() as world:
        server, port = await started(world, head_s=SOON)
        status, words = await answered(port, sent)
        assert status == b"HTTP/1.1 408 Request Timeout"
        assert b"head did not arrive within" in words
        await server.stop()


async def test_slow_head_gets_no_extra_time_for_each_byte() -> None:
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


async def test_connection_that_says_nothing_at_all_is_closed() -> None:
    async with a_world() as world:
        server, port = await started(world, head_s=SOON)
        assert await answered(port, b"") == (b"", b"")
        await server.stop()


async def asked(port: int, path: str) -> bytes:
    """The status line."""
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    return (await asyncio.wait_for(answered(port, head.encode()), 20))[0]


async def test_idle_connections_beyond_limit_make_room_for_new_ones() -> None:
    """D12: idle ones kept everybody out, probes too."""

    async with a_world() as world:
        world.node.sockets_max = ConnectionLimits(web=2)
        server, port = await started(world)
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        assert await held[0][0].read() == b""  # long before a head is late
        assert await held[1][0].read() == b""
        assert await asked(port, "/livez") == b"HTTP/1.1 200 OK"
        assert await held[2][0].read() == b""
        held[3][1].write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await held[3][0].readline()
        for _, writer in held:
            writer.close()
        await server.stop()


async def both_have_begun(server: WebServer) -> None:
    while len(server._state.tasks) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_busy_connections_leave_room_for_probes_alone() -> None:
    """D12: bodies that trickle in."""

    async with a_world() as world:
        world.node.sockets_max = ConnectionLimits(web=2)
        server, port = await started(world)
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _, writer in held:
            writer.write(b"PUT /admin/v2/tenants/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        async with asyncio.timeout(20):
            await both_have_begun(server)
        assert await asked(port, "/admin/v2/tenants") == b"HTTP/1.1 503 Service Unavailable"
        assert await asked(port, "/livez") == b"HTTP/1.1 200 OK"
        for _, writer in held:
            writer.close()
        await server.stop()


async def test_one_address_leaves_connections_to_others() -> None:
    async with a_world() as world:
        world.node.sockets_max = ConnectionLimits(web=HTTP_ADDRESS_CONNECTIONS_MAX + 100)
        server, port = await started(world)
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(HTTP_ADDRESS_CONNECTIONS_MAX + 2)]
        async with asyncio.timeout(20):
            assert await held[0][0].read() == b""  # an idle one of its own makes room
            assert await held[1][0].read() == b""
            assert await asked(port, "/livez") == b"HTTP/1.1 200 OK"
        held[-1][1].write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await held[-1][0].readline()
        for _, writer in held:
            writer.close()
        await server.stop()


@dataclass
class Waiting:
    address: str
    is_idle: bool
    idle_since: float


def test_longest_idle_of_address_with_most_goes() -> None:
    several = [Waiting("a", False, 0), Waiting("b", True, 1), Waiting("c", True, 5), Waiting("c", True, 4)]
    assert longest_idle(several) is several[3]
    assert longest_idle(several[:2]) is several[1]
    assert longest_idle(several[:1]) is None


async def test_half_second_request_is_answered_408_after_first_was_served() -> None:
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


async def test_time_limit_of_head_excludes_answer_and_body() -> None:
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


async def test_head_that_is_too_large_is_431_and_says_bound() -> None:
    async with a_world() as world:
        server, port = await started(world)
        head = b"GET /livez HTTP/1.1\r\nHost: x\r\nX: "
        status, words = await answered(port, head + b"x" * (HTTP_HEADER_BYTES_MAX + 1 - len(head)))
        assert status == b"HTTP/1.1 431 Request Header Fields Too Large"
        assert str(HTTP_HEADER_BYTES_MAX).encode() in words
        await server.stop()


async def test_what_is_no_http_is_400_in_json() -> None:
    async with a_world() as world:
        server, port = await started(world)
        status, words = await answered(port, b"\x00\x01\x02\r\n\r\n")
        assert (status, words) == (b"HTTP/1.1 400 Bad Request", b'{"reason":"not a valid HTTP request"}')
        await server.stop()


async def test_sender_of_oversized_body_receives_413() -> None:
    async with a_world() as world:
        server, port = await started(world)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            for _ in range(5):
                answer = await client.put("/admin/v2/tenants/acme", content=b" " * (HTTP_BODY_BYTES_MAX * 8))
                assert (answer.status_code, str(HTTP_BODY_BYTES_MAX) in answer.text) == (413, True)
        await server.stop()


async def test_only_brokers_may_send_larger_bodies_to_brokers() -> None:
    """A seal's knowledge of producers does not fit into what policies and schemas need."""

    async with a_world() as world:
        world.node.served.cluster = True
        world.node.settings = Settings(None, {"brokerClientAuthenticationParameters": "token:of the brokers"})
        server, port = await started(world)
        content = b'{"topic": "bad://x", "request": {"type": "Seal", "op": "%s", "term": 1}}' % (
            b"x" * (HTTP_BODY_BYTES_MAX * 2)
        )
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            for token, path, status in (
                ("of the brokers", "/admin/v2/peers", 200),
                ("of somebody", "/admin/v2/peers", 413),
                ("of the brokers", "/admin/v2/tenants/acme", 413),
            ):
                headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
                method = "POST" if path.endswith("peers") else "PUT"
                answer = await client.request(method, path, content=content, headers=headers)
                assert answer.status_code == status, (token, path, answer.text)
            refused = await client.post("/admin/v2/peers", json={"topic": "x", "request": {}})
            assert refused.status_code == 401
        await server.stop()


async def test_expect_header_with_oversized_body_is_refused_immediately() -> None:
    async with a_world() as world:
        server, port = await started(world)
        ask = b"PUT /admin/v2/tenants/a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        status, _ = await answered(port, ask + b"Content-Length: %d\r\n\r\n" % (2**40))
        assert status.startswith(b"HTTP/1.1 413 ")
        await server.stop()


async def test_peer_that_reads_nothing_of_its_answers_is_cut_off() -> None:
    async with a_world() as world:
        server, port = await started(world, unread_s=SOON)
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setblocking(False)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            await asks_without_end(plain)
        plain.close()
        await server.stop()


async def asks_without_end(plain: socket.socket) -> None:
    """And never reads."""
    while True:
        await asyncio.get_running_loop().sock_sendall(plain, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")


PATH = b"GET /livez HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (PATH + b"Host: x\r\nA: " + b"a" * HTTP_HEADER_BYTES_MAX + b"\r\n\r\n", 431),
        (PATH + b"Host: x\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(6_800)) + b"\r\n", 431),
        (b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\nHost: x\n\n", 400),
        (PATH + b"Host: x\r\nA: 1\nB: 2\r\n\r\n", 400),
        (PATH + b"Host: x\r\nA: 1\r\n folded\r\n\r\n", 400),
        (PATH + b"Host: x\n\r\n", 400),
        (PATH + b"Host: x\r\n\r\n" + b"GET /readyz HTTP/1.1\nHost: x\n\n", 400),
    ],
    ids=["large in one read", "many headers", "two framings", "bare LF", "one bare LF", "folded", "last", "pipelined"],
)
async def test_head_that_proxies_read_otherwise_is_refused(sent: bytes, status: int) -> None:
    """D24"""

    async with a_world() as world:
        server, port = await started(world)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), 20)
        last = answer[answer.rindex(b"HTTP/1.1") :]
        assert last.startswith(b"HTTP/1.1 %d " % status), last
        writer.close()
        await server.stop()


@pytest.mark.parametrize("cut", [1, 7, 1_000])
async def test_head_in_pieces_and_behind_another_is_served(cut: int) -> None:
    async with a_world() as world:
        server, port = await started(world)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        put = b"PUT /admin/v2/tenants/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        tenant = b'{"allowedClusters":\n["standalone"]}'
        put += b"Content-Length: %d\r\n\r\n" % len(tenant) + tenant
        sent = PATH + b"Host: x\r\n\r\n" + put + PATH + b"Host: x\r\nConnection: close\r\n\r\n"
        for start in range(0, len(sent), cut):
            writer.write(sent[start : start + cut])
            await writer.drain()
        answer = await asyncio.wait_for(reader.read(), 20)
        assert answer.count(b"HTTP/1.1 200 ") == 2, answer
        assert answer.count(b"HTTP/1.1 204 ") == 1, answer
        writer.close()
        await server.stop()


def test_uvicorn_has_each_method_that_is_overridden() -> None:
    """Under another name uvicorn would not call ours any more, and a wait would have no end."""
    ours = {name for name, value in vars(TimedH11Protocol).items() if callable(value) and name[0] != "_"}
    assert "send_400_response" in ours
    assert ours <= {name for name, value in vars(H11Protocol).items() if callable(value)}


def test_uvicorn_and_h11_have_each_attribute_that_is_used() -> None:
    async def body() -> None:
        config = Config(None, log_config=None)
        config.load()
        protocol = H11Protocol(config=config, server_state=ServerState(), app_state={})
        used = {"app_state", "client", "conn", "connections", "cycle", "loop", "timeout_keep_alive_task", "transport"}
        assert used <= set(vars(protocol))
        assert protocol.conn.their_state is protocol.conn.our_state is h11.IDLE
        assert protocol.conn.trailing_data == (b"", False)

    run(body())
    assert callable(H11Protocol._unset_keepalive_if_required)
    assert "response_complete" in RequestResponseCycle.__init__.__code__.co_names
    assert h11.RemoteProtocolError("x", 431).error_status_hint == 431
