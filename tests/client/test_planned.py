"""What Spark's readers do, without Spark: batches planned with the broker's counts or with entries counted, and read.

On a broker of its own process. Both ways of planning keep the same promises; PySpark itself is tried in tests/spark.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from magnetar import aio
from magnetar.client.batch_read.hold import HoldRequest, hold
from magnetar.client.batch_read.range_reader import RangeReader
from magnetar.client.client import Client
from magnetar.layout.readable_range import DONE, START
from magnetar.layout.routing import Routing
from magnetar.spark.read.decoder import Decoder
from magnetar.spark.source.magnetar_topics import MagnetarTopicInfo
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.options import source_options
from magnetar.spark.source.pulsar_topics import PulsarTopicInfo
from magnetar.spark.source.query import Query, ReadTask
from magnetar.spark.source.topic_info import TopicInfo
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock

Rows = list[tuple[str, int]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    kept = {"defaultRetentionTimeInMinutes": 60, "defaultRetentionSizeInMB": 100}
    with Standalone(tmp_path_factory.mktemp("planned"), kept) as running:
        yield running


class World:
    """A topic whose rows are numbered, and what a query makes of it."""

    def __init__(self, client: Client, admin: aio.Admin, topic: str) -> None:
        self.client = client
        self.admin = admin
        self.topic = topic
        self.sent = 0
        self.producer: Any = None

    async def publish(self, count: int) -> None:
        if self.producer is None:
            self.producer = await self.client.create_producer(self.topic)
        sends = [self.producer.send(b"%d" % number, key=f"k{number % 9}") for number in self._next(count)]
        await asyncio.gather(*sends)

    async def active(self) -> list[int]:
        found = (await self.admin.scalable.metadata(self.topic)).segments.values()
        alive = [one for one in found if one.state == "ACTIVE"]
        return [one.segmentId for one in sorted(alive, key=lambda one: one.hashRange.start)]

    def query(self, facts: type[MagnetarTopicInfo] | type[PulsarTopicInfo], **options: str) -> Query:
        asked = source_options({"topic": self.topic, **options}, streaming="endingOffsets" not in options)
        made: TopicInfo = facts(self.client, self.topic, subscription=asked.subscription)
        return Query(asked, made, self.client.runtime.monotonic)

    async def rows(self, tasks: list[ReadTask]) -> Rows:
        found: Rows = []
        for one in tasks:
            for piece, topic in zip(one.task.pieces, one.topics, strict=True):
                decoder = Decoder(("key", "value"), piece=piece, routing=Routing(one.routing))
                first = (-1, -1) if piece.start == START else piece.start[:2]
                last = None if piece.end == DONE else (piece.end.ledger, piece.end.entry + (piece.end.row > 0))
                reader = RangeReader(self.client.lookup, topic, first, last)
                await reader.open()
                while run := await reader.take():
                    for entry in run:
                        decoder.add(*entry)
                await reader.close()
                found += [(row["key"].decode(), int(row["value"])) for row in decoder.take().to_pylist()]
        return found

    def judge(self, found: Rows) -> None:
        numbers = [number for _, number in found]
        assert sorted(numbers) == list(range(self.sent))
        for wanted in {key for key, _ in found}:
            of_key = [number for key, number in found if key == wanted]
            assert of_key == sorted(of_key)

    def _next(self, count: int) -> range:
        self.sent += count
        return range(self.sent - count, self.sent)


@asynccontextmanager
async def opened(server: Standalone, topic: str) -> AsyncIterator[World]:
    async with asyncio.timeout(120), aio.Client(server.url) as client, aio.Admin(server.http) as admin:
        yield World(client, admin, topic)


@pytest.mark.parametrize("facts", [MagnetarTopicInfo, PulsarTopicInfo], ids=["measured", "counted"])
@pytest.mark.parametrize("order", ["chain", "barrier"])
async def test_every_row_is_read_once_in_order_through_reshapes(
    server: Standalone, facts: type[MagnetarTopicInfo] | type[PulsarTopicInfo], order: str
) -> None:
    async with opened(server, f"topic://public/default/{facts.__name__.lower()}-{order}") as world:
        await world.admin.scalable.create(world.topic, segments=2)
        query = world.query(facts, startingOffsets="earliest", maxMessagesPerTrigger="30", keyOrder=order)
        at = await query.start()
        batches: list[tuple[SourceOffset, SourceOffset, Rows]] = []
        count = 0
        for step in range(500):
            if step < 4:
                await world.publish(40)
                active = await world.active()
                if step % 2:
                    await world.admin.scalable.merge(world.topic, active[:2])
                else:
                    await world.admin.scalable.split(world.topic, active[step % len(active)])
            elif count >= world.sent:
                break
            end = await query.latest(at)
            if end is not at:  # a layout that is not told yet is waited for
                batches.append((at, end, await world.rows(await query.tasks(at, end))))
                count += len(batches[-1][2])
                at = end
        world.judge([row for _, _, found in batches for row in found])
        again = world.query(facts, startingOffsets="earliest", keyOrder=order)
        for first, last, found in batches:
            assert await world.rows(await again.tasks(first, last)) == found


@pytest.mark.parametrize("facts", [MagnetarTopicInfo, PulsarTopicInfo], ids=["measured", "counted"])
async def test_query_from_end_reads_what_comes_after(
    server: Standalone, facts: type[MagnetarTopicInfo] | type[PulsarTopicInfo]
) -> None:
    async with opened(server, f"topic://public/default/{facts.__name__.lower()}-latest") as world:
        await world.admin.scalable.create(world.topic, segments=1)
        await world.publish(20)
        await world.admin.scalable.split(world.topic, 0)
        await world.publish(20)
        query = world.query(facts)
        at = await query.start()
        await world.publish(10)
        end = await query.latest(at)
        assert sorted(number for _, number in await world.rows(await query.tasks(at, end))) == list(range(40, 50))


async def test_hold_is_created_at_start_and_follows_committed_batches(server: Standalone) -> None:
    async with opened(server, "topic://public/default/held") as world:
        await world.admin.scalable.create(world.topic, segments=1)
        await world.publish(5)

        async def held() -> dict[int, str]:
            found = await hold(world.client.lookup, HoldRequest(world.topic, "q"), 30)
            return {id: str(place) for id, place in found.places.items()}

        first = await world.query(MagnetarTopicInfo, subscription="q").start()
        begun = {int(id): str(place) for id, place in first.places.items()}
        assert await held() == begun
        await world.publish(5)
        query = world.query(
            MagnetarTopicInfo, subscription="q"
        )  # as after a crash in batch 0: "latest" is later by now
        at = await query.start()
        assert at.places != first.places
        assert await held() == begun
        end = await query.latest(at)
        assert await held() == begun
        await query.latest(end)
        assert await held() == {int(id): str(place) for id, place in end.places.items()}


@pytest.mark.parametrize("partitions", [0, 3])
async def test_plain_topics_are_read_and_added_partitions_with_them(server: Standalone, partitions: int) -> None:
    name = f"plain-{partitions}"

    async with opened(server, f"persistent://public/default/{name}") as world:
        path = f"persistent/public/default/{name}/partitions"
        if partitions:
            server.admin("PUT", path, partitions)
        await world.publish(30)
        query = world.query(PulsarTopicInfo, startingOffsets="earliest")
        at = await query.start()
        end = await query.latest(at)
        world.judge(await world.rows(await query.tasks(at, end)))
        if partitions:
            server.admin("POST", path, partitions + 2)
            later = world.query(PulsarTopicInfo)
            async with await world.client.create_producer(f"{world.topic}-partition-4") as producer:
                await producer.send(b"7", key="k")
            last = await later.latest(end)
            assert await world.rows(await later.tasks(end, last)) == [("k", 7)]
