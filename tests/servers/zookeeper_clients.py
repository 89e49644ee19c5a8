"""Stores of one test on a real ensemble of ZooKeeper, each as another broker has it, and what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

from magnetar.metadata.store import Event, Session
from magnetar.metadata.zookeeper import messages
from magnetar.metadata.zookeeper.address import Server
from magnetar.metadata.zookeeper.client import ZooKeeperConfig
from magnetar.metadata.zookeeper.messages import Operation
from magnetar.metadata.zookeeper.store import ZooKeeperStore
from magnetar.runtime.system_runtime import RealRuntime
from tests.servers.zookeeper import ZooKeeper

SESSION_S = 6.0
WAIT_S = 60.0
_roots = count(1)


async def end_session(server: Server, session: int, password: bytes) -> None:
    """As a second client of the same session, which closes it. The server answers when its ephemerals are gone."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(messages.connect(last_zxid=0, timeout_ms=4000, session=session, password=password))
    size = int.from_bytes(await reader.readexactly(4), "big")
    if messages.connect_response(await reader.readexactly(size)).session:
        writer.write(messages.request(1, Operation.CLOSE))
        await reader.read()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


class Client:
    """A store of one test, and what it was told."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self.store = store
        self.said: list[Session] = []
        self.heard: list[Event] = []
        self._told = asyncio.Event()
        store.on_session(self._hear_session)
        store.subscribe("/", self._hear)

    def server(self, servers: list[ZooKeeper]) -> ZooKeeper:
        """That it is connected to."""
        return next(one for one in servers if one.port == self.store.client.machine.server.port)

    async def until(self, condition: Callable[[], bool]) -> None:
        """A condition about `said` and `heard`."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._told.clear()
                await self._told.wait()

    async def until_said(self, *said: Session) -> None:
        await self.until(lambda: self.said[-len(said) :] == list(said))

    def _hear_session(self, session: Session) -> None:
        self.said.append(session)
        self._told.set()

    def _hear(self, event: Event) -> None:
        self.heard.append(event)
        self._told.set()


class Cluster:
    """Stores on the ensemble, with one root for one test."""

    def __init__(self, servers: list[ZooKeeper]) -> None:
        self.servers = servers
        self.root = f"/f{next(_roots)}"
        self.runtime = RealRuntime()
        self.clients: list[Client] = []

    async def client(self, *, at: ZooKeeper | None = None, **config: Any) -> Client:
        servers = self.servers if at is None else [at]
        addresses = tuple(Server("127.0.0.1", server.port) for server in servers)
        made = ZooKeeperConfig(addresses, **{"session_s": SESSION_S, **config})
        client = Client(await ZooKeeperStore.open(made, self.runtime, root=self.root))
        self.clients.append(client)
        return client

    async def client_of(self, mode: str) -> Client:
        """One that is connected to a server of this mode, and knows the others."""
        while True:
            client = await self.client()
            if await asyncio.to_thread(client.server(self.servers).mode) == mode:
                return client
            await client.store.close()


@asynccontextmanager
async def cluster_of(servers: list[ZooKeeper]) -> AsyncIterator[Cluster]:
    cluster = Cluster(servers)
    try:
        yield cluster
    finally:
        for client in cluster.clients:
            await client.store.close()
        cluster.runtime.close()


def run(servers: list[ZooKeeper], body: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with cluster_of(servers) as cluster:
            await body(cluster)

    asyncio.run(main())
