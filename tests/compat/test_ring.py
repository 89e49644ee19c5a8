"""PIP-392 through the stock client: Failover on one-partition topics spreads over a ring once the setting is on.

The scenario is the proposal's own: a hundred topics of one partition and ten consumers on a pattern. The wheel has no
listener for the active consumer, so who is active is seen in who gets the messages, and names from the topic's stats.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pulsar
import pytest
from pulsar import ConsumerType

from magnetar.topic.dispatch.failover import Candidate, choose
from tests.compat.conftest import Connect, Start
from tests.compat.driving import until
from tests.servers.standalone import Standalone
from tests.support.golden_vectors import load

TOPICS = 100
CONSUMERS = 10
SETTING = "activeConsumerFailoverConsistentHashing"


@pytest.fixture
def ringed(start: Start) -> Standalone:
    """A broker of its own: the setting is the whole broker's."""
    return start(activeConsumerFailoverDelayTimeMillis=0)


def test_hundred_topics_spread_over_ten_pattern_consumers_as_ring_says(ringed: Standalone, connect: Connect) -> None:
    ringed.admin("POST", f"brokers/configuration/{SETTING}/true")
    names = make_topics(ringed, "spread")
    consumers = join(ringed, connect, "spread")
    until(lambda: all(attached(ringed, name) == CONSUMERS for name in names), what="all attached", timeout_s=60)
    active = publish_and_see(ringed, connect, names, consumers)
    expected = {name: computed(ringed, name) for name in names}
    told = {name: stats(ringed, name)["activeConsumerName"] for name in names}
    assert told == expected
    owners = {name: active[name] for name in names}
    assert len(set(owners.values())) == CONSUMERS, Counter(owners.values())
    leaver = owners[names[0]]
    consumers.pop(leaver).close()
    until(lambda: all(attached(ringed, name) == CONSUMERS - 1 for name in names), what="one has left", timeout_s=60)
    after = publish_and_see(ringed, connect, names, consumers)
    moved = {name for name in names if after[name] != owners[name]}
    assert moved == {name for name in names if owners[name] == leaver}, "only the topics of the one who left move"
    assert {name: stats(ringed, name)["activeConsumerName"] for name in names} == {
        name: computed(ringed, name) for name in names
    }


@pytest.mark.parametrize("on", [False, True], ids=["modulo", "ring"])
def test_named_consumers_are_chosen_as_released_code_chooses(ringed: Standalone, connect: Connect, on: bool) -> None:
    if on:
        ringed.admin("POST", f"brokers/configuration/{SETTING}/true")
    case = next(
        found
        for found in load("failover-ring.json")["cases"]
        if found["set"] == "ten" and found[SETTING] is on and found["topics"][0]["partition_index"] == 0
    )
    joining = [consumer["name"] for consumer in case["consumers_in_join_order"]]
    base = "persistent://public/default/orders"
    ringed.admin("PUT", "persistent/public/default/orders/partitions", len(case["topics"]))
    client = connect(ringed.url)
    for index, name in enumerate(joining):
        client.subscribe(base, "s", consumer_type=ConsumerType.Failover, consumer_name=name)
        for partition, topic in enumerate(case["topics"]):
            assert topic["topic"] == f"{base}-partition-{partition}"
            expected = joining[topic["active_after_each_join"][index]]
            assert stats(ringed, topic["topic"])["activeConsumerName"] == expected, (topic["topic"], index)


def test_topics_without_partitions_use_ring_whatever_setting(ringed: Standalone, connect: Connect) -> None:
    case = next(
        found
        for found in load("failover-ring.json")["cases"]
        if found["set"] == "ten" and found[SETTING] is False and found["topics"][0]["partition_index"] == -1
    )
    joining = [consumer["name"] for consumer in case["consumers_in_join_order"]]
    client = connect(ringed.url)
    for topic in case["topics"][:5]:
        for name in joining:
            client.subscribe(topic["topic"], "s", consumer_type=ConsumerType.Failover, consumer_name=name)
        expected = joining[topic["active_after_each_join"][-1]]
        assert stats(ringed, topic["topic"])["activeConsumerName"] == expected


def test_off_all_one_partition_topics_go_to_first_by_name(ringed: Standalone, connect: Connect) -> None:
    client = connect(ringed.url)
    for number in range(5):
        topic = f"persistent://public/default/few-{number}"
        ringed.admin("PUT", f"persistent/public/default/few-{number}/partitions", 1)
        for name in ("c", "a", "b"):
            client.subscribe(topic, "s", consumer_type=ConsumerType.Failover, consumer_name=name)
        assert stats(ringed, f"{topic}-partition-0")["activeConsumerName"] == "a"


def test_switching_it_moves_consumers_that_are_already_there(ringed: Standalone, connect: Connect) -> None:
    client = connect(ringed.url)
    topics = [f"persistent://public/default/moving-{number}" for number in range(10)]
    for topic in topics:
        ringed.admin("PUT", f"{topic.replace('://', '/')}/partitions", 1)
        for name in ("a", "b", "c"):
            client.subscribe(topic, "s", consumer_type=ConsumerType.Failover, consumer_name=name)
    parts = [f"{topic}-partition-0" for topic in topics]
    assert {stats(ringed, part)["activeConsumerName"] for part in parts} == {"a"}
    ringed.admin("POST", f"brokers/configuration/{SETTING}/true")
    until(
        lambda: all(stats(ringed, part)["activeConsumerName"] == computed(ringed, part) for part in parts),
        what="everybody follows the ring",
    )
    assert len({stats(ringed, part)["activeConsumerName"] for part in parts}) > 1
    ringed.admin("DELETE", f"brokers/configuration/{SETTING}")
    until(lambda: {stats(ringed, part)["activeConsumerName"] for part in parts} == {"a"}, what="back to modulo")


# What the scenarios are made of


def make_topics(broker: Standalone, prefix: str) -> list[str]:
    for number in range(TOPICS):
        broker.admin("PUT", f"persistent/public/default/{prefix}-{number}/partitions", 1)
    return [f"persistent://public/default/{prefix}-{number}-partition-0" for number in range(TOPICS)]


def join(broker: Standalone, connect: Connect, prefix: str) -> dict[int, pulsar.Consumer]:
    """Each with a client of its own; the wheel sends no name for what it attaches to a pattern's topics."""
    pattern = re.compile(f"persistent://public/default/{prefix}-.*")
    clients = [connect(broker.url) for _ in range(CONSUMERS)]
    with ThreadPoolExecutor(CONSUMERS) as pool:
        made = pool.map(lambda client: client.subscribe(pattern, "s", consumer_type=ConsumerType.Failover), clients)
        return dict(enumerate(made))


def publish_and_see(
    broker: Standalone, connect: Connect, names: list[str], consumers: dict[int, pulsar.Consumer]
) -> dict[str, int]:
    """One message to every topic; who got it."""
    client = connect(broker.url)
    for name in names:
        producer = client.create_producer(name)
        producer.send(name.encode())
        producer.close()
    got: dict[str, int] = {}
    end = time.monotonic() + 30
    while len(got) < len(names) and time.monotonic() < end:
        for number, consumer in consumers.items():
            try:
                message = consumer.receive(timeout_millis=20)
            except pulsar.Timeout:
                continue
            assert message.data().decode() not in got, "one message, one consumer"
            got[message.data().decode()] = number
            consumer.acknowledge(message)
    assert len(got) == len(names)
    return got


def stats(broker: Standalone, topic: str) -> dict[str, object]:
    found: dict[str, object] = broker.admin("GET", f"{topic.replace('://', '/')}/stats")["subscriptions"]["s"]
    return found


def attached(broker: Standalone, topic: str) -> int:
    return len(stats(broker, topic)["consumers"])  # type: ignore[arg-type]


def computed(broker: Standalone, topic: str) -> str:
    """The ring's answer for the names in use."""
    consumers = stats(broker, topic)["consumers"]
    candidates = [Candidate(one["consumerName"], 0, order) for order, one in enumerate(consumers)]  # type: ignore
    assert all(candidate.name for candidate in candidates), "everybody has a name, given or made up"
    index = choose(candidates, topic, 0, True)
    assert index is not None
    return candidates[index].name
