"""REST of a cluster over real sockets: each of three brokers answers for all, and a dead one is named."""

from __future__ import annotations

import pytest

import magnetar
from magnetar.base.errors import ConnectionLost, NotReady
from magnetar.testing import Cluster, cluster

PARTS = 12
TOPIC = "persistent://public/default/parts"
LOOSE = "non-persistent://public/default/loose"


def admins(c: Cluster) -> list[magnetar.Admin]:
    return [magnetar.Admin(c[name].admin_url) for name in c.names]


def broker_id(c: Cluster, name: str) -> str:
    return c[name].admin_url.partition("://")[2]


def filled(c: Cluster) -> dict[str, str]:
    """A partitioned topic with a message and a subscription in each partition: the owner of each."""
    with magnetar.Admin(c.admin_url) as admin:
        admin.topics.create(TOPIC, partitions=PARTS)
        admin.subscriptions.create(TOPIC, "s", "earliest")
    owners = {part: c.owner(part) for part in (f"{TOPIC}-partition-{number}" for number in range(PARTS))}
    assert len(set(owners.values())) > 1
    with magnetar.Client(c.url) as client:
        for part in owners:
            with client.create_producer(part) as producer:
                producer.send(b"x")
    return owners


def test_each_broker_answers_for_all_over_sockets() -> None:
    with cluster(3) as c, magnetar.Client(c.url) as client:
        owners = filled(c)
        one, two, three = every = admins(c)
        try:
            for admin in every:
                stats = admin.topics.partitioned_stats(TOPIC)
                assert (stats.msgInCounter, stats.subscriptions["s"].msgBacklog) == (PARTS, PARTS)
                shown_by = {part: stats.partitions[part].ownerBroker for part in owners}
                assert shown_by == {part: broker_id(c, owner) for part, owner in owners.items()}
                assert admin.subscriptions.names(TOPIC) == ["s"]
            assert len({admin.brokers.leader().brokerId for admin in every}) == 1
            two.subscriptions.clear(TOPIC, "s")
            assert three.topics.partitioned_stats(TOPIC).subscriptions["s"].msgBacklog == 0
            one.subscriptions.seek_to_time(TOPIC, "s", 0)
            assert two.topics.partitioned_stats(TOPIC).subscriptions["s"].msgBacklog == PARTS
            for broker in one.brokers.names():
                shown = [admin.brokers.owned_namespaces("standalone", broker) for admin in every]
                assert shown == [shown[0]] * 3
                three.brokers.healthy(broker)
            with client.create_producer(LOOSE):
                assert [admin.topics.names("public/default", domain="non-persistent") for admin in every] == [
                    [LOOSE]
                ] * 3
            assert len(three.topics.terminate_partitions(TOPIC)) == PARTS
            two.topics.unload(TOPIC)
            one.namespaces.unload("public/default")
        finally:
            for admin in every:
                admin.close()


def test_error_names_broker_that_was_killed() -> None:
    with cluster(3, session_s=30.0) as c:
        owners = filled(c)
        gone, other = sorted(set(owners.values()))[:2]
        with magnetar.Admin(c[other].admin_url) as admin:
            dead = broker_id(c, gone)
            assert dead in admin.brokers.names()
            c[gone].kill()
            with pytest.raises((NotReady, ConnectionLost), match=f"broker {dead}"):
                admin.subscriptions.clear(TOPIC, "s")
