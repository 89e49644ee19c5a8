"""The demo's traffic: keyed producers, and consumers of every subscription type, on a plain topic and a scalable topic.

One producer owns each key and numbers its messages. Consumers report each arrival to the tally and acknowledge the
message. Producers send at a fixed rate and pause while the slowest subscription is far behind. The module uses only the
public client and trusts no broker: the result depends only on the tally.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, NotReady
from magnetar.base.limits import DEMO_BACKLOG_MAX, DEMO_DRAIN_S, DEMO_IN_FLIGHT_MAX, DEMO_TICK_S
from magnetar.cli.demo.delivery_check import DeliveryTally, Kind

if TYPE_CHECKING:
    from magnetar.client.admin.aio.admin import Admin
    from magnetar.client.client import Client
    from magnetar.client.consumer.consumer import Consumer
    from magnetar.client.consumer.scalable.stream.consumer import StreamConsumer
    from magnetar.client.producer.producer import Producer

TOPIC = "persistent://public/default/demo"
SCALABLE = "topic://public/default/demo-scalable"
PRODUCERS = 6
SCALED = 3  # producers of the scalable topic; the others publish to the plain topic
KEYS_EACH = 25
CONSUMERS = {Kind.EXCLUSIVE: 1, Kind.FAILOVER: 2, Kind.SHARED: 3, Kind.KEY_SHARED: 3, Kind.STREAM: 3}


class Traffic:
    """Call `open`, then `run`. `stop_sending` ends the producers. `run` returns after all acknowledged messages have
    arrived, or after no message has arrived for a long time.
    """

    def __init__(self, client: Client, tally: DeliveryTally, *, rate: int) -> None:
        self._client = client
        self._tally = tally
        self._rate = rate
        self._sending = True
        self._ended = False
        self._producers: list[Producer[bytes]] = []
        self._consumers: list[tuple[Kind, Consumer[bytes]]] = []
        self._streams: list[StreamConsumer[bytes]] = []

    async def open(self) -> None:
        """Creates subscriptions first: a subscription must receive only messages that were sent after its creation."""
        from magnetar.client.consumer.config import InitialPosition, SubscriptionType
        from magnetar.client.producer.batch import Batching

        for kind, count in CONSUMERS.items():
            for number in range(count):
                name = f"{kind.value}-{number}"
                if kind is Kind.STREAM:
                    self._streams.append(
                        await self._client.stream_consumer(
                            SCALABLE, "stream", name=name, initial_position=InitialPosition.EARLIEST
                        )
                    )
                    continue
                consumer = await self._client.subscribe(
                    TOPIC, kind.value.lower(), type=SubscriptionType(kind.value), name=name
                )
                self._consumers.append((kind, consumer))
        for number in range(PRODUCERS):
            topic = SCALABLE if _scaled(number) else TOPIC
            producer = await self._client.create_producer(topic, name=f"demo-{number}", batching=Batching(by_key=True))
            self._producers.append(producer)

    async def run(self) -> None:
        works = [self._produce(number, producer) for number, producer in enumerate(self._producers)]
        works += [self._consume(kind, consumer) for kind, consumer in self._consumers]
        works += [self._stream(consumer) for consumer in self._streams]
        await together(*works, self._watch())

    def stop_sending(self) -> None:
        self._sending = False

    async def _produce(self, number: int, producer: Producer[bytes]) -> None:
        tally = self._tally
        keys = range(number * KEYS_EACH, (number + 1) * KEYS_EACH)
        turns = itertools.cycle(keys)
        counts = dict.fromkeys(keys, 0)
        loop = asyncio.get_running_loop()
        began, done = loop.time(), 0
        while self._sending:
            due = int((loop.time() - began) * self._rate / PRODUCERS) - done
            behind = max(tally.backlog(kind) for kind in tally.arrivals) > DEMO_BACKLOG_MAX
            if behind or tally.in_flight > DEMO_IN_FLIGHT_MAX:
                began, done, due = loop.time(), 0, 0
            for key in itertools.islice(turns, due):
                count = counts[key]
                counts[key] = count + 1
                tally.sending()
                callback = _told(tally, key, count, scalable=_scaled(number))
                await producer.post(b"%d:%d" % (key, count), callback, key=f"key-{key}")
            done += due
            await asyncio.sleep(DEMO_TICK_S)
        await producer.flush()

    async def _consume(self, kind: Kind, consumer: Consumer[bytes]) -> None:
        arrivals = self._tally.arrivals[kind]
        while not self._ended:
            for message in await consumer.receive_batch(1000, timeout_s=DEMO_TICK_S):
                key, _, number = message.value.partition(b":")
                arrivals.add(int(key), int(number))
                await consumer.acknowledge(message)

    async def _stream(self, consumer: StreamConsumer[bytes]) -> None:
        arrivals = self._tally.arrivals[Kind.STREAM]
        while not self._ended:
            batch = await consumer.receive_batch(1000, timeout_s=DEMO_TICK_S)
            for message in batch:
                key, _, number = message.value.partition(b":")
                arrivals.add(int(key), int(number))
            if batch:
                await consumer.acknowledge_cumulative(batch[-1])

    async def _watch(self) -> None:
        """Ends the consumers after all messages have arrived, or after a long time without a message."""
        loop = asyncio.get_running_loop()
        seen, since = -1, loop.time()
        while self._sending or not self._tally.settled():
            now = self._tally.acknowledged + sum(arrivals.distinct for arrivals in self._tally.arrivals.values())
            if self._sending or now != seen:
                seen, since = now, loop.time()
            elif loop.time() - since > DEMO_DRAIN_S:
                break
            await asyncio.sleep(0.1)
        self._ended = True


async def together(*works: object) -> None:
    """Runs all of them concurrently; the first error cancels the others."""
    running = asyncio.gather(*works)  # type: ignore[call-overload]
    try:
        await running
    except BaseException:
        running.cancel()
        try:
            await running
        except BaseException:  # noqa: S110 - only the first error is reported
            pass
        raise


def _scaled(producer: int) -> bool:
    return producer < SCALED


def _told(
    tally: DeliveryTally, key: int, number: int, *, scalable: bool
) -> Callable[[object, MagnetarError | None], None]:
    def told(_: object, error: MagnetarError | None) -> None:
        if error is None:
            tally.receipt(key, number, scalable=scalable)
        else:
            tally.failure()

    return told


def connect(url: str) -> Client:
    try:
        from magnetar.client.client import Client
    except ModuleNotFoundError as error:
        raise NotReady(f"the client cannot be loaded: the package {error.name} is missing") from error
    return Client(url)


def administer(http: str) -> Admin:
    from magnetar.client.admin.aio.admin import Admin

    return Admin(http)
