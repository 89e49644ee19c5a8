"""HTTP between the brokers of a world, over its network: it carries calls from one broker to another.

The product's own peer client (`broker/peers/rpc.py`) and its routes run unchanged. This module replaces only the two
layers at the sockets, httpx's transport and uvicorn, with h11 in between. Each request has a connection of its own, and
one address has at most as many as in the product: the requests of more are refused. The network may delay a request,
hold it in a cut, or reset it before or after it took effect; an answer that is late is a timeout. A handler that has
begun goes on when its caller has disconnected.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import h11
import httpx2

from magnetar.admin.request import Request, refused, whole
from magnetar.admin.router import handle
from magnetar.base.limits import HTTP_ADDRESS_CONNECTIONS_MAX
from magnetar.base.names import TopicName
from magnetar.broker.node import Node
from magnetar.broker.peers.handlers import PeerRouter
from magnetar.broker.peers.rpc import PeerClient
from magnetar.cluster.calls import topic_calls
from magnetar.cluster.calls.broker_calls import BrokerAnswer, BrokerRequest
from magnetar.cluster.ownership import Broker

READ_BYTES = 64 * 1024


class SimulatedPeers:
    """The peer transport of a node. It exists before the node and is connected to it afterwards."""

    def __init__(self) -> None:
        self._carrier: PeerRouter | None = None

    def serve(self, node: Node) -> None:
        self._carrier = PeerRouter(node, PeerClient(node, HttpTransport))

    async def carry(self, name: TopicName, request: topic_calls.Request) -> topic_calls.Answer:
        assert self._carrier is not None
        return await self._carrier.carry(name, request)

    async def carry_to(self, broker: Broker, request: BrokerRequest) -> BrokerAnswer:
        assert self._carrier is not None
        return await self._carrier.carry_to(broker, request)


# Asking


class HttpTransport(httpx2.AsyncBaseTransport):
    """Carries requests from a host to another one, at most `connections_max` at a time, as httpx's pool does."""

    def __init__(self, connections_max: int) -> None:
        self._connections = asyncio.Semaphore(connections_max)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        limits = request.extensions.get("timeout", {})
        try:
            async with asyncio.timeout(limits.get("pool")):
                await self._connections.acquire()
        except TimeoutError:
            raise httpx2.PoolTimeout("no connection became free in time", request=request) from None
        try:
            return await self._carry(request, limits)
        finally:
            self._connections.release()

    async def _carry(self, request: httpx2.Request, limits: dict[str, Any]) -> httpx2.Response:
        port = request.url.port or 80
        try:
            async with asyncio.timeout(limits.get("connect")):
                asking = await _connected(request.url.host, port)
        except TimeoutError:
            raise httpx2.ConnectTimeout("nobody answered in time", request=request) from None
        except OSError as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        try:
            async with asyncio.timeout(limits.get("read")):
                return await asking.ask(request)
        except TimeoutError:
            raise httpx2.ReadTimeout("no answer came in time", request=request) from None
        finally:
            asking.close()


async def _connected(host: str, port: int) -> ClientConnection:
    _, protocol = await asyncio.get_running_loop().create_connection(ClientConnection, host, port)
    assert isinstance(protocol, ClientConnection)
    return protocol


class ClientConnection(asyncio.Protocol):
    """One request and its answer."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT)
        self._transport: Any = None
        self._answered: asyncio.Future[httpx2.Response] = asyncio.get_running_loop().create_future()
        self._head: h11.Response | None = None
        self._body: list[bytes] = []

    async def ask(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        if self._transport.is_closing():
            raise httpx2.WriteError("the connection broke before the request was sent", request=request)
        head = h11.Request(
            method=request.method,
            target=request.url.raw_path,
            headers=[*request.headers.raw, (b"connection", b"close")],
        )
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self._transport.write(self._http.send(event))
        try:
            return await self._answered
        except (OSError, h11.RemoteProtocolError) as error:
            raise httpx2.ReadError(f"the connection broke before the answer came: {error}", request=request) from error

    def close(self) -> None:
        self._answered.cancel()
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._read()

    def eof_received(self) -> None:
        self._http.receive_data(b"")
        self._read()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionResetError("closed"))

    def _read(self) -> None:
        try:
            while not self._answered.done():
                event = self._http.next_event()
                if isinstance(event, h11.Response):
                    self._head = event
                elif isinstance(event, h11.Data):
                    self._body.append(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    assert self._head is not None
                    head = self._head
                    self._answered.set_result(
                        httpx2.Response(
                            head.status_code, headers=head.headers.raw_items(), content=b"".join(self._body)
                        )
                    )
                else:
                    return
        except h11.RemoteProtocolError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if not self._answered.done():
            self._answered.set_exception(error)
            self._answered.exception()  # a disconnected caller does not ask


# Answering


class ServerConnection(asyncio.Protocol):
    """One connection of the other side: a request, handled by a node's own routes, and its answer."""

    def __init__(self, node: Node, spawn: Callable[[Any], None], connections: Counter[str]) -> None:
        self._node = node
        self._spawn = spawn
        self._connections = connections  # by address
        self._address = ""
        self._is_refused = False
        self._http = h11.Connection(h11.SERVER)
        self._transport: Any = None
        self._head: h11.Request | None = None
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._address = transport.get_extra_info("peername")[0]
        self._connections[self._address] += 1
        self._is_refused = self._connections[self._address] > HTTP_ADDRESS_CONNECTIONS_MAX

    def connection_lost(self, error: Exception | None) -> None:
        self._connections[self._address] -= 1

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._head = event
            elif isinstance(event, h11.Data):
                self._body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._spawn(self._answer())
            else:
                return

    async def _answer(self) -> None:
        head = self._head
        assert head is not None
        target = urlsplit(head.target.decode())
        pairs = parse_qsl(target.query, keep_blank_values=True)
        headers = {name.decode(): value.decode() for name, value in head.headers}
        request = Request(head.method.decode(), target.path, dict(pairs), headers, b"".join(self._body), pairs=pairs)
        if self._is_refused:
            response = refused(503, "too many connections of one address: try again later")
        else:
            response = await handle(self._node, request)
        body = await whole(response)
        shown = [*response.headers.items(), ("content-length", str(len(body))), ("connection", "close")]
        for event in (
            h11.Response(status_code=response.status, headers=shown),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self._transport.write(self._http.send(event) or b"")
        self._transport.close()


class HttpServer:
    """The listener on a broker's web port. `close` waits for running handlers."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._connections: Counter[str] = Counter()

    async def start(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port)

    def close(self) -> None:
        assert self._server is not None
        self._server.close()

    def _accept(self) -> ServerConnection:
        return ServerConnection(self._node, self._spawn, self._connections)

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
