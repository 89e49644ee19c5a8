"""The store on a real ensemble of three ZooKeeper servers: killed and paused servers, stolen sessions, large answers.

Every write that was answered must be there afterwards, and a write without an answer may be there. Java and PySpark are
needed, whose jars contain ZooKeeper; without them each test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from magnetar.base.errors import (
    BadVersion,
    LimitExceeded,
    MagnetarError,
    NotAuthorized,
    NotFound,
    NotReady,
    Unavailable,
    Unknown,
)
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT, Change, Event, Session
from magnetar.metadata.zookeeper import messages
from magnetar.metadata.zookeeper.address import Server
from magnetar.metadata.zookeeper.client import ZooKeeperConfig
from magnetar.metadata.zookeeper.store import ZooKeeperStore
from magnetar.runtime.system_runtime import RealRuntime
from tests.servers.zookeeper import ZooKeeper, ensemble

SESSION_S = 6.0
WAIT_S = 60.0
_roots = count(1)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ZooKeeper]]:
    with ensemble(tmp_path_factory.mktemp("ensemble")) as members:
        yield members


@pytest.fixture(autouse=True)
def healthy(servers: list[ZooKeeper]) -> Iterator[None]:
    """What a test killed is started again."""
    yield
    for server in servers:
        if server.process is None:
            server.launch()
    for server in servers:
        server.wait_ready()


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


async def add_up(client: Client, path: str, stop: asyncio.Event) -> tuple[int, int]:
    """Adds 1 by compare-and-set until it is stopped: how many additions were answered, how many may have happened."""
    sure = doubtful = 0
    while not stop.is_set():
        try:
            node = await client.store.fresh(path)
            value = 0 if node is None else int(node.value)
            version = ABSENT if node is None else node.stat.version
            await put_checked(client.store, path, b"%d" % (value + 1), expected=version)
            sure += 1
        except Unknown:
            doubtful += 1
        except (BadVersion, Unavailable):
            await asyncio.sleep(0.01)
    return sure, doubtful


async def loses_nothing(cluster: Cluster, client: Client, harm: Callable[[], None], heal: Callable[[], None]) -> None:
    """Traffic of compare-and-set from three brokers while a server is harmed."""
    others = [await cluster.client() for _ in range(2)]
    held = await client.store.put("/held", b"mine", ephemeral=True)
    session = client.store.session_id
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    work = [loop.create_task(add_up(one, f"/sum/{n % 2}", stop)) for n, one in enumerate([client, *others, client])]
    await asyncio.sleep(0.5)
    await asyncio.to_thread(harm)
    await client.until_said(Session.CONNECTION_LOST, Session.RECONNECTED)
    await asyncio.sleep(1.0)
    await asyncio.to_thread(heal)
    stop.set()
    done = await asyncio.gather(*work)
    for number in range(2):
        node = await client.store.fresh(f"/sum/{number}")
        assert node is not None
        added = [one for place, one in enumerate(done) if place % 4 % 2 == number]
        sure, doubtful = sum(one[0] for one in added), sum(one[1] for one in added)
        assert sure <= int(node.value) <= sure + doubtful
        assert sure > 0
    assert client.store.session_id == session
    assert (await client.store.fresh("/held")) is not None
    assert held.mine
    assert Change.RESYNC in {event.change for event in client.heard}


def test_a_killed_leader_loses_no_answered_write_and_no_session(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client_of("leader")
        leader = client.server(servers)
        await loses_nothing(cluster, client, leader.kill, leader.launch)

    run(servers, body)


def test_a_killed_follower_loses_no_answered_write_and_no_session(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client_of("follower")
        follower = client.server(servers)
        await loses_nothing(cluster, client, follower.kill, follower.launch)

    run(servers, body)


def test_a_paused_server_is_left_within_the_time_of_the_session(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client_of("follower")
        follower = client.server(servers)
        begun = asyncio.get_running_loop().time()
        await loses_nothing(cluster, client, follower.pause, follower.go_on)
        assert asyncio.get_running_loop().time() - begun < SESSION_S + 10.0

    run(servers, body)


def test_without_a_majority_nothing_is_written_and_the_session_is_given_up(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client()
        await client.store.put("/a", b"before")
        session = client.store.session_id
        for server in servers[:2]:
            await asyncio.to_thread(server.kill)
        await client.until(lambda: Session.LOST in client.said)
        with pytest.raises((Unavailable, Unknown)):
            await client.store.put("/a", b"lost")
        for server in servers[:2]:
            server.launch()
        await client.until_said(Session.RECONNECTED, Session.REESTABLISHED)
        assert client.store.session_id != session
        node = await client.store.fresh("/a")
        assert node is not None
        assert node.value == b"before"

    run(servers, body)


def test_a_change_during_a_gap_is_reported_by_a_resync(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client, other = await cluster.client(), await cluster.client()
        await client.store.put("/a", b"1")
        await client.until(lambda: Event(Change.CREATED, "/a") in client.heard)
        client.heard.clear()
        socket = client.store.client._socket
        assert socket is not None
        assert socket._transport is not None
        socket._transport.abort()
        await client.until(lambda: Session.CONNECTION_LOST in client.said)
        await other.store.put("/a", b"2")
        await client.until_said(Session.CONNECTION_LOST, Session.RECONNECTED)
        assert Event(Change.RESYNC, "/") in client.heard
        node = await client.store.fresh("/a")
        assert node is not None
        assert node.value == b"2"
        client.heard.clear()
        await other.store.put("/a", b"3")
        await client.until(lambda: Event(Change.MODIFIED, "/a") in client.heard)

    run(servers, body)


def test_a_session_taken_over_by_another_connection_goes_on_here(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client()
        await client.store.put("/held", b"", ephemeral=True)
        machine = client.store.client.machine
        session = machine.session
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server(servers).port)
        writer.write(messages.connect(last_zxid=0, timeout_ms=4000, session=session, password=machine.password))
        await reader.readexactly(41)
        await client.until(lambda: Session.CONNECTION_LOST in client.said)
        await client.until_said(Session.CONNECTION_LOST, Session.RECONNECTED)
        assert machine.session == session
        node = await client.store.fresh("/held")
        assert node is not None
        assert node.stat.mine
        writer.close()

    run(servers, body)


def test_a_stolen_session_is_replaced_and_its_records_are_gone(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client, other = await cluster.client(), await cluster.client()
        await client.store.put("/held", b"", ephemeral=True)
        machine = client.store.client.machine
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server(servers).port)
        writer.write(messages.connect(last_zxid=0, timeout_ms=4000, session=machine.session, password=machine.password))
        await reader.readexactly(41)
        writer.write(messages.request(1, messages.Operation.CLOSE))
        await client.until_said(Session.CONNECTION_LOST, Session.LOST, Session.RECONNECTED, Session.REESTABLISHED)
        assert await client.store.fresh("/held") is None
        await other.until(lambda: Event(Change.DELETED, "/held") in other.heard)
        writer.close()

    run(servers, body)


def test_a_fresh_read_sees_what_another_server_answered(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        writer, reader = [await cluster.client(at=server) for server in servers[:2]]
        for number in range(200):
            stat = await writer.store.put("/a", b"%d" % number)
            node = await reader.store.fresh("/a")
            assert node is not None
            assert node.stat.version == stat.version

    run(servers, body)


@pytest.mark.slow
def test_thirty_thousand_children_are_listed_read_and_deleted(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client()
        names = [f"persistent-topic-with-34-chars-{n:05d}" for n in range(30_000)]
        for start in range(0, len(names), 1_000):
            await asyncio.gather(*(client.store.put(f"/many/{name}", b"v") for name in names[start : start + 1_000]))
        page = await client.store.names("/many")
        assert page.names == names
        assert not page.more
        page = await client.store.names("/many", after=names[99], limit=100)
        assert page.names == names[100:200]
        assert page.more
        assert [name async for name, _ in client.store.scan("/many")] == names
        await client.store.delete_tree("/many")
        assert await client.store.children("/") == []
        assert client.said == []

    run(servers, body)


def test_a_value_over_the_limit_is_refused_here_and_the_connection_stays(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client()
        with pytest.raises(LimitExceeded):
            await client.store.put("/a", b"x" * 1_048_576)
        with pytest.raises(LimitExceeded):
            await client.store.put("/a", b"x" * 1_000_000)
        await client.store.put("/a", b"x" * 999_990)
        node = await client.store.fresh("/a")
        assert node is not None
        assert len(node.value) == 999_990
        assert client.said == []

    run(servers, body)


def test_records_of_one_user_are_closed_to_others(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        owner = await cluster.client(digest=b"magnetar:secret")
        same = await cluster.client(digest=b"magnetar:secret")
        other = await cluster.client(digest=b"magnetar:wrong")
        await owner.store.put("/a", b"1", expected=ABSENT)
        node = await same.store.fresh("/a")
        assert node is not None
        await same.store.put("/a", b"2", expected=node.stat.version)
        for attempt in (other.store.fresh("/a"), other.store.put("/a", b"3"), other.store.put("/b", b"")):
            with pytest.raises(NotAuthorized):
                await attempt
        with pytest.raises(NotAuthorized):
            await other.store.delete("/a")
        await owner.store.delete_tree("/")

    run(servers, body)


def test_servers_own_node_is_hidden_and_closed(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        cluster.root = ""
        client = await cluster.client()
        assert "zookeeper" not in await client.store.children("/")
        with pytest.raises(MagnetarError, match="ZooKeeper itself"):
            await client.store.put("/zookeeper/a", b"")
        with pytest.raises(NotFound):
            await client.store.delete("/nothing")

    run(servers, body)


def test_a_url_without_a_server_is_said_in_time() -> None:
    async def main() -> None:
        runtime = RealRuntime()
        config = ZooKeeperConfig((Server("127.0.0.1", 1),), open_s=0.5)
        with pytest.raises(NotReady, match="no ZooKeeper server"):
            await ZooKeeperStore.open(config, runtime)
        runtime.close()

    asyncio.run(main())
