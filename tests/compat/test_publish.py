"""Publishing with the stock client: what goes in comes out, byte for byte, in order, under the ids of the receipts."""

from __future__ import annotations

import time

import pulsar
import pytest
from pulsar import CompressionType

from tests.compat.conftest import Connect, Start
from tests.compat.driving import drain, numbered, position, send, send_all, take, texts
from tests.servers.standalone import Standalone

CODECS = [
    CompressionType.NONE,
    CompressionType.LZ4,
    CompressionType.ZLib,
    CompressionType.ZSTD,
    CompressionType.SNAPPY,
]


def test_messages_arrive_in_order_under_ids_of_their_receipts(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    ids = send(producer, numbered(20))
    taken = take(consumer, 20)
    assert texts(taken) == numbered(20)
    assert [position(message) for message in taken] == [position(one) for one in ids]
    assert sorted(position(one) for one in ids) == [position(one) for one in ids]


def test_pipeline_of_thousands_keeps_its_order(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, block_if_queue_full=True)
    send_all(producer, numbered(5000))
    assert texts(take(consumer, 5000)) == numbered(5000)
    assert drain(consumer) == []


def test_everything_message_carries_comes_back(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="the-producer", properties={"who": "a test"})
    before = int(time.time() * 1000)
    producer.send(
        b"body",
        properties={"a": "1", "ä": "ö", "empty": ""},
        partition_key="key",
        ordering_key="order",
        event_timestamp=1234567,
        sequence_id=77,
    )
    (message,) = take(consumer, 1)
    assert message.data() == b"body"
    assert message.properties() == {"a": "1", "ä": "ö", "empty": ""}
    assert (message.partition_key(), message.ordering_key()) == ("key", "order")
    assert message.event_timestamp() == 1234567
    assert before <= message.publish_timestamp() <= int(time.time() * 1000)
    assert message.producer_name() == "the-producer"
    assert message.topic_name() == topic
    assert message.redelivery_count() == 0
    assert producer.last_sequence_id() == 77


def test_empty_and_null_payloads_differ(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"")
    producer.send(None)
    empty, null = take(consumer, 2)
    assert (empty.data(), empty.has_null_value()) == (b"", False)
    assert (null.data(), null.has_null_value()) == (b"", True)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("batched", [False, True], ids=["single", "batch"])
def test_every_codec_passes_through(client: pulsar.Client, topic: str, codec: CompressionType, batched: bool) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, compression_type=codec, batching_enabled=batched)
    bodies = [b"x", b"abc" * 10_000, bytes(range(256)) * 40]
    send_all(producer, bodies)
    assert [message.data() for message in take(consumer, len(bodies))] == bodies


def test_batch_is_one_entry_of_many_messages(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1000)
    send_all(producer, numbered(50))
    taken = take(consumer, 50)
    assert texts(taken) == numbered(50)
    assert {position(message)[:2] for message in taken} == {position(taken[0])[:2]}
    assert [message.message_id().batch_index() for message in taken] == list(range(50))


def test_batches_by_key_hold_one_key_each(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=1000, batching_type=pulsar.BatchingType.KeyBased
    )
    for number in range(40):
        producer.send_async(f"m{number}".encode(), lambda *_: None, partition_key=f"k{number % 4}")
    producer.flush()
    keys: dict[tuple[int, int], set[str]] = {}
    for message in take(consumer, 40):
        keys.setdefault(position(message)[:2], set()).add(message.partition_key())
    assert all(len(found) == 1 for found in keys.values())
    assert len(keys) == 4


def test_message_of_maximum_size_is_accepted_and_larger_one_refused(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    largest = bytes(5 * 1024 * 1024 - 1024)
    producer.send(largest)
    assert take(consumer, 1)[0].data() == largest
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(5 * 1024 * 1024 + 1))
    producer.send(b"still alive")
    assert take(consumer, 1)[0].data() == b"still alive"


@pytest.mark.parametrize(
    "kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared], ids=lambda kind: kind.name
)
def test_message_in_chunks_is_whole_again(client: pulsar.Client, topic: str, kind: pulsar.ConsumerType) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=kind)
    producer = client.create_producer(topic, chunking_enabled=True)
    large = bytes(range(256)) * (12 * 4096)  # 12 MiB: three chunks
    first = producer.send(large)
    producer.send(b"small")
    taken = take(consumer, 2)
    assert [message.data() == body for message, body in zip(taken, [large, b"small"], strict=True)] == [True, True]
    assert position(taken[0])[:2] == position(first)[:2]
    consumer.close()
    again = client.subscribe(topic, "s", consumer_type=kind)
    assert drain(again) == []


def test_chunks_of_two_producers_do_not_mix(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    producers = [client.create_producer(topic, chunking_enabled=True) for _ in range(2)]
    bodies = [bytes([number]) * (11 * 1024 * 1024) for number in range(2)]
    for producer, body in zip(producers, bodies, strict=True):
        producer.send_async(body, lambda *_: None)
    for producer in producers:
        producer.flush()
    assert sorted(message.data() for message in take(consumer, 2)) == bodies


class Keys(pulsar.CryptoKeyReader):
    """RSA keys held as data URLs: nothing on disk."""

    def __init__(self, public: str, private: str) -> None:
        super().__init__(public, private)


def test_encrypted_messages_stay_closed_to_broker_and_open_to_reader(
    client: pulsar.Client, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import rsa

    folder = tmp_path_factory.mktemp("keys")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = folder / "private.pem", folder / "public.pem"
    private.write_bytes(
        key.private_bytes(form.Encoding.PEM, form.PrivateFormat.TraditionalOpenSSL, form.NoEncryption())
    )
    public.write_bytes(key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    keys = Keys(str(public), str(private))
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys)
    blind = client.subscribe(topic, "blind", crypto_failure_action=pulsar.ConsumerCryptoFailureAction.CONSUME)
    producer = client.create_producer(
        topic, encryption_key="k", crypto_key_reader=keys, batching_enabled=True, compression_type=CompressionType.LZ4
    )
    send_all(producer, numbered(5))
    assert texts(take(consumer, 5)) == numbered(5)
    closed = take(blind, 1)[0]
    assert b"m0" not in closed.data()
    assert closed.encryption_context() is not None


def test_one_connection_carries_many_producers_and_consumers(client: pulsar.Client, topic: str) -> None:
    topics = [f"{topic}-{number}" for number in range(20)]
    consumers = [client.subscribe(one, "s") for one in topics]
    producers = [client.create_producer(one) for one in topics for _ in range(5)]
    for number, producer in enumerate(producers):
        send_all(producer, numbered(10, number * 10))
    for number, consumer in enumerate(consumers):
        assert sorted(texts(take(consumer, 50))) == sorted(numbered(50, number * 50))
    assert len({producer.producer_name() for producer in producers}) == 100


def test_name_can_be_held_by_one_producer_at_time(client: pulsar.Client, topic: str) -> None:
    first = client.create_producer(topic, producer_name="same")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic, producer_name="same")
    first.close()
    client.create_producer(topic, producer_name="same").send(b"now")


def test_names_given_by_broker_stay_unique_over_its_lives(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    first = connect(broker.url).create_producer(topic).producer_name()
    broker.restart()
    assert connect(broker.url).create_producer(topic).producer_name() != first


def test_what_was_acknowledged_is_there_after_kill_and_restart(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start()
    connect(broker.url).subscribe(topic, "s").close()  # without a subscription, retention may delete the messages
    producer = connect(broker.url).create_producer(topic)
    send_all(producer, numbered(500))
    broker.restart(kill=True)
    send(producer, numbered(5, 500))  # the same producer, after its client found the broker again
    consumer = connect(broker.url).subscribe(topic, "s")
    assert texts(take(consumer, 505)) == numbered(505)


@pytest.mark.slow
def test_restart_under_load_loses_and_reorders_nothing(start: Start, connect: Connect, topic: str) -> None:
    broker: Standalone = start(brokerDeduplicationEnabled=True)
    client = connect(broker.url)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, block_if_queue_full=True, max_pending_messages=200, send_timeout_millis=0)
    failed: list[object] = []
    for number in range(3000):
        if number in (1000, 2000):
            broker.restart(kill=number == 1000)
        producer.send_async(
            f"m{number}".encode(), lambda result, _: failed.append(result) if result != pulsar.Result.Ok else None
        )
    producer.flush()
    assert failed == []
    seen = list(dict.fromkeys(texts(drain(consumer, quiet_ms=3000))))
    assert seen == numbered(3000)
