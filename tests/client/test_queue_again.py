"""Queue consumers of scalable topics: what is refused, late, delayed, put off or poison, and how much may wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from magnetar import Batching, DeadLetters, SubscriptionType, aio
from tests.client.test_queue import AT_ONCE, EARLIEST, WAIT_S, numbers, opened, quiet, take
from tests.servers.standalone import Standalone

pytestmark = [pytest.mark.slow, pytest.mark.real_clock]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("small"), {"maxMessageSize": 65_536}) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("queue-again")) as running:
        yield running


async def test_exactly_what_was_not_acknowledged_comes_again_on_every_segment(server):
    async with opened(server, "again", segments=3) as cluster:
        await cluster.send(range(60))
        await cluster.reshape()
        await cluster.send(range(60, 120))
        async with await cluster.queue(initial_position=EARLIEST) as consumer:
            for message in await take(consumer, 120):
                if int(message.data) % 3:
                    await consumer.acknowledge(message)
        async with await cluster.queue() as consumer:
            assert await numbers(consumer, 40) == list(range(0, 120, 3))


async def test_delayed_message_keeps_sealed_segment_until_delivery(server):
    async with (
        opened(server, "delayed") as cluster,
        await cluster.queue(initial_position=EARLIEST) as consumer,
        await cluster.client.create_producer(cluster.topic) as producer,
    ):
        begun = time.monotonic()
        await producer.send(b"later", key="a", deliver_after_s=2)
        await cluster.admin.scalable.split(cluster.topic, 0)
        await producer.send(b"now", key="a")
        found = {message.data: message.id for message in await take(consumer, 2)}
        assert time.monotonic() - begun > 1.9
        assert found[b"later"].segment == 0
        assert 0 in consumer.segments
        for id in found.values():
            await consumer.acknowledge(id)
        async with asyncio.timeout(WAIT_S):
            while consumer.segments != [1, 2]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_negative_and_late_acknowledgements_cause_redelivery(server):
    async with opened(server, "refused", segments=2) as cluster:
        await cluster.send(range(2), batching=None)
        async with await cluster.queue(initial_position=EARLIEST, nack=AT_ONCE, ack_timeout_s=1) as consumer:
            for message in await take(consumer, 2):
                if message.data == b"0":
                    await consumer.negative_acknowledge(message.id)
            seen = set()
            while seen != {b"0", b"1"}:  # each acknowledged as it comes: else it would be late too
                [message] = await take(consumer, 1)
                assert message.redelivery_count > 0
                await consumer.acknowledge(message)
                seen.add(message.data)
            assert consumer.counters.timeouts > 0


async def test_poison_of_sealed_and_active_segments_becomes_dead_letter(server):
    async with opened(server, "poison") as cluster:
        letters = await cluster.client.queue_consumer(f"{cluster.topic}-DLQ", "letters", initial_position=EARLIEST)
        async with (
            letters,
            await cluster.queue(
                initial_position=EARLIEST, nack=AT_ONCE, dead_letters=DeadLetters(redeliveries_max=1)
            ) as consumer,
            await cluster.client.create_producer(cluster.topic, batching=None) as producer,
        ):
            await producer.send(b"bad 0", key="a", properties={"p": "v"}, event_time_ms=7)
            await cluster.admin.scalable.split(cluster.topic, 0)
            await producer.send(b"bad 1", key="a", properties={"p": "v"}, event_time_ms=7)
            for _ in range(4):
                await consumer.negative_acknowledge(await consumer.receive(WAIT_S))
            found = await take(letters, 2)
            assert sorted(message.data for message in found) == [b"bad 0", b"bad 1"]
            for message in found:
                assert (message.key, message.event_time_ms, message.properties["p"]) == ("a", 7, "v")
                assert message.properties["REAL_TOPIC"] == cluster.topic
                assert message.properties["REAL_SUBSCRIPTION"] == "q"
                assert message.properties["ORIGIN_MESSAGE_ID"]
            await quiet(consumer)
            assert consumer.counters.dead_letters == 2


async def test_message_reconsumed_later_returns_and_becomes_dead_letter(server):
    async with (
        opened(server, "put-off") as cluster,
        await cluster.client.queue_consumer(f"{cluster.topic}-DLQ", "dead", initial_position=EARLIEST) as dead,
        await cluster.queue(
            initial_position=EARLIEST, retry=True, dead_letters=DeadLetters(redeliveries_max=2)
        ) as consumer,
    ):
        await cluster.send(range(1))
        for turn in range(3):
            message = await consumer.receive(WAIT_S)
            assert message.properties.get("RECONSUMETIMES", "0") == str(turn)
            await consumer.reconsume_later(message, 0.1, properties={"why": "busy"})
        letter = await dead.receive(WAIT_S)
        assert (letter.data, letter.properties["why"]) == (b"0", "busy")
        assert letter.properties["REAL_TOPIC"] == cluster.topic
        await quiet(consumer)


async def test_consumer_with_room_and_higher_priority_gets_everything(server):
    async with (
        opened(server, "priority", segments=2) as cluster,
        await cluster.queue(priority=0) as high,
        await cluster.queue(priority=1) as low,
    ):
        await cluster.send(range(50), batching=None)
        assert len(await take(high, 50)) == 50
        await quiet(low)


async def test_what_waits_is_bounded_over_all_segments(server):
    async with opened(server, "bounded", segments=4) as cluster:
        await cluster.send(range(200), batching=None)
        async with await cluster.queue(
            initial_position=EARLIEST, queue_messages=100, queue_messages_total=40
        ) as consumer:
            seen = []
            for _ in range(200):
                message = await consumer.receive(WAIT_S)
                seen.append(int(message.data))
                assert consumer.queued <= 40
                await consumer.acknowledge(message)
            assert sorted(seen) == list(range(200))


async def test_broker_killed_under_reshapes_loses_nothing_of_queue(tmp_path: Path):
    """What was received before may come again; every message that was stored is acknowledged in the end."""
    with Standalone(tmp_path / "killed", {"brokerDeduplicationEnabled": True}) as killed:
        async with opened(killed, "killed", segments=2) as cluster:
            acknowledged: set[int] = set()

            async def consume(consumer: aio.QueueConsumer[bytes]) -> None:
                async with consumer:
                    async for message in consumer:
                        await consumer.acknowledge(message)
                        acknowledged.add(int(message.data))

            consumers = [await cluster.queue(initial_position=EARLIEST) for _ in range(2)]
            workers = [asyncio.ensure_future(consume(one)) for one in consumers]
            for turn in range(3):
                await cluster.send(range(turn * 200, turn * 200 + 200), name="p")
                await cluster.reshape()
                await asyncio.to_thread(killed.kill)
                await asyncio.to_thread(killed.start)
            async with asyncio.timeout(90):
                while len(acknowledged) < 600:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            for one in consumers:
                await one.close()
            await asyncio.gather(*workers)
            assert acknowledged == set(range(600))


async def test_only_poison_of_batch_is_buried(server):
    """One bad message of 200, some work for each, and a redelivery that is due long before the others were taken."""

    async with opened(server, "one-poison") as cluster:
        letters = await cluster.client.queue_consumer(f"{cluster.topic}-DLQ", "letters", initial_position=EARLIEST)
        batching = Batching(messages_max=200, delay_s=5)
        async with (
            letters,
            await cluster.queue(
                initial_position=EARLIEST, nack=AT_ONCE, dead_letters=DeadLetters(redeliveries_max=3)
            ) as consumer,
            await cluster.client.create_producer(cluster.topic, batching=batching) as producer,
        ):
            await asyncio.gather(*(producer.send(b"%d" % number) for number in range(200)))
            refused, done = 0, set()
            while refused < 4 or len(done) < 199:
                message = await consumer.receive(WAIT_S)
                await asyncio.sleep(0.002)
                if message.data == b"7":
                    refused += 1
                    await consumer.negative_acknowledge(message)
                else:
                    done.add(message.data)
                    await consumer.acknowledge(message)
            assert [message.data for message in await take(letters, 1)] == [b"7"]
            await quiet(letters)
            await quiet(consumer)
            assert (refused, consumer.counters.dead_letters) == (4, 1)


@pytest.mark.parametrize("kind", ["queue", "shared"])
async def test_poison_in_chunks_is_buried_in_chunks(small, kind):
    """Its subscription comes to rest: nothing of it is left."""

    async with opened(small, f"chunked-{kind}") as cluster:
        topic = cluster.topic if kind == "queue" else f"persistent://public/default/chunked-{kind}"
        dead = f"{topic}-DLQ" if kind == "queue" else f"{topic}-q-DLQ"
        options: dict[str, Any] = {
            "initial_position": EARLIEST,
            "nack": AT_ONCE,
            "dead_letters": DeadLetters(redeliveries_max=1),
        }
        shared = {"type": SubscriptionType.SHARED}
        make: Any = cluster.client.queue_consumer if kind == "queue" else partial(cluster.client.subscribe, **shared)
        async with (
            await make(dead, "letters", initial_position=EARLIEST) as letters,
            await make(topic, "q", **options) as consumer,
            await cluster.client.create_producer(topic, chunking=True) as producer,
        ):
            large = bytes(range(250)) * 600
            for value in (b"small", large):
                await producer.send(value, key="k")
            for _ in range(4):
                await consumer.negative_acknowledge(await consumer.receive(WAIT_S))
            found = [await letters.receive(WAIT_S) for _ in range(2)]
            assert sorted(message.data for message in found) == sorted([b"small", large])
            await quiet(consumer)
            assert consumer.counters.dead_letters == 2


async def test_message_that_never_reached_application_has_no_redelivery(server):
    """Its consumer had it in its queue, and left."""

    async with opened(server, "unseen") as cluster:
        async with await cluster.client.create_producer(cluster.topic) as producer:
            await producer.send(b"x")
        for _ in range(2):
            async with await cluster.queue(initial_position=EARLIEST) as away:
                while not away.queued:  # noqa: ASYNC110 - it is received, and nobody takes it
                    await asyncio.sleep(0.01)
        async with await cluster.queue(initial_position=EARLIEST) as consumer:
            assert (await consumer.receive(WAIT_S)).redelivery_count == 0
