"""Topics and subscriptions over their lives: made, unsubscribed, terminated, retained, deleted, refused."""

from __future__ import annotations

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition, MessageId

from tests.compat.conftest import Connect, Start
from tests.compat.driving import drain, nothing, numbered, send, take, texts, until
from tests.servers.standalone import Standalone


def rest(topic: str) -> str:
    return topic.replace("://", "/")


def test_unsubscribed_subscription_is_gone_with_its_backlog(
    broker: Standalone, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send(producer, numbered(5))
    consumer.unsubscribe()
    assert broker.admin("GET", f"{rest(topic)}/subscriptions") == []
    again = client.subscribe(topic, "s")
    send(producer, ["new"])
    assert texts(take(again, 1)) == ["new"]


def test_unsubscribing_is_refused_while_others_are_attached(client: pulsar.Client, topic: str) -> None:
    one, two = (client.subscribe(topic, "s", consumer_type=ConsumerType.Shared) for _ in range(2))
    with pytest.raises(pulsar.PulsarException):
        one.unsubscribe()
    send(client.create_producer(topic), ["m"])
    assert texts(drain(one) + drain(two)) == ["m"]


def test_unsubscribed_subscription_stays_gone_after_kill(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url)
    client.subscribe(topic, "kept").close()
    client.subscribe(topic, "gone").unsubscribe()
    broker.restart(kill=True)
    assert broker.admin("GET", f"{rest(topic)}/subscriptions") == ["kept"]


def test_terminated_topic_takes_no_more_and_gives_all_it_has(
    broker: Standalone, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    ids = send(producer, numbered(5))
    last = broker.admin("POST", f"{rest(topic)}/terminate")
    assert (last["ledgerId"], last["entryId"]) == (ids[-1].ledger_id(), ids[-1].entry_id())
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"late")
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    assert texts(take(consumer, 5)) == numbered(5)
    late = client.subscribe(topic, "late", initial_position=InitialPosition.Earliest)
    assert texts(take(late, 5)) == numbered(5)
    nothing(late)


def test_terminating_again_answers_same_and_survives_kill(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url)
    client.subscribe(topic, "s").close()
    send(client.create_producer(topic), numbered(3))
    first = broker.admin("POST", f"{rest(topic)}/terminate")
    broker.restart(kill=True)
    assert broker.admin("POST", f"{rest(topic)}/terminate") == first
    client = connect(broker.url)
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    assert texts(take(client.subscribe(topic, "s"), 3)) == numbered(3)


def test_reader_reads_terminated_topic_to_its_end(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    send(client.create_producer(topic), numbered(10))
    broker.admin("POST", f"{rest(topic)}/terminate")
    reader = client.create_reader(topic, MessageId.earliest)
    seen = []
    while reader.has_message_available():
        seen.append(reader.read_next(timeout_millis=30_000).data().decode())
    assert seen == numbered(10)


def test_late_subscriber_gets_backlog_or_only_what_follows(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "holds everything").close()
    producer = client.create_producer(topic)
    send(producer, numbered(10))
    early = client.subscribe(topic, "early", initial_position=InitialPosition.Earliest)
    late = client.subscribe(topic, "late", initial_position=InitialPosition.Latest)
    send(producer, numbered(5, 10))
    assert texts(take(early, 15)) == numbered(15)
    assert texts(take(late, 5)) == numbered(5, 10)


def test_retention_keeps_what_everybody_has_acknowledged(
    broker: Standalone, client: pulsar.Client, namespace: str
) -> None:
    broker.admin("POST", f"namespaces/{namespace}/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send(producer, numbered(10))
    take(consumer, 10)
    consumer.unsubscribe()
    producer.close()
    broker.admin("PUT", f"{rest(topic)}/unload")
    late = client.subscribe(topic, "late", initial_position=InitialPosition.Earliest)
    assert texts(take(late, 10)) == numbered(10)


def test_topic_in_use_is_deleted_only_by_force(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbered(3))
    assert broker.ask("DELETE", f"/admin/v2/{rest(topic)}").status_code == 412
    assert texts(take(consumer, 3)) == numbered(3)


def test_deleted_topic_starts_from_nothing(broker: Standalone, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send(producer, numbered(3))
    producer.close()
    consumer.close()
    broker.admin("DELETE", rest(topic))
    reader = client.create_reader(topic, MessageId.earliest)
    assert not reader.has_message_available()


def test_unknown_tenants_and_namespaces_are_told_at_once(client: pulsar.Client) -> None:
    for topic in ("persistent://nobody/default/t", "persistent://public/nowhere/t"):
        with pytest.raises(pulsar.TopicNotFound):
            client.create_producer(topic)
        with pytest.raises(pulsar.TopicNotFound):
            client.subscribe(topic, "s")


def test_without_automatic_creation_topic_must_be_made_first(
    broker: Standalone, client: pulsar.Client, namespace: str
) -> None:
    broker.admin("POST", f"namespaces/{namespace}/autoTopicCreation", {"allowAutoTopicCreation": False})
    topic = f"persistent://{namespace}/t"
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(topic)
    broker.admin("PUT", rest(topic))
    client.create_producer(topic).send(b"m")


def test_empty_subscription_name_is_refused(client: pulsar.Client, topic: str) -> None:
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, "")


def test_clean_stop_tells_clients_and_ends_with_zero(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    client = connect(broker.url)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send(producer, numbered(100))
    assert broker.stop() == 0
    broker.start()
    send(producer, numbered(5, 100))
    until(lambda: consumer.is_connected(), what="the consumer is back")
    seen = list(dict.fromkeys(texts(drain(consumer, quiet_ms=1000))))
    assert seen == numbered(105)


def test_second_broker_on_same_folder_is_told_who_holds_it(start: Start) -> None:
    broker: Standalone = start()
    second = Standalone(broker.folder)
    with pytest.raises(AssertionError, match=str(broker.pid)):
        second.start()
