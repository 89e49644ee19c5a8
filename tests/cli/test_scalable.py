"""What the verbs of scalable topics do to a broker, and what they say."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar import Batching, Client, InitialPosition
from magnetar.layout.routing import Routing, segment_hash
from tests.cli.conftest import Run
from tests.servers.standalone import Standalone


@pytest.fixture
def topic(magnetar: Run, name: str) -> str:
    full = f"topic://public/default/{name}"
    assert magnetar("topic", "create", full, "--segments", "2").code == 0
    return full


def segments(broker: Standalone, topic: str) -> dict[int, str]:
    found = broker.admin("GET", f"scalable/{topic.removeprefix('topic://')}")["segments"]
    return {int(id): one["state"] for id, one in found.items()}


def test_topic_is_split_and_merged_and_says_so(magnetar: Run, broker: Standalone, topic: str) -> None:
    ran = magnetar("topic", "split", topic, 0, "--reason", "hot", "-o", "json")
    assert (ran.code, ran.json["kind"], ran.json["phase"]) == (0, "SPLIT", "DONE")
    assert magnetar("topic", "merge", topic, 3, 1).code == 0
    assert segments(broker, topic) == {0: "SEALED", 1: "SEALED", 2: "ACTIVE", 3: "SEALED", 4: "ACTIVE"}
    tree = magnetar("segment", "tree", topic).out.splitlines()
    assert [line.split()[0] for line in tree[1:]] == ["#0", "├─#2", "└─#3", "└─#4", "#1"]
    history = magnetar("segment", "history", topic, "-o", "json").json
    assert [(one["kind"], one["parentIds"]) for one in history] == [("MERGE", [3, 1]), ("SPLIT", [0])]
    assert "hot" in magnetar("segment", "history", topic).out
    listed = magnetar("segment", "list", topic).out.splitlines()
    assert len(listed) == 6


def test_plan_changes_nothing_until_it_is_meant(magnetar: Run, broker: Standalone, topic: str) -> None:
    planned = magnetar("topic", "scale", topic, 5, "--dry-run", "-o", "json")
    assert (planned.code, len(planned.json)) == (0, 3)
    assert list(segments(broker, topic)) == [0, 1]
    assert magnetar("topic", "scale", topic, 5).code == 0
    assert sum(state == "ACTIVE" for state in segments(broker, topic).values()) == 5
    assert magnetar("topic", "scale", topic, 1).code == 0
    assert sum(state == "ACTIVE" for state in segments(broker, topic).values()) == 1


def test_steps_of_split_are_lines_of_json(magnetar: Run, topic: str) -> None:
    ran = magnetar("topic", "split", topic, 0, "-o", "jsonl")
    steps = [line["step"] for line in ran.lines]
    assert (steps[0], steps[-2:]) == ("intended", ["committed", "done"])
    assert len({line["operation"] for line in ran.lines}) == 1
    assert [line["ms"] for line in ran.lines] == sorted(line["ms"] for line in ran.lines)
    assert ran.lines[-1]["children"] == [2, 3]
    assert all(line["at"].endswith("Z") for line in ran.lines)
    assert ran.err.startswith("split segment 0: plan written ✓ · ")
    assert len(ran.err.splitlines()) == 1


def test_split_that_nobody_waits_for_is_told_by_its_id(magnetar: Run, broker: Standalone, topic: str) -> None:
    ran = magnetar("topic", "split", topic, 1, "--no-wait", "-o", "json")
    assert (ran.code, [step["name"] for step in ran.json["steps"]]) == (0, ["intended"])
    assert ran.json["op"] in ran.err
    path = f"scalable/{topic.removeprefix('topic://')}/operations/{ran.json['op']}"
    while broker.admin("GET", path)["phase"] != "DONE":
        pass
    assert magnetar("topic", "scale", topic, 2, "--no-wait", "-o", "name").out.startswith("merge-")
    ran = magnetar("topic", "scale", topic, 6, "--no-wait")
    assert (ran.code, ran.out) == (2, "")
    assert "omit --no-wait" in ran.err


def test_key_is_found_in_every_generation(magnetar: Run, topic: str) -> None:
    slot = segment_hash("user-42", Routing.HIGH16)
    first = slot >> 15
    magnetar("topic", "split", topic, first)
    found = magnetar("key", "where", topic, "user-42", "-o", "json").json
    assert (found["hash"], found["generations"][0], len(found["generations"])) == (slot, first, 2)
    assert found["segment"] == found["generations"][1]


def test_explain_says_who_waits_for_whom(magnetar: Run, broker: Standalone, topic: str) -> None:
    path = topic.removeprefix("topic://")
    broker.ask("PUT", f"/admin/v2/scalable/{path}/subscriptions/billing", type="STREAM")
    magnetar("topic", "split", topic, 0)
    told = magnetar("topic", "explain", topic, "-o", "json").json
    assert told["stats"]["activeSegments"] == 3
    assert {row["segment"] for row in told["waiting"]} >= {1}
    assert magnetar("topic", "explain", topic).code == 0


def test_scalable_topic_is_shown_listed_and_deleted_like_any_other(
    magnetar: Run, broker: Standalone, topic: str
) -> None:
    assert topic in magnetar("topic", "list", "-o", "json").json
    assert topic in magnetar("topic", "list").out.splitlines()
    assert topic not in magnetar("topic", "list", "--after", topic, "-o", "name").out.splitlines()
    assert magnetar("message", "produce", topic, "a", "b", "--key", "k").code == 0
    path = f"scalable/{topic.removeprefix('topic://')}"
    shown = magnetar("topic", "show", topic, "-o", "json").json
    assert (shown["layout"], shown["stats"]) == (broker.admin("GET", path), broker.admin("GET", f"{path}/stats"))
    stats = magnetar("topic", "stats", topic, "-o", "jsonl").lines
    assert [sum(one["msgInCounter"] for one in stats), len(stats)] == [2, 2]
    assert magnetar("topic", "delete", topic).code == 2, "it asks"
    assert magnetar("topic", "delete", topic, "--yes").code == 0
    assert magnetar("topic", "show", topic).code == 3


def test_subscription_of_scalable_topic_is_made_used_shown_and_deleted(
    magnetar: Run, broker: Standalone, topic: str
) -> None:
    assert magnetar("subscription", "create", topic, "s", "--start", "earliest").code == 0
    magnetar("message", "produce", topic, "a", "b", "--key", "k")
    assert magnetar("message", "consume", topic, "-s", "s", "-n", "2").out == "a\nb\n"
    assert magnetar("message", "consume", topic, "-s", "s", "--wait", "0.1").code == 6, "it was acknowledged"
    wanted = broker.admin("GET", f"scalable/{topic.removeprefix('topic://')}/subscriptions")
    assert magnetar("subscription", "list", topic, "-o", "json").json == wanted
    assert magnetar("subscription", "show", topic, "s", "-o", "json").json == wanted["s"]
    assert magnetar("subscription", "show", topic, "nobody").code == 3
    assert magnetar("subscription", "seek", topic, "s", "--to", "earliest").code == 0
    assert magnetar("message", "consume", topic, "-s", "s", "-n", "2").out == "a\nb\n", "all of it again"
    assert magnetar("subscription", "seek", topic, "s", "--to", "1:2").code == 2, "in which segment?"
    assert magnetar("subscription", "seek", topic, "nobody", "--to", "latest").code == 3
    assert magnetar("subscription", "skip", topic, "s", "1").code == 2, "there is no order to count in"
    assert magnetar("subscription", "clear", topic, "s").code == 2, "it asks"
    assert magnetar("subscription", "seek", topic, "s", "--to", "0/0:0").code == 0
    assert magnetar("subscription", "clear", topic, "s", "--yes").code == 0
    assert magnetar("message", "consume", topic, "-s", "s", "--wait", "0.1").code == 6, "it was skipped"
    assert magnetar("subscription", "delete", topic, "s", "--yes").code == 0
    assert magnetar("subscription", "list", topic, "-o", "json").json == {}


def test_order_is_proved_on_topic_that_is_reshaped_meanwhile(magnetar: Run, topic: str) -> None:
    ran = magnetar("topic", "verify-order", topic, "-t", "2", "-r", "500", "--reshape", "0.3", "-o", "json")
    assert (ran.code, ran.json["kept"], ran.json["findings"]) == (0, True, [])
    assert ran.json["sent"] == ran.json["received"] - ran.json["redelivered"]
    assert ran.json["sent"] == ran.json["receivedLate"] - ran.json["redeliveredLate"]
    assert ran.json["reshapes"] > 0
    assert "split" in ran.err


def test_what_is_wrong_is_said_before_anything_is_sent(magnetar: Run, topic: str) -> None:
    assert magnetar("topic", "split", "persistent://public/default/x", 0).code == 2
    assert magnetar("topic", "split", topic, 0, "--at", "xyz").code == 2
    assert magnetar("topic", "split", topic, 0, "--at", "4000", "--into", "3").code == 2
    assert magnetar("topic", "merge", topic, 0).code == 2
    assert magnetar("topic", "create", topic, "--partitions", "2").code == 2
    assert magnetar("topic", "split", topic, 77).code == 3


def test_key_is_located_in_segment_that_takes_it_now(magnetar: Run, topic: str) -> None:
    slot = segment_hash("user-42", Routing.HIGH16)
    found = magnetar("segment", "locate", topic, "user-42", "-o", "json").json
    assert (found["hash"], found["segment"]) == (slot, slot >> 15)
    assert magnetar("segment", "locate", topic, "user-42", "-o", "name").out.strip() == found["topic"]
    magnetar("topic", "split", topic, slot >> 15)
    again = magnetar("segment", "locate", topic, "user-42", "-o", "json").json
    assert again["segment"] in (2, 3)


def test_merge_of_two_consumers_segments_is_explained_as_waiting(magnetar: Run, broker: Standalone, topic: str) -> None:
    client = Client(broker.url)
    both = [client.stream_consumer(topic, "billing", name=name) for name in ("a", "b")]
    while len({one["consumerName"] for one in explained(magnetar, topic)}) < 2:
        pass
    with client.create_producer(topic) as producer:
        for number in range(20):
            producer.send(b"x", key=f"key-{number}")
    magnetar("topic", "merge", topic, 0, 1)
    by_id = {one["segmentId"]: one for one in explained(magnetar, topic)}
    assert by_id[2]["waitsFor"] == [0, 1]
    assert by_id[0]["holdsBack"] == by_id[1]["holdsBack"] == [2]
    assert {by_id[0]["consumerName"], by_id[1]["consumerName"]} == {"a", "b"}
    assert by_id[0]["left"] + by_id[1]["left"] == 20
    lines = magnetar("subscription", "explain", topic, "billing").out
    assert f"waits for #0 ({by_id[0]['left']} left), #1 ({by_id[1]['left']} left)" in lines
    assert "is read to its end; #2 waits for it" in lines
    held = magnetar("subscription", "assignments", topic, "billing", "-o", "json").json
    assert [(one["consumerName"], one["connected"]) for one in held["consumers"]] == [("a", True), ("b", True)]
    for consumer, left in zip(both, (left_of(by_id, "a"), left_of(by_id, "b")), strict=True):
        for _ in range(left):
            consumer.acknowledge_cumulative(consumer.receive(60))
    while [one["segmentId"] for one in explained(magnetar, topic)] != [2]:
        pass
    row = magnetar("subscription", "assignments", topic, "billing").out.splitlines()[-1].split()
    assert row[:2] == ["b", "yes"]
    client.close()
    missing = magnetar("subscription", "explain", topic, "nobody")
    assert (missing.code, missing.out) == (3, "")


def test_split_of_one_consumer_is_explained_as_read_ahead(magnetar: Run, broker: Standalone, topic: str) -> None:
    client = Client(broker.url)
    consumer = client.stream_consumer(topic, "billing", name="a", initial_position=InitialPosition.EARLIEST)
    with client.create_producer(topic) as producer:
        for number in range(20):
            producer.send(b"x", key=f"key-{number}")
    magnetar("topic", "split", topic, 0)
    for _ in range(20):
        last = consumer.receive(60)
    while {one["segmentId"]: one["readAheadOf"] for one in explained(magnetar, topic)} != {
        0: [],
        1: [],
        2: [0],
        3: [0],
    }:
        pass
    left = {one["segmentId"]: one["left"] for one in explained(magnetar, topic)}
    assert f"is read ahead of acknowledgements in #0 ({left[0]} left)" in explained_text(magnetar, topic)
    held = magnetar("subscription", "assignments", topic, "billing", "-o", "json").json
    assert sorted(held["consumers"][0]["segmentIds"]) == [0, 1, 2, 3]
    consumer.acknowledge_cumulative(last)
    while [one["segmentId"] for one in explained(magnetar, topic)] != [1, 2, 3]:
        pass
    client.close()


def explained(magnetar: Run, topic: str) -> list[dict[str, Any]]:
    return list(magnetar("subscription", "explain", topic, "billing", "-o", "json").json["segments"])


def explained_text(magnetar: Run, topic: str) -> str:
    return magnetar("subscription", "explain", topic, "billing").out


def left_of(by_id: dict[int, dict[str, Any]], name: str) -> int:
    return sum(one["left"] for one in by_id.values() if one["consumerName"] == name)


@pytest.mark.slow
def test_queue_and_hold_are_explained_without_word_of_waiting(magnetar: Run, broker: Standalone, topic: str) -> None:
    with Client(broker.url) as client:
        queue = client.queue_consumer(topic, "work", name="w", initial_position=InitialPosition.EARLIEST)
        client.hold(topic, "nightly", expires_s=3600)
        with client.create_producer(topic) as producer:
            for number in range(20):
                producer.send(b"x", key=f"key-{number}")
        magnetar("topic", "split", topic, 0)
        told = magnetar("subscription", "explain", topic, "work", "-o", "json").json
        assert [one["waitsFor"] for one in told["segments"]] == [[]] * 4
        assert sum(one["left"] for one in told["segments"]) == 20
        for said in (magnetar("subscription", "explain", topic, "work"), magnetar("topic", "explain", topic)):
            assert said.code == 0
            assert "waits for" not in said.out
        rows = [line.split() for line in magnetar("subscription", "list", topic).out.splitlines()]
        assert ["work", "QUEUE", "1", "20"] in [row[:4] for row in rows]
        assert ["nightly", "CHECKPOINT", "0", "20"] in [row[:4] for row in rows]
        for verb in ("explain", "show"):
            assert f"magnetar hold show {topic} nightly" in magnetar("subscription", verb, topic, "nightly").out
        queue.close()


def test_plain_topic_is_looked_at_and_then_migrated_for_good(magnetar: Run, broker: Standalone, name: str) -> None:
    assert magnetar("topic", "create", name, "--partitions", "2").code == 0
    planned = magnetar("topic", "migrate", name, "--dry-run", "-o", "json")
    assert (planned.code, planned.json["forceNeeded"], len(planned.json["segments"])) == (0, False, 4)
    table = magnetar("topic", "migrate", name, "--dry-run").out
    assert f"topic://public/default/{name}" in table
    asked = magnetar("topic", "migrate", name)
    assert (asked.code, asked.out) == (2, ""), "it cannot be taken back, so somebody has to say so"
    ran = magnetar("topic", "migrate", name, "--yes", "--reason", "grows", "-o", "json")
    assert (ran.code, ran.json["kind"], ran.json["phase"]) == (0, "MIGRATE", "DONE")
    assert segments(broker, f"topic://public/default/{name}") == {0: "SEALED", 1: "SEALED", 2: "ACTIVE", 3: "ACTIVE"}
    assert magnetar("topic", "migrate", name, "--yes").code != 0


def test_migrated_topic_is_scalable_one_by_its_old_name_too(magnetar: Run, broker: Standalone, name: str) -> None:
    """Its sealed part alone would say that nothing waits."""
    whole = f"topic://public/default/{name}"
    assert magnetar("topic", "create", name, "--partitions", "2").code == 0
    assert magnetar("subscription", "create", name, "billing", "--start", "earliest").code == 0
    assert magnetar("topic", "migrate", name, "--yes").code == 0
    with Client(broker.url) as client, client.create_producer(name, follow=True) as producer:
        for number in range(7):
            producer.send(b"%d" % number, key="k")
        for verb in ("show", "stats"):
            assert magnetar("topic", verb, name, "-o", "json").json["topic"] == whole
        assert magnetar("subscription", "list", name, "-o", "json").json["billing"]["lag"] == 7
        assert magnetar("subscription", "show", name, "billing", "-o", "json").json["lag"] == 7
        assert magnetar("topic", "stats", f"{name}-partition-0", "-o", "json").json["msgInCounter"] == 0, "a part of it"
        assert magnetar("topic", "stats", name, "--partitions").code != 0
        assert magnetar("subscription", "skip", name, "billing", 1, "--yes").code != 0
        assert magnetar("subscription", "clear", name, "billing", "--yes").code == 0
        assert magnetar("subscription", "show", name, "billing", "-o", "json").json["lag"] == 0
        assert magnetar("subscription", "seek", name, "billing", "--to", "earliest").code == 0
        assert magnetar("subscription", "show", name, "billing", "-o", "json").json["lag"] == 7
        assert magnetar("subscription", "create", name, "audit").code == 0
        assert magnetar("subscription", "delete", name, "billing", "--yes").code == 0
        assert sorted(magnetar("subscription", "list", name, "-o", "json").json) == ["audit"]


def test_old_client_stops_migration_and_force_is_explained(magnetar: Run, broker: Standalone, name: str) -> None:
    with Client(broker.url) as client:
        producer = client.create_producer(f"persistent://public/default/{name}", name="old")
        refused = magnetar("topic", "migrate", name, "--yes")
        assert refused.code != 0
        assert "producer old" in refused.err
        assert "force" in refused.err
        assert "--force is required" in magnetar("topic", "migrate", name, "--dry-run").out
        assert magnetar("topic", "migrate", name, "--yes", "--force").code == 0
        producer.close()


def test_segment_gets_more_entry_buckets_and_same_range(magnetar: Run, broker: Standalone, topic: str) -> None:
    ran = magnetar("topic", "rebucket", topic, 0, 8, "--reason", "eight readers", "-o", "json")
    assert (ran.code, ran.json["kind"], ran.json["parentIds"]) == (0, "REBUCKET", [0])
    found = broker.admin("GET", f"scalable/{topic.removeprefix('topic://')}")["segments"]
    [child] = ran.json["childIds"]
    assert found[str(child)]["hashRange"] == found["0"]["hashRange"]
    assert len(found[str(child)]["entryBucketSplits"]) == 7
    assert magnetar("topic", "rebucket", topic, child, 8).code != 0  # as many as it has


def test_subscription_properties_are_shown_of_topic_and_segments(magnetar: Run, broker: Standalone, topic: str) -> None:
    said = {"team": "x", "tier": "gold"}

    def of_segment(id: int) -> list[dict[str, str]]:
        found = broker.admin("GET", f"scalable/{topic.removeprefix('topic://')}/segments/{id}/stats")["subscriptions"]
        return [one["subscriptionProperties"] for one in found.values()]

    with Client(broker.url) as client:
        client.queue_consumer(topic, "q", subscription_properties=said)
        client.stream_consumer(topic, "s", subscription_properties=said)
        while [of_segment(0), of_segment(1)] != [[said, said]] * 2:  # it attaches to its segments in the background
            pass
    assert magnetar("topic", "split", topic, 0).code == 0
    assert [of_segment(id) for id in segments(broker, topic)] == [[said, said]] * 4
    for subscription in ("q", "s"):
        shown = magnetar("subscription", "show", topic, subscription)
        assert "team=x, tier=gold" in " ".join(shown.out.split())


def test_stream_lag_is_number_of_messages(magnetar: Run, broker: Standalone, topic: str) -> None:
    with Client(broker.url) as client:
        client.stream_consumer(topic, "billing", initial_position=InitialPosition.EARLIEST).close()
        with client.create_producer(topic, batching=Batching(messages_max=10, delay_s=1)) as producer:
            for number in range(30):
                producer.post(b"x", key=f"key-{number}")
            producer.flush()
        magnetar("topic", "split", topic, 0)
        rows = [line.split() for line in magnetar("subscription", "list", topic).out.splitlines()]
        assert rows[0][:5] == ["SUBSCRIPTION", "TYPE", "CONSUMERS", "LAG", "OLDEST"]
        assert ["billing", "STREAM", "0", "30"] in [row[:4] for row in rows]
        assert ["billing", "STREAM", "0", "30"] in [
            line.split()[:4] for line in magnetar("topic", "show", topic).out.splitlines()
        ]
        shown = dict(
            line.split(maxsplit=1) for line in magnetar("subscription", "show", topic, "billing").out.splitlines()
        )
        assert shown["lag"] == "30"
        assert shown["oldest"].startswith("message")
        assert shown["drained"] == "segments  0"
        explained = magnetar("subscription", "explain", topic, "billing")
        assert ["lag", "30"] in [line.split() for line in explained.out.splitlines()]
        document = magnetar("subscription", "explain", topic, "billing", "-o", "json").json
        assert sum(one["left"] for one in document["segments"]) == 30
        assert "counted since" in magnetar("topic", "stats", topic).out
