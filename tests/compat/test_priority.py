"""Priority levels: the best level is served first. The wheel has no option for them, so a proxy says them for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pulsar
import pytest
from pulsar import ConsumerType

from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb
from tests.compat.conftest import Connect
from tests.compat.driving import drain, numbered, send_all, take, texts, until
from tests.servers.proxy import Proxy
from tests.servers.standalone import Standalone

AtLevel = Callable[[int], pulsar.Client]


@pytest.fixture
def at_level(broker: Standalone, connect: Connect) -> Iterator[AtLevel]:
    """A stock client all of whose consumers have this priority level; 0 is the best."""
    with ExitStack() as stack:
        yield lambda level: connect(stack.enter_context(Proxy(broker.port, saying(level))).url)


def saying(level: int) -> Callable[[bytes], bytes]:
    def edit(frame: bytes) -> bytes:
        command = pb.BaseCommand()
        command.ParseFromString(frame[8 : 8 + int.from_bytes(frame[4:8], "big")])
        if command.type != pb.BaseCommand.SUBSCRIBE:
            return frame
        command.subscribe.priority_level = level
        return encode_command(command)

    return edit


def test_shared_messages_go_to_best_level_while_it_has_permits(
    client: pulsar.Client, at_level: AtLevel, topic: str
) -> None:
    first = at_level(0).subscribe(topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=100)
    second = at_level(1).subscribe(topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=100)
    third = at_level(2).subscribe(topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=100)
    send_all(client.create_producer(topic), numbered(150))
    assert texts(drain(third)) == []
    assert sorted(texts(drain(second))) == sorted(numbered(50, 100))
    assert sorted(texts(drain(first))) == sorted(numbered(100))


def test_consumers_of_one_level_share_what_it_gets(client: pulsar.Client, at_level: AtLevel, topic: str) -> None:
    best = [at_level(0).subscribe(topic, "s", consumer_type=ConsumerType.Shared) for _ in range(2)]
    rest = at_level(1).subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    send_all(client.create_producer(topic), numbered(200))
    shares = [len(drain(consumer)) for consumer in best]
    assert sum(shares) == 200
    assert min(shares) > 0
    assert drain(rest) == []


def test_failover_serves_best_level_and_falls_back(
    broker: Standalone, client: pulsar.Client, at_level: AtLevel, topic: str
) -> None:
    def active() -> str:
        stats = broker.admin("GET", f"{topic.replace('://', '/')}/stats")
        return str(stats["subscriptions"]["s"]["activeConsumerName"])

    options = {"consumer_type": ConsumerType.Failover}
    spare = at_level(5).subscribe(topic, "s", consumer_name="a-spare", **options)
    assert active() == "a-spare"
    main = at_level(1).subscribe(topic, "s", consumer_name="z-main", **options)
    until(lambda: active() == "z-main", what="the better level takes over")
    producer = client.create_producer(topic)
    send_all(producer, numbered(10))
    assert texts(take(main, 10)) == numbered(10)
    main.close()
    until(lambda: active() == "a-spare", what="the spare takes over")
    send_all(producer, numbered(10, 10))
    assert texts(take(spare, 10))[-10:] == numbered(10, 10)
