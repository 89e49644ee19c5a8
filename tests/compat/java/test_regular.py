"""The real Java client of scalable topics (5.0.0-M1) on plain topics of our broker and on those that are migrated, by
the rows of its own suite (L14 to L20), and its stream consumers there, which the broker of its own release refuses.
"""

from __future__ import annotations

import time
from collections import defaultdict

import httpx2
import pytest

from tests.compat.java.conftest import Connect
from tests.compat.java.driver import V5, Refusal
from tests.compat.java.test_v5 import PATH, active, check, read, split
from tests.servers.standalone import Standalone

pytestmark = [pytest.mark.slow]

LONG_MS = 30_000  # for what must come
SHORT_MS = 1_500  # for what must not
PLAIN = "persistent/public/default"


def full(name: str) -> str:
    return f"persistent://public/default/{name}"


def create(broker: Standalone, name: str, partitions: int = 0) -> None:
    if partitions:
        broker.admin("PUT", f"{PLAIN}/{name}/partitions", partitions)
    else:
        broker.admin("PUT", f"{PLAIN}/{name}")


def migrate(broker: Standalone, name: str, *, force: bool = False) -> int:
    """The status."""
    path = f"{broker.http}/admin/v2/{PATH}/{name}/migrate"
    return httpx2.post(path, params={"force": str(force).lower()}, timeout=60).status_code


def produce(client: V5, topic: str, count: int, *, keys: int = 8, first: int = 0, name: str = "p") -> None:
    if not first:
        client.ask("producer", name, full(topic))
    client.ask("load", name, keys, count, first)
    assert client.ask("wait", name) == str(count)


def take(client: V5, name: str, count: int, idle_ms: int = LONG_MS) -> list[str]:
    return client.ask("queue-read", name, count, idle_ms).split()


def test_l14_keys_follow_partition_routing_of_older_client(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 4)
    client = v5()
    client.ask("old-producer", "old", full(name))
    client.ask("producer", "p", full(name))
    for key in range(20):
        client.ask("old-send", "old", f"key-{key}", "a")
        client.ask("send", "p", f"key-{key}", "b")
    homes: dict[str, list[str]] = defaultdict(list)
    for said in client.ask("old-read", full(name), "sub", 40, LONG_MS).split():
        key, home = said.split("@")
        homes[key].append(home)
    assert [(len(found), len(set(found))) for found in homes.values()] == [(2, 1)] * 20


@pytest.mark.parametrize("partitions", [0, 3])
def test_l15_producers_and_queue_consumers_use_plain_topics(
    scalable: Standalone, v5: Connect, name: str, partitions: int
) -> None:
    create(scalable, name, partitions)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    produce(client, name, 100)
    check(sorted(take(client, "q", 100), key=lambda value: int(value.split(":")[1])), 8, 100)
    assert take(client, "q", 1, SHORT_MS) == []
    client.ask("mark", "m", full(name))
    check(
        sorted(client.ask("mark-read", "m", 100, LONG_MS).split(), key=lambda value: int(value.split(":")[1])), 8, 100
    )


def test_l16_topic_that_is_not_kept_has_no_layout(v5: Connect, name: str) -> None:
    with pytest.raises(Refusal):
        v5().ask("producer", "p", f"non-persistent://public/default/{name}")


@pytest.mark.parametrize("partitions", [0, 3])
def test_stream_consumers_read_plain_topics_each_key_in_order(
    scalable: Standalone, v5: Connect, name: str, partitions: int
) -> None:
    """Refused by the reference: "Failed to initialize controller"."""
    create(scalable, name, partitions)
    client = v5()
    client.ask("stream", "s", full(name), "sub", "earliest")
    produce(client, name, 200)
    check(read(client, "s", 200, LONG_MS), 8, 200)
    client.ask("close", "s")
    client.ask("stream", "t", full(name), "sub", "earliest")
    produce(client, name, 8, first=200)
    assert sorted(read(client, "t", 8, LONG_MS)) == [f"k{key}:{25}" for key in range(8)], "the next one goes on there"


@pytest.mark.parametrize("partitions", [0, 3])
@pytest.mark.parametrize("how", ["load", "pipeline"])
def test_l17_l18_open_producer_continues_and_queue_consumer_gets_everything(
    scalable: Standalone, v5: Connect, name: str, partitions: int, how: str
) -> None:
    create(scalable, name, partitions)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    produce(client, name, 200)
    client.ask(how, "p", 8, 400, 200)
    assert migrate(scalable, name) == 204, "all its clients follow"
    assert client.ask("wait", "p") == "400"
    wanted = {f"k{number % 8}:{number // 8}" for number in range(600)}
    found = set(take(client, "q", 600))
    while found < wanted and (more := take(client, "q", 1)):  # what it sent again may come twice
        found |= set(more)
    assert found == wanted
    assert active(scalable, name) == [max(partitions, 1) + index for index in range(max(partitions, 1))]


@pytest.mark.parametrize("partitions", [0, 3])
def test_stream_consumer_reads_through_migration_and_split_in_order(
    scalable: Standalone, v5: Connect, name: str, partitions: int
) -> None:
    """Of the reference it cannot subscribe to a migrated topic at all: TopicDoesNotExist for its first segment."""
    create(scalable, name, partitions)
    client = v5()
    client.ask("stream", "s", full(name), "sub", "earliest")
    produce(client, name, 200)
    values = read(client, "s", 100, LONG_MS)
    assert migrate(scalable, name) == 204
    produce(client, name, 200, first=200)
    split(scalable, name, active(scalable, name)[0])
    produce(client, name, 200, first=400)
    values += read(client, "s", 500, LONG_MS)
    check(values, 8, 600)


def test_stream_consumer_that_comes_after_migration_gets_plain_topic_first(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    create(scalable, name, 2)
    client = v5()
    produce(client, name, 200)
    assert migrate(scalable, name) == 204
    produce(client, name, 200, first=200)
    client.ask("stream", "s", f"topic://public/default/{name}", "sub", "earliest")
    check(read(client, "s", 400, LONG_MS), 8, 400)
    client.ask("mark", "m", full(name))
    assert len(set(client.ask("mark-read", "m", 400, LONG_MS).split())) == 400


def test_l19_older_client_reads_rest_but_cannot_write_after_migration(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    create(scalable, name)
    client = v5()
    client.ask("old-producer", "old", full(name))
    client.ask("old-send", "old", "k", "1")
    assert migrate(scalable, name) == 409
    assert migrate(scalable, name, force=True) == 204
    with pytest.raises(Refusal):
        client.ask("old-send", "old", "k", "2")
    with pytest.raises(Refusal, match=r"(?i)terminated|migrated"):
        client.ask("old-producer", "older", full(name))
    assert client.ask("old-read", full(name), "sub", 1, LONG_MS) == f"k@{name}"


def test_l20_existing_topic_is_migrated_once(scalable: Standalone, v5: Connect, name: str) -> None:
    assert migrate(scalable, name) == 404
    create(scalable, name, 2)
    assert migrate(scalable, name) == 204
    assert migrate(scalable, name) == 409
    shown = scalable.admin("GET", f"{PATH}/{name}")["segments"]
    assert [shown[id]["legacyTopicName"] for id in ("0", "1")] == [
        f"{full(name)}-partition-{index}" for index in (0, 1)
    ]
    assert [(shown[id]["parentIds"], shown[id]["state"]) for id in ("2", "3")] == [([0, 1], "ACTIVE")] * 2


def send(client: V5, topic: str, *values: str) -> None:
    client.ask("old-producer", "w", full(topic))
    for value in values:
        client.ask("old-send", "w", "k", value)
    client.ask("old-close", "w")


def test_reader_that_seeks_by_time_or_rolls_back_starts_there(scalable: Standalone, v5: Connect, name: str) -> None:
    client = v5()
    send(client, name, *"abcde")
    time.sleep(4)
    between_ms = int(time.time() * 1000) - 2_000
    send(client, name, *"fghij")
    assert client.ask("old-seek", full(name), between_ms, 10, SHORT_MS).split() == list("fghij")
    seconds = int(time.time() - between_ms / 1000)
    assert client.ask("old-rollback", full(name), seconds, 10, SHORT_MS).split() == list("fghij")


def test_non_durable_consumer_begins_at_earliest(scalable: Standalone, v5: Connect, name: str) -> None:
    client = v5()
    send(client, name, "a", "b")
    assert client.ask("old-nondurable", full(name), "-", 3, SHORT_MS).split() == ["a", "b"]


def test_pattern_of_more_than_fifty_characters_works(scalable: Standalone, v5: Connect, name: str) -> None:
    client = v5()
    send(client, f"{name}-long", "a")
    pattern = f"public/default/({name}-long|{'x' * 50})"
    assert client.ask("old-pattern", pattern, "-", 1, LONG_MS) == "a"
