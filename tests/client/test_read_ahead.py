"""Stream consumers that acknowledge every N messages get past splits and merges: segments are read before their
ancestors are acknowledged (H-F20)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from magnetar import InitialPosition, NoMessage
from tests.servers.standalone import Standalone
from tests.support.reshaped_topic import Reshaped, opened_topic

pytestmark = pytest.mark.real_clock

KEYS = [f"k{number}" for number in range(8)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("ahead"), {}) as running:
        yield running


class Cluster(Reshaped):
    async def split(self) -> None:
        await self.admin.scalable.split(self.topic, (await self.active())[0])

    async def merge(self) -> None:
        await self.admin.scalable.merge(self.topic, (await self.active())[:2])


def opened(server: Standalone, name: str, segments: int = 1) -> AbstractAsyncContextManager[Cluster]:
    return opened_topic(server, name, Cluster, segments)


async def sent(cluster: Cluster, first: int, count: int) -> None:
    """Numbered from `first` on, by turns for each key."""
    async with cluster.client.create_producer(cluster.topic) as producer:
        for number in range(first, first + count):
            await producer.send(str(number).encode(), key=KEYS[number % len(KEYS)])


def consumer(cluster: Cluster, **options: Any) -> Any:
    return cluster.client.stream_consumer(cluster.topic, "s", initial_position=InitialPosition.EARLIEST, **options)


async def drained(*consumers: Any) -> None:
    """Until everything is acknowledged for good, and each of them has a segment."""
    for _ in range(500):
        if not (await consumers[0].lag()).messages and all(one.segments for one in consumers):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"lag {await consumers[0].lag()}, segments {[one.segments for one in consumers]}")


async def received(one: Any, count: int, timeout_s: float = 10) -> list[Any]:
    return [await one.receive(timeout_s) for _ in range(count)]


def check_order(messages: list[Any]) -> None:
    by_key: dict[str, list[int]] = {}
    for message in messages:
        by_key.setdefault(message.key, []).append(int(message.data))
    for key, numbers in by_key.items():
        assert numbers == sorted(set(numbers)), f"{key} came as {numbers}"


async def test_consumer_that_acknowledges_at_end_gets_past_split(server: Standalone) -> None:
    async with opened(server, "one-split") as cluster:
        one = await consumer(cluster)
        await sent(cluster, 0, 15)
        await cluster.split()
        await sent(cluster, 15, 15)
        found = await received(one, 30)
        check_order(found)
        await one.acknowledge_cumulative(found[-1], confirm=True)
        await one.close()
        again = await consumer(cluster)
        with pytest.raises(NoMessage):
            await again.receive(1)
        await again.close()


async def test_consumer_that_acknowledges_at_end_gets_past_many_reshapes(server: Standalone) -> None:
    async with opened(server, "many-reshapes", segments=2) as cluster:
        one = await consumer(cluster)
        for round in range(6):
            await sent(cluster, round * 20, 20)
            await cluster.reshape()
        await sent(cluster, 120, 20)
        found = await received(one, 140)
        check_order(found)
        assert one.unacknowledged == 140
        await one.acknowledge_cumulative(found[-1])
        await drained(one)
        await sent(cluster, 140, 20)
        check_order([*found, *await received(one, 20)])
        await one.close()


@pytest.mark.parametrize("next_name", ["a", "b", "b after kill -9"])
async def test_acknowledgements_of_many_generations_outlive_consumer_that_closes(
    server: Standalone, next_name: str
) -> None:
    """Those of each generation are applied when those before it are on disk. The close waits for them."""

    async with opened(server, f"outlive-{next_name.replace(' ', '-')}", segments=2) as cluster:
        one = await consumer(cluster, name="a")
        for round in range(12):
            await sent(cluster, round * 20, 20)
            await cluster.reshape()
        await sent(cluster, 240, 20)
        found = await received(one, 260)
        await one.acknowledge_cumulative(found[-1])
        await one.close()
        if "kill" in next_name:
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        other = await consumer(cluster, name=next_name[:1])
        with pytest.raises(NoMessage):
            await other.receive(2)
        await drained(other)
        await sent(cluster, 260, 20)
        check_order([*found, *await received(other, 20)])
        await other.close()


async def test_consumer_that_seeks_before_it_received_all_gets_past_split(server: Standalone) -> None:
    async with opened(server, "seeks") as cluster:
        one = await consumer(cluster, queue_messages=1)
        await sent(cluster, 0, 15)
        await cluster.split()
        await sent(cluster, 15, 15)
        await received(one, 3)
        await asyncio.sleep(0.5)  # until the controller has asked whether everything was received
        await one.seek(InitialPosition.EARLIEST)
        check_order(await received(one, 30))
        await one.close()


async def test_reader_ahead_whose_segment_is_unloaded_keeps_order(server: Standalone) -> None:
    """The messages that waited in its queue come again, before those of the children (H-F20)."""

    async with opened(server, "unloaded") as cluster:
        one = await consumer(cluster)
        await sent(cluster, 0, 20)
        await cluster.split()
        await sent(cluster, 20, 20)
        found = await received(one, 2)
        async with asyncio.timeout(20):
            while len(one.segments) < 3 or sum(len(queue.messages) for queue in one._inbox.queues) < 38:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await cluster.admin.namespaces.unload("public/default")
        while len({int(message.data) for message in found}) < 40:
            found.append(await one.receive(20))
        newest = {key: place - len(KEYS) for place, key in enumerate(KEYS)}
        for message in found:
            number = int(message.data)
            assert number <= newest[message.key] + len(KEYS), f"{number} came behind {newest[message.key]}"
            newest[message.key] = max(newest[message.key], number)
        await one.close()


async def test_reader_ahead_that_dies_leaves_all_to_one_in_order(server: Standalone) -> None:
    async with opened(server, "dies") as cluster:
        one = await consumer(cluster, name="a")
        await sent(cluster, 0, 20)
        await cluster.split()
        await sent(cluster, 20, 20)
        found = await received(one, 40)
        check_order(found)
        await one.acknowledge_cumulative(found[7])
        await one.close()
        other = await consumer(cluster, name="b")
        again = await received(other, 32)
        check_order(again)
        assert {int(message.data) for message in again} == set(range(40)) - {int(one.data) for one in found[:8]}
        await other.acknowledge_cumulative(again[-1])
        await drained(other)
        await other.close()


async def test_children_of_merge_wait_for_two_holders(server: Standalone) -> None:
    async with opened(server, "merge-of-two", segments=2) as cluster:
        ones = [await consumer(cluster, name=name) for name in ("a", "b")]
        await drained(*ones)
        await sent(cluster, 0, 16)
        await cluster.merge()
        await sent(cluster, 16, 16)
        found = [[], []]
        for place, one in enumerate(ones):
            try:
                while True:
                    found[place].append(await one.receive(1))
            except NoMessage:
                pass
        assert len(found[0]) + len(found[1]) == 16, "the child waits: its parents are held by two"
        for place, one in enumerate(ones):
            await one.acknowledge_cumulative(found[place][-1])
        rest = []
        while len(rest) < 16:
            for one in ones:
                try:
                    rest.append(await one.receive(0.1))
                except NoMessage:
                    continue
        check_order([*found[0], *found[1], *rest])
        for one in ones:
            await one.close()


async def test_joining_consumer_takes_nothing_that_is_read_ahead(server: Standalone) -> None:
    async with opened(server, "joins") as cluster:
        one = await consumer(cluster, name="a")
        await sent(cluster, 0, 16)
        await cluster.split()
        await sent(cluster, 16, 16)
        found = await received(one, 32)
        other = await consumer(cluster, name="b")
        with pytest.raises(NoMessage):
            await other.receive(1)
        await one.acknowledge_cumulative(found[-1])
        await drained(one, other)
        await sent(cluster, 32, 16)
        rest = []
        while len(rest) < 16:
            for each in (one, other):
                try:
                    rest.append(await each.receive(0.1))
                except NoMessage:
                    continue
        check_order([*found, *rest])
        await one.close()
        await other.close()
