"""Subscriptions of scalable topics moved over all segments, with consumers attached, on a broker of its own process."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from magnetar import Admin, Client, InitialPosition, aio, errors
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock

EARLIEST = InitialPosition.EARLIEST
KEYS = [f"k{number}" for number in range(8)]
WAIT_S = 60

_numbers = itertools.count(1)

Consumer = aio.QueueConsumer[bytes] | aio.StreamConsumer[bytes]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("seek")) as running:
        yield running


class Topic:
    def __init__(self, client: aio.Client, admin: aio.Admin) -> None:
        self.client = client
        self.admin = admin
        self.name = f"topic://public/default/seek-{next(_numbers)}"
        self.sent = 0

    async def send(self, rounds: int) -> None:
        """So many messages of every key."""
        async with await self.client.create_producer(self.name, batching=None) as producer:
            for _ in range(rounds):
                for key in KEYS:
                    await producer.post(b"%d" % self.sent, key=key)
                self.sent += 1
            await producer.flush()

    async def over_a_split(self, kind: str) -> Consumer:
        """Three rounds that were consumed and acknowledged, a split, and three that wait."""
        consumer = await self.consume(kind)
        await self.send(3)
        await check(consumer, range(3))
        await self.admin.scalable.split(self.name, 0)
        await self.send(3)
        return consumer

    async def consume(self, kind: str) -> Consumer:
        make = self.client.queue_consumer if kind == "queue" else self.client.stream_consumer
        return await make(self.name, kind, initial_position=EARLIEST, name="c", ack_group_s=0.0)  # type: ignore[operator, no-any-return]


async def take(consumer: Consumer, rounds: range) -> dict[str, list[int]]:
    """Everything of these rounds, acknowledged; what was received more often counts once."""
    found: dict[str, list[int]] = defaultdict(list)
    while sum(map(len, found.values())) < len(KEYS) * len(rounds):
        message = await consumer.receive(WAIT_S)
        number = int(message.data)
        if isinstance(consumer, aio.QueueConsumer):
            await consumer.acknowledge(message, confirm=True)
        else:
            await consumer.acknowledge_cumulative(message, confirm=True)
        assert message.key is not None
        assert number in rounds
        if number not in found[message.key]:
            found[message.key].append(number)
    return dict(found)


async def check(consumer: Consumer, rounds: range) -> None:
    """All of them come; in a stream every key's in order."""
    found = await take(consumer, rounds)
    if isinstance(consumer, aio.QueueConsumer):
        found = {key: sorted(numbers) for key, numbers in found.items()}
    assert found == {key: list(rounds) for key in KEYS}


@asynccontextmanager
async def opened(server: Standalone) -> AsyncIterator[Topic]:
    async with aio.Client(server.url) as client, aio.Admin(server.http) as admin:
        topic = Topic(client, admin)
        await admin.scalable.create(topic.name)
        yield topic


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


both = pytest.mark.parametrize("kind", ["queue", "stream"])


@both
async def test_seek_to_start_redelivers_everything_in_order_to_live_consumer(server, kind):
    async with opened(server) as topic:
        consumer = await topic.over_a_split(kind)
        await check(consumer, range(3, 6))
        await topic.admin.scalable.seek(topic.name, kind, "earliest")
        await check(consumer, range(6))


@both
async def test_skipped_messages_are_not_delivered_and_later_ones_are(server, kind):
    async with opened(server) as topic:
        await topic.admin.scalable.create_subscription(topic.name, kind, type=kind.upper())
        await topic.send(2)
        await topic.admin.scalable.split(topic.name, 0)
        await topic.send(2)
        await topic.admin.scalable.skip_all(topic.name, kind)
        await topic.send(2)
        await check(await topic.consume(kind), range(4, 6))


@both
async def test_seek_to_time_delivers_messages_published_from_then_on(server, kind):
    async with opened(server) as topic:
        await topic.send(2)
        await topic.admin.scalable.split(topic.name, 0)
        await topic.send(1)
        reader = await topic.client.queue_consumer(topic.name, "look", initial_position=EARLIEST)
        last_ms = max([(await reader.receive(WAIT_S)).publish_time_ms for _ in range(3 * len(KEYS))])
        while time.time_ns() // 1_000_000 <= last_ms:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await topic.send(2)
        await topic.admin.scalable.create_subscription(topic.name, kind, type=kind.upper())
        await topic.admin.scalable.seek(topic.name, kind, last_ms + 1)
        await check(await topic.consume(kind), range(3, 5))


async def test_position_in_child_skips_parent_and_keeps_sibling(server):
    async with opened(server) as topic:
        await topic.send(1)
        await topic.admin.scalable.split(topic.name, 0)
        await topic.send(2)
        first = await topic.client.queue_consumer(topic.name, "look", initial_position=EARLIEST)
        ids = [(await first.receive(WAIT_S)).id for _ in range(3 * len(KEYS))]
        inside = sorted(id for id in ids if id.segment == 1)
        await topic.admin.scalable.create_subscription(topic.name, "s", type="QUEUE")
        target = inside[1]
        await topic.admin.scalable.seek(topic.name, "s", {1: (target.ledger, target.entry)})
        consumer = await topic.client.queue_consumer(topic.name, "s")
        expected = sorted([*inside[1:], *(id for id in ids if id.segment == 2)])
        assert sorted([(await consumer.receive(WAIT_S)).id for _ in expected]) == expected


async def test_what_cannot_be_moved_is_refused(server):
    async with opened(server) as topic:
        with pytest.raises(errors.SubscriptionNotFound):
            await topic.admin.scalable.seek(topic.name, "nobody", "latest")
        await topic.admin.scalable.create_subscription(topic.name, "s")
        with pytest.raises(errors.Refused, match="segment not found"):
            await topic.admin.scalable.seek(topic.name, "s", {7: (1, 1)})
        with pytest.raises(errors.TopicNotFound):
            await topic.admin.scalable.skip_all(f"{topic.name}-missing", "s")


@both
async def test_seek_to_start_redelivers_everything_in_order(server, kind):
    async with opened(server) as topic:
        consumer = await topic.over_a_split(kind)
        old = await consumer.receive_batch(9, timeout_s=WAIT_S)  # of the children; more is on its way
        await consumer.seek(EARLIEST)
        if isinstance(consumer, aio.StreamConsumer):
            await consumer.acknowledge_cumulative(old[-1], confirm=True)  # it acknowledges nothing any more
        await check(consumer, range(6))


@both
async def test_seek_to_end_delivers_later_messages_only(server, kind):
    async with opened(server) as topic:
        consumer = await topic.consume(kind)
        await topic.send(3)
        await until(lambda: consumer.queued > 0)
        await consumer.seek(InitialPosition.LATEST)
        assert consumer.queued == 0
        await topic.send(1)
        await check(consumer, range(3, 4))


@both
async def test_seek_to_checkpoint_delivers_exactly_later_messages(server, kind):
    async with opened(server) as topic:
        reader = await topic.client.checkpoint_consumer(topic.name, start=EARLIEST)
        await topic.send(2)
        await topic.admin.scalable.split(topic.name, 0)
        await topic.send(1)
        for _ in range(3 * len(KEYS)):
            await reader.receive(WAIT_S)
        kept = await reader.checkpoint()
        await topic.send(2)
        consumer = await topic.consume(kind)
        await consumer.receive(WAIT_S)
        await consumer.seek(kept.to_bytes())
        await check(consumer, range(3, 5))
        with pytest.raises(errors.Misuse, match="another topic"):
            await consumer.seek(replace(kept, topic=f"{topic.name}-other"))
        with pytest.raises(errors.Refused, match="a deleted topic"):
            await consumer.seek(replace(kept, incarnation=kept.incarnation + 1))


@both
def test_seek_of_blocking_consumer_drops_messages_in_its_thread(server, kind):
    name = f"topic://public/default/seek-{next(_numbers)}"
    with Admin(server.http) as admin:
        admin.scalable.create(name)
    with Client(server.url) as client:
        make = client.queue_consumer if kind == "queue" else client.stream_consumer
        consumer = make(name, kind, initial_position=EARLIEST)
        with client.create_producer(name) as producer:
            for number in range(20):
                producer.send(b"%d" % number, key="k")
        first = consumer.receive(WAIT_S)
        assert first.data == b"0"
        consumer.seek(first.publish_time_ms)
        assert [consumer.receive(WAIT_S).data for _ in range(20)] == [b"%d" % number for number in range(20)]


async def test_plain_topic_has_no_segments_to_move_over(server):
    async with opened(server) as topic:
        plain = f"persistent://public/default/seek-{next(_numbers)}"
        async with await topic.client.create_producer(plain) as producer:
            await producer.send(b"one")
        consumer = await topic.client.queue_consumer(plain, "s", initial_position=EARLIEST)
        with pytest.raises(errors.TopicNotFound):
            await consumer.seek(EARLIEST)
        assert (await consumer.receive(WAIT_S)).data == b"one"


@pytest.mark.slow
@both
async def test_broker_killed_during_seek_finishes_it_after_restart(tmp_path: Path, kind):
    with Standalone(tmp_path / "killed") as killed:
        async with opened(killed) as topic:
            await topic.admin.scalable.create_subscription(topic.name, kind, type=kind.upper())
            await topic.send(2)
            for segment in (0, 1, 2):
                await topic.admin.scalable.split(topic.name, segment)
            await topic.send(2)
            consumer = await topic.consume(kind)
            await check(consumer, range(4))
            asked = asyncio.ensure_future(topic.admin.scalable.seek(topic.name, kind, "earliest"))
            await asyncio.sleep(0)
            await asyncio.to_thread(killed.kill)
            await asyncio.to_thread(killed.start)
            try:
                await asked
            except errors.MagnetarError:
                await topic.admin.scalable.seek(topic.name, kind, "earliest")  # it may not have been begun
            await check(consumer, range(4))
