"""A data directory that an earlier version wrote opens with this one, with all its messages, cursors, splits and holds.

`tests/vectors/data-1` is such a directory; `tools/stored_data.py` wrote it. A new format of the data directory gets a
directory of its own beside it, and the old one stays: what a released version wrote must open.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import magnetar
from tests.servers.standalone import Standalone
from tools.stored_data import ARCHIVE, CONTENT, FOLDER, HOLD, SCALABLE

EARLIEST = magnetar.InitialPosition.EARLIEST
NEW = "message of this version"


@pytest.fixture
def stored(tmp_path: Path) -> Standalone:
    server = Standalone(tmp_path)
    with tarfile.open(FOLDER / ARCHIVE) as archive:
        archive.extractall(server.data, filter="data")
    server.data.chmod(0o750)
    return server


def test_data_written_before_opens_and_takes_more(stored: Standalone) -> None:
    content: dict[str, Any] = json.loads((FOLDER / CONTENT).read_text())
    with stored:
        with magnetar.Client(stored.url) as client:
            check(client, content)
            for topic, one in content.items():
                with client.create_producer(topic) as producer:
                    producer.send(NEW.encode(), key="key 0")
                for texts in (one["messages"], *one["subscriptions"].values()):
                    texts.append(NEW)
        stored.restart()
        with magnetar.Client(stored.url) as client, magnetar.Admin(stored.http) as admin:
            check(client, content)
            layout = admin.scalable.metadata(SCALABLE).segments
            assert {id: one.childIds for id, one in layout.items()} == {"0": [1, 2], "1": [], "2": []}
            assert admin.holds.list(SCALABLE).keys() <= {HOLD}, "it expires 400 days after it was written"


def check(client: magnetar.Client, content: dict[str, Any]) -> None:
    for topic, one in content.items():
        expected = one["messages"]
        by_key = read(client, topic, len(expected))
        assert sorted(text for texts in by_key.values() for text in texts) == sorted(expected), topic
        assert all(texts == sorted(texts, key=expected.index) for texts in by_key.values()), topic
        for name, left in one["subscriptions"].items():
            assert pending(client, topic, name, len(left)) == sorted(left), (topic, name)


def read(client: magnetar.Client, topic: str, count: int) -> dict[str | None, list[str]]:
    """The messages of a topic without a subscription, by key, in order."""
    if topic == SCALABLE:
        reader: Any = client.checkpoint_consumer(topic, EARLIEST)
    else:
        reader = client.create_reader(topic, magnetar.MessageId.EARLIEST)
    by_key: dict[str | None, list[str]] = {}
    with reader:
        for message in received(reader, count):
            by_key.setdefault(message.key, []).append(message.data.decode())
    return by_key


def pending(client: magnetar.Client, topic: str, name: str, count: int) -> list[str]:
    """What a subscription has not acknowledged. It stays so."""
    if topic == SCALABLE:
        consumer: Any = (client.stream_consumer if name == "stream" else client.queue_consumer)(topic, name)
    else:
        kind = magnetar.SubscriptionType.SHARED if name == "shared" else magnetar.SubscriptionType.EXCLUSIVE
        consumer = client.subscribe(topic, name, type=kind)
    with consumer:
        return sorted(message.data.decode() for message in received(consumer, count))


def received(consumer: Any, count: int) -> list[Any]:
    """Fails if there are more or fewer messages."""
    messages = [consumer.receive(60) for _ in range(count)]
    with pytest.raises(magnetar.NoMessage):
        consumer.receive(0.1)
    return messages
