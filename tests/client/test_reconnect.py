"""Brokers killed, topics unloaded, cables cut under load: every acknowledged message is there, in order, and none that
was acknowledged is there twice without its sender knowing that it may be."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.aio import Client
from magnetar.base.errors import MagnetarError, Outcome, TimedOut
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.message import MessageId
from magnetar.client.producer.batch import Batching
from magnetar.client.schema import STRING
from tests.servers.proxy import Proxy
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock

ROUNDS = 3
BATCHINGS = pytest.mark.parametrize("batching", [None, Batching()], ids=["single", "batch"])


class Stream:
    """Numbers sent without a pause; what is known of each in the end. A subscription holds them all: what nobody has to
    read goes after a while."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sent = 0
        self.stored: list[int] = []
        self.unknown: list[int] = []
        self.refused: list[int] = []
        self._stop = False
        self._reached: tuple[int, asyncio.Event] | None = None

    async def run(self, topic: str, **options: object) -> None:
        await (await self.client.subscribe(topic, "held", initial_position=InitialPosition.EARLIEST)).close()
        async with await self.client.create_producer(topic, **options) as producer:  # type: ignore[arg-type]
            while not self._stop:
                for _ in range(20):
                    number = self.sent
                    self.sent += 1
                    await producer.post(b"%d" % number, lambda found, error, n=number: self.told(n, found, error))
                await asyncio.sleep(0.002)

    def told(self, number: int, found: MessageId | None, error: MagnetarError | None) -> None:
        if error is None:
            self.stored.append(number)
            if self._reached is not None and len(self.stored) >= self._reached[0]:
                self._reached[1].set()
        elif error.outcome is Outcome.INDEFINITE:
            self.unknown.append(number)
        else:
            self.refused.append(number)

    async def until(self, more: int) -> None:
        goal = len(self.stored) + more
        self._reached = (goal, asyncio.Event())
        async with asyncio.timeout(240):
            await self._reached[1].wait()

    def stop(self) -> None:
        self._stop = True


async def everything(client: Client, topic: str) -> list[int]:
    found = []
    async with await client.create_reader(topic) as reader:
        while await reader.has_message_available():
            found.append(int((await reader.receive(15)).data))
    return found


def check(stream: Stream, found: list[int]) -> None:
    first: dict[int, int] = {}
    for place, number in enumerate(found):
        first.setdefault(number, place)
    assert stream.stored == sorted(stream.stored), "told out of order"
    assert sorted(set(stream.stored) - set(first)) == [], "acknowledged and lost"
    assert sorted(set(stream.refused) & set(first)) == [], "refused for sure, and there"
    order = [first[number] for number in sorted(first)]
    assert order == sorted(order), "the first copies are in order"
    assert len(stream.stored) + len(stream.unknown) + len(stream.refused) == stream.sent, "somebody was not told"


@BATCHINGS
async def test_broker_killed_again_and_again_loses_nothing_acknowledged(start, topic, batching):
    broker: Standalone = start()

    async with Client(broker.url, pending_messages_max=1_000) as client:
        stream = Stream(client)
        running = asyncio.create_task(stream.run(topic, batching=batching, send_timeout_s=600))
        for _ in range(ROUNDS):
            await stream.until(200)
            await asyncio.to_thread(broker.restart, kill=True)
        await stream.until(200)
        stream.stop()
        await running
        assert stream.unknown == [], "ten minutes outlive a restart"
        check(stream, await everything(client, topic))


@BATCHINGS
async def test_topic_unloaded_under_load_loses_and_repeats_nothing(broker, topic, batching):
    async with Client(broker.url) as client:
        stream = Stream(client)
        running = asyncio.create_task(stream.run(topic, batching=batching))
        for _ in range(ROUNDS):
            await stream.until(200)
            await asyncio.to_thread(broker.admin, "PUT", f"{topic.replace('://', '/')}/unload")
        await stream.until(200)
        stream.stop()
        await running
        check(stream, await everything(client, topic))


async def test_cut_connection_loses_nothing_and_deduplication_repeats_nothing(broker, namespace):
    broker.admin("POST", f"namespaces/{namespace}/deduplication", True)
    topic = f"persistent://{namespace}/t"

    with Proxy(broker.port) as proxy:
        async with Client(proxy.url) as client:
            stream = Stream(client)
            running = asyncio.create_task(stream.run(topic, name="mine"))
            for _ in range(ROUNDS):
                await stream.until(200)
                await asyncio.to_thread(proxy.cut)
            await stream.until(200)
            stream.stop()
            await running
            found = await everything(client, topic)
            check(stream, found)
            assert found == list(range(stream.sent)), "stored once each, in order"


async def test_consumer_goes_on_after_kill_where_it_was(start, topic):
    broker: Standalone = start()

    async with Client(broker.url) as client:
        producer = await client.create_producer(topic, schema=STRING)
        consumer = await client.subscribe(topic, "s", schema=STRING, initial_position=InitialPosition.EARLIEST)
        for number in range(10):
            await producer.send(str(number))
        for number in range(5):
            message = await consumer.receive(15)
            assert message.value == str(number)
            await consumer.acknowledge(message, confirm=True)
        await asyncio.to_thread(broker.restart, kill=True)
        await producer.send("10")
        found: list[str] = []
        while len(set(found)) < 6 or "10" not in found:
            message = await consumer.receive(30)
            found.append(message.value)
            await consumer.acknowledge(message)
        fresh = [value for value in dict.fromkeys(found) if int(value) >= 5]
        assert fresh == ["5", "6", "7", "8", "9", "10"]


async def test_without_broker_send_times_out_and_producer_lives(start, topic):
    broker: Standalone = start()

    async with Client(broker.url) as client:
        producer = await client.create_producer(topic, send_timeout_s=3)
        await producer.send(b"before")
        await asyncio.to_thread(broker.kill)
        with pytest.raises(TimedOut) as caught:
            await producer.send(b"meanwhile")
        assert caught.value.outcome is Outcome.INDEFINITE
        await asyncio.to_thread(broker.start)
        async with asyncio.timeout(60):
            while True:
                try:
                    await producer.send(b"after")
                    break
                except TimedOut:
                    continue
        assert producer.counters[0].reattached == 1
