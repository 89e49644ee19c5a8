"""A request and its response as values, and the parsing of parameters and bodies.

This module does not depend on a web framework. `path` is unchanged and percent-encoded, so that an encoded slash stays
inside its part; header names are lower case. A parameter that must be a number but is not is 404, as in Pulsar. A body
that is not the expected JSON is 400 with a reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from magnetar.base.errors import LimitExceeded, Misuse, NotFound
from magnetar.base.names import Domain, NamespaceName, TopicName, namespace_name, topic_name
from magnetar.base.secret import NO_SECRET, Secret

AUTHORIZATION = "authorization"  # the header
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

T = TypeVar("T")

_DOMAINS = {"scalable": Domain.TOPIC, "segments": Domain.SEGMENT}  # by the part of a path that names the resource


class BadBody(Misuse):
    """The body is not the expected JSON."""

    http = 400


class UnsupportedBody(Misuse):
    """The content type of the body is not JSON."""

    http = 415


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    parts: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the path, by their names in the route
    principal: str | None = None
    pairs: Sequence[tuple[str, str]] = field(default=(), repr=False)  # the whole query, names repeated as they came
    authorization: Secret = NO_SECRET  # the header, which `headers` does not hold
    is_forwarded: bool = False  # by another broker: this broker answers for itself and forwards nothing

    def read(self, kind: type[T] | Any) -> T | None:
        """The body as this type; None if it is missing or null."""
        if not self.body.strip():
            return None
        written = self.headers.get("content-type", "").split(";")[0].strip().lower()
        if written != JSON and not written.endswith("+json"):
            raise UnsupportedBody(f"the body must be JSON: send it with Content-Type: {JSON}")
        try:
            value: T | None = msgspec.json.decode(self.body, type=kind | None, strict=True)
        except msgspec.ValidationError as error:
            raise BadBody(str(error)) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadBody(f"the body is not valid JSON: {error}") from error
        except RecursionError:
            raise BadBody("the body is nested too deeply") from None
        return value

    def need(self, kind: type[T]) -> T:
        """The body as this type; a missing body is an error."""
        value: T | None = self.read(kind)
        if value is None:
            raise BadBody("The request entity cannot be empty.")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean query parameter; every value except `true` is false, as in Pulsar."""
        text = self.query.get(name)
        return default if text is None else text.lower() == "true"

    def all(self, name: str) -> list[str]:
        """Every value of a repeatable query parameter."""
        values = [value for key, value in self.pairs if key == name]
        return values or ([self.query[name]] if name in self.query else [])

    def number(self, name: str, default: int | None = None) -> int:
        """An integer of the path or the query."""
        text = self.parts.get(name, self.query.get(name))
        if text is None and default is not None:
            return default
        try:
            number = int(text or "")
        except ValueError:
            raise NotFound(f"{name} must be an integer, got {text}") from None
        if not -(2**63) <= number < 2**63 or "_" in (text or ""):
            raise NotFound(f"{name} must be a 64-bit integer, got {text}")
        return number

    # What a path names

    @property
    def tenant(self) -> str:
        return self.parts["tenant"]

    @property
    def namespace(self) -> NamespaceName:
        try:
            return namespace_name(f"{self.parts['tenant']}/{self.parts['namespace']}")
        except Misuse as error:
            raise Misuse("Namespace name is not valid", why=error.what) from error

    @property
    def domain(self) -> Domain:
        """The domain of a topic route: a separate part in lookups, the third part in /admin/v2/persistent/..."""
        text = self.parts.get("domain") or self.path.split("/")[3]
        try:
            return _DOMAINS.get(text) or Domain(text)
        except ValueError:
            raise Misuse(f"topic domain must be persistent or non-persistent, got {text}") from None

    @property
    def topic(self) -> TopicName:
        tenant, namespace, topic = (self.parts[part] for part in ("tenant", "namespace", "topic"))
        domain = self.domain
        try:
            if domain is Domain.SEGMENT and "descriptor" in self.parts:
                topic = f"{topic}/{self.parts['descriptor']}"
            elif domain is not Domain.TOPIC and "/" in topic:
                raise Misuse("a topic name must not contain a slash")
            return topic_name(f"{domain}://{tenant}/{namespace}/{topic}")
        except Misuse as error:
            raise Misuse("Topic name is not valid", why=error.what) from error


Body = bytes | AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Response:
    status: int = 204
    body: Body = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def header_bytes(headers: Mapping[str, str]) -> int:
    """Their size on the wire."""
    return sum(len(name) + len(value) + 4 for name, value in headers.items())


DONE = Response(204)  # a success without a value
EMPTY = Response(200)  # an unset policy, and some successes: 200, nothing in it


def shown(document: Any, status: int = 200) -> Response:
    return Response(status, msgspec.json.encode(document), {"content-type": JSON})


def text(words: str, status: int = 200, kind: str = TEXT) -> Response:
    return Response(status, words.encode(), {"content-type": kind})


def refused(status: int, reason: str, **headers: str) -> Response:
    return Response(status, msgspec.json.encode({"reason": reason}), {"content-type": JSON, **headers})


def redirected(http: str, request: Request, **query: str) -> Response:
    """A redirect of the same request to another broker, with these additional parameters."""
    parameters = urlencode({**request.query, **query})
    return Response(307, b"", {"location": f"{http}{request.path}{'?' if parameters else ''}{parameters}"})


async def whole(response: Response, bytes_max: int | None = None) -> bytes:
    """The complete body, for callers that do not stream. LimitExceeded: it is larger than `bytes_max`."""
    pieces: list[bytes] = []
    size = 0
    async for piece in _pieces(response.body):
        size += len(piece)
        if bytes_max is not None and size > bytes_max:
            raise LimitExceeded(f"the answer must not exceed {bytes_max} bytes", http_status=413)
        pieces.append(piece)
    return b"".join(pieces)


async def _pieces(body: Body) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    async for piece in body:
        yield piece
