"""Scalable topics through the client, on a broker of its own process: order per key while the topic is reshaped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

import magnetar
from magnetar import AccessMode, InitialPosition, Message, NoMessage, errors
from magnetar.aio import StreamConsumer
from magnetar.cli.traffic.load import LoadConfig, Workload
from magnetar.testing.order import OrderChecker
from tests.servers.standalone import Standalone
from tests.support.reshaped_topic import Reshaped, opened_topic

pytestmark = pytest.mark.real_clock

TOPIC = "topic://public/default/t"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    settings = {
        "brokerDeduplicationEnabled": True,
        "defaultRetentionTimeInMinutes": -1,  # who comes late reads what others have acknowledged long ago
        "defaultRetentionSizeInMB": -1,
    }
    with Standalone(tmp_path_factory.mktemp("scalable"), settings) as running:
        yield running


class Cluster(Reshaped):
    def load(self, **said: object) -> LoadConfig:
        return LoadConfig(self.topic, **{"rate": 800.0, "reshape_s": 0.3, "drain_s": 60.0, **said})  # type: ignore[arg-type]


def opened(server: Standalone, name: str, segments: int = 1) -> AbstractAsyncContextManager[Cluster]:
    return opened_topic(server, name, Cluster, segments)


async def until_refused(call: Callable[[], Awaitable[object]]) -> None:
    while True:
        await call()


def kept(ordering: OrderChecker) -> None:
    assert ordering.findings == []
    assert ordering.sent == ordering.received - ordering.redelivered > 0


async def test_splits_and_merges_under_load_keep_order_and_messages(server):
    async with opened(server, "under-load", segments=2) as cluster:
        workload = Workload(cluster.client, cluster.load(), reshape=cluster.reshape)
        kept(await workload.run(4))
        assert workload.reshapes > 1
        kept(await workload.again("late", consumers=2))


async def test_joining_and_leaving_consumers_miss_nothing_during_reshapes(server):
    async with opened(server, "churn", segments=2) as cluster:
        workload = Workload(cluster.client, cluster.load(consumers=3, churn_s=0.7), reshape=cluster.reshape)
        kept(await workload.run(4))
        assert workload.joined > 3


async def test_messages_without_batches_keep_their_order_too(server):
    async with opened(server, "unbatched") as cluster:
        kept(await Workload(cluster.client, cluster.load(batching=False), reshape=cluster.reshape).run(3))


async def test_broker_killed_under_load_loses_nothing_and_stores_nothing_twice(tmp_path: Path):
    with Standalone(tmp_path / "killed", {"brokerDeduplicationEnabled": True}) as server:
        async with opened(server, "killed", segments=2) as cluster:
            await cluster.admin.scalable.create_subscription(cluster.topic, "held")
            workload = Workload(cluster.client, cluster.load(), reshape=cluster.reshape)
            running = asyncio.ensure_future(workload.run(6))
            for _ in range(2):
                await asyncio.sleep(2)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            ordering = await running
            assert ordering.findings == []
            late = await workload.again("held", consumers=2)
            assert late.findings == []
            assert late.received > 0


async def test_resend_with_same_numbers_after_split_is_stored_once(server):
    async with opened(server, "resend") as cluster:
        for again in range(2):
            async with await cluster.client.create_producer(cluster.topic, name="p") as producer:
                assert producer.last_sequence_id == (-1 if not again else 19)
                for number in range(20):
                    await producer.send(b"%d" % number, key=f"k{number % 5}", sequence_id=number)
            if not again:
                await cluster.admin.scalable.split(cluster.topic, 0)
        async with await cluster.client.stream_consumer(
            cluster.topic, "s", initial_position=InitialPosition.EARLIEST
        ) as consumer:
            seen = []
            for _ in range(20):
                message = await consumer.receive(60)
                seen.append(int(message.data))
                await consumer.acknowledge_cumulative(message)
            assert sorted(seen) == list(range(20))
            with pytest.raises(NoMessage):
                await consumer.receive(0.5)


@pytest.mark.parametrize("at_once", [1, 7, 100])
async def test_resend_without_keys_after_merge_is_stored_once(server, at_once):
    """What has no key is spread by its number: after a merge its number says which parent may have it."""

    async with opened(server, f"resend-keyless-{at_once}", segments=2) as cluster:
        for again in range(2):
            async with await cluster.client.create_producer(cluster.topic, name="p") as producer:
                for first in range(0, 100, at_once):
                    numbers = range(first, min(first + at_once, 100))
                    await asyncio.gather(*(producer.send(b"%d" % number, sequence_id=number) for number in numbers))
            if not again:
                await cluster.admin.scalable.merge(cluster.topic, [0, 1])
        stored = await cluster.client.plan(cluster.topic)
        assert sum(stretch.messages for stretch in stored.stretches.values()) == 100


async def last_before_silence(consumer: StreamConsumer[bytes], last: Message[bytes]) -> Message[bytes]:
    """The last of all messages that come now; each one after `last` is received."""
    while True:
        try:
            last = await consumer.receive(0.5)
        except NoMessage:
            return last


async def test_child_of_two_consumers_segments_waits_for_their_acknowledgements(server):
    async with opened(server, "gated") as cluster:
        await cluster.admin.scalable.split(cluster.topic, 0)
        consumers = [await cluster.client.stream_consumer(cluster.topic, "s", name=name) for name in ("one", "two")]
        async with await cluster.client.create_producer(cluster.topic) as producer:
            first: dict[str, Message[bytes]] = {}
            waiting = {asyncio.ensure_future(each.receive(60)): each for each in consumers}
            for number in range(100):  # keys of both segments
                await producer.send(b"before", key=f"k{number}")
            for each in waiting:
                first[waiting[each].name] = await each
            parents = await cluster.active()
            await cluster.admin.scalable.merge(cluster.topic, parents)
            stored = await producer.send(b"after", key="a")
            assert stored.segment not in parents
            last = {each.name: await last_before_silence(each, first[each.name]) for each in consumers}
            assert {each.data for each in last.values()} == {b"before"}
            for consumer in consumers:
                await consumer.acknowledge_cumulative(last[consumer.name])
            done, pending = await asyncio.wait(
                [asyncio.ensure_future(each.receive(60)) for each in consumers], return_when=asyncio.FIRST_COMPLETED
            )
            [second] = [each.result() for each in done]
            assert (second.data, second.id.segment) == (b"after", stored.segment)
            for each in pending:
                each.cancel()
        for consumer in consumers:
            await consumer.close()


async def test_offline_stream_subscription_receives_everything_after_split(server):
    async with opened(server, "offline") as cluster:
        await (await cluster.client.stream_consumer(cluster.topic, "s")).close()
        async with await cluster.client.create_producer(cluster.topic) as producer:
            for number in range(30):
                await producer.send(b"%d" % number, key=f"k{number % 3}")
                if number in (9, 19):
                    await cluster.admin.scalable.split(cluster.topic, (await cluster.active())[0])
        async with await cluster.client.stream_consumer(cluster.topic, "s") as consumer:
            seen: dict[str | None, list[int]] = {}
            for _ in range(30):
                message = await consumer.receive(60)
                seen.setdefault(message.key, []).append(int(message.data))
                await consumer.acknowledge_cumulative(message)
            assert seen == {f"k{key}": list(range(key, 30, 3)) for key in range(3)}


async def test_segments_of_consumer_that_leaves_go_to_others_at_once(server):
    async with opened(server, "leaving", segments=4) as cluster:
        one = await cluster.client.stream_consumer(cluster.topic, "s", name="one")
        two = await cluster.client.stream_consumer(cluster.topic, "s", name="two")
        async with one, asyncio.timeout(20):
            while len(one.segments) != 2 or len(two.segments) != 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await two.close()
            while len(one.segments) != 4:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_exclusive_producer_stays_only_one_through_split(server):
    async with (
        opened(server, "exclusive") as cluster,
        await cluster.client.create_producer(cluster.topic, name="first", access_mode=AccessMode.EXCLUSIVE) as first,
    ):
        await first.send(b"1", key="a")
        await cluster.admin.scalable.split(cluster.topic, 0)
        await first.send(b"2", key="a")
        await first.send(b"3", key="key-0")
        with pytest.raises((errors.Fenced, errors.ProducerBusy)):
            await cluster.client.create_producer(cluster.topic, name="second", access_mode=AccessMode.EXCLUSIVE)
        await first.send(b"4", key="a")


async def test_waiting_producer_gets_topic_when_holder_closes(server):
    async with opened(server, "waiting", segments=2) as cluster:
        client, topic = cluster.client, cluster.topic
        first = await client.create_producer(topic, name="first", access_mode=AccessMode.EXCLUSIVE)
        waiting = asyncio.ensure_future(
            client.create_producer(topic, name="second", access_mode=AccessMode.WAIT_FOR_EXCLUSIVE)
        )
        for number in range(20):
            await first.send(b"1", key=f"key-{number}")
        assert not waiting.done()
        await first.close()
        async with await waiting as second:
            for number in range(20):
                await second.send(b"2", key=f"key-{number}")


async def test_large_message_in_chunks_crosses_split_whole(server):
    async with opened(server, "chunks") as cluster:
        large = bytes(range(256)) * (48 * 1024)
        async with await cluster.client.create_producer(cluster.topic, chunking=True, batching=None) as producer:
            sending = asyncio.ensure_future(producer.send(large, key="a"))
            await asyncio.sleep(0.01)
            await cluster.admin.scalable.split(cluster.topic, 0)
            await sending
        async with await cluster.client.stream_consumer(
            cluster.topic, "s", initial_position=InitialPosition.EARLIEST
        ) as consumer:
            message = await consumer.receive(20)
            assert message.data == large
            await consumer.acknowledge_cumulative(message, confirm=True)


async def test_deleted_topic_ends_its_producers_and_consumers(server):
    async with opened(server, "deleted") as cluster:
        producer = await cluster.client.create_producer(cluster.topic)
        consumer = await cluster.client.stream_consumer(cluster.topic, "s")
        await producer.send(b"1")
        await cluster.admin.scalable.delete(cluster.topic, force=True)
        with pytest.raises(errors.TopicNotFound):
            await until_refused(lambda: producer.send(b"2"))
        with pytest.raises(errors.TopicNotFound):
            await until_refused(lambda: consumer.receive(60))
        await producer.close(flush=False)
        await consumer.close()


async def test_consumer_whose_subscription_is_removed_ends_and_makes_no_other(server):
    """Made anew it would begin at the end: what came meanwhile would be skipped without a word (H-D9)."""

    async with (
        opened(server, "removed", segments=2) as cluster,
        await cluster.client.create_producer(cluster.topic) as producer,
        await cluster.client.stream_consumer(cluster.topic, "s") as consumer,
    ):
        await producer.send(b"1")
        await consumer.acknowledge_cumulative(await consumer.receive(60))
        await cluster.admin.scalable.delete_subscription(cluster.topic, "s")
        await producer.send(b"2")
        with pytest.raises(errors.SubscriptionNotFound):
            await consumer.receive(60)
        assert not await cluster.admin.scalable.subscriptions(cluster.topic)


def test_blocking_client_produces_and_reads_through_split(server):
    topic = "topic://public/default/blocking"
    with magnetar.Client(server.url) as client, magnetar.Admin(server.http) as admin:
        admin.scalable.create(topic)
        with (
            client.create_producer(topic) as producer,
            client.stream_consumer(topic, "s", initial_position=InitialPosition.EARLIEST) as consumer,
        ):
            for number in range(60):
                producer.post(b"%d" % number, key=f"k{number % 4}")
                if number == 30:
                    admin.scalable.split(topic, 0)
            producer.flush()
            seen: dict[str | None, list[int]] = {}
            for _ in range(60):
                message = consumer.receive(60)
                seen.setdefault(message.key, []).append(int(message.value))
                consumer.acknowledge_cumulative(message)
            assert seen == {f"k{key}": list(range(key, 60, 4)) for key in range(4)}
            with pytest.raises(NoMessage):
                consumer.receive(0.2)
            while consumer.segments != [1, 2]:  # until the controller knows that segment 0 is drained
                with pytest.raises(NoMessage):
                    consumer.receive(0.2)


def test_threads_share_blocking_stream_consumer_without_waiting_for_each_other(server):
    topic = "topic://public/default/threads"
    with magnetar.Client(server.url) as client:
        with client.create_producer(topic) as producer:
            for number in range(20):
                producer.post(b"%d" % number)
            producer.flush()
        with client.stream_consumer(topic, "s", initial_position=InitialPosition.EARLIEST) as consumer:
            found: list[int] = []
            threads = [threading.Thread(target=lambda: found.append(int(consumer.receive(60).data))) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(found) == list(range(20))
