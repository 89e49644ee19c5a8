"""Brokers, schemas, policies of namespaces and lists of topics with counts, on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

import magnetar as client
from tests.cli.conftest import Run
from tests.servers.standalone import Standalone


@dataclass
class Order:
    customer: str
    amount: int | None


def test_broker_show_counts_its_clients(magnetar: Run, broker: Standalone, topic: str) -> None:
    with client.Client(broker.url) as one, one.create_producer(topic), one.subscribe(topic, "s"):
        found = magnetar("broker", "show", "-o", "json").json
        listed = magnetar("broker", "connections", "-o", "json").json
    assert found["health"] == "ok"
    assert (found["connections"], found["producers"], found["consumers"]) == (len(listed), 1, 1)
    assert found["authentication"] is False
    assert "may do anything" in magnetar("broker", "show").out
    (mine,) = [connection for connection in listed if connection["producers"]]
    assert mine["address"].startswith("127.0.0.1:")
    assert mine["clientVersion"]
    assert mine["connectedSince"] > 1_000_000_000_000


def test_broker_config_filters_settings_by_name(magnetar: Run) -> None:
    everything = magnetar("broker", "config", "-o", "json").json
    some = magnetar("broker", "config", "retention", "-o", "json").json
    assert set(some) == {name for name in everything if "retention" in name.lower()}
    assert some
    ran = magnetar("broker", "config", "maxMesageSize")
    assert ran.code == 3
    assert "near: maxMessageSize" in ran.err


def test_connections_limit_is_checked(broker: Standalone) -> None:
    assert broker.ask("GET", "/admin/v2/brokers/connections", limit="0").status_code == 412
    assert broker.ask("GET", "/admin/v2/brokers/connections", limit="1").status_code == 200


def test_schema_shows_versions_and_fields(magnetar: Run, broker: Standalone, topic: str) -> None:
    assert magnetar("schema", "show", topic).code == 3
    with client.Client(broker.url) as one:
        one.create_producer(topic, schema=client.Json(Order)).close()
    assert [one["version"] for one in magnetar("schema", "list", topic, "-o", "json").json] == [0]
    shown = magnetar("schema", "show", topic).out
    assert "customer" in shown
    assert "JSON" in shown
    assert magnetar("schema", "show", topic, "--version", "7").code == 3


def test_namespace_set_changes_what_is_named(magnetar: Run, broker: Standalone, name: str) -> None:
    full = f"public/{name}"
    magnetar("namespace", "create", full)
    ran = magnetar("namespace", "set", full, "--retention-minutes", "60", "--deduplication", "--max-topics", "9")
    assert ran.code == 0, ran.err
    found = broker.admin("GET", f"namespaces/{full}")
    assert found["retention_policies"] == {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
    assert (found["deduplicationEnabled"], found["max_topics_per_namespace"]) == (True, 9)
    assert magnetar("namespace", "set", full, "--retention-mb", "5", "-p", "team=billing").code == 0
    found = broker.admin("GET", f"namespaces/{full}")
    assert found["retention_policies"] == {"retentionTimeInMinutes": 60, "retentionSizeInMB": 5}
    assert found["properties"] == {"team": "billing"}
    assert magnetar("namespace", "set", full, "--unset", "retention", "--unset", "max-topics").code == 0
    found = broker.admin("GET", f"namespaces/{full}")
    assert found.get("retention_policies") is None
    assert found["deduplicationEnabled"] is True


def test_namespace_set_plans_and_refuses_without_changing(magnetar: Run, broker: Standalone, name: str) -> None:
    full = f"public/{name}"
    magnetar("namespace", "create", full, "--retention-minutes", "10")
    before = broker.admin("GET", f"namespaces/{full}")
    planned = magnetar("namespace", "set", full, "--retention-minutes", "60", "--no-deduplication", "--dry-run")
    assert planned.code == 0, planned.err
    assert "retentionTimeInMinutes 10" in planned.out
    assert "retentionTimeInMinutes 60" in planned.out
    assert magnetar("namespace", "set", full).code == 2
    assert magnetar("namespace", "set", full, "--retention-mb", "5", "--unset", "retention").code == 2
    assert magnetar("namespace", "set", "public/nosuch", "--max-topics", "1").code == 3
    assert broker.admin("GET", f"namespaces/{full}") == before


@pytest.fixture
def filled(magnetar: Run, name: str) -> str:
    """A namespace with a plain, a partitioned and a scalable topic, one message of five bytes in each."""
    full = f"public/{name}"
    magnetar("namespace", "create", full)
    magnetar("topic", "create", f"{full}/plain")
    magnetar("topic", "create", f"{full}/parts", "--partitions", "3")
    magnetar("topic", "create", f"topic://{full}/scaled", "--segments", "2")
    for topic in (f"{full}/plain", f"{full}/parts", f"topic://{full}/scaled"):
        magnetar("subscription", "create", topic, "kept")
        assert magnetar("message", "produce", topic, "hello").code == 0
    return full


def test_long_list_has_segments_messages_and_sizes(magnetar: Run, filled: str) -> None:
    found = magnetar("topic", "list", filled, "--long", "-o", "csv").out.splitlines()
    rows = {row.split(",")[0].rsplit("/", 1)[1]: row.split(",")[1:] for row in found[1:]}
    assert [rows[name][:3] for name in ("plain", "parts", "scaled")] == [["", "", "1"], ["3", "", "1"], ["", "2", "1"]]
    assert all(int(row[3]) > 5 for row in rows.values())
    only = magnetar("topic", "list", filled, "--long", "--domain", "scalable", "-o", "json").json
    assert [one["topic"] for one in only] == [f"topic://{filled}/scaled"]
    assert len(magnetar("topic", "list", filled, "--long", "--limit", "2", "-o", "json").json) == 2
    assert "SEGMENTS" not in magnetar("topic", "list", filled).out


def test_terminal_lists_topics_with_counts(terminal: Callable[..., tuple[int, str]], filled: str) -> None:
    code, seen = terminal("topic", "list", filled, env={"NO_COLOR": "1"})
    assert code == 0, seen
    assert [word for word in ("PARTITIONS", "SEGMENTS", "MESSAGES", "SIZE") if word not in seen] == []


@pytest.mark.parametrize("scheme", ["persistent", "topic"])
def test_topic_set_overrides_retention_of_namespace(magnetar: Run, name: str, scheme: str) -> None:
    full = f"{scheme}://public/default/{name}"
    kind = "scalable" if scheme == "topic" else "persistent"
    magnetar("topic", "create", full)
    planned = magnetar("topic", "set", full, "--retention-minutes", "60", "--retention-mb", "5", "--dry-run")
    assert "60 min, 5 MB" in planned.out
    assert magnetar("topic", "set", full, "--retention-minutes", "60", "--retention-mb", "5").code == 0
    found = magnetar("api", "GET", f"/admin/v2/{kind}/public/default/{name}/retention").json
    assert found == {"retentionTimeInMinutes": 60, "retentionSizeInMB": 5}
    assert magnetar("topic", "set", full, "--retention-mb", "7").code == 0
    found = magnetar("api", "GET", f"/admin/v2/{kind}/public/default/{name}/retention").json
    assert found == {"retentionTimeInMinutes": 60, "retentionSizeInMB": 7}
    assert magnetar("topic", "set", full, "--unset", "retention").code == 0
    assert magnetar("api", "GET", f"/admin/v2/{kind}/public/default/{name}/retention").out.strip() == ""
    assert magnetar("topic", "set", full).code == 2
    assert magnetar("topic", "set", f"{full}-nosuch", "--retention-mb", "1").code == 3
