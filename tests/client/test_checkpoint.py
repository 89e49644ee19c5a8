"""Checkpoint consumers of scalable topics, on a broker of its own process: a checkpoint replays the same sequence of
every key, however the topic was reshaped since."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager

import pytest

import magnetar
from magnetar import Batching, Checkpoint, DataLost, InitialPosition, Message, aio, errors
from magnetar.layout.checkpoint import DONE, SegmentPosition
from tests.servers.standalone import Standalone
from tests.support.reshaped_topic import QUIET_S, Reshaped, opened_topic, quiet

pytestmark = pytest.mark.real_clock

WAIT_S = 30  # for what must come
KEYS = 16


# Nobody but the reader's own user knows of a reader: what it has not read yet is kept by policy.
KEPT = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("checkpoint"), KEPT) as running:
        yield running


class Cluster(Reshaped):
    sent = 0

    async def send(self, count: int, **producer: object) -> None:
        async with await self.client.create_producer(self.topic, **producer) as made:  # type: ignore[arg-type]
            for _ in range(count):
                await made.post(b"%d" % self.sent, key=f"k{self.sent % KEYS}")
                self.sent += 1
            await made.flush()

    async def reader(
        self, start: object = InitialPosition.EARLIEST, **options: object
    ) -> aio.CheckpointConsumer[bytes]:
        return await self.client.checkpoint_consumer(self.topic, start, **options)  # type: ignore[arg-type]


def opened(server: Standalone, name: str, segments: int = 1) -> AbstractAsyncContextManager[Cluster]:
    return opened_topic(server, f"checkpoint-{name}", Cluster, segments)


async def take(consumer: aio.CheckpointConsumer[bytes], count: int) -> list[int]:
    return [number(await consumer.receive(WAIT_S)) for _ in range(count)]


def number(message: Message[bytes]) -> int:
    return int(message.data)


def in_order(numbers: list[int]) -> bool:
    """Of every key."""
    last: dict[int, int] = defaultdict(lambda: -1)
    for one in numbers:
        if one <= last[one % KEYS]:
            return False
        last[one % KEYS] = one
    return True


@pytest.mark.parametrize(
    "batching", [None, pytest.param(Batching(), marks=pytest.mark.slow)], ids=["single", "batched"]
)
async def test_checkpoint_at_any_moment_replays_rest_in_order_after_reshapes(server, batching):
    async with opened(server, f"replay-{batching is None}") as cluster:
        taken: list[tuple[int, bytes]] = []
        got: list[int] = []
        async with await cluster.reader() as reader:
            for turn in range(6):
                await cluster.send(60, batching=batching)
                if turn:
                    await cluster.reshape()
                for _ in range(37):
                    got += await take(reader, 1)
                    if got[-1] % 11 == 0:
                        taken.append((len(got), (await reader.checkpoint()).to_bytes()))
            got += await take(reader, cluster.sent - len(got))
            end = await reader.checkpoint()
            await quiet(reader)
        assert sorted(got) == list(range(cluster.sent))
        assert in_order(got)
        for count, kept in taken[:: max(1, len(taken) // 5)]:
            async with await cluster.reader(kept) as again:
                rest = await take(again, cluster.sent - count)
                assert sorted(got[:count] + rest) == list(range(cluster.sent))
                assert in_order(got[:count] + rest)
        await cluster.send(5)
        async with await cluster.reader(end) as late:
            assert sorted(await take(late, 5)) == list(range(cluster.sent - 5, cluster.sent))


async def test_children_open_after_parent_is_received(
    server,
):
    async with opened(server, "children") as cluster:
        await cluster.send(10)
        await cluster.admin.scalable.split(cluster.topic, 0)
        await cluster.admin.scalable.split(cluster.topic, 1)  # of which nothing was sent
        await cluster.send(20)
        async with await cluster.reader() as reader:
            first = await take(reader, 9)
            assert reader.segments == [0]
            assert set(first) < set(range(10))
            assert in_order(first + await take(reader, 21))
            assert reader.positions[0] == DONE
            assert reader.positions[1] == DONE


async def test_latest_is_resolved_once_and_later_messages_are_received(server):
    async with opened(server, "latest") as cluster:
        await cluster.send(20)
        await cluster.admin.scalable.split(cluster.topic, 0)
        await cluster.send(20)
        async with await cluster.reader(InitialPosition.LATEST) as reader:
            kept = await reader.checkpoint()
            await cluster.send(16)
            await cluster.admin.scalable.split(cluster.topic, 1)
            await cluster.send(16)
            got = await take(reader, 32)
            assert sorted(got) == list(range(40, 72))
            assert in_order(got)
        async with await cluster.reader(kept) as again:  # of segments it never received from, too
            assert sorted(await take(again, 32)) == list(range(40, 72))


async def test_time_is_place_in_every_segment(server):
    async with opened(server, "time") as cluster:
        await cluster.send(20)
        await cluster.admin.scalable.split(cluster.topic, 0)
        await cluster.send(20)
        async with await cluster.reader() as reader:
            messages = [await reader.receive(WAIT_S) for _ in range(40)]
        since = messages[10].publish_time_ms
        expected = sorted(number(one) for one in messages if one.publish_time_ms >= since)
        assert expected
        async with await cluster.reader(since) as later:
            assert sorted(await take(later, len(expected))) == expected
            await quiet(later)


async def test_seek_moves_both_ways_and_drops_queued_messages(server):
    async with opened(server, "seek") as cluster:
        await cluster.send(30)
        async with await cluster.reader() as reader:
            first = await take(reader, 10)
            kept = await reader.checkpoint()
            second = await take(reader, 10)
            await reader.seek(kept)
            again = await take(reader, 20)
            assert again[:10] == second
            assert sorted(first + again) == list(range(30))
            await reader.seek(InitialPosition.EARLIEST)
            assert await take(reader, 10) == first
            await reader.seek(InitialPosition.LATEST)
            await cluster.send(1)
            assert await take(reader, 1) == [30]
            with pytest.raises(errors.Misuse):
                await reader.seek("yesterday")  # type: ignore[arg-type]
            await cluster.send(1)
            assert await take(reader, 1) == [31]


async def test_checkpoint_of_earlier_life_of_topic_is_refused(server):
    async with opened(server, "life") as cluster:
        await cluster.send(5)
        async with await cluster.reader() as reader:
            await take(reader, 3)
            kept = (await reader.checkpoint()).to_bytes()
        await cluster.admin.scalable.delete(cluster.topic)
        await cluster.admin.scalable.create(cluster.topic)
        with pytest.raises(errors.Misuse, match="created again"):
            await cluster.reader(kept)


async def test_checkpoint_of_recreated_plain_topic_is_error_or_gap(server):
    async with opened(server, "plain-life") as cluster:
        cluster.topic = "persistent://public/default/plain-life"
        await cluster.send(5)
        async with await cluster.reader() as reader:
            await take(reader, 3)
            kept = (await reader.checkpoint()).to_bytes()
        await cluster.admin.topics.delete(cluster.topic)
        await cluster.admin.topics.create(cluster.topic)
        for group in (None, "empty"):
            with pytest.raises(DataLost):
                await cluster.reader(kept, group=group)
        await cluster.send(5)
        for group in (None, "written"):
            with pytest.raises(DataLost):
                await cluster.reader(kept, group=group)
        gaps = []
        async with await cluster.reader(kept, on_gap=gaps.append) as reader:
            assert sorted(await take(reader, 5)) == list(range(5, 10))
            kept = (await reader.checkpoint()).to_bytes()
        assert len(gaps) == 1
        async with await cluster.reader(kept) as reader:
            await cluster.send(1)
            assert await take(reader, 1) == [10]


@pytest.mark.slow
async def test_checkpoint_works_under_both_names_of_migrated_topic(server):
    async with opened(server, "two-names") as cluster:
        cluster.topic = old = "persistent://public/default/two-names"
        new = "topic://public/default/two-names"
        async with await cluster.client.create_producer(old, follow=True) as producer:
            for one in range(5):
                await producer.send(b"%d" % one)
            async with await cluster.reader() as reader:
                await take(reader, 2)
                before = await reader.checkpoint()
                await cluster.admin.scalable.migrate(old)
                await producer.send(b"5")
                await take(reader, 3)
                after = await reader.checkpoint()
                assert await take(reader, 1) == [5]
                assert (await reader.checkpoint()).incarnation != 0
        for name in (old, new):
            for kept, rest in ((before, [2, 3, 4, 5]), (after, [5])):
                async with await cluster.client.checkpoint_consumer(name, kept.to_bytes()) as again:
                    assert await take(again, len(rest)) == rest
        async with await cluster.client.stream_consumer(new, "moved") as stream:
            await stream.seek(before)
            assert number(await stream.receive(WAIT_S)) == 2
        async with await cluster.reader(InitialPosition.LATEST, group="end") as member:
            assert (await member.checkpoint()).places[0] == DONE  # type: ignore[index]


async def test_segment_that_went_unread_is_error_or_explicit_gap(server):
    """As if it had been pruned: the checkpoint has a place in a segment that the topic does not list."""

    async with opened(server, "gap") as cluster:
        await cluster.send(5)
        async with await cluster.reader() as reader:
            kept = await reader.checkpoint()
        lost = Checkpoint(
            {**kept.places, 99: SegmentPosition(1, 2)},  # type: ignore[dict-item]
            kept.epoch,
            kept.topic,
            kept.incarnation,
        )
        with pytest.raises(errors.Refused, match="deleted before they were read"):
            await cluster.reader(lost)
        gaps = []
        async with await cluster.reader(lost, on_gap=gaps.append) as reader:
            assert sorted(await take(reader, 5)) == list(range(5))
            assert [(gap.segment, gap.place) for gap in gaps] == [(99, SegmentPosition(1, 2))]
            assert 99 not in reader.positions


@pytest.mark.slow
async def test_reader_continues_after_last_message_when_broker_is_killed(tmp_path):
    with Standalone(tmp_path / "broker", KEPT) as server:
        async with opened(server, "killed") as cluster:
            await cluster.send(200, batching=Batching(messages_max=7))
            async with await cluster.reader() as reader:
                got = await take(reader, 90)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                await cluster.admin.scalable.split(cluster.topic, 0)
                await cluster.send(50)
                got += await take(reader, 160)
                assert sorted(got) == list(range(250))
                assert in_order(got)


async def test_two_readers_receive_everything_and_leave_nothing_behind(server):
    async with opened(server, "two", segments=3) as cluster:
        await cluster.send(40)
        async with await cluster.reader() as one, await cluster.reader() as other:
            assert sorted(await take(one, 40)) == sorted(await take(other, 40)) == list(range(40))
        stats = await cluster.admin.scalable.stats(cluster.topic)
        assert not stats.subscriptions


async def test_blocking_consumer_counts_messages_taken_by_threads_only(server):
    async with opened(server, "blocking") as cluster:
        await cluster.send(20)
        await cluster.admin.scalable.split(cluster.topic, 0)
        await cluster.send(20)

        def blocking() -> None:
            with magnetar.Client(server.url) as client:
                with client.checkpoint_consumer(cluster.topic) as reader:
                    first = [number(reader.receive(WAIT_S)) for _ in range(7)]
                    while reader.queued < 13:  # the rest of the parent comes to hand
                        time.sleep(0.01)
                    kept = reader.checkpoint()
                    got = first + [number(reader.receive(WAIT_S)) for _ in range(33)]
                    assert sorted(got) == list(range(40))
                    assert in_order(got)
                    assert reader.receive_batch(10, timeout_s=QUIET_S) == []
                    reader.seek(kept)
                    assert len(reader.receive_batch(5, timeout_s=WAIT_S)) in range(1, 6)
                with client.checkpoint_consumer(cluster.topic, kept.to_bytes()) as again:
                    rest = [number(again.receive(WAIT_S)) for _ in range(33)]
                    assert sorted(first + rest) == list(range(40))

        await asyncio.to_thread(blocking)


@pytest.mark.slow
async def test_messages_that_broker_deleted_meanwhile_are_error_not_silence(tmp_path):
    """Nothing keeps them: no subscription, no retention. Asked again until they are gone."""
    settings = {
        "managedLedgerMinLedgerRolloverTimeMinutes": 0,
        "defaultRetentionTimeInMinutes": 0,
        "defaultRetentionSizeInMB": 0,
    }
    with Standalone(tmp_path / "broker", settings) as server:
        async with opened(server, "deleted") as cluster:
            await cluster.send(5)
            async with await cluster.reader() as reader:
                kept = await reader.checkpoint()
                await cluster.admin.scalable.split(cluster.topic, 0)
                await take(reader, 5)

            async def until_refused() -> None:
                while True:
                    async with await cluster.reader(kept) as again:
                        await again.receive(WAIT_S)
                    await asyncio.sleep(0.1)

            with pytest.raises(errors.Refused, match="deleted before they were read"):
                await until_refused()
            with pytest.raises(DataLost):
                await cluster.reader(kept, group="new")
            await cluster.send(3)  # which that group's hold keeps
            for group in (None, "gaps"):
                gaps = []
                async with await cluster.reader(kept, on_gap=gaps.append, group=group) as again:
                    assert sorted(await take(again, 3)) == [5, 6, 7]
                assert [gap.segment for gap in gaps] == [0]
