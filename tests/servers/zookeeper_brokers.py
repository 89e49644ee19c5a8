"""Brokers in this process on a real ensemble of ZooKeeper: `magnetar.testing.cluster` with another metadata store.

The ledgers are shared in memory. Each broker runs in its own thread. `Traffic` sends messages to many topics and
measures each send.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from magnetar import aio
from magnetar.base.limits import TESTING_WAIT_S
from magnetar.broker.embedded_cluster import NoLock, Stores
from magnetar.broker.node import Node
from magnetar.cluster.lock_ownership import LockOwnership
from magnetar.ledger.memory import MemoryLedgerStore
from magnetar.metadata.zookeeper.address import Server
from magnetar.metadata.zookeeper.client import Client, ZooKeeperConfig
from magnetar.metadata.zookeeper.store import ZooKeeperStore
from magnetar.policy.settings import Settings
from magnetar.runtime.files import Lock
from magnetar.runtime.system_runtime import RealRuntime
from magnetar.testing.clusters import ClusterOpening, MemberHost
from tests.servers.zookeeper import ZooKeeper
from tests.servers.zookeeper_clients import end_session

SESSION_S = 6.0
SHARED = {
    "brokerClientAuthenticationParameters": "token:shared by these brokers",
    "defaultNumberOfNamespaceBundles": "16",
    "defaultRetentionTimeInMinutes": "-1",
    "defaultRetentionSizeInMB": "-1",
}
LOCAL = {
    **SHARED,
    "bindAddress": "127.0.0.1",
    "advertisedAddress": "127.0.0.1",
    "brokerServicePort": "0",
    "webServicePort": "0",
}
PAUSE_S = 0.2  # between two sends to a topic
_roots = count(1)


class ZooKeeperStores(Stores):
    def __init__(self, servers: list[Server], root: str, session_s: float) -> None:
        super().__init__(session_s, threading.Lock)
        self.root = root
        self.config = ZooKeeperConfig(tuple(servers), session_s=session_s)

    async def open_node(self, settings: Settings, runtime: RealRuntime) -> tuple[Node, Lock]:
        metadata = await ZooKeeperStore.open(self.config, runtime, root=self.root)
        ledgers = MemoryLedgerStore(self.ledgers)
        return Node(runtime=runtime, metadata=metadata, ledgers=ledgers, settings=settings, cluster=True), NoLock()


class ZooKeeperCluster(ClusterOpening):
    """Enter it with `with`; `brokers` is a `Cluster`."""

    def __init__(
        self, servers: list[ZooKeeper], brokers: int = 3, *, session_s: float = SESSION_S, **settings: str
    ) -> None:
        super().__init__(brokers, settings, session_s)
        self.root = f"/c{next(_roots)}"
        self._servers = servers

    def _make_hosts(self) -> Stores:
        addresses = [Server("127.0.0.1", server.port) for server in self._servers]
        stores = ZooKeeperStores(addresses, self.root, self._session_s)
        self._hosts = {name: MemberHost(name, stores, {**SHARED, **self._settings}) for name in self._names}
        return stores

    # What the brokers are and have; read from another thread

    def node(self, name: str) -> Node:
        return self._hosts[name]._serving().node

    def ownership(self, name: str) -> LockOwnership:
        found = self.node(name).ownership
        assert isinstance(found, LockOwnership)
        return found

    def host(self, name: str) -> MemberHost:
        return self._hosts[name]

    def held(self) -> dict[str, list[str]]:
        """The bundles of each running broker."""
        names = [name for name, host in self._hosts.items() if host.running]
        return {
            name: sorted(f"{namespace}/{bundle}" for namespace, bundle in self.ownership(name).held()) for name in names
        }

    def sessions_lost(self) -> int:
        return sum(self.ownership(name).keeper.sessions_lost for name in self._names)

    def bundles_lost(self) -> int:
        return sum(self.ownership(name).bundles_lost for name in self._names)

    # Faults

    async def end_sessions(self, *names: str) -> None:
        """At the server, all at once: their ephemeral records are gone when this returns."""
        machines = [self._client(name).machine for name in names]
        server = next(Server("127.0.0.1", server.port) for server in self._servers if server.process is not None)
        await asyncio.gather(*(end_session(server, machine.session, machine.password) for machine in machines))

    async def give_sessions_up(self, *names: str) -> None:
        """In the brokers: their ephemeral records stay until the server ends the sessions."""

        async def give_up(client: Client) -> None:
            client.give_up()

        done = [self._hosts[name].run(partial(give_up, self._client(name))) for name in names]
        for future in done:
            future.result(TESTING_WAIT_S)

    def _client(self, name: str) -> Client:
        store = self.node(name).metadata
        assert isinstance(store, ZooKeeperStore)
        return store.client


@dataclass
class Sent:
    """What one topic got."""

    acknowledged: list[bytes] = field(default_factory=list)
    slowest_s: float = 0.0


class Traffic:
    """Numbered messages to each topic, one after the other, until the block ends."""

    def __init__(self, url: str, topics: list[str], *, pause_s: float = PAUSE_S) -> None:
        self.sent = {topic: Sent() for topic in topics}
        self._url = url
        self._pause_s = pause_s
        self._stop, self._each_has_message = asyncio.Event(), asyncio.Event()
        self._begun: dict[str, float] = {}

    @property
    def slowest_s(self) -> float:
        """The longest send since `forget_times`, also if it is not answered yet."""
        now = asyncio.get_running_loop().time()
        waiting = max((now - begun for begun in self._begun.values()), default=0.0)
        return max(waiting, *(sent.slowest_s for sent in self.sent.values()))

    @property
    def messages(self) -> int:
        return sum(len(sent.acknowledged) for sent in self.sent.values())

    def forget_times(self) -> None:
        for sent in self.sent.values():
            sent.slowest_s = 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Entered when each topic has a message."""
        async with aio.Client(self._url, operation_timeout_s=TESTING_WAIT_S) as client:
            producers = {topic: await client.create_producer(topic) for topic in self.sent}
            async with asyncio.TaskGroup() as group:
                for place, (topic, producer) in enumerate(producers.items()):
                    group.create_task(self._send(topic, producer, self._pause_s * place / len(producers)))
                try:
                    await self._each_has_message.wait()
                    yield
                finally:
                    self._stop.set()

    async def stored(self) -> dict[str, list[bytes]]:
        """All messages of each topic, in order."""
        async with aio.Client(self._url, operation_timeout_s=TESTING_WAIT_S) as client:
            return {topic: await self._read(client, topic) for topic in self.sent}

    async def _send(self, topic: str, producer: aio.Producer[bytes], offset_s: float) -> None:
        loop = asyncio.get_running_loop()
        sent = self.sent[topic]
        await asyncio.sleep(offset_s)
        while not self._stop.is_set():
            data = b"%d" % len(sent.acknowledged)
            begun = self._begun[topic] = loop.time()
            await producer.send(data)
            del self._begun[topic]
            sent.slowest_s = max(sent.slowest_s, loop.time() - begun)
            sent.acknowledged.append(data)
            if all(one.acknowledged for one in self.sent.values()):
                self._each_has_message.set()
            await asyncio.sleep(self._pause_s)

    async def _read(self, client: aio.Client, topic: str) -> list[bytes]:
        found: list[bytes] = []
        async with client.create_reader(topic) as reader:
            while await reader.has_message_available():
                found.append((await reader.receive()).data)
        return found
