"""Faults of a broker in this process: each does what it says, and the broker goes on afterwards."""

from __future__ import annotations

import threading
import time

import pytest

import magnetar
from magnetar.base.errors import Misuse
from magnetar.testing import Broker, broker


def received(b: Broker, topic: str) -> list[bytes]:
    return [message.data for message in b.messages(topic)]


def test_cut_connections_are_made_again_and_nothing_is_lost() -> None:
    with broker() as b, magnetar.Client(b.url) as client:
        topic = b.topic("cut")
        with client.create_producer(topic) as producer:
            producer.send(b"before")
            b.cut_connections()
            producer.send(b"after")
        assert received(b, topic) == [b"before", b"after"]


def test_lost_message_is_sent_again_and_stored_once() -> None:
    with broker() as b, magnetar.Client(b.url) as client:
        topic = b.topic("lost")
        with client.create_producer(topic) as producer:
            b.lose_next("message")
            producer.send(b"x")
            producer.send(b"y")
        assert received(b, topic) == [b"x", b"y"]


@pytest.mark.parametrize(("deduplicates", "stored"), [(False, [b"x", b"x", b"y"]), (True, [b"x", b"y"])])
def test_lost_receipt_stores_twice_unless_deduplicated(deduplicates: bool, stored: list[bytes]) -> None:
    with broker(brokerDeduplicationEnabled=deduplicates) as b, magnetar.Client(b.url) as client:
        topic = b.topic("twice")
        with client.create_producer(topic, name="shop") as producer:
            b.lose_next("receipt")
            producer.send(b"x")
            producer.send(b"y")
        assert received(b, topic) == stored


def test_paused_broker_answers_nothing_until_block_ends() -> None:
    with broker() as b, magnetar.Client(b.url) as client:
        topic = b.topic("paused")
        stored = threading.Event()
        with client.create_producer(topic) as producer:
            producer.send(b"before")
            with b.paused():
                producer.post(b"after", lambda found, error: stored.set())
                assert not stored.wait(0.1)
                with pytest.raises(Misuse, match="paused"):
                    b.stop()
            assert stored.wait(60)
        assert received(b, topic) == [b"before", b"after"]


def test_slow_broker_answers_later_and_in_order() -> None:
    with broker() as b, magnetar.Client(b.url) as client:
        topic = b.topic("slow")
        with client.create_producer(topic, batching=None) as producer:
            with b.slow(delay_s=0.2):
                begun = time.monotonic()
                for number in range(5):
                    producer.post(b"%d" % number)
                producer.flush()
                assert time.monotonic() - begun >= 0.2
            producer.send(b"5")
        assert received(b, topic) == [b"%d" % number for number in range(6)]


def test_full_disk_acknowledges_nothing_and_keeps_what_it_had() -> None:
    with broker() as b:
        topic = b.topic("full")
        with magnetar.Client(b.url) as client:
            client.subscribe(topic, "s").close()
            producer = client.create_producer(topic, send_timeout_s=0.5)
            producer.send(b"before")
            with b.full_disk(), pytest.raises(magnetar.MagnetarError):
                producer.send(b"refused")
            producer.close(flush=False)
        b.restart()
        assert received(b, topic)[:1] == [b"before"]


def test_unknown_fault_is_misuse() -> None:
    with broker() as b:
        with pytest.raises(Misuse, match="'message' or 'receipt'"):
            b.lose_next("sent")  # type: ignore[arg-type]
        with pytest.raises(Misuse, match="more than 0"), b.slow(0):
            pass
