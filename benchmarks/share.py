"""Sharing a segment, measured: `python -m benchmarks.share`, or `--messages 100000 --rounds 1` for a short trial.

A segment is filled, then sealed by a split, and its backlog is drained twice: by one stream consumer, and by eight that
share it by its entry buckets. Each consumer is a process of its own, and a message costs it time that it spends waiting
(100 us by default, as one that asks another server for each), not processor time: on a machine with two cores eight
processes that only compute could not be much faster than one. Drained is when the controller has latched the segment:
everything acknowledged, on disk. The broker and all consumers share the machine's cores. `--cost-us 0` measures what
the processor alone allows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

from benchmarks.broker import HOUSE, SCRATCH, Report, broker
from magnetar import InitialPosition
from magnetar.aio import Admin, Client

RESULTS = HOUSE / "benchmarks" / "results" / "share.json"
TOPIC = "topic://public/default/shared"
BUCKETS = 32
KEYS = 10_000
SHARERS = 8
PAYLOAD = b"x" * 100


async def fill(url: str, admin: Admin, messages: int) -> int:
    """The number of the sealed segment, full."""
    await admin.scalable.create(TOPIC)
    await admin.scalable.rebucket(TOPIC, 0, BUCKETS)
    for sharers in (1, SHARERS):
        await admin.scalable.create_subscription(TOPIC, f"by-{sharers}")
    keys = [f"key-{number}" for number in range(KEYS)]
    async with Client(url) as client, await client.create_producer(TOPIC) as producer:
        for number in range(messages):
            await producer.post(PAYLOAD, key=keys[number % KEYS])
        await producer.flush()
    await admin.scalable.split(TOPIC, 1)
    return 1


async def drained(url: str, admin: Admin, sharers: int, segment: int, cost_us: float) -> float:
    """Seconds, from the first consumer's first message until the segment is latched."""
    command = ["-m", "benchmarks.share", "--consume", url, f"by-{sharers}", "--cost-us", str(cost_us)]
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable, *command, "--name", f"c{number}", cwd=HOUSE, stdout=asyncio.subprocess.PIPE
        )
        for number in range(sharers)
    ]
    try:
        assert workers[0].stdout is not None
        await workers[0].stdout.readline()
        begun = time.perf_counter()
        about = TOPIC, f"by-{sharers}"
        while segment not in (await admin.scalable.subscription(*about)).drainedSegmentIds:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # nobody tells
        return time.perf_counter() - begun
    finally:
        for worker in workers:
            worker.kill()
            await worker.communicate()


async def consume(url: str, subscription: str, name: str, cost_us: float) -> None:
    """One consumer: takes some messages, spends their time, acknowledges them. It runs until it is killed."""
    async with (
        Client(url) as client,
        await client.stream_consumer(
            TOPIC, subscription, name=name, initial_position=InitialPosition.EARLIEST
        ) as consumer,
    ):
        told = False
        while True:
            batch = await consumer.receive_batch(200, timeout_s=0.5)
            if not batch:
                continue
            if not told:
                told = True
                print("begun", flush=True)
            if cost_us:
                await asyncio.sleep(len(batch) * cost_us / 1e6)
            await consumer.acknowledge_cumulative(batch[-1])


async def measure(report: Report, messages: int, cost_us: float) -> None:
    with broker() as peer:
        peer.connect().close()
        url = f"pulsar://localhost:{peer.port}"
        async with Admin(f"http://localhost:{peer.http_port}") as admin:
            segment = await fill(url, admin, messages)
            alone = await drained(url, admin, 1, segment, cost_us)
            together = await drained(url, admin, SHARERS, segment, cost_us)
    what = f"drain of a sealed segment of {messages} messages, {cost_us:g} us each"
    report.note(f"{what}: one consumer", alone, "s")
    report.note(f"{what}: {SHARERS} that share it", together, "s")
    report.note("  one to eight", alone / together, "ratio", ">= 3" if cost_us else "")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.share", description="Sharing a segment, measured.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--cost-us", type=float, default=100.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", type=Path, help=f"JSON file; {RESULTS.relative_to(HOUSE)} for a whole run")
    parser.add_argument("--consume", nargs=2, metavar=("URL", "SUBSCRIPTION"), help="be one of the consumers")
    parser.add_argument("--name", default="c0")
    chosen = parser.parse_args()
    if chosen.consume:
        url, subscription = chosen.consume
        asyncio.run(consume(url, subscription, chosen.name, chosen.cost_us))
        return 0
    SCRATCH.mkdir(exist_ok=True)
    report = Report()
    begun = time.perf_counter()
    for _ in range(chosen.rounds):
        asyncio.run(measure(report, chosen.messages, chosen.cost_us))
    print(report.table())
    whole = chosen.messages >= 1_000_000 and chosen.cost_us > 0
    output = chosen.output or (RESULTS if whole else None)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        seconds = (time.perf_counter() - begun) / chosen.rounds
        output.write_text(json.dumps(report.document(chosen.rounds, seconds), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
