"""The connection to one bookie: requests are pipelined, and answers are matched by operation, ledger and entry.

Answers have no order and no request number, so two requests with the same operation, ledger and entry are never in
flight together: the second waits. One timer covers all requests of the connection. A request without an answer in time
ends the connection with everything in flight, so no late answer can meet a later request. A bookie that refuses a
connection is dialled again with the next request after a back-off; until then requests fail as NotReady.

A request fails as Busy when too many bytes or requests wait for an answer: a bookie that stands still must not fill the
memory. Callbacks are called on the loop and never inside `send`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from magnetar.base.errors import Busy, Closed, ConnectionLost, Corrupt, MagnetarError, NotReady, TimedOut
from magnetar.base.limits import (
    BOOKKEEPER_CONNECT_S,
    BOOKKEEPER_PENDING_BYTES_MAX,
    BOOKKEEPER_PENDING_REQUESTS_MAX,
    BOOKKEEPER_REDIAL_S_MAX,
    BOOKKEEPER_REDIAL_S_MIN,
)
from magnetar.ledger.bookkeeper import wire
from magnetar.ledger.bookkeeper.config import BookKeeperConfig
from magnetar.ledger.bookkeeper.registration import Address
from magnetar.ledger.bookkeeper.wire import Operation, Response
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

log = get("bookkeeper")

Key: TypeAlias = tuple[int, int, int]  # operation, ledger, entry; of a batch its request number instead of the entry
Answered: TypeAlias = Callable[[Response | None, MagnetarError | None], None]


class Request:
    __slots__ = ("answered", "deadline", "frame", "key")

    def __init__(self, key: Key, frame: bytes, answered: Answered) -> None:
        self.key = key
        self.frame = frame
        self.answered = answered
        self.deadline = 0.0


class Socket(asyncio.Protocol):
    """One TCP connection; it reports to its bookie until it is dropped."""

    def __init__(self, connection: BookieConnection) -> None:
        self._connection: BookieConnection | None = connection
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._connection is None:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        connection = self._connection
        if connection is None:
            return
        try:
            frames, size = wire.split(self._received, connection.frame_bytes_max)
            del self._received[:size]
            for frame in frames:
                if self._connection is not None:
                    connection._received(wire.response(frame))
        except Corrupt as error:
            log.warning("bookie_frame_refused", bookie=connection.bookie, error=str(error))
            connection._ended(self, error)

    def connection_lost(self, error: Exception | None) -> None:
        connection = self._connection
        if connection is not None:
            connection._ended(self, ConnectionLost("the connection to a bookie broke", bookie=connection.bookie))

    def write(self, frames: list[bytes]) -> None:
        if self._transport is not None:
            self._transport.writelines(frames)

    def drop(self) -> None:
        self._connection = None
        if self._transport is not None:
            self._transport.abort()


class BookieConnection:
    def __init__(
        self, bookie: str, address: Callable[[str], Awaitable[Address]], runtime: Runtime, config: BookKeeperConfig
    ) -> None:
        self.bookie = bookie
        self.frame_bytes_max = config.frame_bytes_max
        self.pending_bytes = 0
        self._address = address
        self._runtime = runtime
        self._request_s = config.request_s
        self._owner = Owner("bookkeeper")
        self._socket: Socket | None = None
        self._dialling = False
        self._closed = False
        self._pending: dict[Key, Request] = {}  # sent, or to be sent once connected
        self._behind: dict[Key, deque[Request]] = {}  # requests that wait for the answer to an equal one
        self._waiting = 0  # requests in both
        self._deadlines: deque[Request] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._out: list[bytes] = []
        self._redial_s = 0.0
        self._redial_at = 0.0
        self._losses = 0  # connections in a row that broke without an answer

    @property
    def is_connected(self) -> bool:
        return self._socket is not None and not self._dialling

    @property
    def pending(self) -> int:
        return self._waiting

    def send(self, key: Key, frame: bytes, answered: Answered) -> None:
        refusal = self._refusal(len(frame))
        if refusal is not None:
            asyncio.get_running_loop().call_soon(answered, None, refusal)
            return
        request = Request(key, frame, answered)
        self.pending_bytes += len(frame)
        self._waiting += 1
        if key in self._pending:
            self._behind.setdefault(key, deque()).append(request)
            return
        self._begin(request)
        if self._socket is None:
            self._dial()

    async def close(self) -> None:
        self._closed = True
        self._drop()
        self._fail_all(Closed("the client of BookKeeper is closed", bookie=self.bookie))
        await self._owner.close()

    # Requests

    def _refusal(self, size: int) -> MagnetarError | None:
        if self._closed:
            return Closed("the client of BookKeeper is closed", bookie=self.bookie)
        if self._socket is None and self._runtime.monotonic() < self._redial_at:
            return NotReady("the bookie refused the last connection", bookie=self.bookie)
        if self._waiting and self.pending_bytes + size > BOOKKEEPER_PENDING_BYTES_MAX:
            return Busy("too many bytes wait for the bookie", bookie=self.bookie, bytes=self.pending_bytes)
        if self._waiting >= BOOKKEEPER_PENDING_REQUESTS_MAX:
            return Busy("too many requests wait for the bookie", bookie=self.bookie, requests=self._waiting)
        return None

    def _begin(self, request: Request) -> None:
        self._pending[request.key] = request
        if self.is_connected:
            self._transmit(request)

    def _transmit(self, request: Request) -> None:
        request.deadline = self._runtime.monotonic() + self._request_s
        self._deadlines.append(request)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._request_s, self._ring)
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(request.frame)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._socket is not None:
            self._socket.write(out)

    def _received(self, response: Response) -> None:
        self._losses = 0
        self._redial_s = 0.0
        if response.operation == Operation.AUTH:
            return
        last = response.request if response.operation == Operation.BATCH_READ else response.entry
        key = (response.operation, response.ledger, last)
        request = self._pending.pop(key, None)
        if request is None:
            raise Corrupt("a bookie answered a request that is not in flight", bookie=self.bookie, key=key)
        self._forget(request)
        behind = self._behind.get(key)
        if behind:
            following = behind.popleft()
            if not behind:
                del self._behind[key]
            self._begin(following)
        request.answered(response, None)

    def _forget(self, request: Request) -> None:
        self.pending_bytes -= len(request.frame)
        self._waiting -= 1

    def _ring(self) -> None:
        """The timer of the oldest request."""
        self._timer = None
        now = self._runtime.monotonic()
        while self._deadlines and self._pending.get(self._deadlines[0].key) is not self._deadlines[0]:
            self._deadlines.popleft()
        if not self._deadlines:
            return
        oldest = self._deadlines[0]
        if oldest.deadline > now:
            self._timer = asyncio.get_running_loop().call_later(oldest.deadline - now, self._ring)
            return
        log.warning("bookie_request_timed_out", bookie=self.bookie, pending=self._waiting)
        error = TimedOut("a bookie did not answer in time", bookie=self.bookie, timeout_s=self._request_s)
        self._drop()
        self._fail_all(error)

    def _fail_all(self, error: MagnetarError) -> None:
        """Callbacks in the order of the requests, in a later turn of the loop."""
        requests = list(self._pending.values())
        for behind in self._behind.values():
            requests += behind
        self._pending.clear()
        self._behind.clear()
        self._deadlines.clear()
        self._out.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for request in requests:
            self._forget(request)
            asyncio.get_running_loop().call_soon(request.answered, None, error)

    # The socket

    def _dial(self) -> None:
        self._dialling = True
        socket = self._socket = Socket(self)
        self._runtime.spawn(self._owner, self._connect(socket))

    async def _connect(self, socket: Socket) -> None:
        try:
            async with asyncio.timeout(BOOKKEEPER_CONNECT_S):
                address = await self._address(self.bookie)
                await asyncio.get_running_loop().create_connection(lambda: socket, address.host, address.port)
        except (OSError, UnicodeError, TimeoutError, MagnetarError) as error:
            if socket is self._socket:
                self._refused(str(error))
            return
        if socket is not self._socket:
            socket.drop()
            return
        self._dialling = False
        for request in list(self._pending.values()):
            self._transmit(request)

    def _refused(self, why: str) -> None:
        log.info("bookie_dial_failed", bookie=self.bookie, error=why)
        self._back_off()
        self._drop()
        self._fail_all(NotReady("the bookie cannot be reached", bookie=self.bookie, why=why))

    def _ended(self, socket: Socket, error: MagnetarError) -> None:
        if socket is self._socket and not self._dialling:
            self._losses += 1
            if self._losses > 1:  # a bookie that drops every connection before it answers
                self._back_off()
            self._drop()
            self._fail_all(error)

    def _back_off(self) -> None:
        self._redial_s = min(max(self._redial_s * 2, BOOKKEEPER_REDIAL_S_MIN), BOOKKEEPER_REDIAL_S_MAX)
        self._redial_at = self._runtime.monotonic() + self._redial_s

    def _drop(self) -> None:
        socket, self._socket, self._dialling = self._socket, None, False
        if socket is not None:
            socket.drop()
