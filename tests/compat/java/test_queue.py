"""The queue consumers of the real Java client of scalable topics (5.0.0-M1) on our broker, by the rows of its own suite
(Q01 to Q21): receive, acknowledge, refuse, share, dead letters, all over splits and merges."""

from __future__ import annotations

import time

import pytest

from tests.compat.java.conftest import Connect
from tests.compat.java.driver import V5
from tests.compat.java.test_v5 import check, create, full, merge, reshape_often, split
from tests.servers.standalone import Standalone

pytestmark = [pytest.mark.slow]

LONG_MS = 30_000  # for what must come
SHORT_MS = 1_500  # for what must not


def take(client: V5, name: str, count: int, idle_ms: int = LONG_MS, *, how: str = "read") -> list[str]:
    return client.ask(f"queue-{how}", name, count, idle_ms).split()


def nothing(client: V5, name: str) -> None:
    assert take(client, name, 1, SHORT_MS) == []


def produce(client: V5, topic: str, count: int, *, keys: int = 8, first: int = 0, name: str = "p") -> None:
    if not first:
        client.ask("producer", name, full(topic))
    client.ask("load", name, keys, count, first)
    assert client.ask("wait", name) == str(count)


def test_q01_acknowledged_messages_come_once_in_order_on_one_segment(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    create(scalable, name)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    produce(client, name, 100, keys=1)
    assert take(client, "q", 100) == [f"k0:{number}" for number in range(100)]
    client.ask("queue-close", "q")
    client.ask("queue", "q", full(name), "sub", "earliest")
    nothing(client, "q")


def test_q02_what_is_refused_comes_again(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest", "nack=100")
    produce(client, name, 2, keys=2)
    assert sorted(take(client, "q", 2, how="keep")) == ["k0:0", "k1:0"]
    client.ask("queue-ack", "q", "k1:0")
    client.ask("queue-nack", "q", "k0:0")
    said = client.ask("queue-show", "q", LONG_MS)
    assert said.startswith("value=k0:0 ")
    assert "redelivered=1" in said
    nothing(client, "q")


def test_q03_timed_receive_without_messages_gives_nothing(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    nothing(client, "q")


def test_q04_q05_keys_properties_and_names_are_what_was_given(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 2)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    assert client.ask("queue-names", "q") == f"{full(name)} sub q"
    client.ask("producer", "p", full(name))
    client.ask("send-with", "p", "key", "value", 1234, "a=1", "b=2")
    said = client.ask("queue-show", "q", LONG_MS).split()
    assert {"value=value", "key=key", "event=1234", "a=1", "b=2"} <= set(said)


def test_q06_asynchronous_face_receives_and_acknowledges(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 2)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    produce(client, name, 40)
    check(sorted(take(client, "q", 40, how="async"), key=by_number), 8, 40)
    client.ask("queue-close", "q")
    client.ask("queue", "q", full(name), "sub", "earliest")
    nothing(client, "q")


def by_number(value: str) -> int:
    return int(value.split(":")[1])


def test_q07_acknowledgements_of_all_segments_stick(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 4)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    produce(client, name, 200, keys=20)
    check(sorted(take(client, "q", 200), key=by_number), 20, 200)
    client.ask("queue-close", "q")
    client.ask("queue", "q", full(name), "sub", "earliest")
    nothing(client, "q")


def test_q08_exactly_what_was_not_acknowledged_comes_again(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 3)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    produce(client, name, 90, keys=30)
    values = take(client, "q", 90, how="keep")
    client.ask("queue-ack", "q", *values[:50])
    client.ask("queue-close", "q")
    client.ask("queue", "q", full(name), "sub", "earliest")
    assert sorted(take(client, "q", 40)) == sorted(values[50:])
    nothing(client, "q")


def test_q09_new_subscription_from_start_reads_sealed_parent(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name)
    client = v5()
    produce(client, name, 80)
    split(scalable, name, 0)
    produce(client, name, 80, first=80)
    client.ask("queue", "q", full(name), "late", "earliest")
    check(sorted(take(client, "q", 160), key=by_number), 8, 160)
    nothing(client, "q")


def test_q10_several_generations_are_all_delivered_to_live_consumer(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    create(scalable, name)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    produce(client, name, 80)
    split(scalable, name, 0)
    produce(client, name, 80, first=80)
    merge(scalable, name, 1, 2)
    produce(client, name, 80, first=160)
    split(scalable, name, 3)
    produce(client, name, 80, first=240)
    check(sorted(take(client, "q", 320), key=by_number), 8, 320)
    nothing(client, "q")


def test_q11_three_consumers_share_load_each_message_to_one(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 2)
    client = v5()
    for one in ("a", "b", "c"):
        client.ask("queue", one, full(name), "sub", "earliest", "size=10")
    client.ask("producer", "p", full(name), "unbatched")
    client.ask("load", "p", 30, 300, 0)
    assert client.ask("wait", "p") == "300"
    parts = [take(client, one, 1) + take(client, one, 19, SHORT_MS) for one in ("a", "b", "c")]
    assert all(parts)
    while sum(map(len, parts)) < 300:
        parts = [part + take(client, one, 300, SHORT_MS) for one, part in zip(("a", "b", "c"), parts, strict=True)]
    check(sorted((value for part in parts for value in part), key=by_number), 30, 300)


def test_q12_consumer_of_higher_priority_with_room_takes_all(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name)
    client = v5()
    client.ask("queue", "high", full(name), "sub", "earliest", "priority=0", "size=1000")
    client.ask("queue", "low", full(name), "sub", "earliest", "priority=5", "size=1000")
    produce(client, name, 50)
    assert len(take(client, "high", 50)) == 50
    nothing(client, "low")


def test_q15_properties_of_subscription_are_those_of_every_segment(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    create(scalable, name, 2)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest", "property=team:x")
    split(scalable, name, 0)
    for id in range(4):
        found = scalable.admin("GET", f"scalable/public/default/{name}/segments/{id}/stats")
        assert found["subscriptions"]["sub"]["subscriptionProperties"] == {"team": "x"}


def test_q16_what_is_not_acknowledged_in_time_comes_again(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest", "timeout=1000")
    produce(client, name, 1)
    assert take(client, "q", 1, how="keep") == ["k0:0"]
    assert take(client, "q", 1) == ["k0:0"]


@pytest.mark.parametrize(("segments", "given"), [(1, True), (1, False), (3, False)])
def test_q17_to_q20_poison_becomes_complete_dead_letter(
    scalable: Standalone, v5: Connect, name: str, segments: int, given: bool
) -> None:
    create(scalable, name, segments)
    letters = f"{name}-letters" if given else f"{name}-DLQ"
    create(scalable, letters)
    client = v5()
    options = ["nack=100", "dead=1", *([f"letters={full(letters)}"] if given else [])]
    client.ask("queue", "q", full(name), "sub", "earliest", *options)
    client.ask("queue", "dead", full(letters), "letters", "earliest")
    client.ask("producer", "p", full(name), "unbatched")
    values = [f"v{number}" for number in range(6)]
    for number, value in enumerate(values):
        client.ask("send-with", "p", f"key-{number}", value, 77, "color=red")
    for _ in range(2):  # once, and once again: the next time it is one too many
        seen = take(client, "q", 6, how="keep")
        assert sorted(seen) == values
        client.ask("queue-nack", "q", *seen)
    found = []
    for _ in values:
        said = dict(part.split("=", 1) for part in client.ask("queue-show", "dead", LONG_MS).split())
        found.append(said["value"])
        assert said["key"] == f"key-{said['value'][1:]}"
        assert (said["event"], said["color"], said["REAL_SUBSCRIPTION"]) == ("77", "red", "sub")
        assert name in said["REAL_TOPIC"]
        assert said["ORIGIN_MESSAGE_ID"]
    assert sorted(found) == values
    nothing(client, "q")


def test_q21_subscription_begins_at_start_or_at_end(scalable: Standalone, v5: Connect, name: str) -> None:
    create(scalable, name, 2)
    client = v5()
    produce(client, name, 40)
    client.ask("queue", "first", full(name), "first", "earliest")
    client.ask("queue", "last", full(name), "last", "latest")
    produce(client, name, 40, first=40)
    check(sorted(take(client, "first", 80), key=by_number), 8, 80)
    assert len(take(client, "last", 40)) == 40
    nothing(client, "last")


def test_p09_delayed_message_of_sealed_segment_is_delivered_on_time(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    create(scalable, name)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    client.ask("producer", "p", full(name), "unbatched")
    begun = time.monotonic()
    client.ask("send-later", "p", "k0", "later", 3000)
    split(scalable, name, 0)
    client.ask("send", "p", "k0", "now")
    assert sorted(take(client, "q", 2)) == ["later", "now"]
    assert time.monotonic() - begun > 2.9
    nothing(client, "q")


def test_subscription_without_consumers_is_inherited_through_splits_and_merges(
    scalable: Standalone, v5: Connect, name: str
) -> None:
    """What the reference loses: all that was published to the children meanwhile."""
    create(scalable, name)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "latest")
    client.ask("queue-close", "q")
    produce(client, name, 80)
    split(scalable, name, 0)
    produce(client, name, 80, first=80)
    merge(scalable, name, 1, 2)
    produce(client, name, 80, first=160)
    client.ask("queue", "q", full(name), "sub", "latest")
    check(sorted(take(client, "q", 240), key=by_number), 8, 240)
    nothing(client, "q")


def test_consumers_at_end_miss_nothing_of_splits_under_load(scalable: Standalone, v5: Connect, name: str) -> None:
    """What the reference loses now and then: what a child got before the consumer had attached to it."""
    create(scalable, name)
    client, other = v5(), v5()
    client.ask("queue", "q", full(name), "sub", "latest")
    other.ask("producer", "p", full(name), "unbatched")
    other.ask("load", "p", 16, 1600, 0)
    for turn in range(4):
        reshape_often(scalable, name, 1 + turn % 2)
    assert other.ask("wait", "p") == "1600"
    check(sorted(take(client, "q", 1600), key=by_number), 16, 1600)
    nothing(client, "q")
