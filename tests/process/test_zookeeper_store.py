"""The store on a real ensemble of three ZooKeeper servers: large lists and values, access, TLS, and a Java client.

Java and PySpark are needed, whose jars contain ZooKeeper; without them each test says so.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from magnetar.base.errors import (
    Conflict,
    LimitExceeded,
    MagnetarError,
    NotAuthorized,
    NotFound,
    NotReady,
)
from magnetar.base.limits import BUCKETS_LISTED_AT_ONCE_MAX
from magnetar.base.names import Domain, namespace_name, topic_name
from magnetar.cluster.tenants import TenantInfo
from magnetar.metadata import paths
from magnetar.metadata.store import ABSENT, Node
from magnetar.metadata.zookeeper.address import Server
from magnetar.metadata.zookeeper.client import ZooKeeperConfig
from magnetar.metadata.zookeeper.store import ZooKeeperStore
from magnetar.policy.policies import Policies
from magnetar.runtime.system_runtime import RealRuntime
from tests.servers.pulsar import free_ports
from tests.servers.zookeeper import ZooKeeper, ensemble
from tests.servers.zookeeper_clients import WAIT_S, Cluster, run
from tests.unit.cluster.world import a_world


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ZooKeeper]]:
    with ensemble(tmp_path_factory.mktemp("ensemble")) as members:
        yield members


def test_fresh_read_sees_what_another_server_answered(servers: list[ZooKeeper]) -> None:
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
            await asyncio.gather(
                *(client.store.put(f"/many/{name}", b"v", expected=ABSENT) for name in names[start : start + 1_000])
            )
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


def test_value_over_limit_is_refused_here_and_connection_stays(servers: list[ZooKeeper]) -> None:
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


def test_tls_port_is_used_and_unknown_certificate_is_refused(tmp_path: Path) -> None:
    certificate = certify(tmp_path / "server.pem")
    (secure,) = free_ports(1)
    settings = {
        "secureClientPort": secure,
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": tmp_path / "server.pem",
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": tmp_path / "server.pem",
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "none",
    }
    context = ssl.create_default_context(cadata=certificate)

    async def main() -> None:
        runtime = RealRuntime()
        config = ZooKeeperConfig((Server("localhost", secure),), tls=context, open_s=WAIT_S)
        store = await ZooKeeperStore.open(config, runtime)
        stat = await store.put("/a", b"x" * 100_000)
        assert (await store.fresh("/a")) == Node(b"x" * 100_000, stat)
        await store.close()
        with pytest.raises(NotReady):
            await ZooKeeperStore.open(replace(config, tls=ssl.create_default_context(), open_s=1.0), runtime)
        runtime.close()

    with ZooKeeper(tmp_path / "server", settings):
        asyncio.run(main())


def certify(path: Path) -> str:
    """Writes the key and the certificate of a server at localhost; returns the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = certificate.public_bytes(Encoding.PEM).decode()
    path.write_text(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode() + text)
    return text


def test_java_client_reads_buckets_of_namespace(servers: list[ZooKeeper]) -> None:
    """The six topics of PIP-157 in three buckets."""

    async def body(cluster: Cluster) -> None:
        client = await cluster.client()
        world = await a_world(client.store)
        namespace = namespace_name("tenant/namespace")
        await world.tenants.create("tenant", TenantInfo(allowedClusters=["standalone"]))
        await world.namespaces.create(namespace, Policies(numberOfTopicBuckets=3))
        await world.catalogue.create_partitioned(topic_name("persistent://tenant/namespace/ptopic"), 4)
        for name in ("nptopic1", "nptopic2"):
            await world.catalogue.create(topic_name(f"persistent://tenant/namespace/{name}"))
        parent = "/managed-ledgers/tenant/namespace/persistent"
        found = await asyncio.to_thread(servers[0].ask_java, "ls", "-R", cluster.root + parent)
        listed = [line.removeprefix(cluster.root + parent) for line in found if line.startswith(cluster.root)]
        assert sorted(filter(None, listed)) == [
            "/$0",
            "/$0/ptopic-partition-0",
            "/$0/ptopic-partition-3",
            "/$1",
            "/$1/nptopic2",
            "/$1/ptopic-partition-1",
            "/$2",
            "/$2/nptopic1",
            "/$2/ptopic-partition-2",
        ]
        assert len([name async for name in world.catalogue.topics(namespace)]) == 6
        with pytest.raises(Conflict):
            await world.namespaces.delete(namespace)

    run(servers, body)


@pytest.mark.slow
def test_hundred_thousand_topics_cost_request_for_each_bucket(servers: list[ZooKeeper]) -> None:
    """In 64 buckets (PIP-157): one request a bucket, memory of some buckets, and answers that a Java client takes."""

    async def body(cluster: Cluster) -> None:
        client = await cluster.client(session_s=30.0)
        world = await a_world(client.store)
        namespace = namespace_name("public/many")
        await world.namespaces.create(namespace, Policies(numberOfTopicBuckets=64))
        names = [topic_name(f"persistent://{namespace}/topic-{n:05d}") for n in range(100_000)]
        places = [paths.topic(name, 64) for name in names]
        for start in range(0, len(places), 1_000):
            some = places[start : start + 1_000]
            await asyncio.gather(*(client.store.put(path, b"", expected=ABSENT) for path in some))
        assert len([name async for name in world.catalogue.topics(namespace, limit=1)]) == 1  # the policies are cached
        before = client.store.client._xid
        tracemalloc.start()
        found = 0
        async for _ in world.catalogue.topics(namespace):
            found += 1
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        requests = client.store.client._xid - before
        sys.stdout.write(f"{found} topics: {requests} requests, {peak / 2**20:.1f} MiB at most\n")
        assert found == len(names)
        assert requests == 64
        assert peak < BUCKETS_LISTED_AT_ONCE_MAX * len(names) / 64 * 256 < len(names) * 60  # less than all names take
        fullest = Counter(path.rpartition("/")[0] for path in places).most_common(1)[0]
        listed = await asyncio.to_thread(servers[0].ask_java, "ls", cluster.root + fullest[0])
        assert len(listed[-1].strip("[]").split(", ")) == fullest[1]
        await client.store.delete_tree(paths.domain_parent(namespace, Domain.PERSISTENT))

    run(servers, body)


def test_url_without_server_is_said_in_time() -> None:
    async def main() -> None:
        runtime = RealRuntime()
        config = ZooKeeperConfig((Server("127.0.0.1", 1),), open_s=0.5)
        with pytest.raises(NotReady, match="no ZooKeeper server"):
            await ZooKeeperStore.open(config, runtime)
        runtime.close()

    asyncio.run(main())
