"""Three brokers in this process on a real ensemble of three ZooKeeper servers, with traffic, under faults of both.

Java and PySpark are needed, whose jars contain ZooKeeper; without them each test says so.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from uuid import uuid4

import pytest

from magnetar.base.errors import Conflict
from magnetar.cli.exit_codes import Exit
from tests.servers.zookeeper import ZooKeeper, ensemble
from tests.servers.zookeeper_brokers import SESSION_S, Traffic, ZooKeeperCluster

SEND_S = 0.2  # the bound of a send while sessions are lost
BACK_S = SESSION_S + 3.0  # publishing after the end of a broker
OUTAGE_S = 20.0
WAIT_S = 60.0

Harm = Callable[[ZooKeeperCluster, list[ZooKeeper]], Awaitable[None]]


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


def topics(number: int) -> list[str]:
    return [f"persistent://public/default/t{place}" for place in range(number)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - brokers in other threads notify no test
            await asyncio.sleep(0.05)


async def sessions_renewed(brokers: ZooKeeperCluster, names: list[str]) -> None:
    """Each of these brokers has lost a session, has another one, and has looked at all its bundles."""
    await until(lambda: brokers.sessions_lost() >= len(names))
    await until(lambda: all(brokers.ownership(name).steady for name in names))
    await until(lambda: all(brokers.ownership(name).validated_s > 0 for name in names))


async def check_stored(traffic: Traffic) -> None:
    """Each acknowledged message is there, in order; a message that was sent twice may be there twice."""
    for topic, stored in (await traffic.stored()).items():
        assert list(dict.fromkeys(stored)) == traffic.sent[topic].acknowledged


@pytest.mark.parametrize("at_server", [True, False], ids=["ended-by-server", "given-up-by-brokers"])
def test_expired_sessions_move_no_bundle_and_delay_no_send(servers: list[ZooKeeper], at_server: bool) -> None:
    async def body(brokers: ZooKeeperCluster, url: str, names: list[str]) -> None:
        traffic = Traffic(url, topics(100))
        async with traffic.running():
            before = brokers.held()
            await asyncio.sleep(2.0)
            traffic.forget_times()
            await asyncio.sleep(3.0)
            usual_s = traffic.slowest_s
            traffic.forget_times()
            if at_server:
                await brokers.end_sessions(*names)
            else:
                await brokers.give_sessions_up(*names)
            await sessions_renewed(brokers, names)
            await asyncio.sleep(1.0)
            slowest_s = traffic.slowest_s
            assert brokers.held() == before
            for name in names:  # registrations are published again, and one leader is elected
                assert len(await asyncio.wrap_future(brokers.host(name).run(brokers.ownership(name).brokers))) == 3
            leaders = [brokers.host(name).run(brokers.ownership(name).leader) for name in names]
            assert len({(await asyncio.wrap_future(leader)).id for leader in leaders}) == 1
        validated = max(brokers.ownership(name).validated_s for name in names)
        sys.stdout.write(
            f"{traffic.messages} messages, slowest send {slowest_s * 1000:.0f} ms, before {usual_s * 1000:.0f} ms\n"
        )
        sys.stdout.write(f"{sum(map(len, before.values()))} bundles validated in {validated:.3f} s\n")
        assert sum(map(len, before.values())) >= 10
        assert brokers.bundles_lost() == 0
        assert slowest_s < SEND_S + usual_s  # the machine may be busy
        await check_stored(traffic)

    run(servers, body)


# Faults of the ensemble


async def kill_leader(brokers: ZooKeeperCluster, servers: list[ZooKeeper]) -> None:
    await end_and_restart(next(server for server in servers if server.mode() == "leader"))


async def kill_follower(brokers: ZooKeeperCluster, servers: list[ZooKeeper]) -> None:
    await end_and_restart(next(server for server in servers if server.mode() == "follower"))


async def end_and_restart(server: ZooKeeper) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(SESSION_S)
    server.launch()


async def pause_server(brokers: ZooKeeperCluster, servers: list[ZooKeeper]) -> None:
    servers[0].pause()
    await asyncio.sleep(SESSION_S * 2)
    servers[0].go_on()


async def steal_session(brokers: ZooKeeperCluster, servers: list[ZooKeeper]) -> None:
    await brokers.end_sessions("broker-2")
    await until(lambda: brokers.sessions_lost() == 1)


async def pause_all(brokers: ZooKeeperCluster, servers: list[ZooKeeper]) -> None:
    """Longer than three sessions."""
    for server in servers:
        server.pause()
    await asyncio.sleep(OUTAGE_S)
    for server in servers:
        server.go_on()


@pytest.mark.parametrize(
    "harm",
    [kill_leader, kill_follower, pause_server, steal_session, pytest.param(pause_all, marks=pytest.mark.slow)],
    ids=lambda harm: harm.__name__.replace("_", "-"),
)
def test_brokers_serve_through_faults_of_ensemble(servers: list[ZooKeeper], harm: Harm) -> None:
    async def body(brokers: ZooKeeperCluster, url: str, names: list[str]) -> None:
        traffic = Traffic(url, topics(20))
        async with traffic.running():
            before = brokers.held()
            traffic.forget_times()
            await harm(brokers, servers)
            await until(lambda: all(brokers.ownership(name).steady for name in names))
            await until(lambda: brokers.held() == before)
            await asyncio.sleep(1.0)
            slowest_s = traffic.slowest_s
        sys.stdout.write(f"{traffic.messages} messages, slowest send {slowest_s * 1000:.0f} ms\n")
        assert brokers.bundles_lost() == 0
        assert slowest_s < SESSION_S / 2
        await check_stored(traffic)

    run(servers, body)


# Ends of brokers


def test_publishing_is_back_after_session_of_killed_broker(servers: list[ZooKeeper]) -> None:
    async def body(brokers: ZooKeeperCluster, url: str, names: list[str]) -> None:
        traffic = Traffic(url, topics(30))
        async with traffic.running():
            held = brokers.held()
            killed = max(held, key=lambda name: len(held[name]))
            traffic.forget_times()
            await asyncio.wrap_future(brokers.host(killed).kill())
            await asyncio.sleep(BACK_S + 1.0)
            slowest_s = traffic.slowest_s
        sys.stdout.write(f"slowest send {slowest_s:.1f} s with sessions of {SESSION_S:g} s\n")
        assert SESSION_S / 2 < slowest_s < BACK_S
        await check_stored(traffic)

    run(servers, body)


def test_twin_of_living_broker_is_refused_by_name(servers: list[ZooKeeper]) -> None:
    """Two containers with one address: each listens on another interface."""
    brokers = ZooKeeperCluster(servers, 1, session_s=2.0)
    with brokers as cluster:
        ports = {
            "brokerServicePort": cluster.url.rpartition(":")[2],
            "webServicePort": cluster.admin_url.rpartition(":")[2],
        }
        twin = ZooKeeperCluster(servers, 1, session_s=2.0, bindAddress="127.0.0.2", **ports)
        twin.root = brokers.root
        process = str(brokers.ownership("broker-1")._process)
        with pytest.raises(Conflict, match="another broker is registered") as refused, twin:
            pass
        assert process in refused.value.what
        assert brokers.ownership("broker-1")._registration is not None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["zookeeperSessionExpiredPolicy=shutdown"], "zookeeperSessionExpiredPolicy is shutdown"),
        (["metadataStoreSessionReconnectAttempts=2"], "no session with the metadata store after 2 attempts"),
    ],
    ids=["shutdown", "reconnect"],
)
def test_broker_without_session_exits_with_its_code(servers: list[ZooKeeper], settings: list[str], words: str) -> None:
    addresses = ",".join(server.address for server in servers)
    command = [sys.executable, "-m", "tests.servers.zookeeper_broker", addresses, f"/{uuid4()}", "2", *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "ready" in process.stdout.readline()
            for server in servers:
                server.pause()
            begun = time.monotonic()
            _, said = process.communicate(timeout=WAIT_S)
            sys.stdout.write(f"exit code {process.returncode} after {time.monotonic() - begun:.1f} s\n")
        finally:
            for server in servers:
                server.go_on()
            process.kill()
    assert process.returncode == Exit.SESSION_LOST == 75
    assert words in said


def run(
    servers: list[ZooKeeper], body: Callable[[ZooKeeperCluster, str, list[str]], Awaitable[None]], **settings: str
) -> None:
    brokers = ZooKeeperCluster(servers, **settings)
    with brokers as cluster:

        async def main() -> None:
            await body(brokers, cluster.url, cluster.names)

        asyncio.run(main())
