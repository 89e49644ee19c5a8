"""Readers of the stock client: non-durable cursors that start anywhere, seek anywhere and leave nothing behind."""

from __future__ import annotations

import pulsar
import pytest
from pulsar import MessageId

from tests.compat.conftest import Connect
from tests.compat.driving import numbered, send, send_all, until
from tests.servers.proxy import Proxy
from tests.servers.standalone import Standalone


def read(reader: pulsar.Reader, count: int) -> list[str]:
    return [reader.read_next(timeout_millis=10_000).data().decode() for _ in range(count)]


def quiet(reader: pulsar.Reader) -> None:
    with pytest.raises(pulsar.Timeout):
        reader.read_next(timeout_millis=200)


def test_it_starts_at_earliest_or_at_latest(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    send(producer, numbered(5))
    earliest = client.create_reader(topic, MessageId.earliest)
    latest = client.create_reader(topic, MessageId.latest)
    send(producer, numbered(5, 5))
    assert read(earliest, 10) == numbered(10)
    assert read(latest, 5) == numbered(5, 5)
    quiet(latest)


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_it_starts_at_or_after_message(client: pulsar.Client, topic: str, inclusive: bool) -> None:
    ids = send(client.create_producer(topic), numbered(10))
    reader = client.create_reader(topic, ids[4], start_message_id_inclusive=inclusive)
    assert read(reader, 5) == numbered(5, 4 if inclusive else 5)


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_it_starts_inside_batch(client: pulsar.Client, topic: str, inclusive: bool) -> None:
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=500)
    send_all(producer, numbered(10))
    first = client.create_reader(topic, MessageId.earliest)
    ids = [first.read_next(timeout_millis=10_000).message_id() for _ in range(10)]
    reader = client.create_reader(topic, ids[6], start_message_id_inclusive=inclusive)
    start = 6 if inclusive else 7
    assert read(reader, 10 - start) == numbered(10 - start, start)
    quiet(reader)


def test_it_knows_whether_more_is_there(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    reader = client.create_reader(topic, MessageId.earliest)
    assert not reader.has_message_available()
    send(producer, numbered(3))
    for _ in range(3):
        assert reader.has_message_available()
        reader.read_next(timeout_millis=10_000)
    assert not reader.has_message_available()
    send(producer, ["m"])
    assert reader.has_message_available()


def test_it_knows_whether_more_of_batch_is_there(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=500)
    send_all(producer, numbered(4))
    reader = client.create_reader(topic, MessageId.earliest)
    seen = []
    while reader.has_message_available():
        seen += read(reader, 1)
    assert seen == numbered(4)


def test_at_latest_nothing_is_available_until_something_comes(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    send(producer, numbered(3))
    reader = client.create_reader(topic, MessageId.latest)
    assert not reader.has_message_available()
    send(producer, ["new"])
    assert reader.has_message_available()
    assert read(reader, 1) == ["new"]


def test_inclusive_at_latest_reads_last_message(client: pulsar.Client, topic: str) -> None:
    send(client.create_producer(topic), numbered(5))
    reader = client.create_reader(topic, MessageId.latest, start_message_id_inclusive=True)
    assert reader.has_message_available()
    assert read(reader, 1) == ["m4"]
    assert not reader.has_message_available()


def test_it_seeks_by_id_and_by_time(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    ids = send(producer, numbered(10))
    reader = client.create_reader(topic, MessageId.earliest)
    times = [reader.read_next(timeout_millis=10_000).publish_timestamp() for _ in range(10)]
    reader.seek(ids[3])
    assert read(reader, 6) == numbered(6, 4)
    reader.seek(times[7])
    first = next(number for number, when in enumerate(times) if when >= times[7])
    assert read(reader, 10 - first) == numbered(10 - first, first)
    reader.seek(MessageId.earliest)
    assert read(reader, 10) == numbered(10)
    reader.seek(MessageId.latest)
    assert not reader.has_message_available()


def test_it_leaves_no_subscription_behind(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    send(client.create_producer(topic), numbered(2))
    reader = client.create_reader(topic, MessageId.earliest, reader_name="r")
    read(reader, 2)
    assert len(broker.admin("GET", f"{topic.replace('://', '/')}/stats")["subscriptions"]) == 1
    reader.close()
    until(
        lambda: not broker.admin("GET", f"{topic.replace('://', '/')}/stats")["subscriptions"],
        what="the reader's subscription is gone",
    )


def test_readers_do_not_disturb_each_other(client: pulsar.Client, topic: str) -> None:
    send_all(client.create_producer(topic), numbered(200))
    readers = [client.create_reader(topic, MessageId.earliest) for _ in range(5)]
    for reader in readers:
        assert read(reader, 200) == numbered(200)


def test_broken_connection_goes_on_where_it_was(
    client: pulsar.Client, connect: Connect, proxy: Proxy, topic: str
) -> None:
    producer = client.create_producer(topic)
    reader = connect(proxy.url).create_reader(topic, MessageId.earliest)
    for start in range(0, 50, 10):
        send(producer, numbered(10, start))
        assert read(reader, 10) == numbered(10, start)
        proxy.cut()


def test_partitioned_topic_is_read_whole(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    broker.admin("PUT", f"{topic.replace('://', '/')}/partitions", 3)
    producer = client.create_producer(topic)
    send(producer, numbered(30))
    reader = client.create_reader(topic, MessageId.earliest)
    seen = []
    while reader.has_message_available():
        seen += read(reader, 1)
    assert sorted(seen) == sorted(numbered(30))
