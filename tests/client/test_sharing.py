"""Stream consumers that share a segment by its entry buckets: everybody has work, each key stays in order, whoever
comes and goes.

Rows S17 to S22 and S27 of Pulsar's own cases, with our client: no released client of Pulsar knows entry buckets.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from magnetar import InitialPosition, NoMessage, aio
from magnetar.client.consumer.scalable.stream.consumer import StreamConsumer
from magnetar.client.message import Message
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock

KEYS = [f"key-{number}" for number in range(40)]
MANY = 1_000  # keys: enough that no bucket of 64 is without
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("sharing"), {"scalableTopicEntryBucketBudget": 64}) as running:
        yield running


class Book:
    """What every consumer got, in the order in which it got it."""

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = defaultdict(list)  # numbers by key, in the order of their first delivery
        self.by: dict[str, int] = defaultdict(int)  # messages by consumer
        self.owners: dict[str, set[str]] = defaultdict(set)  # of each key
        self.again = 0
        self.disorder: list[str] = []

    def got(self, consumer: str, message: Message[bytes]) -> None:
        key, number = message.data.decode().split(":")
        known = self.seen[key]
        self.by[consumer] += 1
        self.owners[key].add(consumer)
        if int(number) in known[-1000:]:
            self.again += 1
        elif known and int(number) < known[-1]:
            self.disorder.append(f"{key}: {number} after {known[-1]} at {consumer}")
        else:
            known.append(int(number))

    @property
    def total(self) -> int:
        return sum(map(len, self.seen.values()))


class Scene:
    """A client, an admin, a topic of one test; consumers that run until they are told to stop."""

    def __init__(self, client: aio.Client, admin: aio.Admin, topic: str) -> None:
        self.client, self.admin, self.topic = client, admin, topic
        self.book = Book()
        self.running: dict[str, asyncio.Task[None]] = {}
        self.leaving: set[str] = set()
        self.sent = 0

    async def consumer(self, name: str) -> StreamConsumer[bytes]:
        return await self.client.stream_consumer(
            self.topic, "s", name=name, initial_position=InitialPosition.EARLIEST, queue_messages=50
        )

    async def _read(self, name: str, holds: int) -> None:
        """Acknowledges what it has when it has so many, or when nothing more comes."""
        async with await self.consumer(name) as consumer:
            last, held = None, 0
            while name not in self.leaving:
                try:
                    last = await consumer.receive(0.2)
                    self.book.got(name, last)
                    held += 1
                except NoMessage:
                    held = holds
                if last is not None and held >= holds:
                    await consumer.acknowledge_cumulative(last)
                    last, held = None, 0
            if last is not None:
                await consumer.acknowledge_cumulative(last)

    def start(self, *names: str, holds: int = 1) -> None:
        for name in names:
            self.leaving.discard(name)
            self.running[name] = asyncio.create_task(self._read(name, holds))

    async def stop(self, *names: str) -> None:
        self.leaving.update(names)
        for name in names:
            await self.running.pop(name)

    async def until(self, done: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not await done():
                for task in self.running.values():
                    if task.done():
                        task.result()
                await asyncio.sleep(0.02)

    async def shared_by(self, *names: str) -> None:
        """Until exactly these have all segments, and none is on its way."""

        async def settled() -> bool:
            plan = await self.admin.scalable.subscription(self.topic, "s")
            return bool(plan.segments) and all(
                one.nextConsumerName is None and one.consumerName == ", ".join(sorted(names)) for one in plan.segments
            )

        await self.until(settled)

    async def received(self, count: int) -> None:
        async def there() -> bool:
            return self.book.total >= count

        await self.until(there)

    async def send(self, producer: aio.Producer[bytes], rounds: int) -> None:
        for _ in range(rounds):
            for key in KEYS:
                await producer.post(f"{key}:{self.sent}".encode(), key=key)
            self.sent += 1
        await producer.flush()

    async def attached(self, *names: str, segment: int = 0) -> None:
        """Until as many are attached to a segment: a plan says who may be, and comes first."""

        async def there() -> bool:
            stats = await self.admin.scalable.segment_stats(self.topic, segment)
            return len(stats.subscriptions["s"].consumers) == len(names)

        await self.until(there)

    async def kinds(self, segment: int = 0) -> set[str]:
        """The types of the subscription on a segment, as its owner has it."""
        stats = await self.admin.scalable.segment_stats(self.topic, segment)
        return {str(one.type) for name, one in stats.subscriptions.items() if name == "s"}


@asynccontextmanager
async def opened(server: Standalone, name: str, segments: int = 1) -> AsyncIterator[Scene]:
    topic = f"topic://public/default/{name}"
    async with (
        asyncio.timeout(2 * PATIENCE_S),
        aio.Client(server.url) as client,
        aio.Admin(server.http) as admin,
    ):
        await admin.scalable.create(topic, segments=segments)
        await admin.scalable.create_subscription(topic, "s")
        scene = Scene(client, admin, topic)
        yield scene
        await scene.stop(*scene.running)
        assert scene.book.disorder == []


async def test_consumers_sharing_segment_get_disjoint_keys(server: Standalone) -> None:
    async with opened(server, "two") as scene:
        scene.start("a", "b")
        await scene.shared_by("a", "b")
        await scene.attached("a", "b")
        async with await scene.client.create_producer(scene.topic) as producer:
            await scene.send(producer, 20)
            await scene.received(20 * len(KEYS))
            assert {len(owners) for owners in scene.book.owners.values()} == {1}
            assert min(scene.book.by[name] for name in "ab") > 0
            assert scene.book.again == 0
            await scene.stop("a", "b")
            await producer.send(b"end", key="end")
        async with await scene.consumer("c") as late:
            assert (await late.receive(PATIENCE_S)).data == b"end"


async def test_joining_and_leaving_sharers_keep_order_and_repeat_nothing(
    server: Standalone,
) -> None:
    async with opened(server, "joins") as scene:
        scene.start("a", holds=30)
        await scene.shared_by("a")
        async with await scene.client.create_producer(scene.topic) as producer:
            for joins, leaves in (("b", ""), ("c", ""), ("", "a"), ("a", "b"), ("", "c"), ("b", "")):
                await scene.send(producer, 5)
                if joins:
                    scene.start(joins, holds=30)
                if leaves:
                    await scene.stop(leaves)
                await scene.send(producer, 5)
                await scene.shared_by(*scene.running)
            await scene.received(60 * len(KEYS))
        assert scene.book.again == 0


async def test_type_of_subscription_follows_from_alone_to_shared_and_back(server: Standalone) -> None:
    async with opened(server, "flips") as scene:

        async def has(kind: str) -> None:
            async def now() -> bool:
                return await scene.kinds() == {kind}

            await scene.until(now)

        scene.start("a")
        await has("Exclusive")
        for _ in range(2):
            scene.start("b")
            await has("Key_Shared")
            await scene.stop("b")
            await has("Exclusive")
        async with await scene.client.create_producer(scene.topic) as producer:
            await scene.send(producer, 2)
        await scene.received(2 * len(KEYS))


async def test_rebucket_admits_more_consumers_and_keeps_key_order(server: Standalone) -> None:
    async with opened(server, "rebucket") as scene:
        await scene.admin.scalable.rebucket(scene.topic, 0, 2)
        scene.start(*"abc")
        async with await scene.client.create_producer(scene.topic) as producer:
            await scene.send(producer, 10)

            async def idle() -> bool:
                plan = await scene.admin.scalable.subscription(scene.topic, "s")
                working = [one for one in plan.consumers if one.segmentIds == [1]]
                return len(working) == 2 and len(plan.consumers) == 3

            await scene.until(idle)
            done = await scene.admin.scalable.rebucket(scene.topic, 1, 8, reason="one is idle")
            assert done is not None
            assert (done.kind, done.parentIds, done.childIds) == ("REBUCKET", [1], [2])
            await scene.send(producer, 10)
            await scene.shared_by(*"abc")
            await scene.received(20 * len(KEYS))
        metadata = await scene.admin.scalable.metadata(scene.topic)
        after = metadata.segments["2"]
        assert (after.hashRange, len(after.entryBucketSplits)) == (metadata.segments["0"].hashRange, 7)


@pytest.mark.slow
async def test_many_consumers_on_four_segments_all_work_in_key_order(
    server: Standalone,
) -> None:
    async with opened(server, "crowd", segments=4) as scene:
        names = [f"c{number:02}" for number in range(64)]
        over = False

        async def load() -> None:
            async with await scene.client.create_producer(scene.topic) as producer:
                while not over:
                    for number in range(MANY):
                        await producer.post(f"k{number}:{scene.sent}".encode(), key=f"k{number}")
                    scene.sent += 1
                    await producer.flush()
                    await scene.received(MANY * max(0, scene.sent - 10))  # never far ahead

        sending = asyncio.create_task(load())
        scene.start(*names, holds=5)

        async def all_work() -> bool:
            if sending.done():
                sending.result()
            return len(scene.book.by) == 64 and min(scene.book.by.values()) > 0

        await scene.until(all_work)
        for turn in range(4):
            gone = names[turn::4][:8]
            await scene.stop(*gone)
            before = dict(scene.book.by)
            scene.start(*gone, holds=5)

            async def back(gone: list[str] = gone, before: dict[str, int] = before) -> bool:
                return all(scene.book.by[name] > before[name] for name in gone)

            await scene.until(back)
        over = True
        await sending
        await scene.received(MANY * scene.sent)
        assert {len(numbers) for numbers in scene.book.seen.values()} == {scene.sent}
