"""Several nodes on one metadata store and one ledger store in memory, on a virtual clock; clients as in `world`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import httpx2

from magnetar.admin.request import Request as Asked
from magnetar.admin.request import whole
from magnetar.admin.router import handle
from magnetar.base.bundles import Bundle
from magnetar.base.names import NamespaceName, TopicName, topic_name
from magnetar.broker.node import Node
from magnetar.broker.peers.handlers import PeerRouter
from magnetar.broker.peers.rpc import PeerClient
from magnetar.cluster.calls.broker_calls import BrokerAnswer, BrokerRequest
from magnetar.cluster.calls.topic_calls import Answer, Request
from magnetar.cluster.ownership import Broker
from magnetar.ledger.cursor.cursor import Cursor
from magnetar.metadata import paths
from magnetar.policy.settings import Settings
from magnetar.topic.topic import Topic
from magnetar.wire.proto import pb
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.ledgers import MemoryLedgers
from tests.support.async_tests import provides, within
from tests.support.virtual_clock import run_on_clock, settle
from tests.unit.broker.world import TOPIC, Client
from tests.unit.topic.world import HeldStore, NoFiles

NAME = topic_name(TOPIC)
SECRET = {"brokerClientAuthenticationParameters": "token:shared by these brokers"}


@dataclass
class Member:
    """One broker, and what is its own of the world."""

    node: Node
    metadata: HeldStore
    ledgers: MemoryLedgers
    runtime: InlineRuntime
    stopped: bool = False  # by the test

    @property
    def url(self) -> str:
        return self.node.addresses.url

    @property
    def id(self) -> str:
        return self.node.ownership.me.id

    def client(self) -> Client:
        return Client(self.node).connect()

    def loaded(self, name: TopicName = NAME) -> bool:
        return name.canonical in self.node.topics.loaded

    def topic(self, name: TopicName = NAME) -> Topic:
        found = self.node.topics.loaded[name.canonical]
        assert isinstance(found, Topic)
        return found

    def marks(self, name: str) -> list[dict[str, object]]:
        return [facts for said, facts in self.runtime.marked if said == name]

    async def place(self, name: TopicName = NAME) -> tuple[NamespaceName, Bundle]:
        return await self.node.served.place(name)

    async def lock_path(self, name: TopicName = NAME) -> str:
        namespace, bundle = await self.place(name)
        return paths.ownership(namespace, str(bundle))

    def cursor(self) -> Cursor:
        """Of subscription `s`."""
        found = self.topic().subscriptions.get("s")
        assert found is not None
        return found.cursor

    def below(self, path: str) -> list[tuple[str, bytes]]:
        """All records there, as the store has them."""
        return sorted((at, found.value) for at, found in self.metadata.content.records.items() if at.startswith(path))

    async def stop(self) -> None:
        self.stopped = True
        await self.node.stop()


class Nowhere(httpx2.AsyncBaseTransport):
    """A network on which nobody is reached."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("nobody is reached here")


class Networked:
    """The carrier of a broker, over a network that is not the real one."""

    def __init__(self, network: httpx2.AsyncBaseTransport) -> None:
        self.node: Any = None
        self._network = network
        self._carrier: PeerRouter | None = None

    async def carry(self, name: TopicName, request: Request) -> Answer:
        return await self._router().carry(name, request)

    async def carry_to(self, broker: Broker, request: BrokerRequest) -> BrokerAnswer:
        return await self._router().carry_to(broker, request)

    def _router(self) -> PeerRouter:
        if self._carrier is None:
            self._carrier = PeerRouter(self.node, PeerClient(self.node, lambda connections_max: self._network))
        return self._carrier


@dataclass
class Cluster:
    members: list[Member] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    network: httpx2.AsyncBaseTransport | None = None  # for calls between brokers; without one they reach nobody

    async def join(self) -> Member:
        """One more broker on the same stores."""
        files: Any = NoFiles()
        number = len(self.members) + 1
        runtime = InlineRuntime(files, seed=number)
        if self.members:
            first = self.members[0]
            metadata, ledgers = HeldStore(runtime, content=first.metadata.content), first.ledgers.peer()
        else:
            metadata, ledgers = HeldStore(runtime), MemoryLedgers()
        carrier = Networked(self.network or Nowhere())
        node = carrier.node = Node(
            runtime=runtime,
            metadata=metadata,
            ledgers=ledgers,
            settings=Settings(None, {**SECRET, "scalableTopicAutoScaleEnabled": "false", **self.settings}),
            cluster=True,
            carrier=carrier,
        )
        member = Member(node, metadata, ledgers, runtime)
        self.members.append(member)
        await node.start("127.0.0.1", 6650, host_shown=f"broker-{number}")
        await node.serve(8080)
        return member

    async def find(self, name: TopicName = NAME) -> tuple[Member, Member]:
        """Who serves the topic after a lookup of any of its clients, and somebody who does not."""
        owner = await self.follow(self.members[0], name)
        return owner, next(member for member in self.members if member is not owner and not member.stopped)

    async def follow(self, asked: Member, name: TopicName = NAME) -> Member:
        """What a stock client does: look up, follow one redirect, connect."""
        said = await self.lookup(asked, name)
        if said.response == pb.CommandLookupTopicResponse.Redirect:
            assert said.authoritative
            said = await self.lookup(self.at(said.brokerServiceUrl), name, authoritative=said.authoritative)
        assert said.response == pb.CommandLookupTopicResponse.Connect, said
        return self.at(said.brokerServiceUrl)

    async def lookup(self, asked: Member, name: TopicName = NAME, *, authoritative: bool = False) -> Any:
        client = asked.client()
        said = await client.ask("LOOKUP", topic=str(name), authoritative=authoritative)
        client.lose()
        return said.lookupTopicResponse

    def at(self, url: str) -> Member:
        # Ports are the same for all: who it is, is in the host.
        return next(member for member in self.members if member.url == url)


class Network(httpx2.AsyncBaseTransport):
    """From broker to broker, without sockets: by the host of the URL, straight to the other's REST."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.fails: Exception | None = None
        self.answers: httpx2.Response | None = None  # instead of the broker's own
        self.calls = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.calls += 1
        if self.fails is not None:
            raise self.fails
        if self.answers is not None:
            return self.answers
        found = next(one for one in self._cluster.members if one.node.addresses.host == request.url.host)
        body = b"".join([part async for part in request.stream])  # type: ignore[union-attr]
        headers = {name.lower(): value for name, value in request.headers.items()}
        response = await handle(found.node, Asked(request.method, request.url.path, {}, headers, body))
        return httpx2.Response(response.status, headers=dict(response.headers), content=await whole(response))


@provides(Cluster)
async def serving_cluster(
    brokers: int = 2,
    *,
    bugs: int = 0,
    network: Callable[[Cluster], httpx2.AsyncBaseTransport] | None = None,
    **settings: str,
) -> AsyncIterator[Cluster]:
    """So many brokers that serve. The test fails unless exactly `bugs` failures happen inside them."""
    cluster = Cluster(settings=settings)
    cluster.network = None if network is None else network(cluster)
    for _ in range(brokers):
        await cluster.join()
    yield cluster
    for member in cluster.members:
        member.metadata.release()
        member.ledgers.release()
        if not member.stopped:
            await member.stop()
    await settle()
    counted = [member.node.metrics for member in cluster.members]
    assert sum(one.task_failures.value + one.request_failures.value for one in counted) == bugs


def run(body: Callable[[Cluster], Coroutine[Any, Any, None]], brokers: int = 2, **options: Any) -> None:
    run_on_clock(lambda: within(serving_cluster(brokers, **options), body))


async def take(old: Member, new: Member) -> None:
    """The old owner's session ends at the server without its knowing, and the new one takes the bundle."""
    old.metadata._listeners.clear()  # no event reaches it any more
    old.metadata.content.end_session(old.metadata.session_id)
    await settle()
    assert await new.node.ownership.owner(*await new.place(), authoritative=True) == new.node.ownership.me


def error_of(said: pb.BaseCommand) -> int | None:
    return int(said.error.error) if said.type == pb.BaseCommand.ERROR else None


def spawn(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(work)
