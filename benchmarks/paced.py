"""A sender that keeps its pace and says what it felt, driven by lines: `python -m benchmarks.paced URL`.

Our half of `benchmarks.reshape gap`; `Paced.java` is the other one and speaks the same lines. It sends without waiting
for answers, so many messages a second over a hundred keys, and notes when each answer comes. A pause is the time
between two answers that followed each other. One line in, one out:

    open TOPIC RATE     a producer, and its load
    mark                forget what was felt so far
    felt                in milliseconds the longest pause, the present one included, and the longest way of a message to
                        its receipt; then how many messages were stored, and how many failed
    stop                no more load
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial

from magnetar.aio import Client
from magnetar.base.errors import MagnetarError
from magnetar.client.producer.producer import Producer
from magnetar.wire.ids import MessageId

KEYS = [f"key-{number}" for number in range(100)]
PAYLOAD = bytes(100)
TICK_S = 0.001


class Sender:
    def __init__(self, client: Client) -> None:
        self.stored = 0
        self.failed = 0
        self._client = client
        self._last = self._longest = self._slowest = 0.0
        self._load: asyncio.Task[None] | None = None

    async def obey(self, words: list[str]) -> str:
        match words:
            case ["open", topic, rate]:
                producer = await self._client.create_producer(topic)
                self._last = time.perf_counter()
                self._load = asyncio.create_task(self._run(producer, int(rate)))
            case ["mark"]:
                self._longest = self._slowest = 0.0
            case ["felt"]:
                longest = max(self._longest, time.perf_counter() - self._last)
                return f"{longest * 1e3:.3f} {self._slowest * 1e3:.3f} {self.stored} {self.failed}"
            case ["stop"]:
                if self._load is not None:
                    self._load.cancel()
                    await asyncio.wait([self._load])
            case _:
                raise SystemExit(f"unknown: {words}")
        return ""

    async def _run(self, producer: Producer[bytes], rate: int) -> None:
        begun, sent = time.perf_counter(), 0
        try:
            while True:
                due = int((time.perf_counter() - begun) * rate)
                while sent < due:
                    done = partial(self._done, time.perf_counter())
                    await producer.post(PAYLOAD, done, key=KEYS[sent % len(KEYS)])
                    sent += 1
                await asyncio.sleep(TICK_S)
        finally:
            await producer.close()

    def _done(self, sent: float, found: MessageId | None, error: MagnetarError | None) -> None:
        now = time.perf_counter()
        self._slowest = max(self._slowest, now - sent)
        self._longest = max(self._longest, now - self._last)
        self._last = now
        if error is None:
            self.stored += 1
        else:
            self.failed += 1


async def body(url: str) -> None:
    async with Client(url) as client:
        sender = Sender(client)
        print("ok", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print("ok", await sender.obey(line.split()), flush=True)
        await sender.obey(["stop"])


if __name__ == "__main__":
    asyncio.run(body(sys.argv[1]))
