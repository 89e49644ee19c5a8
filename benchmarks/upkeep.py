"""What a start and a stop cost a broker that holds much: `python -m benchmarks.upkeep`.

- **open**: a topic of many subscriptions, from the first PRODUCER after a restart to its answer.
- **stop**: a clean stop, SIGTERM to exit, with many topics in memory.
- **index**: resident memory for each message that arrives alone, after a restart.

Prints one line for each; nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from magnetar.aio import Admin, Client
from tests.servers.standalone import Standalone

SUBSCRIPTIONS, TOPICS, MESSAGES = 10_000, 5_000, 1_000_000
AT_ONCE = 64
TOPIC = "persistent://public/default/many"


async def all_of(works: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """A few at a time."""
    waiting = list(reversed(list(works)))

    async def worker() -> None:
        while waiting:
            await waiting.pop()()

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def attach(url: str, topic: str) -> float:
    begun = time.perf_counter()
    async with Client(url) as client, client.create_producer(topic):
        return time.perf_counter() - begun


def opening(broker: Standalone) -> None:
    async def made() -> None:
        async with Admin(broker.http) as admin:
            await admin.topics.create(TOPIC)
            create = admin.subscriptions.create
            await all_of(partial(create, TOPIC, f"s{number}") for number in range(SUBSCRIPTIONS))

    asyncio.run(made())
    broker.restart()
    say(f"open: a topic of {SUBSCRIPTIONS:,} subscriptions", asyncio.run(attach(broker.url, TOPIC)), "s")


async def _produce(client: Client, topic: str) -> None:
    await client.create_producer(topic)


def stopping(broker: Standalone) -> None:
    async def loaded() -> float:
        async with Client(broker.url) as client:
            names = [f"persistent://public/default/t{number}" for number in range(TOPICS)]
            await all_of(partial(_produce, client, name) for name in names)
            begun = time.perf_counter()
            await asyncio.to_thread(broker.stop)
            return time.perf_counter() - begun

    say(f"stop: {TOPICS:,} topics in memory", asyncio.run(loaded()), "s")
    broker.start()


def index(broker: Standalone) -> None:
    async def sent() -> None:
        async with Client(broker.url) as client, client.create_producer(TOPIC, batching=None) as producer:
            for _ in range(MESSAGES):
                await producer.post(b"x" * 20)
            await producer.flush()

    broker.restart()
    asyncio.run(attach(broker.url, TOPIC))
    before = _rss(broker)
    asyncio.run(sent())
    broker.restart()
    asyncio.run(attach(broker.url, TOPIC))
    say(f"index: {MESSAGES:,} messages that arrive alone", (_rss(broker) - before) / MESSAGES, "bytes a message")


def _rss(broker: Standalone) -> int:
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1])
    return pages * 4096


def say(name: str, value: float, unit: str) -> None:
    sys.stdout.write(f"{name:<60} {value:10.3f} {unit}\n")
    sys.stdout.flush()


SCENARIOS = {"open": opening, "stop": stopping, "index": index}


def main() -> None:
    parser = argparse.ArgumentParser(description="A start and a stop, measured.")
    parser.add_argument("--only", nargs="+", choices=sorted(SCENARIOS), default=list(SCENARIOS))
    asked = parser.parse_args()
    for name in asked.only:
        with tempfile.TemporaryDirectory() as folder, Standalone(Path(folder), watched=False) as broker:
            SCENARIOS[name](broker)


if __name__ == "__main__":
    main()
