"""What the verbs do to a broker, seen from REST: topics, subscriptions, namespaces, tenants, messages, measurements."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.servers.standalone import Standalone

HOME = "persistent/public/default"


def backlog(broker: Standalone, topic: str, subscription: str) -> int:
    found: int = broker.admin("GET", f"{HOME}/{topic}/stats")["subscriptions"][subscription]["msgBacklog"]
    return found


def fill(magnetar: Run, topic: str, count: int) -> None:
    """So many entries of one message each."""
    for number in range(count):
        assert magnetar("message", "produce", topic, f"message {number}").code == 0


# Topics


def test_topic_lives_and_ends(magnetar: Run, broker: Standalone, name: str) -> None:
    assert magnetar("topic", "create", name, "-p", "team=billing", "-p", "a=b=c").code == 0
    assert broker.admin("GET", f"{HOME}/{name}/properties") == {"team": "billing", "a": "b=c"}
    assert magnetar("topic", "unload", name).code == 0
    ran = magnetar("topic", "terminate", name, "--yes", "-o", "json")
    assert set(ran.json) >= {"ledgerId", "entryId"}
    assert magnetar("message", "produce", name, "too late").code == 4
    assert magnetar("topic", "delete", name, "--yes").code == 0
    assert magnetar("topic", "show", name).code == 3


def test_partitioned_topic_is_one_topic(magnetar: Run, broker: Standalone, name: str) -> None:
    assert magnetar("topic", "create", name, "--partitions", "3").code == 0
    listed = magnetar("topic", "list").out.splitlines()
    assert listed.count(f"persistent://public/default/{name}") == 1
    every = magnetar("topic", "list", "--partitions").out.splitlines()
    assert sum(one.startswith(f"persistent://public/default/{name}-partition-") for one in every) == 3
    fill(magnetar, name, 3)
    assert magnetar("subscription", "create", name, "all", "--start", "earliest").code == 0
    lines = magnetar("topic", "stats", name, "--partitions", "-o", "jsonl").lines
    assert [sum(line["msgInCounter"] for line in lines), len(lines)] == [3, 3]
    ends = magnetar("topic", "terminate", name, "--yes", "-o", "json").json
    assert sorted(ends) == ["0", "1", "2"]
    assert magnetar("topic", "delete", name, "--force", "--yes").code == 0
    assert not any(name in one for one in broker.admin("GET", "namespaces/public/default/topics"))


def test_listing_comes_in_pages(magnetar: Run, broker: Standalone, name: str) -> None:
    namespace = f"public/{name}"
    assert magnetar("namespace", "create", namespace).code == 0
    names = [f"persistent://{namespace}/t{number}" for number in range(5)]
    for one in names:
        assert magnetar("topic", "create", one).code == 0
    assert magnetar("topic", "list", namespace, "--limit", "2").out.splitlines() == names[:2]
    assert magnetar("topic", "list", namespace, "--after", names[1]).out.splitlines() == names[2:]
    assert magnetar("topic", "list", namespace, "--limit", "2", "-o", "json").json == names[:2]


# Subscriptions


def test_subscription_is_moved_skipped_and_cleared(magnetar: Run, broker: Standalone, topic: str) -> None:
    fill(magnetar, topic, 5)
    assert magnetar("subscription", "create", topic, "s", "--start", "earliest").code == 0
    assert backlog(broker, topic, "s") == 5
    assert magnetar("subscription", "skip", topic, "s", "2", "--yes").code == 0
    assert backlog(broker, topic, "s") == 3
    assert magnetar("subscription", "clear", topic, "s", "--yes").code == 0
    assert backlog(broker, topic, "s") == 0
    for place in ("earliest", "10m", "2020-01-01T00:00:00Z", "-1h"):
        assert magnetar("subscription", "seek", topic, "s", "--to", place).code == 0
        assert backlog(broker, topic, "s") == 5, place
    assert magnetar("subscription", "seek", topic, "s", "--to", "latest").code == 0
    assert backlog(broker, topic, "s") == 0
    ids = [line["id"] for line in magnetar("message", "read", topic, "-o", "jsonl").lines]
    assert magnetar("subscription", "seek", topic, "s", "--to", ids[3]).code == 0
    assert backlog(broker, topic, "s") == 2
    assert magnetar("subscription", "delete", topic, "s", "--yes").code == 0
    assert broker.admin("GET", f"{HOME}/{topic}/subscriptions") == []


def test_subscription_of_partitions_is_moved_in_each(magnetar: Run, broker: Standalone, name: str) -> None:
    magnetar("topic", "create", name, "--partitions", "2")
    magnetar("subscription", "create", name, "s")
    fill(magnetar, name, 4)
    assert magnetar("subscription", "clear", name, "s", "--yes").code == 0
    ran = magnetar("subscription", "seek", name, "s", "--to", "earliest", "-o", "json")
    assert len(ran.json) == 2
    assert magnetar("subscription", "list", name, "-o", "json").json["s"]["msgBacklog"] == 4
    assert magnetar("subscription", "seek", name, "s", "--to", "1:1").code == 2


# Namespaces and tenants


def test_namespaces_and_tenants_come_and_go(magnetar: Run, broker: Standalone, name: str) -> None:
    assert magnetar("tenant", "create", name, "--admin-role", "alice", "--admin-role", "bob").code == 0
    assert broker.admin("GET", f"tenants/{name}")["adminRoles"] == ["alice", "bob"]
    namespace = f"{name}/shop"
    options = ["--retention-minutes", "60", "--message-ttl", "5", "--deduplication", "--bundles", "8", "-p", "a=b"]
    assert magnetar("namespace", "create", namespace, *options).code == 0
    policies = broker.admin("GET", f"namespaces/{namespace}")
    assert policies["retention_policies"] == {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
    assert (policies["message_ttl_in_seconds"], policies["deduplicationEnabled"]) == (5, True)
    assert (policies["bundles"]["numBundles"], policies["properties"]) == (8, {"a": "b"})
    shown = magnetar("namespace", "show", namespace).out
    assert "60 min, any size" in shown
    magnetar("topic", "create", f"{namespace}/orders")
    assert magnetar("namespace", "delete", namespace, "--yes").code == 4
    assert magnetar("namespace", "delete", namespace, "--yes", "--force").code == 0
    assert magnetar("tenant", "delete", name, "--yes").code == 0
    assert name not in broker.admin("GET", "tenants")


# Messages


def test_messages_go_in_and_out(magnetar: Run, topic: str) -> None:
    ran = magnetar("message", "produce", topic, "one", "two", "--key", "k", "-p", "a=b", "-o", "json")
    assert [len(one["id"].split(":")) for one in ran.json] == [4, 4]
    assert ran.err.strip() == f"produced 2 to persistent://public/default/{topic} ✓"
    ran = magnetar("message", "consume", topic, "-s", "s", "-n", "2", "-o", "jsonl")
    assert [(one["data"], one["key"], one["properties"]) for one in ran.lines] == [
        ("one", "k", {"a": "b"}),
        ("two", "k", {"a": "b"}),
    ]
    assert ran.lines[0]["publish_time"].endswith("Z")
    assert magnetar("message", "consume", topic, "-s", "s", "--wait", "0.1").code == 6, "it was acknowledged"


def test_consuming_without_acknowledging_leaves_it_there(magnetar: Run, topic: str) -> None:
    magnetar("message", "produce", topic, "again")
    for _ in range(2):
        assert magnetar("message", "consume", topic, "-s", "s", "--no-ack").out == "again\n"
    assert magnetar("message", "consume", topic, "-s", "s", "-n", "0", "--wait", "1").out == "again\n"


def test_consuming_part_of_batch_goes_on_behind_it(magnetar: Run, topic: str) -> None:
    magnetar("message", "produce", topic, "a", "b", "c", "d")
    for wanted in ("a\nb\n", "c\nd\n"):
        assert magnetar("message", "consume", topic, "-s", "s", "-n", "2").out == wanted


def test_reading_and_peeking_leave_everything_as_it_is(magnetar: Run, broker: Standalone, topic: str) -> None:
    fill(magnetar, topic, 3)
    magnetar("message", "produce", topic, "a", "b", "c")
    magnetar("subscription", "create", topic, "s", "--start", "earliest")
    wanted = ["message 0", "message 1", "message 2", "a", "b", "c"]
    assert magnetar("message", "read", topic).out.splitlines() == wanted
    assert magnetar("message", "read", topic, "--count", "2").out.splitlines() == wanted[:2]
    assert magnetar("message", "read", topic, "--start", "1h").out.splitlines() == wanted
    assert magnetar("message", "read", topic, "--start", "latest").out == ""
    assert magnetar("message", "peek", topic, "-s", "s", "-n", "9").out.splitlines() == wanted
    first = magnetar("message", "peek", topic, "-s", "s", "-o", "json").json
    read = magnetar("message", "read", topic, "-n", "1", "-o", "json").json
    assert {key: read[0][key] for key in first[0]} == first[0]
    assert backlog(broker, topic, "s") == 4


def test_bytes_that_are_no_text_are_base64(magnetar: Run, topic: str, tmp_path: object) -> None:
    path = f"{tmp_path}/blob"
    with open(path, "wb") as file:
        file.write(b"\xff\x00")
    magnetar("message", "produce", topic, "--file", path)
    (one,) = magnetar("message", "read", topic, "-o", "jsonl").lines
    assert (one["data"], one["data_base64"]) == (None, "/wA=")


def test_lines_of_standard_input_are_messages(shell: Run, magnetar: Run, topic: str) -> None:
    ran = shell(f"printf 'one\\ntwo\\n\\nfour' | magnetar message produce {topic} -q")
    assert (ran.code, len(ran.out.splitlines())) == (0, 4)
    assert magnetar("message", "read", topic).out == "one\ntwo\n\nfour\n"


def test_pipe_carries_topic_to_another(shell: Run, magnetar: Run, topic: str) -> None:
    fill(magnetar, topic, 3)
    assert shell(f"magnetar message read {topic} -q | magnetar message produce {topic}-copy").code == 0
    assert magnetar("message", "read", f"{topic}-copy").out == magnetar("message", "read", topic).out


# Measurements


@pytest.mark.parametrize("kind", ["produce", "roundtrip"])
def test_measurement_counts_what_was_stored(magnetar: Run, broker: Standalone, topic: str, kind: str) -> None:
    magnetar("subscription", "create", topic, "counted")
    ran = magnetar("perf", kind, topic, "--seconds", "0.5", "--rate", "200", "--size", "100", "-o", "json")
    assert ran.code == 0, ran.err
    found = ran.json
    assert found["failures"] == 0
    assert found["bytes"] == found["messages"] * 100
    stats = broker.admin("GET", f"{HOME}/{topic}/stats")
    assert stats["msgInCounter"] == found["messages"] > 10
    latency = found["latency_ms"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]
    assert list(stats["subscriptions"]) == ["counted"], "a round trip takes its own subscription away again"


def test_measurement_of_consuming_takes_backlog(magnetar: Run, broker: Standalone, topic: str) -> None:
    magnetar("message", "produce", topic, "x", "--repeat", "500", "-q")
    found = magnetar("perf", "consume", topic, "--seconds", "3", "-o", "json").json
    assert (found["messages"], found["bytes"]) == (500, 500)
    assert backlog(broker, topic, "perf") == 0


def test_measurement_ends_soon_after_broker_is_killed_with_reason(tmp_path: Path) -> None:
    with Standalone(tmp_path) as mortal:
        command = [sys.executable, "-m", "magnetar.cli.main", "perf", "produce", "--url", mortal.url]
        process = subprocess.Popen(
            [*command, "--seconds", "6", "--timeout", "1", "-o", "json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        assert "msg/s" in process.stderr.readline()
        mortal.kill()
        out, told = process.communicate(timeout=60)  # the client's own patience is 30 s, twice
    assert process.returncode == 6
    assert json.loads(out)["failures"] > 0
    assert "E600" in told


# The same again


def test_existing_or_missing_object_is_no_error_if_allowed(magnetar: Run, name: str) -> None:
    """A script that was cut off runs again."""
    things = [
        ("tenant", [name]),
        ("namespace", [f"{name}/shop"]),
        ("topic", [f"{name}/shop/orders"]),
        ("subscription", [f"{name}/shop/orders", "billing"]),
    ]
    for noun, named in things:
        assert magnetar(noun, "create", *named).code == 0
        assert magnetar(noun, "create", *named).code == 4
        ran = magnetar(noun, "create", *named, "--if-not-exists", "-o", "json")
        assert (ran.code, ran.json[0]["done"]) == (0, False)
        assert "nothing to do" in ran.err
    for noun, named in reversed(things):
        assert magnetar(noun, "delete", *named, "--yes").code == 0
        assert magnetar(noun, "delete", *named, "--yes").code == 3
        assert magnetar(noun, "delete", *named, "--yes", "--if-exists").code == 0


def test_topic_with_other_partitions_is_not_accepted(magnetar: Run, name: str) -> None:
    again = ["topic", "create", name, "--if-not-exists"]
    for partitions, code in (("3", 0), ("3", 0), ("4", 4)):
        assert magnetar(*again, "--partitions", partitions).code == code
    assert magnetar(*again).code == 4
