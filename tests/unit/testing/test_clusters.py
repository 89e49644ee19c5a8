"""Clusters in this process: brokers that are killed, paused, expired and started again, on stores that they share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

import magnetar
from magnetar.base.errors import Misuse, NotReady, TimedOut
from magnetar.testing import Cluster, cluster

SESSION_S = 1.0
SOON_S = 20.0  # for what takes a session: the machine may be busy


def topics(count: int) -> list[str]:
    return [f"persistent://public/default/orders-{number}" for number in range(count)]


def spread_topics(c: Cluster) -> dict[str, str]:
    """A topic of each broker that owns one, by the name of the broker."""
    return {c.owner(topic): topic for topic in topics(40)}


def test_three_brokers_serve_one_cluster() -> None:
    with cluster(3) as c, magnetar.Client(c.url) as client:
        assert c.names == ["broker-1", "broker-2", "broker-3"]
        assert len(spread_topics(c)) > 1
        for topic in topics(6):
            with client.subscribe(topic, "s") as consumer, client.create_producer(topic) as producer:
                producer.send(b"1")
                assert consumer.receive(timeout_s=SOON_S).data == b"1"
        with magnetar.Admin(c.admin_url) as admin:
            assert len(admin.brokers.list()) == 3


def test_killed_broker_loses_no_message_and_comes_back() -> None:
    with cluster(2, session_s=SESSION_S) as c, magnetar.Client(c.url) as client:
        owner, topic = next(iter(spread_topics(c).items()))
        (other,) = set(c.names) - {owner}
        with client.create_producer(topic) as producer:
            producer.send(b"before")
            c[owner].kill()
            producer.send(b"after")
            assert c.owner(topic) == other
            c[owner].start()
            producer.send(b"again")
        assert [message.data for message in c[other].messages(topic)] == [b"before", b"after", b"again"]


def test_paused_broker_loses_its_topics_and_its_writes_are_fenced() -> None:
    with cluster(2, session_s=SESSION_S) as c:
        owner, topic = next(iter(spread_topics(c).items()))
        (other,) = set(c.names) - {owner}
        with magnetar.Client(c[other].url) as client, magnetar.Client(c[owner].url) as former:
            with former.create_producer(topic) as late:
                late.send(b"1")
                with c[owner].paused():
                    client.create_producer(topic).send(b"2")
                late.send(b"3")
            assert c.owner(topic) == other
            assert [message.data for message in c[other].messages(topic)] == [b"1", b"2", b"3"]


def test_expired_session_moves_no_topic() -> None:
    with cluster(2) as c, magnetar.Client(c.url) as client:
        places = spread_topics(c)
        with client.create_producer(places["broker-1"]) as producer:
            producer.send(b"1")
            c.expire_session("broker-1")
            producer.send(b"2")
            wait_for(lambda: c["broker-1"].running and spread_topics(c) == places)


def test_outage_of_store_does_not_stop_loaded_topics() -> None:
    with cluster(2, session_s=SESSION_S) as c, magnetar.Client(c.url) as client:
        topic = topics(1)[0]
        with client.create_producer(topic) as producer:
            producer.send(b"1")
            with c.metadata_outage():
                threading.Event().wait(SESSION_S * 1.5)
                began = time.monotonic()
                producer.send(b"2")
                assert time.monotonic() - began < SESSION_S
            producer.send(b"3")


def test_async_cluster_is_awaited() -> None:
    async def body() -> None:
        async with cluster(2, session_s=SESSION_S) as c:
            topic = topics(1)[0]
            owner = await c.owner(topic)
            await c[owner].kill()
            assert not c[owner].running
            async with magnetar.aio.Client(c.url) as client, await client.create_producer(topic) as producer:
                await producer.send(b"1")
            assert await c.owner(topic) != owner

    asyncio.run(body())


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(Misuse, match="brokers must be"):
        cluster(0)
    with pytest.raises(Misuse, match="session_s must be"):
        cluster(session_s=0)
    with pytest.raises(Misuse, match="no such setting"), cluster(1, nonsense=1):
        pass
    with cluster(1) as c, pytest.raises(Misuse, match="the names are broker-1"):
        c["broker-9"]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while True:
        try:
            if condition():
                return
        except (NotReady, TimedOut):
            pass
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)
