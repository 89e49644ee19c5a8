"""The store on a real ensemble of three ZooKeeper servers: killed and paused servers, stolen sessions, gaps.

Every write that was answered must be there afterwards, and a write without an answer may be there. Java and PySpark are
needed, whose jars contain ZooKeeper; without them each test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from magnetar.base.errors import BadVersion, Unavailable, Unknown
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT, Change, Event, Session
from magnetar.metadata.zookeeper import messages
from tests.servers.zookeeper import ZooKeeper, ensemble
from tests.servers.zookeeper_clients import SESSION_S, Client, Cluster, run


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


def test_killed_leader_loses_no_answered_write_and_no_session(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client_of("leader")
        leader = client.server(servers)
        await loses_nothing(cluster, client, leader.kill, leader.launch)

    run(servers, body)


def test_killed_follower_loses_no_answered_write_and_no_session(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client_of("follower")
        follower = client.server(servers)
        await loses_nothing(cluster, client, follower.kill, follower.launch)

    run(servers, body)


def test_paused_server_is_left_within_time_of_session(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client_of("follower")
        follower = client.server(servers)
        begun = asyncio.get_running_loop().time()
        await loses_nothing(cluster, client, follower.pause, follower.go_on)
        assert asyncio.get_running_loop().time() - begun < SESSION_S + 10.0

    run(servers, body)


def test_without_majority_nothing_is_written_and_session_is_given_up(servers: list[ZooKeeper]) -> None:
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


def test_change_during_gap_is_reported_by_resync(servers: list[ZooKeeper]) -> None:
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


@asynccontextmanager
async def taken_over(client: Client, servers: list[ZooKeeper]) -> AsyncIterator[asyncio.StreamWriter]:
    """A second connection of the client's session, which the server prefers."""
    machine = client.store.client.machine
    reader, writer = await asyncio.open_connection("127.0.0.1", client.server(servers).port)
    writer.write(messages.connect(last_zxid=0, timeout_ms=4000, session=machine.session, password=machine.password))
    await reader.readexactly(41)
    yield writer
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def test_session_taken_over_by_another_connection_goes_on_here(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client = await cluster.client()
        await client.store.put("/held", b"", ephemeral=True)
        machine = client.store.client.machine
        session = machine.session
        async with taken_over(client, servers):
            await client.until(lambda: Session.CONNECTION_LOST in client.said)
            await client.until_said(Session.CONNECTION_LOST, Session.RECONNECTED)
            assert machine.session == session
            node = await client.store.fresh("/held")
            assert node is not None
            assert node.stat.mine

    run(servers, body)


def test_stolen_session_is_replaced_and_its_records_are_gone(servers: list[ZooKeeper]) -> None:
    async def body(cluster: Cluster) -> None:
        client, other = await cluster.client(), await cluster.client()
        await client.store.put("/held", b"", ephemeral=True)
        async with taken_over(client, servers) as thief:
            thief.write(messages.request(1, messages.Operation.CLOSE))
            await client.until_said(Session.CONNECTION_LOST, Session.LOST, Session.RECONNECTED, Session.REESTABLISHED)
        assert await client.store.fresh("/held") is None
        await other.until(lambda: Event(Change.DELETED, "/held") in other.heard)

    run(servers, body)
