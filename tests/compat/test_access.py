"""Producer access modes of the stock client: who may write while who else does, and who stays shut out for good."""

from __future__ import annotations

import threading

import pulsar
import pytest
from pulsar import ProducerAccessMode as Mode

from tests.compat.conftest import Connect, Start
from tests.compat.driving import send, take, texts, until
from tests.servers.proxy import Proxy
from tests.servers.standalone import Standalone


class Waiting:
    """A create_producer under way in a thread of its own: the sync API blocks until its turn comes."""

    def __init__(self, client: pulsar.Client, topic: str, **options: object) -> None:
        self.producer: pulsar.Producer | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._create, args=(client, topic, options))
        self._thread.start()

    def _create(self, client: pulsar.Client, topic: str, options: dict[str, object]) -> None:
        try:
            self.producer = client.create_producer(topic, access_mode=Mode.WaitForExclusive, **options)
        except pulsar.PulsarException as error:
            self.error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> pulsar.Producer:
        self._thread.join(20)
        assert self.producer is not None, self.error
        return self.producer


def waiting_at(broker: Standalone, topic: str) -> int:
    return int(broker.admin("GET", f"{topic.replace('://', '/')}/stats")["waitingPublishers"])


def test_shared_producers_stand_side_by_side(client: pulsar.Client, topic: str) -> None:
    for _ in range(3):
        client.create_producer(topic, access_mode=Mode.Shared).send(b"x")


def test_exclusive_refuses_second_producer_of_any_kind(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, access_mode=Mode.Exclusive).send(b"mine")
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=Mode.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)


def test_exclusive_is_refused_while_shared_producer_is_there(client: pulsar.Client, topic: str) -> None:
    first = client.create_producer(topic)
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=Mode.Exclusive)
    first.close()
    client.create_producer(topic, access_mode=Mode.Exclusive).send(b"x")


def test_waiting_is_granted_at_once_on_free_topic(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, access_mode=Mode.WaitForExclusive).send(b"x")


def test_waiters_come_in_their_order_one_after_other(
    broker: Standalone, client: pulsar.Client, connect: Connect, topic: str
) -> None:
    holder = client.create_producer(topic, access_mode=Mode.Exclusive)
    first = Waiting(connect(broker.url), topic)
    until(lambda: waiting_at(broker, topic) == 1, what="one waits")
    second = Waiting(connect(broker.url), topic)
    until(lambda: waiting_at(broker, topic) == 2, what="two wait")
    assert not first.done
    assert not second.done
    holder.close()
    granted = first.join()
    granted.send(b"x")
    assert not second.done
    granted.close()
    second.join().send(b"y")


def test_waiter_gets_its_turn_when_holders_connection_breaks(
    broker: Standalone, connect: Connect, proxy: Proxy, topic: str
) -> None:
    holder = connect(proxy.url).create_producer(topic, access_mode=Mode.Exclusive)
    holder.send(b"first")
    waiter = Waiting(connect(broker.url), topic)
    until(lambda: waiting_at(broker, topic) == 1, what="it waits")
    assert proxy.cut() >= 1
    waiter.join().send(b"second")
    with pytest.raises(pulsar.PulsarException):  # fenced for good: its epoch is over
        holder.send(b"third")


def test_exclusive_producer_keeps_its_topic_over_broken_connection(
    broker: Standalone, client: pulsar.Client, connect: Connect, proxy: Proxy, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = connect(proxy.url).create_producer(topic, access_mode=Mode.Exclusive)
    for number in range(5):
        producer.send(f"m{number}".encode())
        proxy.cut()
    producer.send(b"m5")
    assert list(dict.fromkeys(texts(take(consumer, 6)))) == [f"m{number}" for number in range(6)]
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=Mode.Exclusive)


def test_fencing_shuts_out_holder_and_everybody_who_waits(
    broker: Standalone, client: pulsar.Client, connect: Connect, topic: str
) -> None:
    holder = client.create_producer(topic, access_mode=Mode.Exclusive)
    waiter = Waiting(connect(broker.url), topic)
    until(lambda: waiting_at(broker, topic) == 1, what="it waits")
    fencer = connect(broker.url).create_producer(topic, access_mode=Mode.ExclusiveWithFencing)
    fencer.send(b"mine")
    until(lambda: waiter.done, what="the waiter is told")
    assert isinstance(waiter.error, pulsar.ProducerFenced)
    with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
        holder.send(b"old")
    fencer.send(b"still mine")


def test_fencing_shuts_out_shared_producers_too(
    client: pulsar.Client, connect: Connect, broker: Standalone, topic: str
) -> None:
    shared = [client.create_producer(topic, send_timeout_millis=2000) for _ in range(2)]
    fencer = connect(broker.url).create_producer(topic, access_mode=Mode.ExclusiveWithFencing)
    fencer.send(b"mine")
    for producer in shared:
        with pytest.raises(pulsar.PulsarException):
            producer.send(b"no")


def test_fenced_stay_out_after_unload_and_reconnect(
    broker: Standalone, client: pulsar.Client, connect: Connect, proxy: Proxy, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    old = connect(proxy.url).create_producer(topic, access_mode=Mode.Exclusive)
    old.send(b"old")
    proxy.refuse(True)
    proxy.cut()  # it is away while another one takes over and leaves
    newer = connect(broker.url).create_producer(topic, access_mode=Mode.ExclusiveWithFencing)
    newer.send(b"new")
    newer.close()
    broker.admin("PUT", f"{topic.replace('://', '/')}/unload")
    proxy.refuse(False)
    with pytest.raises(pulsar.PulsarException):
        send(old, ["late"])
    assert texts(take(consumer, 2)) == ["old", "new"]


def test_topics_epoch_survives_killed_broker(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    with Proxy(broker.port) as proxy:
        old = connect(proxy.url).create_producer(topic, access_mode=Mode.Exclusive)
        old.send(b"old")
        proxy.refuse(True)
        proxy.cut()
        newer = connect(broker.url).create_producer(topic, access_mode=Mode.ExclusiveWithFencing)
        newer.send(b"new")
        newer.close()
        broker.restart(kill=True)
        proxy.refuse(False)
        with pytest.raises(pulsar.PulsarException):
            old.send(b"late")
