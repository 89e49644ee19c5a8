"""`magnetar perf`: measures how fast a broker stores messages, delivers them, and does both at the same time.

It prints a line per second to standard error and a summary to standard output. It uses the public client; with
`--rate 0` it sends as fast as the client allows. Latencies are measured at the caller: from the send call to the
receipt, or to the arrival.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from magnetar.base.names import topic_name
from magnetar.cli import connect
from magnetar.cli.exit_codes import Exit
from magnetar.cli.options import COMMON, TRAFFIC, Common, Traffic
from magnetar.cli.output.output import KeyValues, Output, TableData
from magnetar.cli.output.values import Cell, Rate, Size, size, thousands
from magnetar.cli.traffic.perf_load import LoadGenerator, PerfCounters

if TYPE_CHECKING:
    from magnetar.client.client import Client
    from magnetar.client.consumer.consumer import Consumer
    from magnetar.client.consumer.scalable.checkpoint.consumer import CheckpointConsumer
    from magnetar.client.consumer.scalable.queue.consumer import QueueConsumer
    from magnetar.client.message import Message
    from magnetar.client.producer.producer import Producer

    Acknowledge = Callable[[Message[bytes]], Awaitable[None]]

TOPIC = "persistent://public/default/perf"
STAMP = struct.Struct(">d")  # send time at the start of each message
TICK_S = 0.01  # interval in which the sender checks its rate

Positive = Annotated[int, Parameter(validator=validators.Number(gte=1))]
Seconds = Annotated[float, Parameter(name=["--seconds", "-t"], validator=validators.Number(gt=0))]
Pace = Annotated[float, Parameter(name=["--rate", "-r"], validator=validators.Number(gte=0))]
Bytes = Annotated[int, Parameter(name=["--size", "-s"], validator=validators.Number(gte=STAMP.size))]
Batched = Annotated[bool, Parameter(negative="--no-batching")]


def produce(
    topic: str = TOPIC,
    /,
    *,
    seconds: Seconds = 10.0,
    rate: Pace = 0.0,
    size: Bytes = 1024,
    producers: Positive = 1,
    batching: Batched = True,
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> Exit:
    """Send messages and report how fast the broker stores them.

    Parameters
    ----------
    topic
        Topic to send to.
    seconds
        Duration in seconds.
    rate
        Messages per second of all producers together; 0 means as fast as possible.
    size
        Size of a message in bytes.
    producers
        Number of producers.
    batching
        Send messages in batches.

    Examples
    --------
    $ magnetar perf produce --seconds 1 --rate 1000
    $ magnetar perf produce orders --seconds 1 --size 100 --producers 2 -o json
    """
    load = LoadGenerator(topic, seconds, rate, size, producers, batching, timeout_s=common.timeout)
    return _measure("produce", load, common, change, _produce)


def consume(
    topic: str = TOPIC,
    /,
    *,
    subscription: str = "perf",
    seconds: Seconds = 10.0,
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> Exit:
    """Receive and acknowledge messages and report the rate. A new subscription starts at the earliest message.

    Parameters
    ----------
    topic
        Topic to receive from.
    subscription
        Shared subscription to use; on a scalable topic, a queue subscription.
    seconds
        Duration in seconds.

    Examples
    --------
    $ magnetar perf consume --seconds 1
    """
    load = LoadGenerator(topic, seconds, subscription=subscription)
    return _measure("consume", load, common, change, _consume)


def roundtrip(
    topic: str = TOPIC,
    /,
    *,
    seconds: Seconds = 10.0,
    rate: Pace = 1000.0,
    size: Bytes = 1024,
    producers: Positive = 1,
    batching: Batched = True,
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> Exit:
    """Send and receive messages at the same time and report the latency from producer to consumer.

    Parameters
    ----------
    topic
        Topic to use. The command creates and removes its own subscription. It reads a scalable one without a
        subscription.
    seconds
        Duration in seconds.
    rate
        Messages per second of all producers together; 0 means as fast as possible.
    size
        Size of a message in bytes.
    producers
        Number of producers.
    batching
        Send messages in batches.

    Examples
    --------
    $ magnetar perf roundtrip --seconds 1 --rate 500
    """
    load = LoadGenerator(topic, seconds, rate, size, producers, batching, timeout_s=common.timeout)
    return _measure("roundtrip", load, common, change, _roundtrip)


VERBS = {"produce": produce, "consume": consume, "roundtrip": roundtrip}


# The measurement


Work = Callable[["Client", LoadGenerator, PerfCounters], Any]


def _measure(kind: str, load: LoadGenerator, common: Common, change: Traffic, work: Work) -> Exit:
    output = common.out
    if change.dry_run:
        facts: dict[str, Cell] = {**load.document()}
        names = [load.document()["topic"]]
        output.show({"kind": kind, "load": load.document()}, KeyValues(facts, title=f"Would {kind}:"), names=names)
        return Exit.OK
    return connect.run(_run(kind, load, common, output, work))


async def _run(kind: str, load: LoadGenerator, common: Common, output: Output, work: Work) -> Exit:
    tally = PerfCounters()
    loop = asyncio.get_running_loop()
    ticker = _Ticker(tally, loop, common)
    began = loop.time()
    try:
        async with connect.connected(common) as client:
            began = loop.time()
            ticker.start()
            await work(client, load, tally)
            tally.seconds = tally.seconds or loop.time() - began
            if tally.error is None and not tally.connected:
                tally.error = await connect.unreachable(client, common.url)
    finally:
        ticker.stop()
    document = tally.document(kind, load)
    output.show(document, *_parts(kind, document, tally), names=[document["load"]["topic"]])
    if tally.error is not None:
        raise tally.error
    return Exit.OK


class _Ticker:
    """Prints one line per second for people."""

    def __init__(self, tally: PerfCounters, loop: asyncio.AbstractEventLoop, common: Common) -> None:
        self._tally = tally
        self._loop = loop
        self._common = common
        self._before = (0, 0)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._loop.call_later(1.0, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        now = (self._tally.messages, self._tally.bytes)
        messages, count = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        if not self._common.quiet:
            lost = "" if self._tally.connected else f"  not connected to {self._common.url}; trying again"
            sys.stderr.write(f"{thousands(messages):>8} msg/s  {size(count):>10}/s{lost}\n")
        self.start()


def _parts(kind: str, document: dict[str, Any], tally: PerfCounters) -> list[TableData | KeyValues]:
    facts: dict[str, Cell] = {
        "messages": tally.messages,
        "rate": Rate(document["messages_per_s"]),
        "throughput": Rate(document["bytes_per_s"], size=True),
        "bytes": Size(tally.bytes),
        "failures": tally.failures,
        "seconds": float(document["seconds"]),
    }
    parts: list[TableData | KeyValues] = [KeyValues(facts, title=f"perf {kind}")]
    if tally.latency.count:
        latency = document["latency_ms"]
        columns = [f"{name.replace('_', '.').upper()} ms" for name in latency]
        parts.append(TableData(columns, [list(latency.values())], title="latency"))
    return parts


# The work


async def _produce(client: Client, load: LoadGenerator, tally: PerfCounters) -> None:
    producers = [await _producer(client, load) for _ in range(load.producers)]
    tally.users += producers
    await asyncio.gather(*[_send(producer, load, tally.stored) for producer in producers])


async def _consume(client: Client, load: LoadGenerator, tally: PerfCounters) -> None:
    from magnetar.client.consumer.config import InitialPosition, SubscriptionType

    earliest = InitialPosition.EARLIEST
    consumer: QueueConsumer[bytes] | Consumer[bytes]
    if topic_name(load.topic).is_scalable:
        consumer = await client.queue_consumer(load.topic, load.subscription, initial_position=earliest)
    else:
        shared = SubscriptionType.SHARED
        consumer = await client.subscribe(load.topic, load.subscription, type=shared, initial_position=earliest)
    tally.uses(consumer)
    loop = asyncio.get_running_loop()
    until = loop.time() + load.seconds
    while (left := until - loop.time()) > 0:
        for message in await consumer.receive_batch(1000, timeout_s=min(left, 0.1)):
            tally.messages += 1
            tally.bytes += len(message.data)
            await consumer.acknowledge(message)


async def _roundtrip(client: Client, load: LoadGenerator, tally: PerfCounters) -> None:
    if topic_name(load.topic).is_scalable:
        from magnetar.client.consumer.config import InitialPosition

        async with await client.checkpoint_consumer(load.topic, InitialPosition.LATEST) as reader:
            await _both(client, load, tally, reader, acknowledge=None)
        return
    name = f"perf-{client.runtime.rng('cli.perf').getrandbits(32):08x}"
    consumer = await client.subscribe(load.topic, name)
    try:
        await _both(client, load, tally, consumer, acknowledge=consumer.acknowledge)
    finally:
        await consumer.unsubscribe()


async def _both(
    client: Client,
    load: LoadGenerator,
    tally: PerfCounters,
    consumer: Consumer[bytes] | CheckpointConsumer[bytes],
    *,
    acknowledge: Acknowledge | None,
) -> None:
    from magnetar.client.consumer.receive.waiters import NoMessage

    loop = asyncio.get_running_loop()
    sent, began = PerfCounters(), loop.time()
    producers = [await _producer(client, load) for _ in range(load.producers)]
    ended = asyncio.Event()

    async def receive() -> None:
        while not ended.is_set() or tally.messages < sent.messages:
            try:
                message = await consumer.receive(0.5)
            except NoMessage:
                if ended.is_set():
                    return
                continue
            if len(message.data) == load.size:
                tally.messages += 1
                tally.bytes += load.size
                tally.latency.add(loop.time() - STAMP.unpack_from(message.data)[0])
                tally.seconds = loop.time() - began
            if acknowledge is not None:
                await acknowledge(message)

    async def send() -> None:
        await asyncio.gather(*[_send(producer, load, sent.stored) for producer in producers])
        ended.set()

    tally.users += [consumer, *producers]
    await asyncio.gather(receive(), send())
    tally.failures, tally.error = sent.failures, sent.error


async def _producer(client: Client, load: LoadGenerator) -> Producer[bytes]:
    from magnetar.client.producer.batch import Batching

    batching = Batching() if load.batching else None
    return await client.create_producer(load.topic, batching=batching, send_timeout_s=load.timeout_s)


Stored = Callable[..., None]


async def _send(producer: Producer[bytes], load: LoadGenerator, stored: Stored) -> None:
    """Sends at the rate of the load: sends all due messages, then waits for a tick."""
    loop = asyncio.get_running_loop()
    clock, began = loop.time, loop.time()
    rest = bytes(load.size - STAMP.size)
    pace = load.rate / load.producers
    sent = 0
    while (gone := clock() - began) < load.seconds:
        due = sent + 100 if not pace else int(gone * pace) + 1
        while sent < due and (now := clock()) - began < load.seconds:
            await producer.post(STAMP.pack(now) + rest, partial(stored, now, clock, load.size))
            sent += 1
        await asyncio.sleep(TICK_S if pace else 0)
    await producer.flush()
