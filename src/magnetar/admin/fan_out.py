"""REST requests that concern several brokers: the owner of each part does its share, and the answers are joined.

A request about a partitioned topic becomes the same request about each partition, at the broker that owns it. A request
about a broker goes to that broker. The receiver answers for itself alone: a forwarded request is never forwarded again.
All parts are tried; then the first error, in the order of the parts, is the answer. An error of a broker that did not
answer names the broker and what may have happened there. A single broker has all parts: it calls no other, and stops at
the first error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec

from magnetar.admin.request import Request
from magnetar.base.errors import Corrupt, MagnetarError, Moved, NotReady, Unavailable, Unknown
from magnetar.base.limits import CALLS_AT_ONCE_MAX
from magnetar.broker.peers.destination import destination
from magnetar.cluster.calls.broker_calls import AdminCall, at_broker

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.broker.node import Node
    from magnetar.cluster.ownership import Broker

P = TypeVar("P")
T = TypeVar("T")
_TOPIC_PART = 5  # of /admin/v2/persistent/TENANT/NAMESPACE/TOPIC/...: the parts behind it name the operation


async def of_owners(
    node: Node,
    request: Request,
    parts: Sequence[TopicName],
    here: Callable[[TopicName], Awaitable[T]],
    kind: type[T] | Any,
    *,
    method: str = "",
    tail: str | None = None,
    skips: type[MagnetarError] | None = None,
) -> dict[TopicName, T]:
    """The results of `here` for the parts of this broker, and of the REST request of one topic for the others, as
    `kind`. `method` and `tail` (the path after the topic): of that request, if they differ. An error of
    the type `skips` leaves the part out."""

    async def at_owner(part: TopicName) -> T:
        broker = None if request.is_forwarded else await destination(node, part)
        if broker is None or broker.id == node.ownership.me.id:
            return await here(part)
        body = await _call(node, broker, request, method or request.method, _path(request.path, part, tail))
        answer: T = _decoded(body, kind)
        return answer

    if not node.served.cluster:
        answers: dict[TopicName, T] = {}
        for part in parts:
            try:
                answers[part] = await here(part)
            except MagnetarError as error:
                if skips is None or not isinstance(error, skips):
                    raise
        return answers
    return dict(await _joined(parts, at_owner, skips))


async def of_brokers(node: Node, request: Request, brokers: Sequence[Broker]) -> None:
    """The same request at each of these other brokers. The answers must be empty."""
    if request.is_forwarded:
        return
    await _joined(brokers, lambda broker: _call(node, broker, request, request.method, request.path), None)


async def of_broker(node: Node, request: Request, broker: Broker) -> bytes:
    """The body of another broker's answer to the same request."""
    if request.is_forwarded:
        raise NotReady(f"the request is for broker {broker.id}, which has another address now: try again")
    return await _call(node, broker, request, request.method, request.path)


async def _joined(
    parts: Sequence[P], ask: Callable[[P], Awaitable[T]], skips: type[MagnetarError] | None
) -> list[tuple[P, T]]:
    room = asyncio.Semaphore(CALLS_AT_ONCE_MAX)

    async def one(part: P) -> T:
        async with room:
            return await ask(part)

    results = await asyncio.gather(*(one(part) for part in parts), return_exceptions=True)
    answers: list[tuple[P, T]] = []
    errors: list[BaseException] = []
    for part, result in zip(parts, results, strict=True):
        if not isinstance(result, BaseException):
            answers.append((part, result))
        elif skips is None or not isinstance(result, skips):
            errors.append(result)
    if errors:
        raise _first(errors, len(parts))
    return answers


def _first(errors: list[BaseException], parts: int) -> BaseException:
    """The first error. A temporary one says how much of the request failed, because the caller repeats it."""
    error = errors[0]
    if isinstance(error, Moved):  # a redirect would repeat the whole request there
        return NotReady(f"a part of the request has another owner now: {error.what}; try again")
    if not isinstance(error, Unavailable | Unknown) or parts == 1:
        return error
    words = f"{len(errors)} of {parts} parts failed, the first at {error.what}"
    return type(error)(words, wire_code=error.wire_code, http_status=error.http_status)


async def _call(node: Node, broker: Broker, request: Request, method: str, path: str) -> bytes:
    call = AdminCall(
        method=method,
        path=path,
        query=dict(request.query),
        body=b"" if method == "GET" else request.body,
        principal=request.principal,
    )
    try:
        return (await node.peers.admin(broker, call)).body
    except MagnetarError as error:
        raise at_broker(error, broker.id) from error


def _path(path: str, part: TopicName, tail: str | None) -> str:
    words = path.strip("/").split("/")
    head = "/".join(words[:_TOPIC_PART])
    rest = "/".join(words[_TOPIC_PART + 1 :]) if tail is None else tail
    return f"/{head}/{quote(part.local_name, safe='')}/{rest}".removesuffix("/")


def _decoded(body: bytes, kind: Any) -> Any:
    """An empty body is None. Corrupt: a broker of another version sends another document."""
    try:
        return msgspec.json.decode(body or b"null", type=kind, strict=False)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the answer of another broker cannot be read: {error}") from error
