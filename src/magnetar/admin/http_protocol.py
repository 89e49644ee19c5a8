"""The HTTP/1.1 protocol of uvicorn with a time limit for every wait, for peers that may be slow, broken or hostile.

uvicorn waits without limit for the rest of a request head and for a peer that does not read its response. This protocol
answers a head that does not arrive in time with 408, one that is too large with 431, and invalid HTTP with 400. It
closes the connection of a peer that reads nothing for too long. When there are too many connections, it closes an idle
one of the address that has the most, so that idle connections do not exclude other clients. When all connections are
busy, it accepts a few more for health probes only. The server reads the bodies, within its own bound and time. The
protocol trusts h11 to parse a head.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import h11
import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from magnetar.base.limits import (
    HTTP_ADDRESS_CONNECTIONS_MAX,
    HTTP_HEAD_S,
    HTTP_HEADER_BYTES_MAX,
    HTTP_PROBES_MAX,
    HTTP_UNREAD_S,
)

PROBES_ONLY = "probes_only"  # of the state that goes to the server with every request of a connection


@dataclass(frozen=True, slots=True)
class HttpTimeouts:
    """The time limits for a peer: to send a request head, and to read its response."""

    head_s: float = HTTP_HEAD_S
    unread_s: float = HTTP_UNREAD_S


class TimedH11Protocol(H11Protocol):
    def __init__(self, config: Config, state: ServerState, patience: HttpTimeouts, at_once: int = 0) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self.conn = _Connection(h11.SERVER, HTTP_HEADER_BYTES_MAX)
        self._patience = patience
        self._at_once = at_once  # maximum number of connections, 0 means no limit
        self._of_address = min(at_once, HTTP_ADDRESS_CONNECTIONS_MAX)
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self.idle_since = 0.0

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether the connection has no request: none has arrived completely, and none is being answered."""
        return self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete)

    @property
    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        if self._at_once and not self._has_room():
            transport.close()
            return
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        super().on_response_complete()
        self._watch_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None and not self.transport.is_closing():
            self._unread.cancel()
            self._unread = None

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        for timer in (self._head, self._unread):
            if timer is not None:
                timer.cancel()
        self._head = self._unread = None

    def send_400_response(self, msg: str) -> None:
        """uvicorn calls this for everything that h11 rejects; h11 knows the right status."""
        assert isinstance(self.conn, _Connection)
        if self.conn.refused_with == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the request head must not exceed {HTTP_HEADER_BYTES_MAX} bytes",
            )
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, "not a valid HTTP request")

    # Inside

    def _has_room(self) -> bool:
        """Whether this new connection may stay; above the limit an idle one is closed for it."""
        open_ = [one for one in self.connections if isinstance(one, TimedH11Protocol) and not one.is_closing]
        crowd, limit = [one for one in open_ if one.address == self.address], self._of_address
        if len(crowd) <= limit:
            crowd, limit = open_, self._at_once
        if len(crowd) <= limit:
            return True
        idle = longest_idle([one for one in crowd if one is not self])
        if idle is not None:
            idle.transport.close()
            return True
        self.app_state[PROBES_ONLY] = True
        return len(crowd) <= limit + HTTP_PROBES_MAX

    def _watch_head(self) -> None:
        """Starts the timer when a request may begin, and stops it when its head is complete. Between two requests the
        keep-alive timer applies, which is shorter and ends at the first byte."""
        waiting = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if waiting and self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self._patience.head_s, self._head_is_late)
        elif not waiting and self._head is not None:
            self._head.cancel()
            self._head = None

    def _head_is_late(self) -> None:
        self._head = None
        if self.transport.is_closing():
            return
        if self.conn.trailing_data[0]:
            self._refuse(
                HTTPStatus.REQUEST_TIMEOUT, f"the request head did not arrive within {self._patience.head_s:g} s"
            )
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer is under way: it cannot be taken back
            self.transport.close()
        else:
            body = msgspec.json.encode({"reason": reason})
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            events: list[Any] = [
                h11.Response(status_code=status, headers=headers, reason=status.phrase.encode()),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ]
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()
        self._watch_reader()

    def _watch_reader(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(self._patience.unread_s, self.transport.abort)


class Idling(Protocol):
    @property
    def address(self) -> str: ...

    @property
    def is_idle(self) -> bool: ...

    idle_since: float


IdlingT = TypeVar("IdlingT", bound=Idling)


def longest_idle(connections: Sequence[IdlingT]) -> IdlingT | None:
    """Of the address with the most idle connections, the one that is idle for the longest time."""
    idle = [one for one in connections if one.is_idle]
    many = Counter(one.address for one in idle)
    return max(idle, key=lambda one: (many[one.address], one.address, -one.idle_since), default=None)


class _Connection(h11.Connection):
    """Keeps the reason of a refusal, which uvicorn drops. Stricter than h11 about heads: a proxy in front may read the
    lenient forms differently and see two requests where the broker sees one."""

    refused_with = 0
    _may_be_whole = True  # a line ended since the head was looked at

    def receive_data(self, data: bytes) -> None:
        self._may_be_whole = self._may_be_whole or b"\n" in data
        super().receive_data(data)

    def start_next_cycle(self) -> None:
        super().start_next_cycle()
        self._may_be_whole = True  # the next request may be here already

    def next_event(self) -> Any:
        try:
            if self._may_be_whole and self.their_state is h11.IDLE:
                self._may_be_whole = False
                check_head(self.trailing_data[0])
            event = super().next_event()
            if isinstance(event, h11.Request):
                check_framing(event)
            return event
        except h11.RemoteProtocolError as error:
            self.refused_with = error.error_status_hint
            raise


_END = re.compile(rb"\r?\n\r?\n")
_LENIENT = re.compile(rb"(?<!\r)\n|\n[ \t]")  # a line that ends without CR, one that goes on in the next


def check_head(data: bytes) -> None:
    """Raises RemoteProtocolError if the head in `data` (the received part of a request) is too large or written
    leniently."""
    end = _END.search(data)
    head = data if end is None else data[: end.end()]
    if len(head) > HTTP_HEADER_BYTES_MAX:
        raise h11.RemoteProtocolError("the request head is too large", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    if _LENIENT.search(head):
        raise h11.RemoteProtocolError("header lines must end with CR LF and must not be folded")


def check_framing(request: h11.Request) -> None:
    """Raises RemoteProtocolError if two headers determine the end of the body."""
    names = {name for name, _ in request.headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding must not be used together")
