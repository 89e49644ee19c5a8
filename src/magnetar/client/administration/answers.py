"""What comes back from a REST call, and what it means when nothing does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import msgspec

from magnetar.base.errors import Busy, ConnectionLost, Corrupt, MagnetarError, Misuse, NotReady, TimedOut

T = TypeVar("T")

NOTHING: Any = object()  # no body, as opposed to null


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whatever it was."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    took_s: float = 0.0

    @property
    def call(self) -> str:
        return f"{self.method} {self.path}"


def decoded(answer: Answer, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.body, type=kind, strict=False)
    except msgspec.DecodeError as error:
        raise Corrupt(f"the answer cannot be read: {error}", call=answer.call) from error


def took_s(response: httpx2.Response) -> float:
    """From sending the request to having the answer; 0 where nobody measured."""
    try:
        return response.elapsed.total_seconds()
    except RuntimeError:
        return 0.0


Query = dict[str, str | list[str]]  # a list: the name is repeated


def written(query: Mapping[str, object] | None) -> Query:
    """A query's values as text; what is None is left out."""
    return {name: _written(value) for name, value in (query or {}).items() if value is not None}


def _written(value: object) -> str | list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def lost(error: httpx2.HTTPError, call: str, url: str, timeout_s: float) -> MagnetarError:
    """No answer. What that means depends on how far the request got."""
    facts: dict[str, Any] = {"call": call}
    words = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return NotReady(f"no broker answers at {url}: {words}", **facts)
    if isinstance(error, httpx2.PoolTimeout):
        return Busy("too many calls at once wait for a connection", **facts)
    if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        return Misuse(f"the request cannot be sent: {words}", **facts)
    changes = "" if call.startswith("GET ") else ": it may have happened"
    if isinstance(error, httpx2.TimeoutException):
        return TimedOut(f"no answer within {timeout_s:g} s{changes}", **facts)
    return ConnectionLost(f"the connection broke before the answer came{changes}", **facts)
