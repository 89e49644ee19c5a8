"""The web server: Starlette's requests and responses and uvicorn's HTTP parser on the broker's own loop. No other
module depends on them.

The running loop creates the listening socket; signal handlers stay with the owner of the process. Bodies are read
within a bound and a time limit (`admin/http_protocol.py` limits what precedes them). The number of requests in flight
is bounded, probes excepted. Stopping waits for requests in flight, but only for a limited time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import uvicorn
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as WebRequest
from starlette.responses import Response as WebResponse
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from magnetar.admin.answer_memory import answers
from magnetar.admin.http_protocol import PROBES_ONLY, HttpTimeouts, TimedH11Protocol
from magnetar.admin.monitoring.rates import observe
from magnetar.admin.request import AUTHORIZATION, Request, Response, header_bytes, refused
from magnetar.admin.router import PROBES, body_bytes_max, handle, table
from magnetar.base.errors import Busy, Conflict, Refused
from magnetar.base.limits import (
    HTTP_ANSWER_HEADERS_BYTES_MAX,
    HTTP_BODY_S,
    HTTP_DISCARD_BYTES_MAX,
    HTTP_GZIP_BYTES_MIN,
    HTTP_IDLE_S,
    HTTP_REQUESTS_MAX,
    HTTP_STOP_S,
)
from magnetar.base.secret import Secret
from magnetar.broker.connection.limits import reason
from magnetar.observe.log import get

if TYPE_CHECKING:
    from magnetar.broker.node import Node

log = get("admin")


class WebServer:
    """`start` binds and serves; `stop` completes the open requests and releases the port."""

    def __init__(self, node: Node, patience: HttpTimeouts | None = None) -> None:
        self._node = node
        self._patience = patience or HttpTimeouts()
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._config = uvicorn.Config(
            GZipMiddleware(self._serve, minimum_size=HTTP_GZIP_BYTES_MIN),
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=HTTP_IDLE_S,
        )

    async def start(self, host: str, port: int) -> int:
        """Returns the port. Conflict: the address cannot be used, with the reason."""
        self._config.load()
        table()  # made now: among topics that come first and leave later it would keep their memory
        observe(self._node)
        try:
            self._server = await asyncio.get_running_loop().create_server(self._protocol, host, port)
        except OSError as error:
            raise Conflict(
                f"cannot listen on {host}:{port} for REST: {reason(error)}; "
                "choose another port (--http-port, webServicePort) or address (--bind-address, bindAddress)"
            ) from error
        bound: int = self._server.sockets[0].getsockname()[1]
        log.info("http_server_started", port=bound)
        return bound

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self._node.handlers.waits.stop()
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = list(self._state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=HTTP_STOP_S)
            for task in late:
                task.cancel()
        await asyncio.sleep(0)  # closed transports finish in the next turn of the loop
        self._server = None

    def sockets(self) -> list[Any]:
        """The sockets of the listener and of every client."""
        sockets = list(self._server.sockets) if self._server is not None else []
        return sockets + [connection.transport.get_extra_info("socket") for connection in self._state.connections]

    def cut(self) -> None:
        """Closes everything without answers, as the end of a process does."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._state.connections):
            connection.transport.abort()

    def _protocol(self) -> asyncio.Protocol:
        return TimedH11Protocol(self._config, self._state, self._patience, self._node.sockets_max.web)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        web = WebRequest(scope, receive)
        try:
            response = await self._answer(web)
        except ClientDisconnect:
            return
        size = header_bytes(response.headers)
        try:
            if size > HTTP_ANSWER_HEADERS_BYTES_MAX:
                most = HTTP_ANSWER_HEADERS_BYTES_MAX
                raise Refused(f"the headers of the answer have {size} bytes; the limit is {most}", http_status=413)
            body = answers(self._node).charge(response.body, size)
        except (Busy, Refused) as error:
            response = refused(error.http_status, error.what)
            body = response.body
        headers = {
            "server": "magnetar",
            "date": formatdate(self._node.runtime.wall() / 1000, usegmt=True),
            "vary": "Accept-Encoding",
            **response.headers,
        }
        if isinstance(body, bytes):
            answer = WebResponse(body, response.status, headers)
        else:
            if isinstance(response.body, bytes):
                headers["content-length"] = str(len(response.body))
            answer = StreamingResponse(body, response.status, headers)
        answer.raw_headers = _as_written(answer.raw_headers, headers)
        await answer(scope, receive, send)

    async def _answer(self, web: WebRequest) -> Response:
        raw: bytes = web.scope.get("raw_path") or web.scope["path"].encode()
        path = raw.split(b"?")[0].decode("latin-1")
        full = len(self._state.tasks) > HTTP_REQUESTS_MAX or PROBES_ONLY in web.scope.get("state", {})
        if full and path not in PROBES:
            return refused(503, "too many requests in progress: try again later", connection="close")
        headers = {name.lower(): value for name, value in web.headers.items()}
        authorization = Secret(headers.pop(AUTHORIZATION, ""))
        bytes_max = body_bytes_max(self._node, web.method, path, authorization)
        with answers(self._node).bodies.charging() as charge:
            try:
                async with asyncio.timeout(HTTP_BODY_S):
                    body = await _body(web, bytes_max, charge)
            except TimeoutError:
                return refused(408, f"the body did not arrive within {HTTP_BODY_S:.0f} s", connection="close")
            except Busy as error:
                return refused(503, error.what, connection="close")
            if body is None:
                return refused(413, f"the body must not exceed {bytes_max} bytes", connection="close")
            pairs = _pairs(web.scope["query_string"])
            request = Request(
                method=web.method,
                path=path,
                query=dict(reversed(pairs)),  # by name, the first value of each
                headers=headers,
                body=body,
                pairs=pairs,
                authorization=authorization,
            )
            return await handle(self._node, request)


def _as_written(raw: list[tuple[bytes, bytes]], headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Restores header names: Starlette writes them in lower case, and Pulsar's Java admin client expects
    `X-Pulsar-PROPERTY`."""
    names = {name.lower().encode("latin-1"): name.encode("latin-1") for name in headers}
    return [(names.get(name, name), value) for name, value in raw]


async def _body(web: WebRequest, bytes_max: int, charge: Callable[[int], None]) -> bytes | None:
    """Reads the body. None: it is too large; at most the bound is held. The rest is read and discarded, also up to a
    bound, because closing the connection of a peer that still writes would lose the response."""
    if web.headers.get("expect", "").lower() == "100-continue" and _announced(web) > bytes_max:
        return None  # it asks before it sends
    pieces: list[bytes] = []
    size = 0
    async for piece in web.stream():
        size += len(piece)
        if size <= bytes_max:
            charge(len(piece))
            pieces.append(piece)
        elif size > max(bytes_max, HTTP_DISCARD_BYTES_MAX):
            break
        else:
            pieces.clear()
    return b"".join(pieces) if size <= bytes_max else None


def _announced(web: WebRequest) -> int:
    return int(web.headers.get("content-length", "0"))  # h11 has seen that it is a number


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    """The pairs of the query, unchanged; invalid escapes stay as they are."""
    pairs = [pair.partition("=") for pair in raw.decode("latin-1").split("&")]
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs if name]
