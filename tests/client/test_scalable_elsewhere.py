"""Our client on the scalable topics of a real Apache Pulsar 5: produce, stream, queue, namespaces, split, merge.

What is ours to keep is asserted: nothing lost, nothing invented, and order where the server gives segments out in turn.
What the server itself breaks, order and single copies under live reshapes, deleted topics that stay listed, is recorded
in docs/COMPATIBILITY.md.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from magnetar import InitialPosition, Namespace, aio
from magnetar.cli.traffic.load import LoadConfig, Workload
from tests.servers.pulsar import POM_5, SCALABLE, Pulsar

pytestmark = [pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(900)]  # its jars may have to be fetched

KEYS = [f"key-{number}" for number in range(20)]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pulsar]:
    with Pulsar(tmp_path_factory.mktemp("pulsar5"), SCALABLE, pom=POM_5) as running:
        yield running


async def active(admin: aio.Admin, topic: str) -> list[int]:
    """Active segments, by range."""
    found = [one for one in (await admin.scalable.metadata(topic)).segments.values() if one.state == "ACTIVE"]
    return [one.segmentId for one in sorted(found, key=lambda one: one.hashRange.start)]


async def test_keys_arrive_in_order_through_reshapes_of_pulsar_5(elsewhere: Pulsar) -> None:
    topic = "topic://public/default/in-turn"

    async with aio.Client(elsewhere.url) as client, aio.Admin(elsewhere.http) as admin:
        await admin.scalable.create(topic)
        consumer = await client.stream_consumer(topic, "s", initial_position=InitialPosition.EARLIEST)
        found: dict[str, list[int]] = {key: [] for key in KEYS}
        async with consumer, await client.create_producer(topic) as producer:
            for step in range(3):
                for number in range(10 * step, 10 * step + 10):
                    for key in KEYS:
                        await producer.send(b"%d" % number, key=key)
                while sum(map(len, found.values())) < 10 * (step + 1) * len(KEYS):
                    message = await consumer.receive(120)
                    assert message.key is not None
                    if int(message.data) not in found[message.key]:
                        found[message.key].append(int(message.data))
                    await consumer.acknowledge_cumulative(message)
                if step == 0:
                    await admin.scalable.split(topic, (await active(admin, topic))[0])
                    assert len(await active(admin, topic)) == 2
                elif step == 1:
                    await admin.scalable.merge(topic, await active(admin, topic))
                    assert len(await active(admin, topic)) == 1
        assert found == {key: list(range(30)) for key in KEYS}


async def test_reshapes_of_pulsar_5_lose_and_invent_nothing(elsewhere: Pulsar) -> None:
    topic = "topic://public/default/live"
    chance = random.Random(topic)

    async with aio.Client(elsewhere.url) as client, aio.Admin(elsewhere.http) as admin:
        await admin.scalable.create(topic)

        async def reshape() -> None:
            segments = await active(admin, topic)
            if len(segments) < 3:
                await admin.scalable.split(topic, chance.choice(segments))
            else:
                await admin.scalable.merge(topic, segments[:2])

        load = LoadConfig(topic, producers=4, consumers=1, rate=400.0, reshape_s=1.5, drain_s=90.0)
        work = Workload(client, load, reshape=reshape)
        ordering = await work.run(12)
        assert work.reshapes > 1
        assert [one for one in ordering.findings if one.kind in ("lost", "invented")] == []


async def test_checkpoint_on_pulsar_5_replays_rest_in_order_after_split(elsewhere: Pulsar) -> None:
    topic = "topic://public/default/checkpoints"

    async with aio.Client(elsewhere.url) as client, aio.Admin(elsewhere.http) as admin:
        await admin.scalable.create(topic)
        async with await client.create_producer(topic) as producer:
            for number in range(100):
                if number == 50:
                    await admin.scalable.split(topic, (await active(admin, topic))[0])
                await producer.send(b"%d" % number, key=KEYS[number % len(KEYS)])
        async with await client.checkpoint_consumer(topic) as reader:
            first = [int((await reader.receive(120)).data) for _ in range(30)]
            assert first == list(range(30))
            kept = (await reader.checkpoint()).to_bytes()
        async with await client.checkpoint_consumer(topic, kept) as reader:
            rest = [int((await reader.receive(120)).data) for _ in range(70)]
        assert rest[:20] == list(range(30, 50))  # the parent's, before anything of its children
        assert sorted(rest) == list(range(30, 100))
        for key in range(len(KEYS)):
            mine = [number for number in rest if number % len(KEYS) == key]
            assert mine == sorted(mine)
        async with await client.checkpoint_consumer(topic, InitialPosition.LATEST) as reader:
            async with await client.create_producer(topic) as producer:
                await producer.send(b"100", key="key-0")
            assert (await reader.receive(120)).data == b"100"


@pytest.mark.parametrize("partitions", [0, 2])
async def test_plain_topics_of_pulsar_5_are_followed_through_migration(elsewhere: Pulsar, partitions: int) -> None:
    """By producers and queue consumers: stream consumers of plain topics are refused by that server."""
    topic = f"persistent://public/default/plain-{partitions}"

    async with aio.Client(elsewhere.url) as client, aio.Admin(elsewhere.http) as admin:
        await admin.topics.create(topic, partitions=partitions or None)
        queue = await client.queue_consumer(topic, "q", initial_position=InitialPosition.EARLIEST)
        found: set[bytes] = set()
        async with queue, await client.create_producer(topic, follow=True) as producer:
            for number in range(200):
                if number == 100:
                    await admin.scalable.migrate(topic)
                await producer.send(b"%d" % number, key=f"k{number % 8}")
            while len(found) < 200:
                message = await queue.receive(120)
                found.add(message.data)
                await queue.acknowledge(message)
        assert len(await active(admin, topic)) == max(partitions, 1)


async def test_queue_consumer_on_pulsar_5_gets_split_topic_once(elsewhere: Pulsar) -> None:
    topic = "topic://public/default/queued"

    async with aio.Client(elsewhere.url) as client, aio.Admin(elsewhere.http) as admin:
        await admin.scalable.create(topic)
        consumer = await client.queue_consumer(topic, "q", initial_position=InitialPosition.EARLIEST)
        found: set[int] = set()
        async with consumer, await client.create_producer(topic) as producer:
            for step in range(2):
                for number in range(100 * step, 100 * step + 100):
                    await producer.send(b"%d" % number, key=KEYS[number % len(KEYS)])
                while len(found) < 100 * (step + 1):
                    message = await consumer.receive(120)
                    found.add(int(message.data))
                    await consumer.acknowledge(message)
                if step == 0:
                    await admin.scalable.split(topic, (await active(admin, topic))[0])
        assert found == set(range(200))


@pytest.mark.parametrize("kind", ["queue", "stream"])
async def test_namespace_consumer_on_pulsar_5_follows_created_and_deleted_topics(elsewhere: Pulsar, kind: str) -> None:
    namespace = f"public/elsewhere-{kind}"

    async with aio.Client(elsewhere.url) as client, aio.Admin(elsewhere.http) as admin:
        await admin.namespaces.create(namespace)
        await admin.scalable.create(f"topic://{namespace}/a")
        make = client.queue_consumer if kind == "queue" else client.stream_consumer
        consumer = await make(Namespace(namespace), "s", initial_position=InitialPosition.EARLIEST)  # type: ignore[operator]
        await admin.scalable.create(f"topic://{namespace}/b")
        for local in ("a", "b"):
            async with await client.create_producer(f"topic://{namespace}/{local}") as producer:
                await producer.send(local.encode(), key="k")
        found = set()
        while len(found) < 2:
            message = await consumer.receive(120)
            found.add((message.topic, message.data))
            if kind == "queue":
                await consumer.acknowledge(message)
            else:
                await consumer.acknowledge_cumulative(message)
        assert found == {(f"topic://{namespace}/{local}", local.encode()) for local in ("a", "b")}
        if kind == "queue":  # a topic that ever had a controller may stay in that server's list when it is deleted
            await admin.scalable.delete(f"topic://{namespace}/b", force=True)
            async with asyncio.timeout(120):
                while consumer.topics != [f"topic://{namespace}/a"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        await consumer.close()
