"""How stock clients find topics: lists, patterns, partitions, lookups over HTTP."""

from __future__ import annotations

import re

import _pulsar
import pulsar
import pytest
from pulsar import InitialPosition, RegexSubscriptionMode

from tests.compat.conftest import Connect
from tests.compat.driving import drain, numbered, send, take, texts, until
from tests.servers.standalone import Standalone


def rest(topic: str) -> str:
    return topic.replace("://", "/")


def test_list_of_topics_is_one_subscription(client: pulsar.Client, topic: str) -> None:
    topics = [f"{topic}-{name}" for name in "abc"]
    consumer = client.subscribe(topics, "s")
    for one in topics:
        send(client.create_producer(one), [one])
    assert sorted(texts(take(consumer, 3))) == topics


def test_pattern_takes_what_matches_and_what_comes_later(client: pulsar.Client, topic: str) -> None:
    for name in ("x-1", "x-2", "y-1"):
        client.create_producer(f"{topic}-{name}")
    # The wheel takes pattern_auto_discovery_period and forgets it (60 s always): ask its inner layer.
    asked = _pulsar.ConsumerConfiguration()
    asked.pattern_auto_discovery_period(1)
    asked.subscription_initial_position(InitialPosition.Earliest)
    consumer = client._client.subscribe_pattern(f"{topic}-x-.*", "s", asked)
    for name in ("x-1", "x-2", "y-1", "x-3"):
        send(client.create_producer(f"{topic}-{name}"), [name])
    seen = [consumer.receive(10_000).data().decode() for _ in range(3)]
    assert sorted(seen) == ["x-1", "x-2", "x-3"]
    consumer.close()


def test_pattern_takes_partitioned_topics_whole(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    broker.admin("PUT", f"{rest(topic)}-parts/partitions", 4)
    consumer = client.subscribe(re.compile(f"{topic}-.*"), "s")
    send(client.create_producer(f"{topic}-parts"), numbered(20))
    assert sorted(texts(take(consumer, 20))) == sorted(numbered(20))


def test_new_pattern_leaves_out_migrated_topic_or_starts_at_earliest(
    broker: Standalone, client: pulsar.Client, topic: str
) -> None:
    for name in ("a", "b", "m"):
        client.subscribe(f"{topic}-{name}", "keeps").close()
        producer = client.create_producer(f"{topic}-{name}")
        send(producer, [f"old {name}"])
        producer.close()
    migrated = f"scalable/{topic.removeprefix('persistent://')}-m"
    broker.admin("POST", f"{migrated}/migrate")
    with pytest.raises(pulsar.TopicTerminated):
        client.subscribe(re.compile(f"{topic}-.*"), "latest")
    assert list(broker.admin("GET", f"{migrated}/subscriptions")) == ["keeps"], (
        "it would keep all that comes, for nobody"
    )
    few = client.subscribe(re.compile(f"{topic}-[ab]"), "few")
    whole = client.subscribe(re.compile(f"{topic}-.*"), "whole", initial_position=InitialPosition.Earliest)
    for name in ("a", "b"):
        send(client.create_producer(f"{topic}-{name}"), [f"new {name}"])
    assert sorted(texts(take(few, 2))) == ["new a", "new b"]
    assert sorted(texts(take(whole, 5))) == ["new a", "new b", "old a", "old b", "old m"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (RegexSubscriptionMode.PersistentOnly, ["persistent"]),
        (RegexSubscriptionMode.NonPersistentOnly, ["non-persistent"]),
        (RegexSubscriptionMode.AllTopics, ["non-persistent", "persistent"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_pattern_looks_at_domains_it_is_told(
    client: pulsar.Client, topic: str, mode: RegexSubscriptionMode, expected: list[str]
) -> None:
    producers = {
        domain: client.create_producer(topic.replace("persistent", domain, 1) + "-t")
        for domain in ("persistent", "non-persistent")
    }
    consumer = client.subscribe(re.compile(f"{topic}.*"), "s", regex_subscription_mode=mode)
    for domain, producer in producers.items():
        send(producer, [domain])
    assert sorted(texts(drain(consumer, quiet_ms=700))) == expected


def test_partitions_get_their_share_and_keys_their_partition(
    broker: Standalone, client: pulsar.Client, topic: str
) -> None:
    broker.admin("PUT", f"{rest(topic)}/partitions", 4)
    assert client.get_topic_partitions(topic) == [f"{topic}-partition-{number}" for number in range(4)]
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send(producer, numbered(40))
    counts: dict[int, int] = {}
    for message in take(consumer, 40):
        counts[message.message_id().partition()] = counts.get(message.message_id().partition(), 0) + 1
    assert counts == {0: 10, 1: 10, 2: 10, 3: 10}
    for number in range(40):
        producer.send(f"k{number % 8}".encode(), partition_key=f"k{number % 8}")
    homes: dict[str, set[int]] = {}
    for message in take(consumer, 40):
        homes.setdefault(message.data().decode(), set()).add(message.message_id().partition())
    assert all(len(found) == 1 for found in homes.values())


def test_topic_without_partitions_is_its_own_list(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic)
    assert client.get_topic_partitions(topic) == [topic]


def test_more_partitions_are_found_by_clients_that_ask_again(
    broker: Standalone, client: pulsar.Client, topic: str
) -> None:
    broker.admin("PUT", f"{rest(topic)}/partitions", 2)
    send(client.create_producer(topic), numbered(4))
    broker.admin("POST", f"{rest(topic)}/partitions", 5)
    assert len(client.get_topic_partitions(topic)) == 5
    consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    send(client.create_producer(topic), numbered(10, 4))
    assert sorted(texts(take(consumer, 14))) == sorted(numbered(14))


def test_lookups_over_http_find_plain_and_partitioned_topics(broker: Standalone, connect: Connect, topic: str) -> None:
    client = connect(broker.http)
    broker.admin("PUT", f"{rest(topic)}-parts/partitions", 3)
    for name in (topic, f"{topic}-parts", f"{topic} with space+plus"):
        consumer = client.subscribe(name, "s")
        send(client.create_producer(name), numbered(9))
        assert sorted(texts(take(consumer, 9))) == sorted(numbered(9))
    matching = client.subscribe(re.compile(f"{topic}.*"), "p", initial_position=InitialPosition.Earliest)
    assert len(drain(matching, quiet_ms=1000)) == 27


def test_unknown_listener_is_refused_at_once(broker: Standalone, connect: Connect, topic: str) -> None:
    # The stock client knows this refusal by its words, which name a listener called "test"; any other is retried.
    with pytest.raises(pulsar.ConnectError):
        connect(broker.url, listener_name="test").create_producer(topic)


def test_names_that_need_encoding_are_found_again(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    for name in ("ä ö", "a/b"[:1] + ":b@c", "x+y%z", "日本"):
        full = f"{topic}-{name}"
        consumer = client.subscribe(full, "s")
        send(client.create_producer(full), [name])
        assert texts(take(consumer, 1)) == [name]
        until(lambda full=full: full in broker.admin("GET", "persistent/public/default"), what="it is listed")
