"""`magnetar perf`: how fast a broker takes messages, hands them out, and both at once.

Every second a line on standard error, at the end one summary on standard output. It uses the client as any application
does; with `--rate 0` it sends as fast as the client lets it. Latencies are measured at the caller: from handing a
message over to its receipt, or to its arrival.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from magnetar.base.errors import MagnetarError
from magnetar.base.names import topic_name
from magnetar.cli import wire
from magnetar.cli.cells import Cell, Rate, Size, size, thousands
from magnetar.cli.exits import Exit
from magnetar.cli.histogram import Histogram
from magnetar.cli.options import COMMON, TRAFFIC, Common, Traffic
from magnetar.cli.output import Facts, Output, Sheet

if TYPE_CHECKING:
    from magnetar.client.client import Client
    from magnetar.client.message import MessageId
    from magnetar.client.producer import Producer

TOPIC = "persistent://public/default/perf"
STAMP = struct.Struct(">d")  # when a message was sent, at its front
TICK_S = 0.01  # sending keeps its pace in steps of this

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
    """Send messages and tell how fast they were stored.

    Parameters
    ----------
    topic
        Where to.
    seconds
        How long.
    rate
        Messages per second of all producers together; 0 is as fast as it goes.
    size
        Bytes of a message.
    producers
        How many producers.
    batching
        Whether messages are sent in batches.

    Examples
    --------
    $ magnetar perf produce --seconds 1 --rate 1000
    $ magnetar perf produce orders --seconds 1 --size 100 --producers 2 -o json
    """
    load = Load(topic, seconds, rate, size, producers, batching, timeout_s=common.timeout)
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
    """Receive and acknowledge messages and tell how fast they came. A new subscription starts at the earliest message.

    Parameters
    ----------
    topic
        Where from.
    subscription
        Through which shared subscription.
    seconds
        How long.

    Examples
    --------
    $ magnetar perf consume --seconds 1
    """
    load = Load(topic, seconds, subscription=subscription)
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
    """Send and receive at once and tell how long a message takes from the producer to the consumer.

    Parameters
    ----------
    topic
        Through which topic; a subscription of its own is made and removed.
    seconds
        How long.
    rate
        Messages per second of all producers together; 0 is as fast as it goes.
    size
        Bytes of a message.
    producers
        How many producers.
    batching
        Whether messages are sent in batches.

    Examples
    --------
    $ magnetar perf roundtrip --seconds 1 --rate 500
    """
    load = Load(topic, seconds, rate, size, producers, batching, timeout_s=common.timeout)
    return _measure("roundtrip", load, common, change, _roundtrip)


VERBS = {"produce": produce, "consume": consume, "roundtrip": roundtrip}


# A load and what came of it


@dataclass(frozen=True, slots=True)
class Load:
    topic: str
    seconds: float
    rate: float = 0.0
    size: int = 0
    producers: int = 0
    batching: bool = True
    subscription: str = ""
    timeout_s: float = 0.0  # for a receipt: a broker that is gone ends the measurement, not the patience

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {"topic": str(topic_name(self.topic)), "seconds": self.seconds}
        if self.subscription:
            return {**found, "subscription": self.subscription}
        sending = ("rate", "size", "producers", "batching")
        return {**found, **{name: getattr(self, name) for name in sending}}


@dataclass(slots=True)
class Tally:
    """Counted on one loop."""

    messages: int = 0
    bytes: int = 0
    failures: int = 0
    seconds: float = 0.0
    latency: Histogram = field(default_factory=Histogram)
    error: MagnetarError | None = None

    def stored(
        self, sent_at: float, clock: Callable[[], float], count: int, _: MessageId | None, error: MagnetarError | None
    ) -> None:
        if error is not None:
            self.failures += 1
            self.error = self.error or error
            return
        self.messages += 1
        self.bytes += count
        self.latency.add(clock() - sent_at)

    def document(self, kind: str, load: Load) -> dict[str, Any]:
        seconds = self.seconds or 1.0
        return {
            "kind": kind,
            "load": load.document(),
            "messages": self.messages,
            "bytes": self.bytes,
            "failures": self.failures,
            "seconds": round(self.seconds, 3),
            "messages_per_s": round(self.messages / seconds, 1),
            "bytes_per_s": round(self.bytes / seconds, 1),
            "latency_ms": self.latency.document() if self.latency.count else None,
        }


Work = Callable[["Client", Load, Tally], Any]


def _measure(kind: str, load: Load, common: Common, change: Traffic, work: Work) -> Exit:
    output = common.out
    if change.dry_run:
        facts: dict[str, Cell] = {**load.document()}
        names = [load.document()["topic"]]
        output.show({"kind": kind, "load": load.document()}, Facts(facts, title=f"Would {kind}:"), names=names)
        return Exit.OK
    return wire.run(_run(kind, load, common, output, work))


async def _run(kind: str, load: Load, common: Common, output: Output, work: Work) -> Exit:
    tally = Tally()
    loop = asyncio.get_running_loop()
    ticker = _Ticker(tally, loop, quiet=common.quiet)
    began = loop.time()
    try:
        async with wire.connected(common) as client:
            began = loop.time()
            ticker.start()
            await work(client, load, tally)
            tally.seconds = tally.seconds or loop.time() - began
    finally:
        ticker.stop()
    document = tally.document(kind, load)
    output.show(document, *_parts(kind, document, tally), names=[document["load"]["topic"]])
    if tally.error is not None:
        raise tally.error
    return Exit.OK


class _Ticker:
    """A line a second for people."""

    def __init__(self, tally: Tally, loop: asyncio.AbstractEventLoop, *, quiet: bool) -> None:
        self._tally = tally
        self._loop = loop
        self._quiet = quiet
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
        if not self._quiet:
            sys.stderr.write(f"{thousands(messages):>8} msg/s  {size(count):>10}/s\n")
        self.start()


def _parts(kind: str, document: dict[str, Any], tally: Tally) -> list[Sheet | Facts]:
    facts: dict[str, Cell] = {
        "messages": tally.messages,
        "rate": Rate(document["messages_per_s"]),
        "throughput": Rate(document["bytes_per_s"], size=True),
        "bytes": Size(tally.bytes),
        "failures": tally.failures,
        "seconds": float(document["seconds"]),
    }
    parts: list[Sheet | Facts] = [Facts(facts, title=f"perf {kind}")]
    if tally.latency.count:
        latency = document["latency_ms"]
        columns = [f"{name.replace('_', '.').upper()} ms" for name in latency]
        parts.append(Sheet(columns, [list(latency.values())], title="latency"))
    return parts


# The work


async def _produce(client: Client, load: Load, tally: Tally) -> None:
    producers = [await _producer(client, load) for _ in range(load.producers)]
    await asyncio.gather(*[_send(producer, load, tally.stored) for producer in producers])


async def _consume(client: Client, load: Load, tally: Tally) -> None:
    from magnetar.client.subscribing import InitialPosition, SubscriptionType

    consumer = await client.subscribe(
        load.topic,
        load.subscription,
        type=SubscriptionType.SHARED,
        initial_position=InitialPosition.EARLIEST,
    )
    loop = asyncio.get_running_loop()
    until = loop.time() + load.seconds
    while (left := until - loop.time()) > 0:
        for message in await consumer.receive_batch(1000, timeout_s=min(left, 0.1)):
            tally.messages += 1
            tally.bytes += len(message.data)
            await consumer.acknowledge(message)


async def _roundtrip(client: Client, load: Load, tally: Tally) -> None:
    from magnetar.client.receive import NoMessage

    name = f"perf-{client.runtime.rng('cli.perf').getrandbits(32):08x}"
    consumer = await client.subscribe(load.topic, name)
    loop = asyncio.get_running_loop()
    sent, began = Tally(), loop.time()
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
            await consumer.acknowledge(message)

    async def send() -> None:
        await asyncio.gather(*[_send(producer, load, sent.stored) for producer in producers])
        ended.set()

    try:
        await asyncio.gather(receive(), send())
    finally:
        await consumer.unsubscribe()
    tally.failures, tally.error = sent.failures, sent.error


async def _producer(client: Client, load: Load) -> Producer[bytes]:
    from magnetar.client.batch import Batching

    batching = Batching() if load.batching else None
    return await client.create_producer(load.topic, batching=batching, send_timeout_s=load.timeout_s)


Stored = Callable[..., None]


async def _send(producer: Producer[bytes], load: Load, stored: Stored) -> None:
    """At the load's pace: what is due is sent, then it waits a little."""
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
