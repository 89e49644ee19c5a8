"""The queue consumers of the real Java client of scalable topics (5.0.0-M1) on our broker, by the rows of its own suite
(Q01 to Q21): receive, acknowledge, refuse, share, dead letters, all over splits and merges."""

from __future__ import annotations

import pytest

from tests.compat.java.conftest import Connect
from tests.compat.java.driver import V5
from tests.compat.java.test_v5 import create, full

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


def test_q01_what_is_acknowledged_comes_once_and_in_order_on_one_segment(scalable, v5: Connect, name: str) -> None:
    create(scalable, name)
    client = v5()
    client.ask("queue", "q", full(name), "sub", "earliest")
    produce(client, name, 100, keys=1)
    assert take(client, "q", 100) == [f"k0:{number}" for number in range(100)]
    client.ask("queue-close", "q")
    client.ask("queue", "q", full(name), "sub", "earliest")
    nothing(client, "q")
