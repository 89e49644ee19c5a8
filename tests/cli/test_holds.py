"""Holds on the command line: who keeps messages and how many, and ending one."""

from __future__ import annotations

from magnetar import Client
from tests.cli.conftest import Run
from tests.servers.standalone import Standalone


def test_hold_is_listed_shown_and_deleted(magnetar: Run, broker: Standalone, name: str) -> None:
    topic = f"topic://public/default/{name}"
    assert magnetar("topic", "create", topic, "--segments", "2").code == 0
    with Client(broker.url) as client:
        client.hold(topic, "nightly", owner="a query", expires_s=3600)
        with client.create_producer(topic) as producer:
            for number in range(20):
                producer.send(b"x", key=str(number))
        [line] = magnetar("hold", "list", topic).out.splitlines()[1:]
        assert line.split()[:3] == ["nightly", "KEEPS", "20"]
        assert "a query" in line
        plan = client.plan(topic)
        client.hold(topic, "nightly", {id: one.end for id, one in plan.stretches.items()}, incarnation=plan.incarnation)
    shown = magnetar("hold", "show", topic, "nightly", "-o", "json").json
    assert (shown["lagMessages"], shown["owner"], sorted(shown["places"])) == (0, "a query", ["0", "1"])
    assert "KEPT FROM" in magnetar("hold", "show", topic, "nightly").out
    deleted = magnetar("hold", "delete", topic, "nightly", "--yes")
    assert deleted.code == 0
    assert "nightly" in deleted.err
    assert "(owner a query, gives up 0 messages (0 B) that were not read)" in deleted.err
    assert magnetar("hold", "list", topic, "-o", "json").json == {}
    assert magnetar("hold", "show", topic, "nightly").code != 0
    assert magnetar("hold", "delete", topic, "nightly", "--yes", "--if-exists").code == 0


def test_hold_used_by_group_is_deleted_only_with_force(magnetar: Run, broker: Standalone, name: str) -> None:
    topic = f"topic://public/default/{name}"
    assert magnetar("topic", "create", topic).code == 0
    with Client(broker.url) as client, client.create_producer(topic) as producer:
        reader = client.checkpoint_consumer(topic, group="readers", name="first")
        producer.send(b"x")
        assert magnetar("hold", "show", topic, "readers", "-o", "json").json["members"] == ["first"]
        asked = magnetar("hold", "delete", topic, "readers", "--no-input")
        assert asked.code != 0
        assert "used by first, gives up 1 messages (" in asked.err
        refused = magnetar("hold", "delete", topic, "readers", "--yes")
        assert refused.code != 0
        assert "is used by members of its group (first): close them, or use force" in refused.err
        assert magnetar("hold", "show", topic, "readers").code == 0
        forced = magnetar("hold", "delete", topic, "readers", "--yes", "--force")
        assert forced.code == 0
        assert "owner first, used by first, gives up 1 messages (" in forced.err
        assert magnetar("hold", "list", topic, "-o", "json").json == {}
        reader.close()
