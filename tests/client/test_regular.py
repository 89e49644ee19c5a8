"""Plain and partitioned topics through the faces of scalable ones, on a broker of its own process, and what becomes of
them when the topic is migrated under their hands.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from magnetar import InitialPosition, SubscriptionType, aio, errors
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock

EARLIEST = InitialPosition.EARLIEST
WAIT_S = 60  # for what must come
KEYS = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("regular")) as running:
        yield running


class Plain:
    def __init__(self, client: aio.Client, admin: aio.Admin, name: str) -> None:
        self.client = client
        self.admin = admin
        self.topic = f"persistent://public/default/{name}"
        self.sent = 0

    async def send(self, producer: aio.Producer[bytes], count: int) -> None:
        for _ in range(count):
            await producer.post(b"%d" % self.sent, key=f"k{self.sent % KEYS}")
            self.sent += 1
        await producer.flush()


@asynccontextmanager
async def opened(server: Standalone, name: str, partitions: int) -> AsyncIterator[Plain]:
    async with asyncio.timeout(240), aio.Client(server.url) as client, aio.Admin(server.http) as admin:
        plain = Plain(client, admin, f"{name}-{partitions}")
        await admin.topics.create(plain.topic, **({"partitions": partitions} if partitions else {}))
        yield plain


async def until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110  # the consumer has no event for it
        await asyncio.sleep(0.02)


class Keys:
    """What came of each key: once, and in order."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self.count = 0

    def came(self, message: aio.Message[bytes]) -> None:
        number = int(message.data)
        key = message.key
        assert key is not None
        expected = self.last.get(key, int(key[1:]) - KEYS) + KEYS
        assert number == expected, f"{key}: {number} came where {expected} was next"
        self.last[key] = number
        self.count += 1


@pytest.mark.parametrize("partitions", [0, pytest.param(3, marks=pytest.mark.slow)])
async def test_migration_under_load_keeps_promise_of_every_consumer(server, partitions):
    """Stream and checkpoint consumers every key in order, queue consumers every message; one that is away meanwhile
    misses nothing."""

    async with opened(server, "load", partitions) as plain:
        client, topic = plain.client, plain.topic
        producer = await client.create_producer(topic, follow=True)
        stream = await client.stream_consumer(topic, "in-order", initial_position=EARLIEST)
        queue = await client.queue_consumer(topic, "shared", initial_position=EARLIEST)
        checkpointed = await client.checkpoint_consumer(topic, EARLIEST)
        away = await client.subscribe(topic, "away", type=SubscriptionType.SHARED, initial_position=EARLIEST)
        await away.close()
        await plain.send(producer, 200)
        streamed, read, taken = Keys(), Keys(), set()

        async def follow_stream() -> None:
            while streamed.count < 1000:
                message = await stream.receive(WAIT_S)
                streamed.came(message)
                await stream.acknowledge_cumulative(message)

        async def follow_checkpoint() -> None:
            while read.count < 1000:
                read.came(await checkpointed.receive(WAIT_S))

        async def share() -> None:
            while len(taken) < 1000:
                message = await queue.receive(WAIT_S)
                taken.add(int(message.data))
                await queue.acknowledge(message)

        async with asyncio.TaskGroup() as group:
            group.create_task(follow_stream())
            group.create_task(follow_checkpoint())
            group.create_task(share())
            await plain.send(producer, 200)
            done = await plain.admin.scalable.migrate(topic)
            assert done is not None
            assert (done.kind, done.phase) == ("MIGRATE", "DONE")
            await plain.send(producer, 600)
        metadata = await plain.admin.scalable.metadata(topic)
        states = [(one.state, bool(one.legacyTopicName)) for one in metadata.segments.values()]
        count = max(partitions, 1)
        assert sorted(states) == [("ACTIVE", False)] * count + [("SEALED", True)] * count
        kept = set()
        async with await client.queue_consumer(topic, "away") as returned:
            while len(kept) < 1000:
                message = await returned.receive(WAIT_S)
                kept.add(int(message.data))
                await returned.acknowledge(message)
        for one in (producer, stream, queue, checkpointed):
            await one.close()


@pytest.mark.parametrize("scheme", ["persistent", "topic"])
async def test_what_is_put_off_before_and_after_migration_comes_back(server, scheme):
    """Whichever of its two names the topic is consumed by; by the plain one, also through the migration itself."""

    async with opened(server, f"put-off-{scheme}", 0) as plain:
        client, topic = plain.client, plain.topic

        async def consume() -> aio.QueueConsumer[bytes]:
            name = topic.replace("persistent", scheme)
            return await client.queue_consumer(name, "q", retry=True, initial_position=EARLIEST)

        producer = await client.create_producer(topic, follow=True)
        if scheme == "persistent":
            consumer = await consume()
        await producer.send(b"old")
        await plain.admin.scalable.migrate(topic)
        await producer.send(b"new")
        if scheme == "topic":
            consumer = await consume()
        again = []
        while len(again) < 2:
            message = await consumer.receive(WAIT_S)
            if "RECONSUMETIMES" in message.properties:
                again.append(message.data)
                await consumer.acknowledge(message)
            else:
                await consumer.reconsume_later(message, 0)
        assert sorted(again) == [b"new", b"old"]
        await consumer.close()
        await producer.close()


async def test_keys_of_partitioned_topic_follow_partition_routing(server):
    async with opened(server, "homes", 4) as plain:
        client = plain.client
        async with await client.create_producer(plain.topic, follow=True) as follows:
            await plain.send(follows, 2 * KEYS)
        async with await client.create_producer(plain.topic, hashing="murmur3") as producer:
            await plain.send(producer, 2 * KEYS)
        homes: dict[str | None, set[str]] = {}
        consumer = await client.subscribe(plain.topic, "s", initial_position=EARLIEST)
        for _ in range(plain.sent):
            message = await consumer.receive(WAIT_S)
            homes.setdefault(message.key, set()).add(message.topic)
            await consumer.acknowledge(message)
        assert [len(found) for found in homes.values()] == [1] * KEYS
        assert len(set.union(*homes.values())) > 1


async def test_two_stream_consumers_share_partitioned_topic_and_take_over(server):
    async with opened(server, "shared", 4) as plain:
        client, topic = plain.client, plain.topic
        first = await client.stream_consumer(topic, "s", initial_position=EARLIEST)
        second = await client.stream_consumer(topic, "s", initial_position=EARLIEST)
        async with asyncio.timeout(WAIT_S):
            await until(lambda: len(first.segments) == len(second.segments) == 2)
            await second.close()
            await until(lambda: len(first.segments) == 4)
        async with await client.create_producer(topic, follow=True) as producer:
            await plain.send(producer, 10 * KEYS)
        keys = Keys()
        while keys.count < plain.sent:
            message = await first.receive(WAIT_S)
            keys.came(message)
            await first.acknowledge_cumulative(message)


async def test_old_producer_blocks_migration_unless_forced(server):
    async with opened(server, "old", 0) as plain:
        client, topic = plain.client, plain.topic
        old = await client.create_producer(topic, name="old")
        await old.send(b"0", key="k0")
        preview = await plain.admin.scalable.migration(topic)
        assert preview.forceNeeded
        assert [(one.name, one.follows) for one in preview.clients] == [("old", False)]
        with pytest.raises(errors.Conflict, match=r"producer old at .*or force"):
            await plain.admin.scalable.migrate(topic)
        await plain.admin.scalable.migrate(topic, force=True)
        with pytest.raises(errors.Sealed):
            await old.send(b"8", key="k0")
        with pytest.raises(errors.Sealed, match="was migrated"):
            await client.create_producer(topic)
        with pytest.raises(errors.AlreadyExists):
            await plain.admin.scalable.migrate(topic)
        await plain.admin.scalable.delete(topic, force=True)
        async with await client.create_producer(topic) as again:
            await again.send(b"1")


async def test_consumer_is_of_whole_topic_that_is_kept(server):
    async with opened(server, "whole", 0) as plain:
        for wrong in ("non-persistent://public/default/x", f"{plain.topic}-partition-0"):
            with pytest.raises(errors.Misuse, match="not a partition"):
                await plain.client.stream_consumer(wrong, "s")
            with pytest.raises(errors.Misuse, match="not a partition"):
                await plain.client.queue_consumer(wrong, "s")
            with pytest.raises(errors.Misuse, match="not a partition"):
                await plain.client.create_producer(wrong, follow=True)
        async with await plain.client.create_producer(plain.topic) as producer:
            await producer.send(b"before")
            stream = await plain.client.stream_consumer(plain.topic, "latest")
            await producer.send(b"after")
        assert (await stream.receive(WAIT_S)).data == b"after"


async def test_checkpoint_consumer_of_missing_plain_topic_fails(server):
    async with opened(server, "missing", 0) as plain:
        for group in (None, "readers"):
            async with asyncio.timeout(10):
                with pytest.raises(errors.TopicNotFound):
                    await plain.client.checkpoint_consumer("persistent://public/default/never-created", group=group)
