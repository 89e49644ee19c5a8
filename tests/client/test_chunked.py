"""Messages in chunks that lie around others: wherever a reader stops between their chunks, nothing is lost or given
twice (H-G13), and what a split cut short keeps nobody waiting (H-E8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from magnetar import InitialPosition, MessageId, aio
from magnetar.client.options import CheckpointOptions
from magnetar.wire.scalable.checkpoint import Checkpoint
from tests.servers.proxy import Proxy
from tests.servers.standalone import Standalone
from tests.support.chunk_producer import Pieces
from tests.support.reshaped_topic import Reshaped, opened_topic, quiet

pytestmark = pytest.mark.real_clock

WAIT_S = 60  # for what must come
EARLIEST = InitialPosition.EARLIEST
KEPT = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("chunked"), KEPT) as running:
        yield running


class Cluster(Reshaped):
    @asynccontextmanager
    async def two(self) -> AsyncIterator[tuple[Pieces, Pieces]]:
        """Producers of the first segment, one for messages in chunks."""
        segment = self.topic.replace("topic://", "segment://") + "/0000-ffff-0"
        port = self.server.port
        async with Pieces(port, segment, "whole") as whole, Pieces(port, segment, "cut") as cut:
            yield whole, cut

    async def stream(self) -> aio.StreamConsumer[bytes]:
        return await self.client.stream_consumer(self.topic, "s", initial_position=EARLIEST)


def opened(server: Standalone, name: str) -> AbstractAsyncContextManager[Cluster]:
    return opened_topic(server, f"chunked-{name}", Cluster, 1)


async def around(whole: Pieces, cut: Pieces) -> bytes:
    """One message before a large one, and one inside it: what is left of the large one."""
    first, rest = cut.cut(b"large", 2)
    await whole.write(*whole.cut(b"before", 1))
    await cut.write(first)
    await whole.write(*whole.cut(b"inside", 1))
    return rest


async def data(consumer: aio.StreamConsumer[bytes] | aio.CheckpointConsumer[bytes]) -> bytes:
    return (await consumer.receive(WAIT_S)).data


@pytest.mark.parametrize("ends", ["before it is acknowledged", "after the next consumer came"])
async def test_stream_consumer_stopped_between_chunks_gets_surrounding_message_once(server, ends):
    async with opened(server, f"stream-{ends.split()[0]}") as cluster, cluster.two() as (whole, cut):
        rest = await around(whole, cut)
        if ends.startswith("before"):
            await cut.write(rest)
        async with await cluster.stream() as first:
            assert await data(first) == b"before"
            message = await first.receive(WAIT_S)
            assert message.data == b"inside"
            await first.acknowledge_cumulative(message, confirm=True)
        if ends.startswith("after"):
            await cut.write(rest)
        await whole.write(*whole.cut(b"behind", 1))
        async with await cluster.stream() as second:
            assert await data(second) == b"large"
            message = await second.receive(WAIT_S)
            assert message.data == b"behind"
            await second.acknowledge_cumulative(message, confirm=True)
        async with await cluster.stream() as third:
            await quiet(third)


async def test_id_kept_between_chunks_acknowledges_no_more_than_was_received(server):
    async with opened(server, "kept") as cluster, cluster.two() as (whole, cut):
        rest = await around(whole, cut)
        async with await cluster.stream() as first:
            await first.receive(WAIT_S)
            kept = (await first.receive(WAIT_S)).id.to_bytes()
        async with await cluster.stream() as second:
            await second.acknowledge_cumulative(MessageId.from_bytes(kept), confirm=True)
        await cut.write(rest)
        async with await cluster.stream() as third:
            assert await data(third) == b"large"
            await quiet(third)


async def test_id_taken_after_its_acknowledgement_says_no_more_than_before(server):
    async with opened(server, "late-id") as cluster, cluster.two() as (whole, cut):
        large = cut.cut(b"large", 2)
        await cut.write(large[0])
        await whole.write(*whole.cut(b"inside", 1))
        async with await cluster.stream() as first:
            message = await first.receive(WAIT_S)
            await first.acknowledge_cumulative(message, confirm=True)
            kept = message.id.to_bytes()
        async with await cluster.stream() as second:
            await second.acknowledge_cumulative(MessageId.from_bytes(kept), confirm=True)
        await cut.write(large[1])
        async with await cluster.stream() as third:
            assert await data(third) == b"large"


async def test_subscription_that_began_between_chunks_comes_to_segments_behind(server):
    async with opened(server, "latest") as cluster, cluster.two() as (whole, cut):
        large = cut.cut(b"large", 2)
        await cut.write(large[0])
        async with await cluster.client.stream_consumer(cluster.topic, "s") as consumer:
            await whole.write(*whole.cut(b"inside", 1))
            message = await consumer.receive(WAIT_S)
            await cut.write(large[1])
            await cluster.admin.scalable.split(cluster.topic, 0)
            async with await cluster.client.create_producer(cluster.topic) as producer:
                await producer.send(b"behind", key="k")
            await consumer.acknowledge_cumulative(message)
            assert [message.data, await data(consumer)] == [b"inside", b"behind"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stream", "checkpoint"])
async def test_slow_application_gets_message_with_distant_chunks(server, kind):
    async with opened(server, f"slow-{kind}") as cluster, cluster.two() as (whole, cut):
        large = cut.cut(b"large", 2)
        await cut.write(large[0])
        await whole.write(*whole.cut(b"first", 1))
        await whole.write(*whole.cut(b"second", 1))
        await cut.write(large[1])
        client, topic = cluster.client, cluster.topic
        options = CheckpointOptions(queue_messages=1, chunked_expire_s=0.5)
        if kind == "stream":
            made = client.stream_consumer(topic, "s", initial_position=EARLIEST, **options)
        else:
            made = client.checkpoint_consumer(topic, EARLIEST, **options)  # type: ignore[assignment]
        async with await made as consumer:
            for expected in (b"first", b"second", b"large"):
                await asyncio.sleep(0.6)  # for longer than a chunk is waited for
                message = await consumer.receive(WAIT_S)
                assert message.data == expected
                if kind == "stream":
                    await consumer.acknowledge_cumulative(message, confirm=True)


async def test_checkpoint_between_chunks_replays_message_around_and_no_other(server):
    async with opened(server, "checkpoint") as cluster:
        async with cluster.two() as (whole, cut):
            one, two = cut.cut(b"first large", 3), cut.cut(b"second large", 2)
            await whole.write(*whole.cut(b"before", 1))
            await cut.write(one[0])
            await whole.write(*whole.cut(b"inside one", 1))
            await cut.write(two[0], one[1], one[2])
            await whole.write(*whole.cut(b"inside two", 1))
            await cut.write(two[1])
            sequence = [b"before", b"inside one", b"first large", b"inside two", b"second large"]
            kept = []
            async with await cluster.client.checkpoint_consumer(cluster.topic, EARLIEST) as reader:
                for expected in sequence:
                    assert await data(reader) == expected
                    kept.append((await reader.checkpoint()).to_bytes())
        await cluster.admin.scalable.split(cluster.topic, 0)
        async with await cluster.client.create_producer(cluster.topic) as producer:
            await producer.send(b"behind", key="k")
        for place, checkpoint in enumerate(kept):
            again = await cluster.client.checkpoint_consumer(cluster.topic, Checkpoint.from_bytes(checkpoint))
            async with again:
                for expected in [*sequence[place + 1 :], b"behind"]:
                    assert await data(again) == expected


async def test_group_stopped_between_chunks_continues_with_surrounding_message_only(server):
    async with opened(server, "group") as cluster:
        client, topic = cluster.client, cluster.topic
        async with cluster.two() as (whole, cut):
            rest = await around(whole, cut)
            async with await client.checkpoint_consumer(topic, EARLIEST, group="g") as first:
                assert [await data(first), await data(first)] == [b"before", b"inside"]
                told = await first.checkpoint()
            await cut.write(rest)
            async with await client.checkpoint_consumer(topic, EARLIEST, group="g") as second:
                assert await data(second) == b"large"
                await second.checkpoint()
            async with await client.checkpoint_consumer(topic, EARLIEST, group="g") as third:
                await quiet(third)
            async with await client.checkpoint_consumer(topic, told) as alone:  # the group's is one like others
                assert await data(alone) == b"large"


async def test_reader_disconnected_between_chunks_continues_with_surrounding_message(server):
    async with opened(server, "lost") as cluster:
        with Proxy(server.port) as proxy:
            async with aio.Client(proxy.url) as client, cluster.two() as (whole, cut):
                large = cut.cut(b"large", 2)
                await cut.write(large[0])
                await whole.write(*whole.cut(b"inside", 1))
                async with await client.checkpoint_consumer(cluster.topic, EARLIEST) as reader:
                    assert await data(reader) == b"inside"
                    proxy.cut()
                    await cut.write(large[1])
                    assert await data(reader) == b"large"
                    await whole.write(*whole.cut(b"behind", 1))
                    assert await data(reader) == b"behind"


async def test_seek_to_checkpoint_between_chunks_brings_message_around(server):
    async with opened(server, "seek") as cluster, cluster.two() as (whole, cut):
        rest = await around(whole, cut)
        await cut.write(rest)
        async with await cluster.client.checkpoint_consumer(cluster.topic, EARLIEST) as reader:
            assert [await data(reader), await data(reader)] == [b"before", b"inside"]
            checkpoint = await reader.checkpoint()
        async with await cluster.stream() as consumer:
            await consumer.seek(checkpoint)
            assert [await data(consumer), await data(consumer)] == [b"inside", b"large"]


@pytest.mark.parametrize("kind", ["stream", "queue", "checkpoint"])
async def test_message_cut_by_split_does_not_block_later_ones(server, kind):
    async with opened(server, f"short-{kind}") as cluster:
        async with cluster.two() as (whole, cut):
            large = cut.cut(b"large", 2)
            await cut.write(large[0])
            await whole.write(*whole.cut(b"inside", 1))
            await cut.write(cut.cut(b"never ends either", 2)[0])
            await cluster.admin.scalable.split(cluster.topic, 0)
        async with await cluster.client.create_producer(cluster.topic) as producer:
            await producer.send(b"behind", key="k")
        client, topic = cluster.client, cluster.topic
        if kind == "checkpoint":
            async with await client.checkpoint_consumer(topic, EARLIEST) as reader:
                assert [await data(reader), await data(reader)] == [b"inside", b"behind"]
            return
        makes = client.stream_consumer if kind == "stream" else client.queue_consumer
        async with await makes(topic, "s", initial_position=EARLIEST) as consumer:
            seen = set()
            for _ in range(2):
                message = await consumer.receive(WAIT_S)
                seen.add(message.data)
                if isinstance(consumer, aio.StreamConsumer):
                    await consumer.acknowledge_cumulative(message, confirm=True)
                else:
                    await consumer.acknowledge(message, confirm=True)
            assert seen == {b"inside", b"behind"}
