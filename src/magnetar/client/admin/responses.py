"""The response of a REST call, and the error for a call without a response."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from magnetar.base.errors import Busy, ConnectionLost, Corrupt, MagnetarError, Misuse, NotReady, TimedOut
from magnetar.base.limits import ADMIN_ANSWER_BYTES_MAX
from magnetar.client.connection.outage import reason

T = TypeVar("T")

NOTHING: Any = object()  # no body, in contrast to null


@dataclass(frozen=True, slots=True)
class RestResponse:
    """A response with any status."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    took_s: float = 0.0

    @property
    def call(self) -> str:
        return f"{self.method} {self.path}"


def decoded(answer: RestResponse, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.body, type=kind, strict=False)
    except msgspec.DecodeError as error:
        raise Corrupt(f"the response cannot be parsed: {error}", call=answer.call) from error


class Body:
    """The body of a response as it arrives, decompressed and bounded: a hostile server may send few bytes that expand
    to many. Corrupt: it is too large, or invalid gzip.
    """

    def __init__(self, call: str, encoding: str) -> None:
        self._call = call
        self._pieces: list[bytes] = []
        self._room = ADMIN_ANSWER_BYTES_MAX
        self._inflate: zlib._Decompress | None = None
        if encoding.lower() == "gzip":
            self._inflate = zlib.decompressobj(wbits=31)
        elif encoding.lower() not in ("", "identity"):
            raise Corrupt(f"the response has the unrequested encoding {encoding[:80]}", call=call)

    def add(self, piece: bytes) -> None:
        if self._inflate is not None:
            try:
                piece = self._inflate.decompress(piece, self._room + 1)
            except zlib.error as error:
                raise Corrupt(f"the response cannot be decompressed: {error}", call=self._call) from error
        self._room -= len(piece)
        if self._room < 0:
            raise Corrupt(f"the response is larger than {ADMIN_ANSWER_BYTES_MAX} bytes", call=self._call)
        self._pieces.append(piece)

    def whole(self) -> bytes:
        return b"".join(self._pieces)


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: the receiver of credentials for this address."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    return parts.scheme, (parts.hostname or "").lower(), port or (443 if parts.scheme == "https" else 80)


def is_listed(url: str, brokers: Sequence[str]) -> bool:
    """Whether the host is among brokers, each `host:port`; over https the ports differ and are not compared."""
    scheme, host, port = origin(url)
    return any(one == f"{host}:{port}" or (scheme == "https" and one.rpartition(":")[0] == host) for one in brokers)


def took_s(response: httpx2.Response) -> float:
    """The time from sending the request to receiving the answer; 0 if it was not measured."""
    try:
        return response.elapsed.total_seconds()
    except RuntimeError:
        return 0.0


Query = dict[str, str | list[str]]  # a list repeats the name


def written(query: Mapping[str, object] | None) -> Query:
    """A query's values as text; None values are left out."""
    return {name: _written(value) for name, value in (query or {}).items() if value is not None}


def _written(value: object) -> str | list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def lost(error: httpx2.HTTPError, call: str, url: str, timeout_s: float) -> MagnetarError:
    """The error for a missing answer: it depends on how far the request got."""
    facts: dict[str, Any] = {"call": call}
    words = reason(error)
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return NotReady(f"no broker answers at {url}: {words}", **facts)
    if isinstance(error, httpx2.PoolTimeout):
        return Busy("too many calls wait for a connection: try again later", **facts)
    if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        return Misuse(f"the request cannot be sent: {words}", **facts)
    changes = "" if call.startswith("GET ") else ": the operation may have happened"
    if isinstance(error, httpx2.TimeoutException):
        return TimedOut(f"no response within {timeout_s:g} s{changes}", **facts)
    if isinstance(error, httpx2.RemoteProtocolError):  # closed without an answer, or an answer that is not HTTP
        words = f"{words}; check that this is the URL of the REST interface, not of the port for clients"
    return ConnectionLost(f"the connection to {url} was lost before the response{changes}: {words}", **facts)
