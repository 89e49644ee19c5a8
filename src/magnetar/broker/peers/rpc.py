"""Calls to other brokers over REST: the carrier of `cluster/peers.py` for an owner on another broker.

A call is one request to `/admin/v2/peers` of the owner, authenticated with the secret of the cluster. The reply
contains the answer of its handlers, errors included. A missing reply is an error that states the possible outcome:
nothing happened if no broker listens; anything may have happened if the connection broke. Nothing is retried here,
because only the caller knows the effect of a retry. Calls that wait at the other broker for an event have connections
of their own: any number of them delays no other call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from magnetar.base import errors
from magnetar.base.errors import ConnectionLost, MagnetarError, Moved, NotReady, Refused, Unknown
from magnetar.base.limits import PEER_CALL_S, PEER_CONNECTIONS_MAX, PEER_WAITS_MAX
from magnetar.base.names import Domain, TopicName, topic_name
from magnetar.broker.peers.authentication import PeerAuthNode, check_term, secret_of
from magnetar.cluster.ownership import Broker
from magnetar.cluster.peers import (
    Answer,
    AwaitAssignment,
    AwaitDrained,
    AwaitReceived,
    AwaitReleased,
    Request,
)

if TYPE_CHECKING:
    import httpx2

    from magnetar.broker.peers.handlers import PeerHandlers
    from magnetar.client.admin.aio.transport import RestTransport
    from magnetar.policy.settings import Settings
    from magnetar.runtime.runtime import Owner, Runtime

PATH = "/admin/v2/peers"
WAITING = (AwaitAssignment, AwaitDrained, AwaitReceived, AwaitReleased)


class PeerClientNode(Protocol):
    """What PeerClient uses of the node."""

    runtime: Runtime
    settings: Settings
    owner: Owner


class PeerRequest(msgspec.Struct, frozen=True):
    """The content of a call: a request, and the topic whose owner handles it."""

    topic: str
    request: Request


class PeerReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a reply: an answer, or the name of an error with its text and codes."""

    answer: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    what: str = ""
    wire: int = 0
    http: int = 0


class AnsweringNode(PeerAuthNode, Protocol):
    """What `answered` uses of the node."""

    handlers: PeerHandlers


async def answered(node: AnsweringNode, call: PeerRequest) -> PeerReply:
    """The receiving end: this broker's handlers. A bundle without an owner is acquired first if it belongs here."""
    try:
        name = topic_name(call.topic)
        await check_term(node, name, call.request)
        if name.domain is not Domain.TOPIC:  # it has no owner: its leader is asked
            await node.served.claim(name)
        if isinstance(call.request, WAITING):
            answer = await node.handlers.waits.answer(lambda: node.handlers.handle(name, call.request))
        else:
            answer = await node.handlers.handle(name, call.request)
        return PeerReply(msgspec.Raw(msgspec.json.encode(answer)))
    except Moved as error:
        return _refused(NotReady(error.what))
    except MagnetarError as error:
        return _refused(error)


class PeerClient:
    """Calls any broker by its address; connections are kept until the node stops. `make_transport` makes one for a
    network that is not the real one, with at most this number of connections."""

    def __init__(
        self, node: PeerClientNode, make_transport: Callable[[int], httpx2.AsyncBaseTransport] | None = None
    ) -> None:
        self._node = node
        self._make_transport = make_transport
        self._exchanges: dict[tuple[str, bool], RestTransport] = {}

    async def ask(self, broker: Broker, name: TopicName, request: Request) -> Answer:
        """NotReady: nothing happened. Unknown: anything may have."""
        url = broker.urls.http or broker.urls.https
        if not url:
            raise NotReady(f"broker {broker.id} has no web address: the request about {name} cannot be sent")
        try:
            reply = await self._exchange(url, isinstance(request, WAITING)).ask(
                "POST", PATH, PeerReply, PeerRequest(str(name), request)
            )
        except (Refused, errors.Misuse) as error:  # not by its handlers: a proxy, an older version, no credentials
            raise NotReady(f"broker {broker.id} rejected the call: {error.what}") from error
        if reply.error:
            raise _error(reply)
        answer: Answer = msgspec.json.decode(reply.answer, type=Answer)
        return answer

    def _exchange(self, url: str, waits: bool) -> RestTransport:
        exchange = self._exchanges.get((url, waits))
        if exchange is None:
            connections_max = PEER_WAITS_MAX if waits else PEER_CONNECTIONS_MAX
            from magnetar.client.admin.aio.transport import RestTransport  # a broker alone never needs it

            exchange = self._exchanges[url, waits] = RestTransport(
                url,
                token=secret_of(self._node.settings).reveal(),
                timeout_s=PEER_CALL_S,
                connections_max=connections_max,
                transport=None if self._make_transport is None else self._make_transport(connections_max),
            )
            if len(self._exchanges) == 1:
                self._node.runtime.spawn(self._node.owner, self._keep())
        return exchange

    async def _keep(self) -> None:
        """Keeps the exchange until the node closes its resources."""
        try:
            await asyncio.Event().wait()
        finally:
            exchanges, self._exchanges = self._exchanges, {}
            for exchange in exchanges.values():
                await exchange.aclose()


def _refused(error: MagnetarError) -> PeerReply:
    return PeerReply(error=type(error).__name__, what=error.what, wire=error.wire_code, http=error.http_status)


def _error(reply: PeerReply) -> MagnetarError:
    kind = getattr(errors, reply.error, None)
    if not isinstance(kind, type) or not issubclass(kind, MagnetarError):
        return Unknown(f"{reply.error}: {reply.what}")
    if issubclass(kind, Unknown):
        return ConnectionLost(reply.what)
    return kind(reply.what, wire_code=reply.wire, http_status=reply.http)
