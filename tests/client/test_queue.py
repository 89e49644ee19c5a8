"""Queue consumers of scalable topics, on a broker of its own process: nothing lost, nothing left, however the topic is
reshaped."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager

import pytest

import magnetar
from magnetar import Batching, InitialPosition, Message, NackBackoff, NoMessage, aio, errors
from tests.servers.standalone import Standalone
from tests.support.reshaped_topic import QUIET_S, Reshaped, opened_topic, quiet

pytestmark = pytest.mark.real_clock

EARLIEST = InitialPosition.EARLIEST
AT_ONCE = NackBackoff(first_s=0.05, max_s=0.05)
WAIT_S = 30  # for what must come


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("queue")) as running:
        yield running


class Cluster(Reshaped):
    async def send(self, numbers: range, **producer: object) -> None:
        async with await self.client.create_producer(self.topic, **producer) as made:  # type: ignore[arg-type]
            for number in numbers:
                await made.post(b"%d" % number, key=f"k{number % 16}")
            await made.flush()

    async def queue(self, subscription: str = "q", **options: object) -> aio.QueueConsumer[bytes]:
        return await self.client.queue_consumer(self.topic, subscription, **options)  # type: ignore[arg-type]


def opened(server: Standalone, name: str, segments: int = 1) -> AbstractAsyncContextManager[Cluster]:
    return opened_topic(server, f"queue-{name}", Cluster, segments)


async def take(consumer: aio.QueueConsumer[bytes], count: int) -> list[Message[bytes]]:
    return [await consumer.receive(WAIT_S) for _ in range(count)]


async def numbers(consumer: aio.QueueConsumer[bytes], count: int) -> list[int]:
    """Received, acknowledged; nothing more comes."""
    found = []
    for message in await take(consumer, count):
        found.append(int(message.data))
        await consumer.acknowledge(message, confirm=True)
    await quiet(consumer)
    return sorted(found)


@pytest.mark.parametrize("batched", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_queue_consumers_acknowledge_everything_while_topic_is_reshaped(server, batched):
    """One of them refuses now and then, one comes and goes: what it had is another's then. Each message is acknowledged
    by exactly one of them; of batches, which come again as a whole where one of their messages is refused, by at least
    one.
    """

    async with opened(server, f"load-{batched}", segments=2) as cluster:
        acknowledged: Counter[int] = Counter()
        sent = 0
        done = asyncio.Event()

        async def consume(consumer: aio.QueueConsumer[bytes], refuses: bool) -> None:
            async with consumer:
                while not done.is_set() or len(acknowledged) < sent:
                    for message in await consumer.receive_batch(50, timeout_s=0.1):
                        if refuses and message.redelivery_count == 0 and int(message.data) % 7 == 0:
                            await consumer.negative_acknowledge(message)
                        else:
                            await consumer.acknowledge(message)
                            acknowledged[int(message.data)] += 1

        async def come_and_go() -> None:
            while not done.is_set():
                async with await cluster.queue(queue_messages=10) as consumer:
                    for message in await consumer.receive_batch(20, timeout_s=0.2):
                        await consumer.acknowledge(message, confirm=True)
                        acknowledged[int(message.data)] += 1

        workers = [
            asyncio.ensure_future(consume(await cluster.queue(initial_position=EARLIEST, nack=AT_ONCE), turn == 0))
            for turn in range(3)
        ]
        workers.append(asyncio.ensure_future(come_and_go()))
        batching = Batching() if batched else None
        async with await cluster.client.create_producer(cluster.topic, batching=batching) as producer:
            for turn in range(8):
                for _ in range(250):
                    await producer.post(b"%d" % sent, key=f"k{sent % 16}")
                    sent += 1
                    if not sent % 25:
                        await asyncio.sleep(0)
                if turn:
                    await cluster.reshape()
            await producer.flush()
        done.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*workers)
        assert sorted(acknowledged) == list(range(sent))
        assert batched or set(acknowledged.values()) == {1}
        async with await cluster.queue() as late:
            await quiet(late)
            async with asyncio.timeout(WAIT_S):  # drained segments are left, active ones stay
                while late.segments != sorted(await cluster.active()):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)


async def test_offline_queue_subscription_receives_everything_after_splits_and_merges(server):
    async with opened(server, "offline") as cluster:
        await cluster.send(range(10))
        await (await cluster.queue()).close()  # from here on
        for turn in range(1, 5):
            await cluster.send(range(turn * 10, turn * 10 + 10))
            await cluster.reshape()
        await cluster.send(range(50, 60))
        async with await cluster.queue() as consumer:
            assert await numbers(consumer, 50) == list(range(10, 60))


async def test_new_subscription_from_start_reads_every_generation(server):
    async with opened(server, "generations") as cluster:
        for turn in range(4):
            await cluster.send(range(turn * 10, turn * 10 + 10))
            await cluster.reshape()
        async with await cluster.queue(initial_position=EARLIEST) as consumer:
            assert await numbers(consumer, 40) == list(range(40))


async def test_consumer_stays_on_sealed_segment_until_others_acknowledge(server):
    async with opened(server, "stays") as cluster:
        one = await cluster.queue(initial_position=EARLIEST, queue_messages=5)
        two = await cluster.queue(queue_messages=5)
        await cluster.send(range(10), batching=None)
        first, second = await take(one, 5), await take(two, 5)
        await cluster.admin.scalable.split(cluster.topic, 0)
        for message in first:
            await one.acknowledge(message, confirm=True)
        async with asyncio.timeout(WAIT_S):
            while one.segments != [0, 1, 2]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await quiet(one)
        assert one.segments == [0, 1, 2]  # the other may still give its messages back
        await two.close()
        again = await take(one, 5)
        assert {message.data for message in again} == {message.data for message in second}
        for message in again:
            await one.acknowledge(message)
        async with asyncio.timeout(WAIT_S):
            while one.segments != [1, 2]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await one.close()


async def test_subscription_type_mismatch_between_stream_and_queue_is_refused(server):
    async with opened(server, "types") as cluster:
        await cluster.admin.scalable.create_subscription(cluster.topic, "ordered")
        with pytest.raises(errors.Refused, match="of type STREAM"):
            await cluster.queue("ordered")
        async with await cluster.queue("shared") as consumer:
            with pytest.raises(errors.Refused, match="of type QUEUE"):
                await cluster.client.stream_consumer(cluster.topic, "shared")
            await cluster.send(range(3))
            assert await numbers(consumer, 3) == [0, 1, 2]


async def test_consumer_whose_subscription_is_removed_ends_and_makes_no_other(server):
    async with opened(server, "removed", segments=2) as cluster, await cluster.queue() as consumer:
        await cluster.admin.scalable.delete_subscription(cluster.topic, "q")
        with pytest.raises(errors.SubscriptionNotFound):
            await consumer.receive(WAIT_S)
        assert not await cluster.admin.scalable.subscriptions(cluster.topic)


async def test_deleted_topic_ends_its_queue_consumers(server):
    async with opened(server, "deleted") as cluster, await cluster.queue() as consumer:
        await cluster.admin.scalable.delete(cluster.topic, force=True)
        with pytest.raises(errors.MagnetarError, match=r"not found|deleted|does not exist|not list"):
            await consumer.receive(WAIT_S)


async def test_iteration_ends_when_consumer_is_closed(server):
    async with opened(server, "iterated") as cluster:
        consumer = await cluster.queue(initial_position=EARLIEST)
        await cluster.send(range(5))
        seen = []
        async for message in consumer:
            await consumer.acknowledge(message)
            seen.append(int(message.data))
            if len(seen) == 5:
                await consumer.close()
        assert sorted(seen) == list(range(5))
        with pytest.raises(errors.Closed):
            await consumer.receive(1)


def test_threads_share_blocking_queue_consumer_through_split(server):
    topic = "topic://public/default/queue-blocking"
    with magnetar.Client(server.url) as client, magnetar.Admin(server.http) as admin:
        admin.scalable.create(topic)
        with (
            client.create_producer(topic) as producer,
            client.queue_consumer(topic, "q", initial_position=EARLIEST, nack=AT_ONCE) as consumer,
        ):
            found: list[int] = []

            def work() -> None:
                for _ in range(25):
                    message = consumer.receive(WAIT_S)
                    found.append(int(message.data))
                    consumer.acknowledge(message)

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for number in range(100):
                producer.post(b"%d" % number, key=f"k{number % 7}")
                if number == 50:
                    admin.scalable.split(topic, 0)
            producer.flush()
            for thread in threads:
                thread.join()
            assert sorted(found) == list(range(100))
            producer.send(b"again")
            consumer.negative_acknowledge(consumer.receive(WAIT_S))
            message = consumer.receive(WAIT_S)
            assert (message.data, message.redelivery_count) == (b"again", 1)
            consumer.acknowledge(message, confirm=True)
            with pytest.raises(NoMessage):
                consumer.receive(QUIET_S)
        with client.queue_consumer(topic, "q") as consumer, pytest.raises(NoMessage):
            consumer.receive(QUIET_S)
