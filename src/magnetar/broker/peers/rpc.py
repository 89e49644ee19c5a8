"""Calls to other brokers over REST: the carrier of `cluster/calls/topic_calls.py` for an owner on another broker.

A call is one request to `/admin/v2/peers` of the owner, authenticated with the secret of the cluster. The reply
contains the answer of its handlers, errors included. A missing reply is an error that states the possible outcome:
nothing happened if no broker listens; anything may have happened if the connection broke. Nothing is retried here,
because only the caller knows the effect of a retry. Requests that wait at the other broker for an event share one call
(`wait_client.py`), on connections of its own: any number of them delays no other call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from magnetar.base import errors
from magnetar.base.errors import ConnectionLost, MagnetarError, Moved, NotReady, Refused, Unknown
from magnetar.base.limits import PEER_CALL_S, PEER_CONNECTIONS_MAX, PEER_WAIT_CALLS_MAX, PEER_WAIT_LOST_S
from magnetar.base.names import Domain, TopicName, topic_name
from magnetar.broker.peers.authentication import PeerAuthNode, check_term, secret_of
from magnetar.broker.peers.wait_client import WaitClient
from magnetar.cluster.calls.broker_calls import BrokerAnswer, BrokerRequest
from magnetar.cluster.calls.topic_calls import Answer, AwaitAssignment, Awaited, NoChange, Request
from magnetar.cluster.calls.wait_calls import WAITING, AwaitAny, Happened, Wait, WaitRequest
from magnetar.cluster.ownership import Broker

if TYPE_CHECKING:
    import httpx2

    from magnetar.broker.peers.handlers import PeerHandlers
    from magnetar.broker.topics.ownership import BundleOwnership
    from magnetar.client.admin.aio.transport import RestTransport
    from magnetar.policy.settings import Settings
    from magnetar.runtime.runtime import Owner, Runtime

PATH = "/admin/v2/peers"


class PeerClientNode(Protocol):
    """What PeerClient uses of the node."""

    runtime: Runtime
    settings: Settings
    owner: Owner
    served: BundleOwnership


class PeerRequest(msgspec.Struct, frozen=True):
    """The content of a call: a request, and the topic whose owner handles it; "" for a request to the broker itself and
    for the waits of a broker, which name their own topics."""

    topic: str
    request: Request | BrokerRequest | AwaitAny


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
    request = call.request
    if isinstance(request, BrokerRequest):
        return await replied(node.handlers.handle_broker(request))
    if isinstance(request, AwaitAny):
        return await replied(node.handlers.wait_server.answer(request, partial(_wait_reply, node)))
    return await replied(_of_topic(node, call.topic, request))


async def _of_topic(node: AnsweringNode, topic: str, request: Request) -> Answer:
    name = topic_name(topic)
    await check_term(node, name, request)
    if name.domain is not Domain.TOPIC:  # it has no owner: its leader is asked
        await node.served.claim(name)
    if isinstance(request, WAITING):
        return await node.handlers.waits.answer(lambda: node.handlers.handle(name, request))
    return await node.handlers.handle(name, request)


async def _wait_reply(node: AnsweringNode, wait: Wait) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(await answered(node, PeerRequest(wait.topic, wait.request))))


async def replied(work: Awaitable[Answer | BrokerAnswer | Happened]) -> PeerReply:
    """The reply with an answer, or with the error instead of it."""
    try:
        return PeerReply(msgspec.Raw(msgspec.json.encode(await work)))
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
        self._waits: dict[str, WaitClient] = {}

    async def ask(self, broker: Broker, name: TopicName, request: Request) -> Answer:
        """NotReady: nothing happened. Unknown: anything may have."""
        if isinstance(request, WAITING):
            return await self._wait(broker, name, request)
        answer: Answer = _content(await self._call(broker, PeerRequest(str(name), request)), Answer)
        return answer

    async def ask_broker(self, broker: Broker, request: BrokerRequest) -> BrokerAnswer:
        """As `ask`, of a request to the broker itself."""
        answer: BrokerAnswer = _content(await self._call(broker, PeerRequest("", request)), BrokerAnswer)
        return answer

    async def _wait(self, broker: Broker, name: TopicName, request: WaitRequest) -> Answer:
        url = _url(broker)
        client = self._waits.get(url)
        if client is None:

            async def call(content: AwaitAny) -> Happened:
                happened: Happened = _content(await self._call(broker, PeerRequest("", content)), Happened)
                return happened

            node = self._node
            process = f"{node.runtime.wall():x}-{node.runtime.rng('peer-waits').getrandbits(64):016x}"
            client = self._waits[url] = WaitClient(node.runtime, node.owner, process, call)
        reply = await client.ask(name, request)
        if reply is None:
            return NoChange() if isinstance(request, AwaitAssignment) else Awaited(False)
        answer: Answer = _content(msgspec.json.decode(reply, type=PeerReply), Answer)
        return answer

    async def _call(self, broker: Broker, call: PeerRequest) -> PeerReply:
        with self._node.served.counts.calling():
            url = _url(broker)
            try:
                exchange = self._exchange(url, isinstance(call.request, AwaitAny))
                reply = await exchange.ask("POST", PATH, PeerReply, call)
            except (Refused, errors.Misuse) as error:  # not by its handlers: a proxy, an older version, no credentials
                raise NotReady(f"broker {broker.id} rejected the call: {error.what}") from error
            if reply.error:
                raise _error(reply)
            return reply

    def _exchange(self, url: str, waits: bool) -> RestTransport:
        exchange = self._exchanges.get((url, waits))
        if exchange is None:
            connections_max = PEER_WAIT_CALLS_MAX if waits else PEER_CONNECTIONS_MAX
            from magnetar.client.admin.aio.transport import RestTransport  # a broker alone never needs it

            exchange = self._exchanges[url, waits] = RestTransport(
                url,
                token=secret_of(self._node.settings).reveal(),
                timeout_s=PEER_WAIT_LOST_S if waits else PEER_CALL_S,
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


def _url(broker: Broker) -> str:
    url = broker.urls.http or broker.urls.https
    if not url:
        raise NotReady(f"broker {broker.id} has no web address: no call can be sent to it")
    return url


def _content(reply: PeerReply, kind: Any) -> Any:
    """Raises the error of a reply that has one."""
    if reply.error:
        raise _error(reply)
    try:
        return msgspec.json.decode(reply.answer, type=kind)
    except msgspec.MsgspecError as error:
        raise Unknown(f"the answer of the other broker cannot be read: {error}") from error


def _refused(error: MagnetarError) -> PeerReply:
    return PeerReply(error=type(error).__name__, what=error.what, wire=error.wire_code, http=error.http_status)


def _error(reply: PeerReply) -> MagnetarError:
    kind = getattr(errors, reply.error, None)
    if not isinstance(kind, type) or not issubclass(kind, MagnetarError):
        return Unknown(f"{reply.error}: {reply.what}")
    if issubclass(kind, Unknown):
        return ConnectionLost(reply.what)
    return kind(reply.what, wire_code=reply.wire, http_status=reply.http)
