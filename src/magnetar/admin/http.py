"""One HTTP connection of a peer that may be slow, broken or hostile: uvicorn's, with an end to every wait.

uvicorn waits for ever for the rest of a request's head and for a peer that does not read its answer. Here a head that
does not arrive in time is answered 408, one that is too large 431, what is no HTTP 400; a peer that takes nothing for
too long is cut off. Bodies are the server's business: it reads them within a bound and a time of its own. It trusts h11
to know what a head is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from magnetar.base.limits import HTTP_HEAD_S, HTTP_HEADER_BYTES_MAX, HTTP_UNREAD_S


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a peer is waited for: to send a request's head, and to read what it was answered."""

    head_s: float = HTTP_HEAD_S
    unread_s: float = HTTP_UNREAD_S


class PatientProtocol(H11Protocol):
    def __init__(self, config: Config, state: ServerState, patience: Patience, at_once: int = 0) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self.conn = _Connection(h11.SERVER, HTTP_HEADER_BYTES_MAX)
        self._patience = patience
        self._at_once = at_once  # connections, 0 is no limit
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._at_once and len(self.connections) > self._at_once:
            transport.close()
            return
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
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
        """uvicorn calls it for all that h11 does not take; h11 knows which status that is."""
        assert isinstance(self.conn, _Connection)
        if self.conn.refused_with == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the request's head is larger than {HTTP_HEADER_BYTES_MAX} bytes",
            )
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, "this is no HTTP request")

    # Inside

    def _watch_head(self) -> None:
        """From the moment a request may begin until its head is whole. Idle between two requests is the keep-alive's
        time, which is shorter and ends at the first byte."""
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
                HTTPStatus.REQUEST_TIMEOUT, f"the request's head did not arrive within {self._patience.head_s:g} s"
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


class _Connection(h11.Connection):
    """Remembers why it refused: uvicorn drops it."""

    refused_with = 0

    def next_event(self) -> Any:
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
            self.refused_with = error.error_status_hint
            raise
