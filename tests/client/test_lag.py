"""`lag()` of every consumer counts messages, on a broker of its own process and of the pages of a live topic."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager

import pytest

import magnetar
from magnetar import Batching, InitialPosition, Lag
from tests.servers.standalone import Standalone
from tests.support.reshaped_topic import Reshaped, opened_topic

pytestmark = pytest.mark.real_clock

EARLIEST = InitialPosition.EARLIEST
COUNT = 60
WAIT_S = 30


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(
        tmp_path_factory.mktemp("lag"), {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}
    ) as one:
        yield one


class Cluster(Reshaped):
    async def send(self, count: int = COUNT, topic: str = "") -> None:
        batching = Batching(messages_max=10, delay_s=0.5)
        async with await self.client.create_producer(topic or self.topic, batching=batching) as made:
            for number in range(count):
                await made.post(b"%d" % number, key=f"k{number % 16}")
            await made.flush()


def opened(server: Standalone, name: str, segments: int = 2) -> AbstractAsyncContextManager[Cluster]:
    return opened_topic(server, f"lag-{name}", Cluster, segments)


def counted(found: Lag, messages: int) -> None:
    assert found.messages == messages
    assert (found.oldest_ms > 0, found.bytes > 0) == (messages > 0, messages > 0)
    assert 0 <= found.age_s < 600


async def test_stream_lag_counts_messages_over_split(server):
    async with (
        opened(server, "stream") as cluster,
        await cluster.client.stream_consumer(cluster.topic, "s", initial_position=EARLIEST) as consumer,
    ):
        await cluster.send()
        counted(await consumer.lag(), COUNT)
        await cluster.admin.scalable.split(cluster.topic, 0)
        await cluster.send()
        counted(await consumer.lag(), 2 * COUNT)  # also of children that wait for their parent
        for _ in range(COUNT):
            message = await consumer.receive(WAIT_S)
        await consumer.acknowledge_cumulative(message)
        counted(await consumer.lag(), COUNT)


async def test_queue_lag_counts_messages_that_are_not_acknowledged(server):
    async with (
        opened(server, "queue") as cluster,
        await cluster.client.queue_consumer(cluster.topic, "q", initial_position=EARLIEST) as consumer,
    ):
        await cluster.send()
        taken = [await consumer.receive(WAIT_S) for _ in range(COUNT)]
        counted(await consumer.lag(), COUNT)
        for message in taken[:-1]:
            await consumer.acknowledge(message)
        assert 1 <= (await consumer.lag()).messages <= 10  # a batch that is open in part counts by its messages
        await consumer.acknowledge(taken[-1])
        counted(await consumer.lag(), 0)


async def test_checkpoint_lag_counts_behind_own_places_and_groups(server):
    async with opened(server, "checkpoint") as cluster:
        await cluster.send()
        async with await cluster.client.checkpoint_consumer(cluster.topic, start=EARLIEST) as consumer:
            counted(await consumer.lag(), COUNT)
            for _ in range(15):
                await consumer.receive(WAIT_S)
            counted(await consumer.lag(), COUNT - 15)
        async with await cluster.client.checkpoint_consumer(cluster.topic, start=EARLIEST, group="g") as member:
            for _ in range(20):
                await member.receive(WAIT_S)
            await member.checkpoint()
            counted(await member.lag(), COUNT - 20)


async def test_plain_consumer_and_reader_lag_count_messages(server):
    async with opened(server, "plain") as cluster:
        topic = cluster.topic.replace("topic://", "persistent://") + "-plain"
        async with await cluster.client.subscribe(topic, "s", initial_position=EARLIEST) as consumer:
            await cluster.send(topic=topic)
            counted(await consumer.lag(), COUNT)
            for _ in range(COUNT):
                await consumer.acknowledge(await consumer.receive(WAIT_S))
            counted(await consumer.lag(), 0)
        async with await cluster.client.create_reader(topic) as reader:
            counted(await reader.lag(), COUNT)


async def test_blocking_consumers_have_lag(server):
    def blocking(topic: str) -> None:
        with magnetar.Client(server.url) as client:
            with client.stream_consumer(topic, "bs", initial_position=EARLIEST) as stream:
                counted(stream.lag(), COUNT)
            with client.queue_consumer(topic, "bq", initial_position=EARLIEST) as queue:
                for _ in range(COUNT):
                    queue.acknowledge(queue.receive(WAIT_S))
                counted(queue.lag(), 0)
            with client.checkpoint_consumer(topic, start=EARLIEST) as checkpoint:
                counted(checkpoint.lag(), COUNT)

    async with opened(server, "blocking") as cluster:
        await cluster.send()
        await asyncio.to_thread(blocking, cluster.topic)
