"""Key_Shared through the stock client: one consumer a key, in order, however consumers come and go."""

from __future__ import annotations

import random
import threading
import time

import pulsar
import pytest
from pulsar import ConsumerKeySharedPolicy, ConsumerType, InitialPosition, KeySharedMode

from tests.compat.conftest import Connect
from tests.compat.driving import drain, nothing, send, take, texts
from tests.servers.standalone import Standalone


def sticky(*ranges: tuple[int, int]) -> ConsumerKeySharedPolicy:
    return ConsumerKeySharedPolicy(KeySharedMode.Sticky, False, list(ranges))


def keyed(client: pulsar.Client, topic: str, **options: object) -> pulsar.Consumer:
    options.setdefault("initial_position", InitialPosition.Earliest)
    return client.subscribe(topic, "s", consumer_type=ConsumerType.KeyShared, **options)


def test_every_key_stays_with_one_consumer_and_in_order(client: pulsar.Client, topic: str) -> None:
    consumers = [keyed(client, topic) for _ in range(3)]
    producer = client.create_producer(topic)
    for number in range(300):
        producer.send_async(f"k{number % 30}:{number}".encode(), lambda *_: None, partition_key=f"k{number % 30}")
    producer.flush()
    owners: dict[str, set[int]] = {}
    total = 0
    for index, consumer in enumerate(consumers):
        last: dict[str, int] = {}
        for text in texts(drain(consumer)):
            key, number = text.split(":")
            owners.setdefault(key, set()).add(index)
            assert last.get(key, -1) < int(number)
            last[key] = int(number)
            total += 1
    assert total == 300
    assert all(len(found) == 1 for found in owners.values())
    assert len({index for found in owners.values() for index in found}) == 3


def test_ordering_key_goes_before_partition_key(client: pulsar.Client, topic: str) -> None:
    consumers = [keyed(client, topic) for _ in range(3)]
    producer = client.create_producer(topic)
    for number in range(60):
        producer.send(f"o{number % 6}".encode(), partition_key=f"p{number}", ordering_key=f"o{number % 6}")
    owners: dict[str, set[int]] = {}
    for index, consumer in enumerate(consumers):
        for text in texts(drain(consumer)):
            owners.setdefault(text, set()).add(index)
    assert sorted(owners) == [f"o{number}" for number in range(6)]
    assert all(len(found) == 1 for found in owners.values())


def test_messages_without_key_are_all_delivered(client: pulsar.Client, topic: str) -> None:
    consumers = [keyed(client, topic) for _ in range(2)]
    send(client.create_producer(topic), [f"m{number}" for number in range(20)])
    assert sorted(texts(drain(consumers[0]) + drain(consumers[1]))) == sorted(f"m{number}" for number in range(20))


def test_batches_by_key_go_to_owner_of_their_key(client: pulsar.Client, topic: str) -> None:
    consumers = [keyed(client, topic) for _ in range(3)]
    producer = client.create_producer(topic, batching_enabled=True, batching_type=pulsar.BatchingType.KeyBased)
    for number in range(200):
        producer.send_async(f"k{number % 10}".encode(), lambda *_: None, partition_key=f"k{number % 10}")
    producer.flush()
    shares = [texts(drain(consumer)) for consumer in consumers]
    assert sum(len(share) for share in shares) == 200
    owners = [set(share) for share in shares]
    assert sum(len(owner) for owner in owners) == 10, "a key went to two"


def test_sticky_ranges_get_exactly_their_slots(client: pulsar.Client, topic: str) -> None:
    # Slots by the released code: a 27058, b 32259, key-0 63679, key-1 5536, hello 64071 (SC-C3).
    low = keyed(client, topic, key_shared_policy=sticky((0, 27057)))
    middle = keyed(client, topic, key_shared_policy=sticky((27058, 27058), (32259, 40000)))
    high = keyed(client, topic, key_shared_policy=sticky((60000, 64070)))
    producer = client.create_producer(topic)
    for key in ("a", "b", "key-0", "key-1", "hello"):
        producer.send(key.encode(), partition_key=key)
    assert texts(drain(low)) == ["key-1"]
    assert texts(drain(middle)) == ["a", "b"]
    assert texts(drain(high)) == ["key-0"]
    rest = keyed(client, topic, key_shared_policy=sticky((64071, 65535)))
    assert texts(take(rest, 1)) == ["hello"], "a slot that nobody owned waits for its owner"


def test_overlapping_sticky_ranges_are_refused(client: pulsar.Client, topic: str) -> None:
    keyed(client, topic, key_shared_policy=sticky((0, 30000)))
    with pytest.raises(pulsar.ConsumerAssignError):
        keyed(client, topic, key_shared_policy=sticky((30000, 65535)))
    keyed(client, topic, key_shared_policy=sticky((30001, 65535)))


def test_modes_do_not_mix_on_subscription(client: pulsar.Client, topic: str) -> None:
    keyed(client, topic)
    with pytest.raises(pulsar.ConsumerBusy):
        keyed(client, topic, key_shared_policy=sticky((0, 65535)))
    with pytest.raises(pulsar.ConsumerBusy):
        keyed(client, topic, key_shared_policy=ConsumerKeySharedPolicy(KeySharedMode.AutoSplit, True))


def test_newcomer_waits_for_keys_whose_older_messages_are_unacknowledged(client: pulsar.Client, topic: str) -> None:
    first = keyed(client, topic)
    producer = client.create_producer(topic)
    keys = [f"k{number}" for number in range(40)]
    for key in keys:
        producer.send(f"{key}:old".encode(), partition_key=key)
    held = take(first, 40, ack=False)
    second = keyed(client, topic)
    for key in keys:
        producer.send(f"{key}:new".encode(), partition_key=key)
    nothing(second)
    for message in held:
        first.acknowledge(message)
    moved = texts(drain(second, quiet_ms=1000))
    kept = texts(drain(first))
    assert moved, "the newcomer got nothing of its half"
    assert sorted(moved + kept) == sorted(f"{key}:new" for key in keys)


def test_out_of_order_delivery_does_not_wait(client: pulsar.Client, topic: str) -> None:
    policy = ConsumerKeySharedPolicy(KeySharedMode.AutoSplit, True)
    first = keyed(client, topic, key_shared_policy=policy)
    producer = client.create_producer(topic)
    for number in range(40):
        producer.send(b"old", partition_key=f"k{number}")
    take(first, 40, ack=False)
    second = keyed(client, topic, key_shared_policy=policy)
    for number in range(40):
        producer.send(b"new", partition_key=f"k{number}")
    assert drain(second), "it may overtake, and does"


class Watch:
    """Counts from messages alone: a key is held by a consumer from its receive to its acknowledgement."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[str, dict[int, int]] = {}
        self._last: dict[str, int] = {}
        self._seen: set[tuple[str, int]] = set()
        self.acked: set[tuple[str, int]] = set()
        self.breaches: list[str] = []

    def received(self, consumer: int, key: str, number: int, redelivered: int) -> None:
        with self._lock:
            holders = self._holders.setdefault(key, {})
            others = [other for other in holders if other != consumer]
            if others:
                self.breaches.append(f"{key} at consumer {consumer} while {others} hold it")
            holders[consumer] = holders.get(consumer, 0) + 1
            if redelivered == 0 and (key, number) not in self._seen:  # what a consumer leaves behind is not counted
                self._seen.add((key, number))
                if self._last.get(key, -1) > number:
                    self.breaches.append(f"{key}: {number} after {self._last[key]}")
                self._last[key] = max(self._last.get(key, -1), number)

    def done(self, consumer: int, key: str, number: int) -> None:
        """Called before the acknowledgement leaves: the broker cannot know of it earlier."""
        with self._lock:
            self.acked.add((key, number))
            self._release(consumer, key)

    def left(self, consumer: int) -> None:
        with self._lock:
            for key in list(self._holders):
                self._holders[key].pop(consumer, None)

    def _release(self, consumer: int, key: str) -> None:
        holders = self._holders[key]
        holders[consumer] -= 1
        if not holders[consumer]:
            del holders[consumer]


class Worker(threading.Thread):
    """One consumer that works for a while and leaves, sometimes with messages in hand."""

    def __init__(self, broker: Standalone, connect: Connect, topic: str, number: int, watch: Watch) -> None:
        super().__init__()
        self.stop = threading.Event()
        self._client = connect(broker.url)
        self._consumer = keyed(self._client, topic, consumer_name=f"worker-{number}", receiver_queue_size=50)
        self._number = number
        self._watch = watch
        self._rng = random.Random(number)

    def run(self) -> None:
        held: list[tuple[pulsar.Message, str, int]] = []
        while not self.stop.is_set():
            try:
                message = self._consumer.receive(timeout_millis=50)
            except pulsar.Timeout:
                self._settle(held, everything=True)
                continue
            key, number = message.data().decode().split(":")
            self._watch.received(self._number, key, int(number), message.redelivery_count())
            held.append((message, key, int(number)))
            if len(held) >= 20:
                self._settle(held, everything=False)
        self._watch.left(self._number)  # before the close: afterwards the broker may hand out what is in hand
        self._consumer.close()

    def _settle(self, held: list[tuple[pulsar.Message, str, int]], *, everything: bool) -> None:
        self._rng.shuffle(held)
        keep = 0 if everything else 5
        while len(held) > keep:
            message, key, number = held.pop()
            self._watch.done(self._number, key, number)
            self._consumer.acknowledge(message)


def test_key_is_at_one_consumer_while_consumers_change_under_load(
    broker: Standalone, connect: Connect, topic: str
) -> None:
    messages, keys = 20_000, 1_000
    watch = Watch()
    workers = [Worker(broker, connect, topic, number, watch) for number in range(4)]
    for worker in workers:
        worker.start()
    producer = connect(broker.url).create_producer(topic, block_if_queue_full=True)
    rng = random.Random(1)
    counts = [0] * keys
    everyone = list(workers)
    for number in range(messages):
        key = rng.randrange(keys)
        text = f"k{key}:{counts[key]}"
        counts[key] += 1
        producer.send_async(text.encode(), lambda *_: None, partition_key=f"k{key}")
        if number % 800 == 799:  # somebody comes, somebody goes
            newcomer = Worker(broker, connect, topic, len(everyone), watch)
            newcomer.start()
            everyone.append(newcomer)
            workers.append(newcomer)
            workers.pop(rng.randrange(len(workers))).stop.set()
    producer.flush()
    wanted = {(f"k{key}", number) for key in range(keys) for number in range(counts[key])}
    end = time.monotonic() + 60
    while watch.acked != wanted and time.monotonic() < end:
        time.sleep(0.1)
    for worker in workers:
        worker.stop.set()
    for worker in everyone:
        worker.join()
    assert watch.breaches == []
    assert len(wanted - watch.acked) == 0
