"""Our producers and our consumers with each other: every kind of message as it was sent, on both servers."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from dataclasses import dataclass

import pulsar
import pytest

from magnetar.base.errors import ConsumerBusy, Misuse
from magnetar.client.consumer.config import InitialPosition, SubscriptionType
from magnetar.client.message import MessageId
from magnetar.client.producer.batch import Batching
from magnetar.client.producer.producer import Compression
from magnetar.client.schema import STRING, Json
from tests.client.test_consume import WAIT_S, connected, nothing, take

pytestmark = pytest.mark.real_clock

EARLIEST = InitialPosition.EARLIEST
LINGER = Batching(linger=True, delay_s=0.02)
PACKINGS = {"single": None, "batch": LINGER, "by-key": Batching(by_key=True, linger=True, delay_s=0.02)}


@dataclass
class Order:
    id: int
    tags: list[str]
    note: str | None = None


@pytest.mark.parametrize("compression", list(Compression), ids=lambda kind: kind.name)
@pytest.mark.parametrize("packing", PACKINGS)
async def test_every_field_in_every_packing_and_codec(broker, topic, packing, compression):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", initial_position=EARLIEST)
        producer = await client.create_producer(
            topic, name="me", batching=PACKINGS[packing], compression=compression, properties={"of": "producer"}
        )
        ids = await asyncio.gather(
            producer.send(b"a" * 500, key="text", properties={"p": "1", "ü": "ö", "": ""}, event_time_ms=17),
            producer.send(b"b", key=b"\x00\xff", ordering_key=b"\x01order"),
            producer.send(b"", key="text"),
            producer.send(None, key="gone"),
            producer.send(b"\x00" * 3),
        )
        found = {message.id: message for message in await take(consumer, 5)}
        first, second, empty, gone, bare = (found[one] for one in ids)
        assert (first.data, first.key, first.key_bytes) == (b"a" * 500, "text", b"text")
        assert (dict(first.properties), first.event_time_ms) == ({"p": "1", "ü": "ö", "": ""}, 17)
        assert (second.data, second.key, second.key_bytes, second.ordering_key) == (
            b"b",
            "AP8=",
            b"\x00\xff",
            b"\x01order",
        )
        assert (empty.data, empty.is_null, gone.is_null, gone.key) == (b"", False, True, "gone")
        assert (bare.data, bare.key, bare.ordering_key, dict(bare.properties)) == (b"\x00" * 3, None, None, {})
        assert {message.producer_name for message in found.values()} == {"me"}
        assert sorted(message.sequence_id for message in found.values()) == list(range(5))
        assert all(message.topic == topic for message in found.values())


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD], ids=lambda kind: kind.name)
async def test_chunks_and_what_is_between_them(broker, topic, compression):
    large = b"".join(number.to_bytes(4, "big") for number in range(3_000_000))  # 12 MB, two chunks and more

    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", initial_position=EARLIEST)
        producer = await client.create_producer(topic, chunking=True, compression=compression)
        first = await producer.send(large, key="k", properties={"a": "b"})
        await producer.send(b"after")
        message, after = await take(consumer, 2)
        assert message.data == large
        assert (message.key, dict(message.properties), message.id) == ("k", {"a": "b"}, first)
        assert after.data == b"after"
        async with await client.create_reader(topic, first, start_inclusive=True) as reader:
            assert (await reader.receive(WAIT_S)).data == large


async def test_values_of_every_schema(broker, topic):
    async with connected(broker) as client:
        async with await client.create_producer(f"{topic}-s", schema=STRING) as texts:
            await asyncio.gather(*(texts.send(text) for text in ("", "käse", "x" * 1000)))
        async with await client.create_producer(f"{topic}-j", schema=Json(Order), batching=LINGER) as orders:
            await asyncio.gather(orders.send(Order(1, ["a"])), orders.send(Order(2, [], "n")), orders.send(None))
        read = await client.subscribe(f"{topic}-s", "s", schema=STRING, initial_position=EARLIEST)
        assert [message.value for message in await take(read, 3)] == ["", "käse", "x" * 1000]
        found = await client.subscribe(f"{topic}-j", "s", schema=Json(Order), initial_position=EARLIEST)
        one, two, none = await take(found, 3)
        assert (one.value, two.value, none.value, none.is_null) == (Order(1, ["a"]), Order(2, [], "n"), None, True)
        assert one.schema_version


async def test_keys_keep_their_order_and_their_consumer_whatever_is_batched(broker, topic):
    async with connected(broker) as client:
        keyed = {"type": SubscriptionType.KEY_SHARED, "initial_position": EARLIEST}
        consumers = [await client.subscribe(topic, "s", **keyed) for _ in range(3)]
        async with await client.create_producer(topic, batching=Batching(by_key=True)) as producer:
            for number in range(600):
                await producer.post(b"%d" % number, key=f"key-{number % 20}")
        seen: dict[str, list[tuple[int, int]]] = defaultdict(list)

        async def consume(place: int) -> None:
            while sum(map(len, seen.values())) < 600:
                for message in await consumers[place].receive_batch(50, timeout_s=0.05):
                    seen[message.key or ""].append((place, int(message.data)))
                    await consumers[place].acknowledge(message)

        async with asyncio.timeout(WAIT_S * 2):
            await asyncio.gather(*(consume(place) for place in range(3)))
        for found in seen.values():
            assert len({place for place, _ in found}) == 1
            assert [number for _, number in found] == sorted(number for _, number in found)
        assert len({found[0][0] for found in seen.values()}) == 3


@pytest.mark.parametrize("packing", ["single", "batch"])
async def test_cumulative_acknowledgement_up_to_middle(broker, topic, packing):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", initial_position=EARLIEST)
        producer = await client.create_producer(topic, batching=PACKINGS[packing])
        for start in (0, 10):
            await asyncio.gather(*(producer.send(b"%d" % number) for number in range(start, start + 10)))
        found = await take(consumer, 20, ack=False)
        await consumer.acknowledge_cumulative(found[9], confirm=True)
        await consumer.close()
        again = await client.subscribe(topic, "s")
        assert [int(message.data) for message in await take(again, 10)] == list(range(10, 20))
        await nothing(again)
        shared = await client.subscribe(f"{topic}-shared", "s", type=SubscriptionType.SHARED)
        with pytest.raises(Misuse):
            await shared.acknowledge_cumulative(MessageId(1, 1))


async def test_redelivery_counts_rise_for_own_subscription_only(broker, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", type=SubscriptionType.SHARED, initial_position=EARLIEST)
        other = await client.subscribe(topic, "other", type=SubscriptionType.SHARED, initial_position=EARLIEST)
        producer = await client.create_producer(topic)
        await producer.send(b"x")
        for count in range(4):
            message = await consumer.receive(WAIT_S)
            assert message.redelivery_count == count
            await consumer.redeliver_unacknowledged()
        assert (await other.receive(WAIT_S)).redelivery_count == 0


async def test_consumer_over_limit_is_refused_and_first_continues(broker, topic):
    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s")
        with pytest.raises(ConsumerBusy):
            await client.subscribe(topic, "s")
        with pytest.raises(ConsumerBusy):
            await client.subscribe(topic, "s", type=SubscriptionType.SHARED)
        producer = await client.create_producer(topic)
        await producer.send(b"x")
        assert [message.data for message in await take(consumer, 1)] == [b"x"]


@pytest.mark.parametrize("type", list(SubscriptionType), ids=lambda kind: kind.name)
async def test_everything_comes_once_through_unloads_when_everything_is_acknowledged(broker, topic, type):
    """Nothing is lost, whatever the type; what was confirmed before an unload does not come again after it."""

    async with connected(broker) as client:
        consumer = await client.subscribe(topic, "s", type=type, initial_position=EARLIEST)
        producer = await client.create_producer(topic, batching=None)
        numbers = itertools.count()
        confirmed: set[bytes] = set()
        for _ in range(3):
            await asyncio.gather(*(producer.send(b"%d" % next(numbers)) for _ in range(20)))
            for _ in range(20):
                message = await consumer.receive(WAIT_S)
                assert message.data not in confirmed
                await consumer.acknowledge(message, confirm=True)
                confirmed.add(message.data)
            await asyncio.to_thread(broker.admin, "PUT", f"{topic.replace('://', '/')}/unload")
        await nothing(consumer)
        assert len(confirmed) == 60


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
async def test_both_clients_receive_same_messages_with_same_ids(broker, stock, topic, batched):
    """Each client writes, each client reads all of it."""
    theirs = stock.create_producer(topic, batching_enabled=batched, batching_max_publish_delay_ms=20)
    stock_reader = stock.create_reader(topic, pulsar.MessageId.earliest)

    async with connected(broker) as client:
        ours = await client.create_producer(topic, batching=LINGER if batched else None)
        for turn in range(5):
            for number in range(10):
                theirs.send_async(b"theirs-%d-%d" % (turn, number), None, partition_key="k", properties={"n": "1"})
            theirs.flush()
            await asyncio.gather(*(ours.send(b"ours-%d-%d" % (turn, number), key="k") for number in range(10)))
        async with await client.create_reader(topic) as reader:
            mine = [await reader.receive(WAIT_S) for _ in range(100)]
        their = [stock_reader.read_next(15_000) for _ in range(100)]
        assert [(m.data, m.key, dict(m.properties)) for m in mine] == [
            (m.data(), m.partition_key(), m.properties()) for m in their
        ]
        assert [(m.id.ledger, m.id.entry, m.id.batch_index) for m in mine] == [
            (m.message_id().ledger_id(), m.message_id().entry_id(), m.message_id().batch_index()) for m in their
        ]
