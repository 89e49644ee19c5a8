"""What consumers that do not read, and topics that come and go by thousands, cost the broker: a bounded amount."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pulsar
import pytest
from pulsar import ConsumerType

from tests.compat.conftest import Connect, Start
from tests.compat.driving import send_all, take, until
from tests.servers.standalone import Standalone

MIB = 1024 * 1024


def test_hundred_idle_consumers_delay_no_other_consumer(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url, io_threads=2)
    idle = [client.subscribe(topic, f"idle-{number}", receiver_queue_size=10) for number in range(100)]
    busy = client.subscribe(topic, "busy")
    producer = client.create_producer(topic, block_if_queue_full=True)
    body = b"x" * 10_000
    sizes = []
    for _ in range(6):
        send_all(producer, [body] * 1000)  # 10 MB for each of 101 subscriptions
        assert len(take(busy, 1000)) == 1000
        sizes.append(broker.rss_bytes())
    assert sizes[-1] - sizes[1] < 48 * MIB, [size // MIB for size in sizes]
    assert len(idle) == 100


def test_unread_sockets_pause_delivery_without_filling_broker(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    import socket

    from magnetar.wire.frames import encode_command
    from magnetar.wire.proto import pb

    client = connect(broker.url)
    client.subscribe(topic, "stuck").close()
    busy = client.subscribe(topic, "busy")
    with socket.create_connection(("localhost", broker.port)) as stuck:
        hello = pb.BaseCommand(type=pb.BaseCommand.CONNECT)
        hello.connect.client_version = "a client that stops reading"
        hello.connect.protocol_version = 20
        attach = pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE)
        attach.subscribe.topic = topic
        attach.subscribe.subscription = "stuck"
        attach.subscribe.subType = pb.CommandSubscribe.Exclusive
        attach.subscribe.consumer_id = 1
        attach.subscribe.request_id = 1
        flow = pb.BaseCommand(type=pb.BaseCommand.FLOW)
        flow.flow.consumer_id = 1
        flow.flow.messagePermits = 1_000_000
        stuck.sendall(encode_command(hello))
        stuck.recv(65536)
        stuck.sendall(encode_command(attach) + encode_command(flow))
        producer = client.create_producer(topic, block_if_queue_full=True)
        for _ in range(3):  # the newest messages of all topics are kept in memory, up to a bound: fill it
            send_all(producer, [b"x" * 100_000] * 300)
            take(busy, 300)
        before = broker.rss_bytes()
        for _ in range(5):
            send_all(producer, [b"x" * 100_000] * 300)  # 30 MB a round that nobody reads on the other side
            take(busy, 300)
        assert broker.rss_bytes() - before < 64 * MIB


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_deleted_topics_give_back_disk_and_memory(tmp_path: Path, connect: Connect) -> None:
    # Without the probe: one collection of the garbage of this many topics takes a quarter of a second.
    with Standalone(tmp_path / "broker", watched=False) as broker:
        fill_and_delete(broker, connect)


def fill_and_delete(broker: Standalone, connect: Connect) -> None:
    clients = [connect(broker.url, io_threads=2) for _ in range(4)]  # one alone creates a hundred topics in a second
    idle = broker.rss_bytes()
    body = b"x" * 64_000

    def fill(number: int) -> None:
        client = clients[number % len(clients)]
        topic = f"persistent://public/default/t{number}"
        client.subscribe(topic, "s").close()
        producer = client.create_producer(topic)
        producer.send(body)
        producer.close()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(fill, range(10_000)))
    full_disk, full_memory = broker.disk_bytes(), broker.rss_bytes()
    assert full_disk > 10_000 * len(body)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: broker.admin("DELETE", f"persistent/public/default/t{number}"), range(10_000)))
    # What stays is the segment being written and two empty ones kept for reuse, 64 MiB each.
    until(lambda: broker.disk_bytes() < full_disk / 3, timeout_s=300, what="the data directory has shrunk")
    assert broker.admin("GET", "persistent/public/default") == []
    grown = full_memory - idle
    # Not all of it: the allocator keeps a megabyte for one living object on it. 62 MiB grow to 325 and fall to 239.
    until(lambda: broker.rss_bytes() < full_memory - grown / 4, timeout_s=120, what="memory has shrunk")
    with ThreadPoolExecutor(16) as pool:  # what Python keeps for itself it uses again: nothing has leaked
        list(pool.map(fill, range(10_000)))
    assert broker.rss_bytes() < full_memory + grown / 8, (idle // MIB, full_memory // MIB, broker.rss_bytes() // MIB)


def test_many_idle_topics_and_thousand_producers_on_one_connection(
    broker: Standalone, client: pulsar.Client, topic: str
) -> None:
    producers = [client.create_producer(f"{topic}-{number % 50}") for number in range(1000)]
    consumers = [client.subscribe(f"{topic}-{number}", "s", consumer_type=ConsumerType.Shared) for number in range(50)]
    for producer in producers:
        producer.send_async(b"m", lambda *_: None)
    for producer in producers:
        producer.flush()
    assert [len(take(consumer, 20)) for consumer in consumers] == [20] * 50
