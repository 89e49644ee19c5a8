"""One session with ZooKeeper over one socket at a time: sends requests, matches replies, carries out what the session
machine decides.

Requests are pipelined, and those of one turn of the loop leave in one write. A request while no connection is known
fails as NotReady: it did not happen. A request in flight when the connection breaks fails as ConnectionLost: it may
have happened. A connection without an answer for two thirds of the session's time is dropped, which bounds every wait.
Events are passed on in the order in which the server sent them, before the replies behind them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from magnetar.base.errors import Busy, Closed, ConnectionLost, Corrupt, MagnetarError, Misuse, NotAuthorized, NotReady
from magnetar.base.limits import (
    METADATA_QUEUE_OPS_MAX,
    ZOOKEEPER_CLOSE_S,
    ZOOKEEPER_FRAME_BYTES_MAX,
    ZOOKEEPER_OPEN_S,
    ZOOKEEPER_PENDING_BYTES_MAX,
    ZOOKEEPER_SESSION_S,
)
from magnetar.metadata.store import Session
from magnetar.metadata.zookeeper import messages, session
from magnetar.metadata.zookeeper.address import Server
from magnetar.metadata.zookeeper.jute import Reader
from magnetar.metadata.zookeeper.messages import ErrorCode, NodeEvent, NodeEventType, Operation
from magnetar.metadata.zookeeper.session import Phase, SessionMachine
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

log = get("zookeeper")

XID_MAX = 2**31 - 1
# Answers to a watch after which another connection may get a better one.
_OF_THE_CONNECTION = (
    ErrorCode.CONNECTION_LOSS,
    ErrorCode.OPERATION_TIMEOUT,
    ErrorCode.SESSION_EXPIRED,
    ErrorCode.SESSION_MOVED,
    ErrorCode.THROTTLED,
)


@dataclass(frozen=True, slots=True)
class ZooKeeperConfig:
    """`digest` is `user:password`; with it, every node that this store creates belongs to that user. `tls`: the context
    of every connection."""

    servers: tuple[Server, ...]
    session_s: float = ZOOKEEPER_SESSION_S
    digest: bytes | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    open_s: float = ZOOKEEPER_OPEN_S


class Reply(NamedTuple):
    error: int
    body: Reader


class Listener(NamedTuple):
    """The callbacks of the owner of a client, on the loop."""

    node_event: Callable[[NodeEvent], None]
    session: Callable[[Session], None]
    resync: Callable[[], None]


@dataclass(slots=True)
class Pending:
    xid: int
    bytes: int
    reply: asyncio.Future[Reply]


class Socket(asyncio.Protocol):
    """One connection; it reports to its client until it is dropped."""

    def __init__(self, client: Client) -> None:
        self._client: Client | None = client
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports have other base classes
        if self._client is None:
            self._transport.abort()
        else:
            self._client._socket_opened(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            frames, size = messages.split(self._received, ZOOKEEPER_FRAME_BYTES_MAX)
            del self._received[:size]
            for frame in frames:
                if self._client is None:
                    return
                self._client._frame_received(frame)
        except Corrupt as error:
            log.warning("zookeeper_frame_refused", error=str(error))
            client = self._client
            self.drop()
            if client is not None:
                client._socket_lost(self)

    def connection_lost(self, error: Exception | None) -> None:
        client, self._client = self._client, None
        if client is not None:
            client._socket_lost(self)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def drop(self) -> None:
        self._client = None
        if self._transport is not None:
            self._transport.abort()


class Client:
    def __init__(self, config: ZooKeeperConfig, runtime: Runtime, listener: Listener) -> None:
        self._config = config
        self._runtime = runtime
        self._listener = listener
        rng = runtime.rng("zookeeper")
        servers = list(config.servers)
        rng.shuffle(servers)
        self.machine = SessionMachine(servers, config.session_s, rng.random)
        self._owner = Owner("zookeeper")
        self._watched: dict[str, None] = {}  # paths of recursive watches
        self._socket: Socket | None = None
        self._pending: deque[Pending] = deque()
        self._pending_bytes = 0
        self._xid = 0
        self._out: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._attached: asyncio.Future[None] | None = None
        self._failed: MagnetarError | None = None
        self._closed = False

    @property
    def session_number(self) -> int:
        return self.machine.session

    @property
    def is_connected(self) -> bool:
        return self.machine.phase is Phase.ATTACHED

    async def open(self) -> None:
        """NotReady: no server accepted a session in time."""
        self._attached = asyncio.get_running_loop().create_future()
        self._handle(session.Started())
        try:
            async with asyncio.timeout(self._config.open_s):
                await self._attached
        except TimeoutError:
            await self.close()
            raise NotReady(
                "no ZooKeeper server accepted a session: check that the servers run",
                servers=", ".join(str(server) for server in self._config.servers),
                waited_s=self._config.open_s,
            ) from None
        except MagnetarError:
            await self.close()
            raise

    def ask(self, operation: Operation, body: bytes) -> asyncio.Future[Reply]:
        """Sends one request; the server carries requests out in the order of these calls."""
        if self._failed is not None:
            raise type(self._failed)(self._failed.what, **self._failed.facts)
        if self._closed:
            raise Closed("the metadata store is closed")
        if not self.is_connected:
            raise NotReady("the metadata store is not connected")
        if len(self._pending) >= METADATA_QUEUE_OPS_MAX or self._pending_bytes >= ZOOKEEPER_PENDING_BYTES_MAX:
            raise Busy("too many operations wait for the metadata store", waiting=len(self._pending))
        return self._send(operation, body)

    def watch(self, path: str) -> None:
        """Asks for the events of the path and everything below it, on this connection and all later ones."""
        if path in self._watched:
            return
        self._watched[path] = None
        if self.is_connected and not self._closed:
            self._add_watch(path)

    def give_up(self) -> None:
        """Calls the session lost. The server keeps its ephemerals for the rest of its time."""
        self._handle(session.GivenUp())

    async def close(self) -> None:
        """Ends the session at the server, if it can be reached."""
        if self._closed:
            return
        self._closed = True
        if self.is_connected:
            ended = self._send(Operation.CLOSE, b"")
            self._flush()
            await asyncio.wait([ended], timeout=ZOOKEEPER_CLOSE_S)
        self._end(Closed("the metadata store is closed"))
        await self._owner.close()

    def abandon(self) -> None:
        """For tests: ends as a killed process does. The server keeps the session for the rest of its time."""
        self._closed = True
        self._end(Closed("the metadata store is closed"))

    def _end(self, error: MagnetarError) -> None:
        self._handle(session.Closed())
        self._drop()
        self._fail_pending(error)

    # Requests

    def _send(self, operation: Operation, body: bytes) -> asyncio.Future[Reply]:
        self._xid = self._xid + 1 if self._xid < XID_MAX else 1
        data = messages.request(self._xid, operation, body)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending.append(Pending(self._xid, len(data), reply))
        self._pending_bytes += len(data)
        self._write(data)
        return reply

    def _write(self, data: bytes) -> None:
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._socket is not None:
            self.machine.sent(self._runtime.monotonic())
            self._socket.write(b"".join(out))

    def _add_watch(self, path: str) -> None:
        socket = self._socket

        def answered(reply: asyncio.Future[Reply]) -> None:
            if reply.cancelled() or reply.exception() is not None or reply.result().error == ErrorCode.OK:
                return
            error = reply.result().error
            if error in _OF_THE_CONNECTION:  # the next connection gets the state of the session, and the watch
                self._reconnect(socket)
            elif error == ErrorCode.UNIMPLEMENTED:
                self._fail(Misuse("this ZooKeeper has no recursive watches: use version 3.6 or newer"))
            else:
                self._fail(NotReady("ZooKeeper refused a watch: restart the broker", error=error))

        self._send(Operation.ADD_WATCH, messages.add_watch(path)).add_done_callback(answered)

    def _fail_pending(self, error: MagnetarError) -> None:
        pending, self._pending, self._pending_bytes = self._pending, deque(), 0
        self._out.clear()
        for each in pending:
            if not each.reply.done():
                each.reply.set_exception(error)
                each.reply.exception()  # its caller may be gone

    def _fail(self, error: MagnetarError) -> None:
        """The server refused what no retry changes: every call fails with it from now on."""
        self._failed = error
        log.error("zookeeper_client_failed", error=str(error))
        self._handle(session.Closed())
        self._drop()
        self._fail_pending(error)
        if self._attached is not None and not self._attached.done():
            self._attached.set_exception(error)
        self._listener.session(Session.CONNECTION_LOST)
        self._listener.session(Session.LOST)

    # The machine

    def _handle(self, event: session.Event) -> None:
        for effect in self.machine.handle(event, self._runtime.monotonic()):
            self._do(effect)
        self._arm()

    def _do(self, effect: session.Effect) -> None:
        match effect:
            case session.Dial(server):
                socket = self._socket = Socket(self)
                self._runtime.spawn(self._owner, self._dial(socket, server))
            case session.Drop():
                self._drop()
            case session.Greet(last_zxid, timeout_ms, id, password):
                assert self._socket is not None
                greeting = messages.connect(last_zxid=last_zxid, timeout_ms=timeout_ms, session=id, password=password)
                self._socket.write(greeting)
            case session.Attach():
                self._attach()
            case session.Ping():
                self._write(messages.request(messages.PING_XID, Operation.PING))
            case session.Announce(event):
                if event is Session.CONNECTION_LOST:
                    self._fail_pending(ConnectionLost("the connection to the metadata store broke"))
                log.info("zookeeper_session_changed", session=event.name)
                self._listener.session(event)
            case session.Resync():
                self._listener.resync()

    def _attach(self) -> None:
        if self._config.digest is not None:
            body = messages.authenticate("digest", self._config.digest)
            self._write(messages.request(messages.AUTH_XID, Operation.AUTH, body))
        for path in self._watched:
            self._add_watch(path)
        if self._attached is not None and not self._attached.done():
            self._attached.set_result(None)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.machine.wake_at()
        if due is not None:
            wait_s = max(0.0, due - self._runtime.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._handle(session.Ticked())

    # The socket

    async def _dial(self, socket: Socket, server: Server) -> None:
        tls = self._config.tls
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: socket,
                server.host,
                server.port,
                ssl=tls,
                server_hostname=server.host if tls is not None else None,
            )
        except (OSError, UnicodeError) as error:  # a host name may be none; TLS errors are OSErrors too
            log.info("zookeeper_dial_failed", server=str(server), error=str(error))
            self._socket_lost(socket)

    def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.drop()

    def _reconnect(self, socket: Socket | None) -> None:
        if socket is not None and socket is self._socket:
            self._drop()
            self._handle(session.SocketLost())

    def _socket_opened(self, socket: Socket) -> None:
        if socket is self._socket:
            self._handle(session.SocketOpened())

    def _socket_lost(self, socket: Socket) -> None:
        if socket is self._socket:
            self._socket = None
            self._handle(session.SocketLost())

    def _frame_received(self, data: bytes) -> None:
        self.machine.heard(self._runtime.monotonic())
        if self.machine.phase is Phase.GREETING:
            self._handle(session.Greeted(messages.connect_response(data)))
            return
        header, body = messages.reply(data)
        self.machine.saw(header.zxid)
        match header.xid:
            case messages.EVENT_XID:
                event = messages.node_event(body)
                if event.type != NodeEventType.NONE:
                    self._listener.node_event(event)
            case messages.PING_XID:
                pass
            case messages.AUTH_XID:
                if header.error != ErrorCode.OK:
                    self._fail(NotAuthorized("ZooKeeper refused the credentials: check the digest setting"))
            case _:
                self._answer(header, body)

    def _answer(self, header: messages.ReplyHeader, body: Reader) -> None:
        if not self._pending or self._pending[0].xid != header.xid:
            raise Corrupt("ZooKeeper answered a request that is not the next one", xid=header.xid)
        pending = self._pending.popleft()
        self._pending_bytes -= pending.bytes
        if not pending.reply.done():
            pending.reply.set_result(Reply(header.error, body))
