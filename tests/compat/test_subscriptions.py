"""Exclusive, Failover and Shared subscriptions of the stock client: who gets what, and what happens when they go."""

from __future__ import annotations

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition

from tests.compat.conftest import Connect, Start
from tests.compat.driving import drain, nothing, numbered, send, send_all, take, texts, until
from tests.servers.proxy import Proxy
from tests.servers.standalone import Standalone


def test_exclusive_refuses_second_consumer(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s")
    first.close()
    client.subscribe(topic, "s")


def test_subscription_keeps_one_type_while_anybody_is_attached(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    for other in (ConsumerType.Exclusive, ConsumerType.Failover, ConsumerType.KeyShared):
        with pytest.raises(pulsar.ConsumerBusy):
            client.subscribe(topic, "s", consumer_type=other)
    first.close()
    for other in (ConsumerType.Failover, ConsumerType.KeyShared, ConsumerType.Exclusive):
        client.subscribe(topic, "s", consumer_type=other).close()


def test_subscription_changes_its_type_and_keeps_its_place(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    send(client.create_producer(topic), numbered(6))
    taken = take(consumer, 6, ack=False)
    for number in (0, 1, 3, 5):
        consumer.acknowledge(taken[number])
    consumer.close()
    for kind in (ConsumerType.Exclusive, ConsumerType.KeyShared, ConsumerType.Failover, ConsumerType.Shared):
        consumer = client.subscribe(topic, "s", consumer_type=kind)
        assert texts(take(consumer, 2, ack=False)) == ["m2", "m4"]
        nothing(consumer, quiet_ms=100)
        consumer.close()


def test_subscriptions_are_counted_apart(client: pulsar.Client, topic: str) -> None:
    one, two = client.subscribe(topic, "one"), client.subscribe(topic, "two")
    producer = client.create_producer(topic)
    send(producer, numbered(5))
    assert texts(take(one, 5)) == numbered(5)
    assert texts(take(two, 2)) == numbered(2)
    two.close()
    assert texts(take(client.subscribe(topic, "two"), 3)) == numbered(3, 2)


@pytest.mark.parametrize(
    "kind", [ConsumerType.Exclusive, ConsumerType.Failover, ConsumerType.Shared], ids=lambda k: k.name
)
def test_unacknowledged_messages_come_back_in_order_to_whoever_is_next(
    client: pulsar.Client, topic: str, kind: ConsumerType
) -> None:
    first = client.subscribe(topic, "s", consumer_type=kind)
    send(client.create_producer(topic), numbered(10))
    taken = take(first, 10, ack=False)
    first.acknowledge(taken[0])
    first.close()
    assert texts(take(client.subscribe(topic, "s", consumer_type=kind), 9)) == numbered(9, 1)


def test_place_survives_kill_and_restart(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url)
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    send(client.create_producer(topic), numbered(10))
    for message in take(consumer, 10, ack=False):
        if message.data() not in (b"m3", b"m7"):
            consumer.acknowledge(message)
    consumer.close()  # the client flushes its acknowledgements, the broker answers once it has them
    broker.restart()
    again = connect(broker.url).subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    assert texts(take(again, 2)) == ["m3", "m7"]
    nothing(again)


def test_shared_consumers_divide_messages(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=ConsumerType.Shared) for _ in range(4)]
    send_all(client.create_producer(topic), numbered(400))
    shares = [texts(drain(consumer)) for consumer in consumers]
    assert sorted(text for share in shares for text in share) == sorted(numbered(400))
    assert all(shares), [len(share) for share in shares]


def test_shared_consumer_that_goes_leaves_its_messages_to_others(
    client: pulsar.Client, connect: Connect, proxy: Proxy, topic: str
) -> None:
    leaving = connect(proxy.url).subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    send(client.create_producer(topic), numbered(20))
    take(leaving, 20, ack=False)
    staying = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    nothing(staying)
    proxy.refuse(True)
    proxy.cut()
    taken = take(staying, 20)
    assert texts(taken) == numbered(20)
    assert {message.redelivery_count() for message in taken} == {0}  # as in Pulsar: only what is asked for again counts


def test_failover_serves_one_and_passes_on_in_order(client: pulsar.Client, topic: str) -> None:
    consumers = {
        name: client.subscribe(topic, "s", consumer_type=ConsumerType.Failover, consumer_name=name)
        for name in ("c1", "c2", "c3")
    }
    producer = client.create_producer(topic)
    sent = 0
    while consumers:
        send(producer, numbered(10, sent))
        sent += 10
        served = first_served(consumers)
        ((name, messages),) = served.items()
        messages += take(consumers[name], 10 - len(messages))
        assert texts(messages) == numbered(10, sent - 10)
        consumers.pop(name).close()


def test_failover_on_partitions_goes_by_index_modulo_consumers(
    broker: Standalone, client: pulsar.Client, topic: str
) -> None:
    broker.admin("PUT", f"{topic.replace('://', '/')}/partitions", 6)
    consumers = {
        name: client.subscribe(topic, "s", consumer_type=ConsumerType.Failover, consumer_name=name)
        for name in ("b", "c", "a")
    }
    for partition in range(6):
        send(client.create_producer(f"{topic}-partition-{partition}"), [f"p{partition}"])
    got = {name: sorted(texts(drain(consumer, quiet_ms=600))) for name, consumer in consumers.items()}
    assert got == {"a": ["p0", "p3"], "b": ["p1", "p4"], "c": ["p2", "p5"]}


def test_unacknowledged_messages_go_to_new_active_consumer_first(client: pulsar.Client, topic: str) -> None:
    active = client.subscribe(topic, "s", consumer_type=ConsumerType.Failover, consumer_name="only")
    producer = client.create_producer(topic)
    send(producer, numbered(10))
    taken = take(active, 10, ack=False)
    active.acknowledge_cumulative(taken[3])
    standby = client.subscribe(topic, "s", consumer_type=ConsumerType.Failover, consumer_name="standby")
    active.close()
    send(producer, numbered(5, 10))
    assert texts(take(standby, 11)) == numbered(11, 4)


def test_exclusive_is_free_again_when_holders_connection_breaks(
    client: pulsar.Client, connect: Connect, proxy: Proxy, topic: str
) -> None:
    connect(proxy.url).subscribe(topic, "s")
    proxy.refuse(True)
    proxy.cut()
    taken: list[pulsar.Consumer] = []

    def take_over() -> bool:
        try:
            taken.append(client.subscribe(topic, "s"))
        except pulsar.ConsumerBusy:
            return False
        return True

    until(take_over, what="the subscription is free")
    send(client.create_producer(topic), ["m"])
    assert texts(take(taken[0], 1)) == ["m"]


def test_unload_moves_nobody_and_loses_nothing(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    producer = client.create_producer(topic)
    for start in range(0, 50, 10):
        send(producer, numbered(10, start))
        # The client groups acknowledgements for 100 ms: those that were under way at the unload come again.
        seen: list[str] = []
        while len(seen) < 10:
            seen += [text for text in texts(take(consumer, 1)) if int(text[1:]) >= start]
        assert seen == numbered(10, start)
        broker.admin("PUT", f"{topic.replace('://', '/')}/unload")
    send(producer, ["last"])
    assert texts(drain(consumer, quiet_ms=1500))[-1] == "last"


def first_served(consumers: dict[str, pulsar.Consumer]) -> dict[str, list[pulsar.Message]]:
    """Whoever gets something first, with what came so far."""
    found: dict[str, list[pulsar.Message]] = {}

    def somebody() -> bool:
        found.update({name: drain(consumer, quiet_ms=50) for name, consumer in consumers.items()})
        return any(found.values())

    until(somebody, what="somebody is served")
    return {name: messages for name, messages in found.items() if messages}
