"""Consumers of whole namespaces of the real Java client of scalable topics (5.0.0-M1) on our broker, by the rows of its
own suite (Q22 to Q27, S23 to S25): every topic, those that come, those that go, by properties."""

from __future__ import annotations

import itertools

import pytest

from tests.compat.java.conftest import Connect
from tests.compat.java.driver import V5
from tests.servers.standalone import Standalone

pytestmark = [pytest.mark.slow]

LONG_MS = 60_000  # for what must come
SHORT_MS = 1_500  # for what must not
KINDS = pytest.mark.parametrize("kind", ["queue", "stream"])

_numbers = itertools.count(1)


class Space:
    """A namespace of its own with its topics."""

    def __init__(self, broker: Standalone, client: V5) -> None:
        self.name = f"public/java-{next(_numbers)}"
        self._broker = broker
        self._client = client
        broker.admin("PUT", f"namespaces/{self.name}", {})

    def create(self, *topics: str, **properties: str) -> None:
        for topic in topics:
            self._broker.admin("PUT", f"scalable/{self.name}/{topic}", properties, numInitialSegments=1)

    def delete(self, topic: str) -> None:
        self._broker.admin("DELETE", f"scalable/{self.name}/{topic}", force="true")

    def topics(self) -> list[str]:
        found: list[str] = self._broker.admin("GET", f"scalable/{self.name}")
        return sorted(one.rsplit("/", 1)[1] for one in found)

    def send(self, topic: str, *values: str) -> None:
        self._client.ask("producer", topic, f"topic://{self.name}/{topic}", "unbatched")
        for value in values:
            self._client.ask("send", topic, "k", value)
        self._client.ask("close", topic)

    def consume(self, kind: str, name: str = "c", *properties: str, position: str = "earliest") -> None:
        self._client.ask(f"ns-{kind}", name, self.name, "sub", position, *properties)

    def take(self, count: int, name: str = "c", *, how: str = "read", wait_ms: int = LONG_MS) -> list[str]:
        """What came, as "topic:value", in order by topic."""
        found = self._client.ask(f"ns-{how}", name, count, wait_ms).split()
        for one in found:
            assert one.startswith(f"topic://{self.name}/")
        return sorted(one.rsplit("/", 1)[1].replace("|", ":") for one in found)


@KINDS
def test_q22_s23_every_topic_of_namespace_is_received(scalable: Standalone, v5: Connect, kind: str) -> None:
    client = v5()
    space = Space(scalable, client)
    space.create("a", "b", "c")
    space.consume(kind)
    for topic in ("a", "b", "c"):
        space.send(topic, "0", "1")
    assert space.take(6) == ["a:0", "a:1", "b:0", "b:1", "c:0", "c:1"]


@KINDS
def test_q23_s23_topic_that_comes_later_is_attached(scalable: Standalone, v5: Connect, kind: str) -> None:
    client = v5()
    space = Space(scalable, client)
    space.create("a")
    space.consume(kind)
    space.create("late")
    space.send("late", "0")
    assert space.take(1) == ["late:0"]


@KINDS
def test_q24_q25_s23_only_topics_with_property_are_attached(scalable: Standalone, v5: Connect, kind: str) -> None:
    client = v5()
    space = Space(scalable, client)
    space.create("red", colour="red")
    space.create("blue", colour="blue")
    space.consume(kind, "c", "colour=red")
    space.create("late", colour="red")
    for topic in ("red", "blue", "late"):
        space.send(topic, "0")
    assert space.take(2) == ["late:0", "red:0"]
    assert space.take(1, wait_ms=SHORT_MS) == []


@KINDS
def test_q26_q27_deleted_topic_is_closed_and_not_made_again(scalable: Standalone, v5: Connect, kind: str) -> None:
    client = v5()
    space = Space(scalable, client)
    space.create("a", "gone")
    space.consume(kind)
    space.send("gone", "0")
    assert space.take(1) == ["gone:0"]
    space.delete("gone")
    space.send("a", "0")
    assert space.take(1) == ["a:0"]
    assert space.take(1, wait_ms=SHORT_MS) == []  # time for its watches to come back, which make nothing
    assert space.topics() == ["a"]


def test_s24_one_cumulative_acknowledgement_covers_every_topic_seen_so_far(scalable: Standalone, v5: Connect) -> None:
    client = v5()
    space = Space(scalable, client)
    space.create("a", "b")
    space.consume("stream")
    for topic in ("a", "b"):
        space.send(topic, "0", "1")
    assert len(space.take(4, how="keep")) == 4
    client.ask("ns-ack", "c")
    client.ask("ns-close", "c")
    space.consume("stream")
    for topic in ("a", "b"):
        space.send(topic, "2")
    assert space.take(2) == ["a:2", "b:2"]


def test_s25_closing_acknowledges_nothing(scalable: Standalone, v5: Connect) -> None:
    """Of a queue. The stream consumer of 5.0.0-M1 acknowledges all it has received when it closes, by itself."""
    client = v5()
    space = Space(scalable, client)
    space.create("a", "b")
    space.consume("queue")
    for topic in ("a", "b"):
        space.send(topic, "0")
    assert space.take(2, how="keep") == ["a:0", "b:0"]
    client.ask("ns-close", "c")
    space.consume("queue")
    assert space.take(2) == ["a:0", "b:0"]
