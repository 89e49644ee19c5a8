"""Messages of scalable topics on the command line: read without a subscription, looked at, counted by `perf`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run
from tests.servers.standalone import Standalone


@pytest.fixture
def topic(magnetar: Run, name: str) -> str:
    """Ten messages, a split in the middle. The subscription `kept` has acknowledged none of them."""
    full = f"topic://public/default/{name}"
    assert magnetar("topic", "create", full).code == 0
    assert magnetar("subscription", "create", full, "kept").code == 0
    for number in range(5):
        assert magnetar("message", "produce", full, f"{number}", "--key", f"key-{number}").code == 0
    assert magnetar("topic", "split", full, 0).code == 0
    for number in range(5, 10):
        assert magnetar("message", "produce", full, f"{number}", "--key", f"key-{number}").code == 0
    return full


def test_read_shows_all_segments_parents_first(magnetar: Run, topic: str) -> None:
    ran = magnetar("message", "read", topic)
    assert ran.code == 0, ran.err
    assert ran.out.split()[:5] == ["0", "1", "2", "3", "4"]
    assert sorted(ran.out.split()) == [str(number) for number in range(10)]
    assert "read 10 ✓" in ran.err


def test_read_ends_at_count_and_at_latest(magnetar: Run, topic: str) -> None:
    assert magnetar("message", "read", topic, "-n", "2").out.split() == ["0", "1"]
    assert magnetar("message", "read", topic, "--start", "latest").out == ""
    assert len(magnetar("message", "read", topic, "--start", "1h").out.split()) == 10
    assert magnetar("message", "read", topic, "--start", "2099-01-01T00:00:00Z").out == ""


def test_read_of_empty_topic_ends(magnetar: Run, name: str) -> None:
    full = f"topic://public/default/{name}"
    magnetar("topic", "create", full, "--segments", "2")
    ran = magnetar("message", "read", full)
    assert (ran.code, ran.out) == (0, "")


def test_read_by_id_names_starts_that_work(magnetar: Run, topic: str) -> None:
    ran = magnetar("message", "read", topic, "--start", "1:2")
    assert (ran.code, ran.out) == (2, "")
    assert "earliest, latest, a time" in ran.err


def test_peek_shows_unacknowledged_messages_of_every_segment(magnetar: Run, topic: str) -> None:
    assert magnetar("message", "consume", topic, "-s", "kept", "-n", "3").code == 0
    ran = magnetar("message", "peek", topic, "-s", "kept", "-n", "4", "-o", "jsonl")
    assert ran.code == 0, ran.err
    assert [one["data"] for one in ran.lines][:2] == ["3", "4"]
    assert {one["topic"] for one in ran.lines} == {topic}
    assert len(ran.lines) == 4
    everything = magnetar("message", "peek", topic, "-s", "kept", "-n", "100").out.split()
    assert sorted(everything) == [str(number) for number in range(3, 10)]


def test_peek_of_missing_subscription_says_so(magnetar: Run, topic: str) -> None:
    ran = magnetar("message", "peek", topic, "-s", "kpt")
    assert (ran.code, ran.out) == (3, "")
    assert "kept" in ran.err


def test_perf_consume_counts_messages_of_scalable_topic(magnetar: Run, broker: Standalone, topic: str) -> None:
    ran = magnetar("perf", "consume", topic, "--seconds", "1", "-o", "json")
    assert ran.code == 0, ran.err
    assert ran.json["messages"] == 10


def test_perf_roundtrip_measures_scalable_topic(magnetar: Run, topic: str) -> None:
    ran = magnetar("perf", "roundtrip", topic, "--seconds", "1", "--rate", "100", "-o", "json")
    assert ran.code == 0, ran.err
    assert ran.json["messages"] > 10
    assert ran.json["latency_ms"]["max"] > 0


def test_consume_takes_type_of_subscription(magnetar: Run, topic: str) -> None:
    assert magnetar("subscription", "create", topic, "jobs", "--type", "queue", "--start", "earliest").code == 0
    ran = magnetar("message", "consume", topic, "jobs", "-n", "10", "--wait", "10")
    assert (ran.code, sorted(ran.out.split())) == (0, [str(number) for number in range(10)]), ran.err
    assert magnetar("message", "consume", topic, "jobs", "--wait", "0.1").code == 6, "it was acknowledged"
    wrong = magnetar("message", "consume", topic, "jobs", "--type", "stream", "--wait", "0.1")
    assert wrong.code != 0
    assert "use a queue consumer" in wrong.err


def test_consume_creates_subscription_of_given_type(magnetar: Run, topic: str) -> None:
    for type, stored in (("queue", "QUEUE"), ("stream", "STREAM")):
        assert magnetar("message", "consume", topic, type, "--type", type).code == 0
        assert magnetar("subscription", "show", topic, type, "-o", "json").json["type"] == stored
    assert magnetar("message", "consume", topic, "new").code == 0
    assert magnetar("subscription", "show", topic, "new", "-o", "json").json["type"] == "STREAM"


def test_consume_with_type_of_other_topics_names_types(magnetar: Run, topic: str, name: str) -> None:
    ran = magnetar("message", "consume", topic, "s", "--type", "failover")
    assert (ran.code, "must be stream or queue" in ran.err) == (2, True)
    ran = magnetar("message", "consume", f"{name}-plain", "s", "--type", "queue")
    assert (ran.code, "must be exclusive, shared" in ran.err) == (2, True)
