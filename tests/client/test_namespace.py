"""Consumers of a whole namespace, on a broker of its own process: every topic, from when it comes until it goes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

import magnetar
from magnetar import DeadLetters, InitialPosition, MessageId, NackBackoff, Namespace, aio, errors
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock

EARLIEST = InitialPosition.EARLIEST
AT_ONCE = NackBackoff(first_s=0.05, max_s=0.05)
WAIT_S = 60  # for what must come

_numbers = itertools.count(1)

Consumer = aio.QueueConsumer[bytes] | aio.StreamConsumer[bytes]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("namespace")) as running:
        yield running


class Cluster:
    def __init__(self, client: aio.Client, admin: aio.Admin, namespace: str) -> None:
        self.client = client
        self.admin = admin
        self.namespace = namespace

    def name(self, local: str) -> str:
        return f"topic://{self.namespace}/{local}"

    async def make(self, *locals: str, segments: int = 1, **properties: str) -> None:
        for local in locals:
            await self.admin.scalable.create(self.name(local), segments=segments, properties=properties)

    async def send(self, local: str, *values: str) -> None:
        async with await self.client.create_producer(self.name(local), batching=None) as producer:
            for value in values:
                await producer.post(value.encode(), key=value)
            await producer.flush()

    async def consume(self, kind: str, subscription: str = "s", **options: object) -> Consumer:
        properties = options.pop("properties", {})
        make = self.client.queue_consumer if kind == "queue" else self.client.stream_consumer
        made = make(Namespace(self.namespace, properties), subscription, **options)  # type: ignore[operator, arg-type]
        return await made  # type: ignore[no-any-return]


async def done(consumer: Consumer, message: magnetar.Message[bytes] | MessageId) -> None:
    if isinstance(consumer, aio.QueueConsumer):
        await consumer.acknowledge(message, confirm=True)
    else:
        await consumer.acknowledge_cumulative(message, confirm=True)


async def take(consumer: Consumer, count: int, *, ack: bool = True) -> list[tuple[str, str]]:
    """The topic and value of each, in order by topic."""
    found = []
    for _ in range(count):
        message = await consumer.receive(WAIT_S)
        found.append((message.topic.rsplit("/", 1)[1], message.data.decode()))
        if ack:
            await done(consumer, message)
    return sorted(found)


async def until(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not seen():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(server: Standalone) -> AsyncIterator[Cluster]:
    namespace = f"public/ns-{next(_numbers)}"
    async with aio.Client(server.url) as client, aio.Admin(server.http) as admin:
        await admin.namespaces.create(namespace)
        yield Cluster(client, admin, namespace)


both = pytest.mark.parametrize("kind", ["queue", "stream"])


@both
async def test_later_topic_of_namespace_is_received_from_its_first_message(server, kind):
    async with opened(server) as cluster:
        await cluster.make("a", "b")
        await cluster.send("a", "before")
        consumer = await cluster.consume(kind)
        assert consumer.topics == [cluster.name("a"), cluster.name("b")]
        await cluster.send("a", "a0", "a1")
        await cluster.send("b", "b0")
        await cluster.make("c", segments=2)
        await cluster.send("c", "c0", "c1", "c2")
        assert await take(consumer, 6) == [("a", "a0"), ("a", "a1"), ("b", "b0"), ("c", "c0"), ("c", "c1"), ("c", "c2")]
        assert consumer.connected


@both
async def test_deleted_topic_is_closed_and_successor_is_another_topic(server, kind):
    async with opened(server) as cluster:
        await cluster.make("a", "b")
        consumer = await cluster.consume(kind)
        await cluster.send("a", "first life")
        await take(consumer, 1)
        await cluster.admin.scalable.delete(cluster.name("a"), force=True)
        await until(lambda: consumer.topics == [cluster.name("b")])
        await cluster.send("b", "b0")
        await take(consumer, 1)
        assert await cluster.admin.scalable.names(cluster.namespace) == [cluster.name("b")]
        await cluster.make("a")
        await cluster.send("a", "second life")
        assert await take(consumer, 1) == [("a", "second life")]
        assert consumer.failing == {}


async def test_message_of_drained_segment_is_confirmed_despite_equal_number_elsewhere(server):
    async with opened(server) as cluster:
        await cluster.make("a", "b")
        consumer = await cluster.consume("queue")
        await cluster.send("a", "a0")
        message = await consumer.receive(WAIT_S)
        await cluster.admin.scalable.split(cluster.name("a"), 0)
        await done(consumer, message)
        await until(lambda: sorted(consumer.segments) == [0, 1, 2])  # b's, and the children of a's
        for again in (message, message.id):
            await done(consumer, again)


@both
async def test_only_topics_with_properties_are_attached(server, kind):
    async with opened(server) as cluster:
        await cluster.make("red", colour="red", size="1")
        await cluster.make("blue", colour="blue", size="1")
        consumer = await cluster.consume(kind, properties={"colour": "red", "size": "1"})
        await cluster.make("grey", colour="red")
        await cluster.make("late", colour="red", size="1", more="x")
        for local in ("red", "blue", "grey", "late"):
            await cluster.send(local, local)
        assert await take(consumer, 2) == [("late", "late"), ("red", "red")]
        assert consumer.topics == [cluster.name("late"), cluster.name("red")]


@pytest.mark.parametrize("kept", ["message", "id", "bytes"])
async def test_one_cumulative_acknowledgement_covers_every_topic_seen_so_far(server, kept):
    async with opened(server) as cluster:
        await cluster.make("a", "b", segments=2)
        consumer = await cluster.consume("stream", name="c")
        for local in ("a", "b"):
            await cluster.send(local, *(f"{local}{number}" for number in range(5)))
        taken = [await consumer.receive(WAIT_S) for _ in range(10)]
        left = {message.data for message in taken[7:]}
        last = taken[6]
        what = {"message": last, "id": last.id, "bytes": MessageId.from_bytes(last.id.to_bytes())}[kept]
        await done(consumer, what)
        assert consumer.unacknowledged == 3
        await consumer.close()
        again = await cluster.consume("stream", name="c")
        assert {(await again.receive(WAIT_S)).data for _ in range(3)} == left


@both
async def test_closing_acknowledges_nothing(server, kind):
    async with opened(server) as cluster:
        await cluster.make("a", "b")
        consumer = await cluster.consume(kind, name="c")
        await cluster.send("a", "a0")
        await cluster.send("b", "b0")
        await take(consumer, 2, ack=False)
        await consumer.close()
        again = await cluster.consume(kind, name="c")
        assert await take(again, 2) == [("a", "a0"), ("b", "b0")]


@both
async def test_topic_that_is_split_goes_on(server, kind):
    async with opened(server) as cluster:
        await cluster.make("a", "b")
        consumer = await cluster.consume(kind)
        await cluster.send("a", *map(str, range(8)))
        await cluster.admin.scalable.split(cluster.name("a"), 0)
        await cluster.send("a", *map(str, range(8, 16)))
        await cluster.send("b", "b0")
        assert await take(consumer, 17) == sorted([("b", "b0"), *(("a", str(number)) for number in range(16))])


async def test_poison_goes_to_dead_letter_topic_that_is_not_consumed(server):
    async with opened(server) as cluster:
        await cluster.make("a")
        letters = DeadLetters(redeliveries_max=1)
        consumer = await cluster.consume("queue", dead_letters=letters, nack=AT_ONCE)
        await cluster.send("a", "poison")
        for _ in range(2):
            await consumer.negative_acknowledge(await consumer.receive(WAIT_S))
        dead = await cluster.client.queue_consumer(cluster.name("a-DLQ"), "undertaker", initial_position=EARLIEST)
        message = await dead.receive(WAIT_S)
        assert (message.data, message.properties["REAL_TOPIC"]) == (b"poison", cluster.name("a"))
        await cluster.make("later")  # when this one is told, the dead letters were
        await cluster.send("later", "x")
        assert await take(consumer, 1) == [("later", "x")]
        assert consumer.topics == [cluster.name("a"), cluster.name("later")]


async def test_message_that_is_put_off_comes_back_once(server):
    async with opened(server) as cluster:
        await cluster.make("a", "b")
        consumer = await cluster.consume("queue", retry=True)
        await cluster.send("b", "again")
        await consumer.reconsume_later(await consumer.receive(WAIT_S), 0.01)
        message = await consumer.receive(WAIT_S)
        assert (message.data, message.properties["REAL_TOPIC"]) == (b"again", cluster.name("b"))
        await consumer.acknowledge(message, confirm=True)
        assert consumer.topics == [cluster.name("a"), cluster.name("b")]


async def test_topic_that_cannot_attach_is_named_and_others_continue(server):
    async with opened(server) as cluster:
        await cluster.make("a", "b")
        async with await cluster.client.stream_consumer(cluster.name("a"), "s"):
            pass
        consumer = await cluster.consume("queue")
        assert list(consumer.failing) == [cluster.name("a")]
        assert isinstance(consumer.failing[cluster.name("a")], errors.MagnetarError)
        await cluster.send("b", "b0")
        assert await take(consumer, 1) == [("b", "b0")]


async def test_namespace_that_is_not_there_is_callers(server):
    async with opened(server) as cluster:
        with pytest.raises(errors.TopicNotFound, match="does not exist"):
            await cluster.client.queue_consumer(Namespace("public/nowhere"), "s")
        with pytest.raises(errors.InvalidName):
            Namespace("no-namespace")
        letters = DeadLetters(retry_topic=cluster.name("r"))
        with pytest.raises(errors.Misuse, match="retry topic"):
            await cluster.client.queue_consumer(Namespace(cluster.namespace), "s", dead_letters=letters)


def test_both_blocking_faces(server):
    namespace = f"public/ns-{next(_numbers)}"
    with magnetar.Client(server.url) as client, magnetar.Admin(server.http) as admin:
        admin.namespaces.create(namespace)
        for local in ("a", "b"):
            admin.scalable.create(f"topic://{namespace}/{local}")
        with (
            client.queue_consumer(Namespace(namespace), "q") as queue,
            client.stream_consumer(Namespace(namespace), "s") as stream,
        ):
            for local in ("a", "b"):
                with client.create_producer(f"topic://{namespace}/{local}") as producer:
                    producer.send(local.encode())
            messages = [queue.receive(WAIT_S) for _ in range(2)]
            for message in messages:
                queue.acknowledge(message)
            assert sorted(message.data for message in messages) == [b"a", b"b"]
            seen = [stream.receive(WAIT_S) for _ in range(2)]
            stream.acknowledge_cumulative(seen[-1], confirm=True)
            assert stream.unacknowledged == 0
            assert queue.topics == stream.topics == [f"topic://{namespace}/a", f"topic://{namespace}/b"]
            assert (dict(queue.failing), dict(stream.failing)) == ({}, {})
