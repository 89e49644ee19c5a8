"""The table of all routes and the one function that handles a request: every request gets a response.

Literal parts have precedence over parameters. If a path matches several routes, the one that has the method is used. An
error of the product is `{"reason": ...}` with its own status; an unknown path is 404, a wrong method 405 with `Allow`.
An unexpected exception is a 500 without details, and its trace is in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from magnetar.admin import openapi, unsupported
from magnetar.admin.monitoring import broker_stats, health, metrics, start_page, stats
from magnetar.admin.request import AUTHORIZATION, Request, Response, redirected, refused, whole
from magnetar.admin.request_origin import check_source
from magnetar.admin.resources import (
    brokers,
    clusters,
    lookup,
    messages,
    namespaces,
    partitions,
    peers,
    policies,
    schemas,
    subscriptions,
    tenants,
    topic_policies,
    topic_summaries,
    topics,
)
from magnetar.admin.resources.scalable import autoscale, holds, migration, reshape, seek, segments, sinks
from magnetar.admin.resources.scalable import topics as scalable_topics
from magnetar.admin.route import OPEN, PEER, Route
from magnetar.base.errors import LimitExceeded, MagnetarError, Moved, NotBuilt, NotFound, NotReady
from magnetar.base.limits import HTTP_BODY_BYTES_MAX, HTTP_PATH_CHARS_MAX, PEER_BODY_BYTES_MAX
from magnetar.base.secret import Secret
from magnetar.broker.peers.authentication import check_peer, is_peer
from magnetar.broker.peers.rpc import PATH
from magnetar.observe.log import get

if TYPE_CHECKING:
    from magnetar.broker.node import Node

log = get("admin")

PROBES = frozenset(route.path for route in health.ROUTES)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")


class Router:
    """Finds routes by the parts of their paths."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = list(routes)
        self._root = _Part()
        for route in self.routes:
            self._root.add(route, route.parts)

    def match(self, path: str) -> list[tuple[dict[str, Route], dict[str, str]]]:
        """All matching templates, the most literal first: the routes by method, and the values of the parts."""
        # `+` is a space, as in Pulsar: its Java admin client writes spaces so.
        parts = [unquote_plus(part, errors="strict") for part in path.removeprefix("/").removesuffix("/").split("/")]
        return list(self._root.find(parts, 0, ()))


class _Part:
    """The possible continuations of one prefix of templates."""

    def __init__(self) -> None:
        self.literal: dict[str, _Part] = {}
        self.any: _Part | None = None
        self.routes: dict[str, Route] = {}
        self.names: list[str] = []

    def add(self, route: Route, parts: list[str]) -> None:
        place = self
        for part in parts:
            if part.startswith("{"):
                place.any = place.any or _Part()
                place = place.any
            else:
                place = place.literal.setdefault(part, _Part())
        assert route.method not in place.routes, f"duplicate route for {route.method} {route.path}"
        place.routes[route.method] = route
        place.names = [part[1:-1] for part in parts if part.startswith("{")]

    def find(
        self, parts: list[str], index: int, taken: tuple[str, ...]
    ) -> Iterator[tuple[dict[str, Route], dict[str, str]]]:
        if index == len(parts):
            if self.routes:
                yield self.routes, dict(zip(self.names, taken, strict=True))
            return
        part = parts[index]
        if part in self.literal:
            yield from self.literal[part].find(parts, index + 1, taken)
        if self.any is not None and part:
            yield from self.any.find(parts, index + 1, (*taken, part))


@cache
def table() -> Router:
    rooms = (
        broker_stats,
        brokers,
        clusters,
        health,
        holds,
        lookup,
        messages,
        metrics,
        migration,
        namespaces,
        openapi,
        partitions,
        policies,
        autoscale,
        reshape,
        scalable_topics,
        schemas,
        seek,
        segments,
        sinks,
        start_page,
        stats,
        subscriptions,
        topic_summaries,
        tenants,
        topic_policies,
        topics,
        unsupported,
    )
    return Router([*(route for room in rooms for route in room.ROUTES), *peers.routes(_dispatch)])


async def handle(node: Node, request: Request) -> Response:
    request = _sealed(request)
    try:
        return await _handle(node, request)
    except MagnetarError as error:
        # A negative answer to a probe is not a failure: an orchestrator polls it while the broker starts.
        if error.http_status >= 500 and not isinstance(error, NotBuilt) and request.path not in PROBES:
            log.warning("request_failed", method=request.method, path=request.path, error=str(error))
        return refused(error.http_status, error.what)
    except Exception as error:
        log.crashed("request_crashed", error, method=request.method, path=request.path)
        node.metrics.request_failures.value += 1
        return refused(500, "internal error; see the broker log")


async def _handle(node: Node, request: Request) -> Response:
    bytes_max = body_bytes_max(node, request.method, request.path, request.authorization)
    if len(request.body) > bytes_max:
        raise LimitExceeded(f"the body must not exceed {bytes_max} bytes", http_status=413)
    if len(request.path) > HTTP_PATH_CHARS_MAX:
        raise LimitExceeded(f"the path must not exceed {HTTP_PATH_CHARS_MAX} characters", http_status=414)
    if _BAD_ESCAPE.search(request.path):
        return refused(400, "the path contains an invalid % escape")
    try:
        match = table().match(request.path)
    except UnicodeDecodeError:
        return refused(400, "the path must be UTF-8")
    if not match:
        return refused(404, f"path not found: {request.path}")
    if request.path not in PROBES:
        check_source(node, request)
    allowed = sorted({method for routes, _ in match for method in routes} | {"OPTIONS"})
    if request.method == "OPTIONS":
        return Response(200, b"", {"allow": ",".join(allowed)})
    method = "GET" if request.method == "HEAD" else request.method
    for routes, parts in match:
        route = routes.get(method)
        if route is not None:
            response = await _call(node, route, replace(request, parts=parts, method=method))
            return response if request.method != "HEAD" else await _head(response)
    return refused(405, f"{request.method} is not allowed here", allow=",".join(allowed))


async def _call(node: Node, route: Route, request: Request) -> Response:
    if route.action == PEER:
        check_peer(node, request.authorization, request.path)
    elif route.action != OPEN:
        principal = _principal(node, request.authorization)
        node.allow(principal, route.action, _resource(request.parts))
        request = replace(request, principal=principal)
    try:
        return await route.handler(node, request)
    except Moved as error:
        if error.facts.get("resource") != _moved_of(request):
            raise NotReady(f"a part of the request has another owner now: {error.what}; try again") from error
        node.served.counts.redirects += 1
        return redirected(error.facts["http"], request)


async def _dispatch(node: Node, request: Request) -> Response:
    """A request that another broker forwards; that broker has authenticated the client. Moved: see `Moved`."""
    for routes, parts in table().match(request.path):
        route = routes.get(request.method)
        if route is not None and route.action != PEER:
            node.allow(request.principal, route.action, _resource(parts))
            return await route.handler(node, replace(request, parts=parts))
    raise NotFound(f"path not found: {request.path}")


async def _head(response: Response) -> Response:
    size = len(await whole(response))
    return Response(response.status, b"", {**response.headers, "content-length": str(size)})


def body_bytes_max(node: Node, method: str, path: str, authorization: Secret) -> int:
    """The maximum size of a body, checked before the request is processed. It is larger only for a route that needs
    more, and only for a caller that is authenticated as a broker."""
    if path != PATH or method != "POST":
        return HTTP_BODY_BYTES_MAX
    return PEER_BODY_BYTES_MAX if is_peer(node, authorization) else HTTP_BODY_BYTES_MAX


def _sealed(request: Request) -> Request:
    """Marks the credentials as secret, so that no handler, error or log shows them."""
    authorization = request.headers.get(AUTHORIZATION)
    if authorization is None:
        return request
    left = {name: value for name, value in request.headers.items() if name != AUTHORIZATION}
    return replace(request, headers=left, authorization=Secret(authorization))


def _principal(node: Node, authorization: Secret) -> str | None:
    scheme, _, token = authorization.reveal().partition(" ")
    if scheme.lower() == "bearer" and token:
        return node.access.authenticate("token", token.strip().encode())
    return node.access.authenticate("none", b"")


def _moved_of(request: Request) -> str | None:
    """The resource of the request that one broker serves: a topic, or a bundle."""
    parts = request.parts
    if "bundle" in parts:
        return f"{request.namespace}/{parts['bundle']}"
    return str(request.topic) if "topic" in parts else None


def _resource(parts: Mapping[str, str]) -> str:
    """The most precise resource that the path names."""
    words = [parts[name] for name in ("tenant", "namespace", "topic") if name in parts]
    return "/".join(words) if words else "cluster"
