"""One producer of ours under one load, in a process of its own: `python -m benchmarks.spread URL TOPIC LOAD SECONDS`.

Loads: a number is so many messages a second, posted without waiting; `full` is as fast as the client takes them;
`waiting` is sixty-four senders that wait for each receipt. All messages are 100 B with one of a thousand keys, batched
as the client does by itself. It warms up, says `ready`, waits for a line, and prints what it measured as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import partial

from magnetar.aio import Client
from magnetar.base.errors import MagnetarError
from magnetar.client.producer.producer import Producer
from magnetar.wire.ids import MessageId

KEYS = [f"key-{number}" for number in range(1000)]
STRIDE = 7919  # prime to the number of keys: they come in no order
PAYLOAD = bytes(100)
SENDERS = 64
TICK_S = 0.001
WARM_S = 0.7
FULL_STEP = 500  # messages between two looks at the clock
TIMED_EVERY = 50


class Load:
    def __init__(self, producer: Producer[bytes]) -> None:
        self._producer = producer
        self._until = 0.0
        self.sent = 0
        self.took: list[float] = []  # of some, until their receipt

    async def run(self, kind: str, seconds: float) -> None:
        self.sent = 0
        self.took.clear()
        begun = time.perf_counter()
        self._until = begun + seconds
        if kind == "waiting":
            await asyncio.gather(*(self._wait() for _ in range(SENDERS)))
        elif kind == "full":
            while time.perf_counter() < self._until:
                await self._post(FULL_STEP)
        else:
            while (now := time.perf_counter()) < self._until:
                await self._post(int((now - begun) * int(kind)) - self.sent)
                await asyncio.sleep(TICK_S)
        await self._producer.flush()

    async def _post(self, count: int) -> None:
        for _ in range(count):
            timed = self.sent % TIMED_EVERY == 0
            done = partial(self._done, time.perf_counter()) if timed else _checked
            await self._producer.post(PAYLOAD, done, key=self._key())

    async def _wait(self) -> None:
        while (begun := time.perf_counter()) < self._until:
            await self._producer.send(PAYLOAD, key=self._key())
            self.took.append(time.perf_counter() - begun)

    def _key(self) -> str:
        self.sent += 1
        return KEYS[self.sent * STRIDE % len(KEYS)]

    def _done(self, sent: float, found: MessageId | None, error: MagnetarError | None) -> None:
        _checked(found, error)
        self.took.append(time.perf_counter() - sent)


def _checked(found: MessageId | None, error: MagnetarError | None) -> None:
    if error is not None:
        raise SystemExit(f"a message was not stored: {error}")


async def body(url: str, topic: str, kind: str, seconds: float) -> None:
    async with Client(url) as client:
        producer = await client.create_producer(topic)
        load = Load(producer)
        await load.run(kind, WARM_S)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        entries, cpu, begun = producer.counters[0].entries, time.process_time(), time.perf_counter()
        await load.run(kind, seconds)
        spent, took = time.process_time() - cpu, sorted(load.took)
        found = {
            "messages": load.sent,
            "rate": load.sent / (time.perf_counter() - begun),
            "entry": load.sent / (producer.counters[0].entries - entries),
            "client_us": spent / load.sent * 1e6,
            "p50_ms": took[len(took) // 2] * 1e3,
            "p99_ms": took[int(len(took) * 0.99)] * 1e3,
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(body(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
