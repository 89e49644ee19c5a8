"""A broker's clock that a test moves: what is due happens, at once and not before."""

from __future__ import annotations

import time

import pytest

import magnetar
from magnetar.base.errors import Misuse
from magnetar.testing import broker

HOUR_S = 3600.0


def test_delayed_message_comes_when_clock_has_moved() -> None:
    with broker(clock=True) as b, magnetar.Client(b.url) as client:
        topic = b.topic("later")
        with client.subscribe(topic, "s", type=magnetar.SubscriptionType.SHARED) as consumer:
            with client.create_producer(topic) as producer:
                producer.send(b"tomorrow", deliver_after_s=24 * HOUR_S)
                producer.send(b"now")
            message = consumer.receive(timeout_s=60)
            assert message.data == b"now"
            consumer.acknowledge(message)
            with pytest.raises(magnetar.NoMessage):
                consumer.receive(timeout_s=0.1)
            b.clock.advance(25 * HOUR_S)
            assert consumer.receive(timeout_s=60).data == b"tomorrow"


def test_hold_expires_when_clock_has_moved() -> None:
    with broker(clock=True) as b, magnetar.Client(b.url) as client, magnetar.Admin(b.admin_url) as admin:
        topic = b.scalable("held")
        client.create_producer(topic).send(b"x")
        client.hold(topic, "reader", expires_s=3600)
        for state in ("WARNED", "EXPIRED"):  # never without a warning before
            b.clock.advance(2 * HOUR_S)
            deadline = time.monotonic() + 60
            while (found := admin.holds.list(topic)["reader"].state) != state:
                assert time.monotonic() < deadline, found


def test_clock_that_cannot_be_moved_says_how_to_have_one() -> None:
    with broker() as b, pytest.raises(Misuse, match=r"broker\(clock=True\)"):
        b.clock.advance(1)
    with broker(clock=True) as b, pytest.raises(Misuse, match="must not be negative"):
        b.clock.advance(-1)


def test_restart_keeps_time() -> None:
    with broker(clock=True) as b:
        b.clock.advance(HOUR_S)
        b.restart()
        b.clock.advance(1)
        assert b.running
