"""The admin client does what it says to a real server: the same calls on our broker and on Apache Pulsar."""

from __future__ import annotations

import asyncio
import os

import pytest

from magnetar.base.errors import (
    AlreadyExists,
    Conflict,
    Misuse,
    NotAuthorized,
    NotEmpty,
    NotFound,
    NotReady,
    Refused,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.cli.main import main
from magnetar.client.admin import policy
from magnetar.client.admin.clients import Admin, AsyncAdmin, Policies, PostSchema, Retention, TenantInfo
from magnetar.client.client import Client
from tests.client.conftest import Server

pytestmark = pytest.mark.real_clock


@pytest.fixture
def admin(broker: Server) -> Admin:
    return Admin(broker.http)


def fill(broker: Server, topic: str, *texts: str) -> None:
    """One entry for each text."""

    async def send() -> None:
        async with Client(broker.url) as client:
            producer = await client.create_producer(topic, batching=None)
            for text in texts:
                await producer.send(text.encode(), key=text, properties={"n": text})

    asyncio.run(send())


def test_resources_show_what_they_are(broker: Server) -> None:
    for admin in (Admin(broker.http), AsyncAdmin(broker.http)):
        resources = [one for name, one in vars(admin).items() if not name.startswith("_") and name != "url"]
        assert len(resources) == 11
        assert {repr(one) for one in resources} == {f"<{type(one).__name__} of {broker.http}>" for one in resources}
        assert repr(admin.topics) == f"<Topics of {broker.http}>"


def test_brokers_say_who_they_are(admin: Admin) -> None:
    with admin:
        (name,) = admin.brokers.names()
        assert admin.brokers.names("standalone") == [name]
        assert admin.brokers.leader().brokerId == name
        assert isinstance(admin.brokers.owned_namespaces("standalone", name), dict)
        assert admin.brokers.version()
        assert admin.brokers.internal_configuration().ledgersRootPath
        admin.brokers.ready()
        admin.brokers.healthy()
        assert "pulsar_" in admin.brokers.metrics()
        assert admin.brokers.settings()["clusterName"] == "standalone"
        assert admin.clusters.names() == admin.clusters.list() == ["standalone"]
        assert admin.tenants.list() == admin.tenants.names()
        assert admin.brokers.list() == [name]
        assert "serviceUrl" in admin.clusters.get("standalone")


def test_setting_is_changed_while_running_and_restored(admin: Admin) -> None:
    with admin:
        (key, *_) = [one for one in admin.brokers.dynamic_settings() if one == "maxConcurrentLookupRequest"]
        admin.brokers.change_setting(key, "777")
        assert admin.brokers.changed_settings()[key] == "777"
        admin.brokers.restore_setting(key)
        assert key not in admin.brokers.changed_settings()
        with pytest.raises(Refused):
            admin.brokers.change_setting("no-such-setting", "1")


def test_tenants_and_clusters_live_and_end(admin: Admin, namespace: str) -> None:
    name = namespace.replace("/", "-")
    with admin:
        admin.tenants.create(name, admin_roles=["alice"])
        assert name in admin.tenants.names()
        assert admin.tenants.get(name) == TenantInfo(["alice"], ["standalone"])
        admin.tenants.update(name, TenantInfo(["bob"], ["standalone"]))
        assert admin.tenants.get(name).adminRoles == ["bob"]
        with pytest.raises(AlreadyExists):
            admin.tenants.create(name)
        admin.namespaces.create(f"{name}/one")
        with pytest.raises(Conflict):
            admin.tenants.delete(name)
        admin.namespaces.delete(f"{name}/one")
        admin.tenants.delete(name)
        with pytest.raises(NotFound):
            admin.tenants.get(name)
        admin.clusters.create(name, {"serviceUrl": "http://elsewhere:8080"})
        admin.clusters.update(name, {"serviceUrl": "http://elsewhere:8081"})
        assert admin.clusters.get(name)["serviceUrl"] == "http://elsewhere:8081"
        admin.clusters.delete(name)


def test_namespace_has_policies_with_types(admin: Admin, namespace: str) -> None:
    with admin:
        other = f"{namespace}-made"
        admin.namespaces.create(other, Policies(message_ttl_in_seconds=5))
        assert other in admin.namespaces.names("public")
        assert admin.namespaces.policies(other).message_ttl_in_seconds == 5
        assert admin.namespaces.policy(other, policy.MESSAGE_TTL_S) == 5
        assert admin.namespaces.policy(other, policy.RETENTION) is None
        admin.namespaces.set_policy(other, policy.RETENTION, Retention(60, 512))
        assert admin.namespaces.policy(other, policy.RETENTION) == Retention(60, 512)
        admin.namespaces.remove_policy(other, policy.RETENTION)
        assert admin.namespaces.policy(other, policy.RETENTION) is None
        with pytest.raises(Misuse):
            admin.namespaces.set_policy(other, policy.MESSAGE_TTL_S, -1)
        with pytest.raises(NotAuthorized):
            admin.namespaces.set_policy(other, policy.REPLICATION_CLUSTERS, ["nowhere"])
        assert admin.namespaces.bundles(other).numBundles >= 1
        admin.namespaces.unload(other)
        admin.namespaces.delete(other)
        with pytest.raises(NotFound):
            admin.namespaces.policies(other)


# Pulsar 4 has none of them; the last one is Pulsar 5's.
OURS = {policy.TOPIC_BUCKETS, policy.FAILOVER_BY_CONSISTENT_HASHING, policy.AUTO_SCALE}


def test_every_policy_can_be_read_as_its_type(admin: Admin, namespace: str) -> None:
    with admin:
        for one in policy.ALL.values():
            if one not in OURS:
                admin.namespaces.policy(namespace, one)


def test_properties_of_namespaces_and_topics_come_and_go(admin: Admin, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    with admin:
        admin.namespaces.add_properties(namespace, {"a": "1", "b": "2"})
        admin.namespaces.set_property(namespace, "c", "x/y z")
        assert admin.namespaces.properties(namespace) == {"a": "1", "b": "2", "c": "x/y z"}
        assert admin.namespaces.get_property(namespace, "b") == "2"
        admin.namespaces.remove_property(namespace, "a")
        assert admin.namespaces.get_property(namespace, "a") is None
        admin.namespaces.clear_properties(namespace)
        assert admin.namespaces.properties(namespace) == {}
        admin.topics.create(topic, properties={"k": "v"})
        admin.topics.add_properties(topic, {"l": "w"})
        admin.topics.remove_property(topic, "k")
        assert admin.topics.properties(topic) == {"l": "w"}


def test_topic_lives_and_ends(admin: Admin, broker: Server, namespace: str) -> None:
    topic = f"persistent://{namespace}/a b%c"  # a name that must be escaped
    with admin:
        admin.topics.create(topic)
        with pytest.raises(AlreadyExists):
            admin.topics.create(topic)
        fill(broker, topic, "one", "two")
        assert admin.topics.names(namespace) == [topic]
        assert list(admin.topics.walk(namespace, page=1)) == [topic]
        assert admin.namespaces.topics(namespace) == [topic]
        assert admin.topics.lookup(topic).brokerUrl.startswith("pulsar://")
        assert admin.topics.bundle(topic).startswith("0x")
        assert admin.topics.partitions(topic).partitions == 0
        assert admin.topics.stats(topic).msgInCounter == 2
        internal = admin.topics.internal_stats(topic)
        assert internal.numberOfEntries == 2
        last = admin.topics.last_message_id(topic)
        assert internal.lastConfirmedEntry == f"{last.ledgerId}:{last.entryId}"
        admin.topics.trim(topic)
        end = admin.topics.terminate(topic)
        assert (end.ledgerId, end.entryId) == (last.ledgerId, last.entryId)
        admin.topics.unload(topic)
        admin.topics.delete(topic)
        with pytest.raises(TopicNotFound):
            admin.topics.stats(topic)
        with pytest.raises(NotFound):
            admin.topics.names(f"{namespace}-none")


def test_partitioned_topic_grows(admin: Admin, broker: Server, namespace: str) -> None:
    topic = f"persistent://{namespace}/parts"
    with admin:
        admin.topics.create(topic, partitions=2)
        assert admin.topics.partitioned_names(namespace) == [topic]
        assert admin.topics.partitions(topic).partitions == 2
        admin.topics.grow(topic, 3)
        with pytest.raises(Misuse):
            admin.topics.grow(topic, 1)
        admin.topics.create_missing_partitions(topic)
        assert len(admin.topics.names(namespace)) == 3
        fill(broker, topic, "one", "two", "three")
        stats = admin.topics.partitioned_stats(topic)
        assert isinstance(stats.partitions, dict)
        assert (stats.msgInCounter, len(stats.partitions)) == (3, 3)
        assert len(admin.topics.partitioned_internal_stats(topic).partitions) == 3
        with pytest.raises(Conflict):
            admin.topics.delete(topic)
        assert sorted(admin.topics.terminate_partitions(topic)) == ["0", "1", "2"]
        admin.topics.delete(topic, partitioned=True, force=True)
        assert admin.topics.names(namespace) == []


def test_subscription_moves(admin: Admin, broker: Server, topic: str) -> None:
    def backlog() -> int:
        return admin.topics.stats(topic).subscriptions["s"].msgBacklog

    with admin:
        admin.topics.create(topic)
        fill(broker, topic, "one", "two", "three", "four")
        admin.subscriptions.create(topic, "s", "earliest")
        with pytest.raises(AlreadyExists):
            admin.subscriptions.create(topic, "s")
        assert admin.subscriptions.names(topic) == ["s"]
        assert backlog() == 4
        admin.subscriptions.skip(topic, "s", 1)
        assert backlog() == 3
        admin.subscriptions.clear(topic, "s")
        assert backlog() == 0
        admin.subscriptions.seek_to_time(topic, "s", 1)
        assert backlog() == 4
        second = admin.messages.peek(topic, "s", 2)[0].id
        admin.subscriptions.seek(topic, "s", second)
        assert backlog() == 3
        admin.subscriptions.seek(topic, "s", second, excluded=True)
        assert backlog() == 2
        admin.subscriptions.seek(topic, "s", "earliest")
        assert backlog() == 4
        admin.subscriptions.seek(topic, "s", "latest")
        assert backlog() == 0
        admin.subscriptions.set_properties(topic, "s", {"a": "b"})
        assert admin.subscriptions.properties(topic, "s") == {"a": "b"}
        admin.subscriptions.delete(topic, "s")
        with pytest.raises(SubscriptionNotFound):
            admin.subscriptions.delete(topic, "s")


def test_messages_are_looked_at(admin: Admin, broker: Server, topic: str) -> None:
    with admin:
        admin.topics.create(topic)
        admin.subscriptions.create(topic, "s", "earliest")
        fill(broker, topic, "one", "two", "three")
        (one,) = admin.messages.peek(topic, "s")
        assert (one.data, one.key, one.properties, one.sequence_id) == (b"one", "one", {"n": "one"}, 0)
        assert [found.data for found in admin.messages.get(topic, one.id)] == [b"one"]
        assert admin.messages.examine(topic, 1)[0].data == b"three"
        assert admin.messages.examine(topic, 2, origin="earliest")[0].data == b"two"
        first = admin.messages.id_at(topic, 1)
        assert (first.ledgerId, first.entryId) == (one.id.ledgerId, one.id.entryId)
        with pytest.raises(NotFound):
            admin.messages.peek(topic, "s", 4)


def test_batch_is_looked_at_message_by_message(admin: Admin, broker: Server, topic: str) -> None:
    async def send() -> None:
        async with Client(broker.url) as client:
            producer = await client.create_producer(topic)
            for number in range(5):
                await producer.post(b"%d" % number, key=f"k{number}")
            await producer.flush()

    with admin:
        admin.topics.create(topic)
        admin.subscriptions.create(topic, "s", "earliest")
        asyncio.run(send())
        found = admin.messages.peek(topic, "s")
        assert [(one.data, one.key, one.id.batchIndex) for one in found] == [
            (b"%d" % number, f"k{number}", number) for number in range(5)
        ]


def test_schemas_are_added_and_found(admin: Admin, topic: str) -> None:
    schema = PostSchema("JSON", '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}')
    with admin:
        admin.topics.create(topic)
        with pytest.raises(NotFound):
            admin.schemas.get(topic)
        assert admin.schemas.add(topic, schema) == 0
        found = admin.schemas.get(topic)
        assert (found.version, found.type) == (0, "JSON")
        assert admin.schemas.get(topic, 0).data == found.data
        assert len(admin.schemas.versions(topic)) == 1
        assert admin.schemas.find(topic, schema) == 0
        assert admin.schemas.delete(topic) >= 0


async def test_awaiting_face_says_same(broker: Server, namespace: str) -> None:
    async with AsyncAdmin(broker.http) as admin:
        calls = [admin.topics.create(f"persistent://{namespace}/t{number}") for number in range(5)]
        await asyncio.gather(*calls)
        walked = [name async for name in admin.topics.walk(namespace, page=2)]
        assert walked == await admin.topics.names(namespace)
        assert len(walked) == 5
        with pytest.raises(NotEmpty):
            await admin.namespaces.delete(namespace)
        with pytest.raises(TopicNotFound):
            await admin.topics.stats(f"persistent://{namespace}/none")


def test_forked_child_uses_connections_of_its_own(admin: Admin) -> None:
    with admin:
        names = admin.tenants.names()
        for _ in range(3):
            child = os.fork()
            if child == 0:
                right = False
                try:
                    right = admin.tenants.names() == names
                finally:
                    os._exit(0 if right else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert admin.tenants.names() == names


def test_nobody_there_is_not_ready() -> None:
    with Admin("http://localhost:1") as admin, pytest.raises(NotReady, match="localhost:1"):
        admin.tenants.create("x", allowed_clusters=["standalone"])


def test_command_line_shows_any_server(
    broker: Server, topic: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAGNETAR_URL", broker.url)
    monkeypatch.setenv("MAGNETAR_ADMIN_URL", broker.http)
    for line in (
        f"topic create {topic}",
        f"subscription create {topic} s --start earliest",
        f"message produce {topic} one two",
        f"topic show {topic}",
        f"topic stats {topic}",
        f"topic stats {topic} --internal",
        f"topic lookup {topic}",
        "topic list",
        f"subscription list {topic}",
        f"subscription show {topic} s",
        f"message peek {topic} -s s",
        f"message read {topic}",
        f"subscription seek {topic} s --to 1h",
        f"message consume {topic} -s s -n 2",
        "namespace show public/default",
        "namespace topics public/default",
        "tenant show public",
        "api GET /admin/v2/brokers/version",
        f"topic terminate {topic} --yes",
        f"topic delete {topic} --force --yes",
    ):
        assert main(line.split()) == 0, f"{line}: {capfd.readouterr().err}"
    assert main(["topic", "show", topic]) == 3
