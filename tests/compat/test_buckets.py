"""PIP-157 through REST and the stock client: where topics of a bucketed namespace live, and how they are listed."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition

from tests.compat.conftest import Connect, Start
from tests.compat.driving import drain, numbered, send, take, texts
from tests.servers.standalone import Standalone
from tests.support.golden_vectors import load

MIB = 1024 * 1024


def children(data: Path, parent: str) -> list[str]:
    """Names below `parent` in a stopped broker's metadata file, read beside it with no code of ours."""
    with closing(sqlite3.connect(data / "metadata.db")) as file:
        return [name for (name,) in file.execute("select name from node where parent = ? order by name", (parent,))]


def test_proposals_six_topics_are_in_its_buckets(start: Start, connect: Connect) -> None:
    broker: Standalone = start()
    broker.admin("PUT", "tenants/tenant", {"adminRoles": [], "allowedClusters": ["standalone"]})
    broker.admin("PUT", "namespaces/tenant/namespace", {"numberOfTopicBuckets": 3})
    client = connect(broker.url)
    for name in ("nptopic1", "nptopic2"):
        client.create_producer(f"persistent://tenant/namespace/{name}").send(b"m")
    broker.admin("PUT", "persistent/tenant/namespace/ptopic/partitions", 4)
    send(client.create_producer("persistent://tenant/namespace/ptopic"), numbered(4))
    listed = broker.admin("GET", "persistent/tenant/namespace")
    assert sorted(listed) == [
        "persistent://tenant/namespace/nptopic1",
        "persistent://tenant/namespace/nptopic2",
        *(f"persistent://tenant/namespace/ptopic-partition-{number}" for number in range(4)),
    ]
    client.close()
    assert broker.stop() == 0
    root = "/managed-ledgers/tenant/namespace/persistent"
    assert {bucket: children(broker.data, f"{root}/{bucket}") for bucket in children(broker.data, root)} == {
        "$0": ["ptopic-partition-0", "ptopic-partition-3"],
        "$1": ["nptopic2", "ptopic-partition-1"],
        "$2": ["nptopic1", "ptopic-partition-2"],
    }


def test_number_of_buckets_is_fixed_at_creation(broker: Standalone, namespace: str) -> None:
    assert broker.ask("POST", f"/admin/v2/namespaces/{namespace}/numberOfTopicBuckets", 8).status_code >= 400
    name = f"{namespace}-b"
    broker.admin("PUT", f"namespaces/{name}", {"numberOfTopicBuckets": 4})
    assert broker.admin("GET", f"namespaces/{name}")["numberOfTopicBuckets"] == 4
    assert broker.ask("PUT", f"/admin/v2/namespaces/{name}", {"numberOfTopicBuckets": 8}).status_code == 409
    for wrong in (-1, 10_001, "x"):
        answer = broker.ask("PUT", f"/admin/v2/namespaces/{name}-wrong", {"numberOfTopicBuckets": wrong})
        assert 400 <= answer.status_code < 500, wrong


def test_clients_do_not_notice_buckets(broker: Standalone, client: pulsar.Client, namespace: str) -> None:
    name = f"{namespace}-b"
    broker.admin("PUT", f"namespaces/{name}", {"numberOfTopicBuckets": 16})
    local = [case["local_name"] for case in load("topic-buckets.json")["cases"] if 0 < len(case["local_name"]) < 60]
    plain = [one for one in local if re.fullmatch(r"[a-zA-Z0-9_.:-]+", one) and "-partition-" not in one]
    topics = [f"persistent://{name}/{one}" for one in plain[:40]]
    assert len(topics) == 40
    for topic in topics:
        producer = client.create_producer(topic)
        producer.send(topic.encode())
        producer.close()
    everything = client.subscribe(
        re.compile(f"persistent://{name}/.*"),
        "s",
        consumer_type=ConsumerType.Shared,
        initial_position=InitialPosition.Earliest,
    )
    assert sorted(texts(take(everything, 40))) == sorted(topics)
    assert sorted(broker.admin("GET", f"namespaces/{name}/topics")) == sorted(topics)
    everything.close()
    for topic in topics[:10]:
        broker.admin("DELETE", topic.replace("://", "/"), force="true")
    assert sorted(broker.admin("GET", f"persistent/{name}")) == sorted(topics[10:])


def test_pages_hold_every_topic_once(broker: Standalone, client: pulsar.Client, namespace: str) -> None:
    name = f"{namespace}-b"
    broker.admin("PUT", f"namespaces/{name}", {"numberOfTopicBuckets": 8})
    for number in range(50):
        broker.admin("PUT", f"persistent/{name}/t{number}")
    seen = paged(broker, name, limit=7)
    assert sorted(seen) == sorted(f"persistent://{name}/t{number}" for number in range(50))
    assert len(seen) == len(set(seen))


def test_limit_of_topics_counts_over_all_buckets(broker: Standalone, client: pulsar.Client, namespace: str) -> None:
    name = f"{namespace}-b"
    broker.admin("PUT", f"namespaces/{name}", {"numberOfTopicBuckets": 8})
    broker.admin("POST", f"namespaces/{name}/maxTopicsPerNamespace", 10)
    for number in range(10):
        client.create_producer(f"persistent://{name}/t{number}")
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(f"persistent://{name}/one-too-many")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hundred_thousand_topics_in_buckets_are_listed_in_bounded_memory(start: Start, connect: Connect) -> None:
    broker: Standalone = start()
    name = "public/many"
    broker.admin("PUT", f"namespaces/{name}", {"numberOfTopicBuckets": 64})
    for number in range(10):
        broker.admin("PUT", f"persistent/{name}/wide{number}/partitions", 10_000)
    broker.restart()  # what listing costs is counted from a fresh process
    broker.admin("GET", f"persistent/{name}", limit=10)
    before = broker.rss_bytes()
    seen = paged(broker, name, limit=1000)
    grown = broker.rss_bytes() - before
    assert len(seen) == 100_000
    assert set(seen) == {
        f"persistent://{name}/wide{wide}-partition-{number}" for wide in range(10) for number in range(10_000)
    }
    assert grown < 32 * MIB, f"listing by pages grew the broker by {grown / MIB:.0f} MiB"
    client = connect(broker.url)
    consumer = client.subscribe(f"persistent://{name}/wide7-partition-7777", "s")
    send(client.create_producer(f"persistent://{name}/wide7-partition-7777"), ["m"])
    assert texts(drain(consumer)) == ["m"]


def paged(broker: Standalone, namespace: str, *, limit: int) -> list[str]:
    """Everything, page after page: `after` is the last name of the page before."""
    seen: list[str] = []
    after = ""
    while True:
        page = broker.admin("GET", f"persistent/{namespace}", limit=limit, **({"after": after} if after else {}))
        assert len(page) <= limit
        if not page:
            return seen
        seen += page
        after = page[-1]
