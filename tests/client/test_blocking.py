"""The blocking client on a real broker: the same promises for threads, forked workers and spawned ones."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator

import pytest

import magnetar
from magnetar.base.errors import Closed, Misuse, NotFound, Unreachable
from tests.servers.standalone import Standalone

EARLIEST = magnetar.InitialPosition.EARLIEST


@pytest.fixture
def client(broker: Standalone) -> Iterator[magnetar.Client]:
    with magnetar.Client(broker.url, operation_timeout_s=15) as made:
        yield made


def test_what_is_sent_is_received(client, topic):
    with client.create_producer(topic, schema=magnetar.String()) as producer:
        with client.subscribe(topic, "s", schema=magnetar.String(), initial_position=EARLIEST) as consumer:
            sent = [producer.send(f"m{number}", key="k", properties={"n": str(number)}) for number in range(5)]
            received = [consumer.receive(60) for _ in range(5)]
            assert [message.value for message in received] == [f"m{number}" for number in range(5)]
            assert [message.id for message in received] == sent
            for message in received[:-1]:
                consumer.acknowledge(message)
            consumer.acknowledge(received[-1], confirm=True)
            with pytest.raises(magnetar.NoMessage):
                consumer.receive(0.1)
            assert not consumer.has_message_available()
            assert (producer.topic, producer.partitions, producer.last_sequence_id) == (topic, 0, 4)
        with client.subscribe(topic, "s") as consumer, pytest.raises(magnetar.NoMessage):
            consumer.receive(0.2)


def test_posted_messages_keep_their_order_and_send_comes_behind_them(client, topic):
    told: list[int] = []
    with client.create_producer(topic) as producer:
        for number in range(2_000):
            producer.post(b"%d" % number, lambda found, error: told.append(found.batch_index))
        producer.send(b"2000")
        assert len(told) == 2_000
        with client.create_reader(topic) as reader:
            assert [int(reader.receive(60).data) for _ in range(2_001)] == list(range(2_001))


def test_posting_more_than_client_may_hold_waits(broker, topic):
    with magnetar.Client(broker.url, pending_messages_max=10) as client:
        producer = client.create_producer(topic)
        for _ in range(1_000):
            producer.post(b"x")
        producer.flush()
        assert producer.counters[0].messages == 1_000
        assert producer.pending == 0


def test_many_threads_share_client(client, topic):
    producer = client.create_producer(topic)

    def send(number: int) -> None:
        for _ in range(20):
            producer.send(b"%d" % number)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with client.create_reader(topic) as reader:
        found = [int(reader.receive(60).data) for _ in range(160)]
    assert {number: found.count(number) for number in range(8)} == dict.fromkeys(range(8), 20)


def test_iterating_ends_with_topic(broker, client, topic):
    with client.create_producer(topic) as producer:
        for number in range(3):
            producer.send(b"%d" % number)
    broker.admin("POST", f"{topic.replace('://', '/')}/terminate")
    found = []
    with client.subscribe(topic, "s", initial_position=EARLIEST) as consumer:
        for message in consumer:
            found.append(message.data)
            consumer.acknowledge(message)
    assert found == [b"0", b"1", b"2"]


def test_listener_may_block(client, topic):
    heard: list[bytes] = []
    done = threading.Event()
    producer = client.create_producer(topic)
    answers = client.create_producer(f"{topic}-answers")

    def listener(consumer: magnetar.Consumer[bytes], message: magnetar.Message[bytes]) -> None:
        answers.send(message.data)
        heard.append(message.data)
        consumer.acknowledge(message)
        if len(heard) == 3:
            done.set()

    with client.subscribe(topic, "s", listener=listener, initial_position=EARLIEST):
        for number in range(3):
            producer.send(b"%d" % number)
        assert done.wait(15)
    assert heard == [b"0", b"1", b"2"]


def test_callback_must_not_block(client, topic):
    producer = client.create_producer(topic)
    caught: list[BaseException] = []
    done = threading.Event()

    def callback(found: magnetar.MessageId | None, error: BaseException | None) -> None:
        try:
            producer.flush()
        except Misuse as misuse:
            caught.append(misuse)
        done.set()

    producer.post(b"x", callback)
    assert done.wait(15)
    assert len(caught) == 1


def test_seeks_redeliveries_and_partitions(broker, client, topic):
    broker.admin("PUT", f"{topic.replace('://', '/')}/partitions", 2)
    assert client.partitions(topic) == [f"{topic}-partition-0", f"{topic}-partition-1"]
    with client.create_producer(topic, batching=None) as producer:
        for number in range(10):
            producer.send(b"%d" % number)
    with client.subscribe(topic, "s", initial_position=EARLIEST) as consumer:
        first = [consumer.receive(60).data for _ in range(10)]
        consumer.redeliver_unacknowledged()
        again = [consumer.receive(60).data for _ in range(10)]
        assert sorted(first) == sorted(again)
        consumer.seek(magnetar.MessageId.EARLIEST)
        once_more = [consumer.receive(60).data for _ in range(10)]
        assert sorted(once_more) == sorted(first)


def test_prefetched_messages_are_received_one_by_one_until_seek(client, topic):
    producer = client.create_producer(topic)
    with client.subscribe(topic, "s", initial_position=EARLIEST) as consumer:
        producer.send(b"a")
        assert consumer.receive(60).data == b"a"
        producer.send(b"b")
        producer.send(b"c")
        deadline = time.monotonic() + 15
        while not consumer._crossing.shelf.items and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [message.data for message in consumer._crossing.shelf.items] == [b"b"]
        consumer.seek(magnetar.MessageId.EARLIEST)
        assert [consumer.receive(60).data for _ in range(3)] == [b"a", b"b", b"c"]


def test_table_view_follows(client, topic):
    with client.create_producer(topic, schema=magnetar.String()) as producer:
        producer.send("1", key="a")
        producer.send("2", key="b")
        producer.send("3", key="a")
        with client.create_table_view(topic, schema=magnetar.String()) as table:
            assert dict(table) == {"a": "3", "b": "2"}
            changed = threading.Event()
            table.listen(lambda key, value: changed.set() if key == "c" else None)
            producer.send(None, key="a")
            producer.send("4", key="c")
            assert changed.wait(15)
            assert dict(table) == {"b": "2", "c": "4"}


def test_errors_are_those_of_tree(broker, client, topic):
    with pytest.raises(NotFound):
        client.create_producer("persistent://nobody/nowhere/t")
    producer = client.create_producer(topic)
    producer.close()
    with pytest.raises(Closed):
        producer.send(b"x")
    with pytest.raises(Unreachable, match="no broker listens at"):
        magnetar.Client("pulsar://localhost:1", operation_timeout_s=0.2).create_producer(topic)


def test_refusal_has_short_traceback(client, topic):
    with client.create_producer(topic) as producer:
        producer.send(b"without a schema")
    missing = "persistent://nobody/nowhere/t"
    calls = [
        lambda: client.subscribe(topic, "s", schema=magnetar.String()),
        lambda: client.create_producer(missing),
        lambda: client.release("topic://public/default/missing", "h"),
    ]
    for call in calls:
        with pytest.raises(magnetar.errors.Refused) as caught:
            call()
        lines = "".join(traceback.format_exception(caught.value)).splitlines()
        assert len(lines) <= 20, lines
        assert not [line for line in lines if "/client/connection/" in line], lines


def test_closing_client_stores_what_was_posted(broker, topic):
    with magnetar.Client(broker.url) as client:
        producer = client.create_producer(topic, batching=magnetar.Batching(delay_s=60, linger=True))
        producer.post(b"x")
        producer.close()
    with pytest.raises(Closed):
        client.create_producer(topic)
    with magnetar.Client(broker.url) as client, client.create_reader(topic) as reader:
        assert reader.receive(60).data == b"x"


def test_forked_worker_uses_what_its_parent_made(client, topic):
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "s", type=magnetar.SubscriptionType.SHARED, initial_position=EARLIEST)
    producer.send(b"parent")
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                producer.send(b"child %d" % number)
                producer.close()
                client.close()
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    producer.send(b"parent again")
    found = sorted(consumer.receive(60).data for _ in range(5))
    assert found == [b"child 0", b"child 1", b"child 2", b"parent", b"parent again"]


def work(url: str, topic: str, number: int) -> str:
    with magnetar.Client(url) as client, client.create_producer(topic) as producer:
        return str(producer.send(b"%d" % number))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_pools_of_every_kind(broker, client, topic, method):
    client.create_producer(topic).send(b"before")  # the loop thread runs when the pool is made
    with multiprocessing.get_context(method).Pool(2) as pool:
        ids = pool.starmap(work, [(broker.url, topic, number) for number in range(4)])
    assert len(set(ids)) == 4


def test_interrupted_wait_leaves_consumer_usable(client, topic):
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    started = time.monotonic()
    with pytest.raises(magnetar.NoMessage):
        consumer.receive(0.05)
    assert time.monotonic() - started < 10
    client.create_producer(topic).send(b"x")
    assert consumer.receive(60).data == b"x"


def test_two_threads_receive_from_one_consumer_and_together_miss_nothing(client, topic):
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    found: list[list[int]] = [[], []]

    def take(mine: list[int]) -> None:
        while (number := int((message := consumer.receive(60)).data)) >= 0:
            mine.append(number)
            consumer.acknowledge(message)

    threads = [threading.Thread(target=take, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    with client.create_producer(topic) as producer:
        for number in range(3_000):
            producer.post(b"%d" % number)
        producer.flush()
        for _ in threads:
            producer.send(b"-1")
    for thread in threads:
        thread.join()
    assert sorted(found[0] + found[1]) == list(range(3_000))
    assert all(mine == sorted(mine) for mine in found)
    assert consumer.queued == 0


def test_keyboard_interrupt_while_waiting_loses_no_message(client, topic):
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic)
    here = threading.get_ident()

    def interrupt_and_send(number: int) -> None:
        while not consumer._crossing.shelf.waiting:
            time.sleep(0.001)
        signal.pthread_kill(here, signal.SIGINT)
        producer.send(b"%d" % number)

    for number in range(5):
        other = threading.Thread(target=interrupt_and_send, args=(number,))
        other.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.receive(60)
        other.join()
        assert int(consumer.receive(60).data) == number


def test_thread_without_message_waits_for_next_one(client, topic):
    with client.subscribe(topic, "s", initial_position=EARLIEST) as consumer:
        consumer._crossing.fetch(15)  # as of a thread that saw one and came too late: it does not wait on the loop
        assert not len(consumer._crossing.shelf)


def test_two_threads_share_reader_without_waiting_for_each_other(client, topic):
    with client.create_producer(topic) as producer:
        for number in range(20):
            producer.post(b"%d" % number)
        producer.flush()
    with client.create_reader(topic, start=magnetar.MessageId.EARLIEST) as reader:
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(int(reader.receive(60).data))) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == list(range(20))


@pytest.mark.parametrize("closed", ["consumer", "client"])
def test_acknowledgements_that_wait_in_mailbox_are_sent_by_close(broker, topic, closed):
    with magnetar.Client(broker.url) as client:
        with client.create_producer(topic) as producer:
            for number in range(3):
                producer.send(b"%d" % number)
        consumer = client.subscribe(topic, "s", initial_position=EARLIEST, ack_group_s=3_600)
        messages = [consumer.receive(60) for _ in range(3)]  # one that comes takes acknowledgements along
        for message in messages[:2]:  # the second waits: the first one woke the loop
            consumer.acknowledge(message)
            consumer._core()[0].call(lambda: None)
        assert len(consumer._crossing.acks) == 1
        if closed == "consumer":
            consumer.close()
    with magnetar.Client(broker.url) as client, client.subscribe(topic, "s") as consumer:
        assert consumer.receive(60).data == b"2"


def test_seek_and_redelivery_come_behind_acknowledgements_before_them(client, topic):
    with client.create_producer(topic, batching=None) as producer:
        for number in range(4):
            producer.send(b"%d" % number)
    shared = magnetar.SubscriptionType.SHARED
    with client.subscribe(topic, "s", type=shared, initial_position=EARLIEST, ack_group_s=3_600) as consumer:
        for message in [consumer.receive(60) for _ in range(4)][:3]:
            consumer.acknowledge(message)
            consumer._core()[0].call(lambda: None)
        consumer.redeliver_unacknowledged()
        assert consumer.receive(60).data == b"3"
        consumer.seek(magnetar.MessageId.EARLIEST)
        assert [consumer.receive(60).data for _ in range(4)] == [b"0", b"1", b"2", b"3"]


def test_forked_child_leaves_acknowledgements_and_messages_to_parent(client, topic):
    with client.create_producer(topic) as producer:
        for number in range(3):
            producer.send(b"%d" % number)
    shared = magnetar.SubscriptionType.SHARED
    consumer = client.subscribe(topic, "s", type=shared, initial_position=EARLIEST, ack_group_s=3_600)
    messages = [consumer.receive(60) for _ in range(3)]
    for message in messages[:2]:
        consumer.acknowledge(message)
        consumer._core()[0].call(lambda: None)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                consumer.acknowledge(messages[2])  # of the parent's connection
            except Misuse:
                code = 0 if len(consumer._crossing.acks) == 0 and consumer.queued == 0 else 2
            client.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(consumer._crossing.acks) == 1
    consumer.close()
    with client.subscribe(topic, "s", type=shared) as again:
        assert again.receive(60).data == b"2"
        with pytest.raises(magnetar.NoMessage):
            again.receive(0.2)
