"""Our client beside the stock wheel, in one run on our broker: `python -m benchmarks.client --only produce`.

What is compared is the processor time of the client's whole process (all its threads) per message, for batched
publishing and consuming from Python, and the time one message takes, alone on its way. Each measurement is a process of
its own on one core, the broker has the other; clients take turns round by round, and a figure is a ratio before it is a
number.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.broker import HOUSE, LOAD_CORE, SCRATCH, Report, broker

RESULTS = HOUSE / "benchmarks" / "results" / "client.json"

MESSAGES = {100: 600_000, 1024: 200_000}  # of a run, after a tenth of it to warm up
ALONE = 2_000  # messages of a latency run
PENDING = 10_000  # in flight at most, all clients alike
ARRIVAL_S = 60
KINDS = ("stock", "sync", "aio")  # the wheel; our blocking client; our asyncio client

Measured = dict[str, float]


# Stock


def stock_client(port: int) -> Any:
    import pulsar  # type: ignore[import-untyped]

    return pulsar.Client(f"pulsar://localhost:{port}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


def stock_produce(port: int, topic: str, size: int, count: int) -> Measured:
    import pulsar

    client = stock_client(port)
    producer = client.create_producer(
        topic, batching_enabled=True, block_if_queue_full=True, max_pending_messages=PENDING
    )
    stored = 0

    def done(result: Any, _: Any) -> None:
        nonlocal stored
        stored += result == pulsar.Result.Ok

    def send(total: int) -> None:
        payload = bytes(size)
        for _ in range(total):
            producer.send_async(payload, done)
        producer.flush()

    found = timed(count, send)
    assert_all(lambda: stored, count)
    client.close()
    return found


def stock_consume(port: int, topic: str, size: int, count: int) -> Measured:
    import pulsar

    client = stock_client(port)
    consumer = client.subscribe(topic, "stock", initial_position=pulsar.InitialPosition.Earliest)

    def take(total: int) -> None:
        for _ in range(total):
            message = consumer.receive(ARRIVAL_S * 1000)
            assert len(message.data()) == size
            consumer.acknowledge(message)

    found = timed(count, take)
    client.close()
    return found


def stock_alone(port: int, topic: str, size: int, count: int) -> Measured:
    client = stock_client(port)
    producer = client.create_producer(topic, batching_enabled=False)
    consumer = client.subscribe(topic, "s")
    payload = bytes(size)

    def there_and_back() -> None:
        producer.send_async(payload, None)
        consumer.acknowledge(consumer.receive(ARRIVAL_S * 1000))

    found = latencies("send", count, lambda: producer.send(payload))
    for _ in range(count + count // 10):
        consumer.acknowledge(consumer.receive(ARRIVAL_S * 1000))
    found |= latencies("round trip", count, there_and_back)
    client.close()
    return found


# Ours, blocking


def sync_produce(port: int, topic: str, size: int, count: int) -> Measured:
    import magnetar

    client = magnetar.Client(f"pulsar://localhost:{port}", pending_messages_max=PENDING)
    producer = client.create_producer(topic)
    stored = 0

    def done(found: Any, error: Any) -> None:
        nonlocal stored
        stored += error is None

    def send(total: int) -> None:
        payload = bytes(size)
        for _ in range(total):
            producer.post(payload, done)
        producer.flush()

    found = timed(count, send)
    assert_all(lambda: stored, count)
    client.close()
    return found


def sync_consume(port: int, topic: str, size: int, count: int) -> Measured:
    import magnetar

    client = magnetar.Client(f"pulsar://localhost:{port}")
    consumer = client.subscribe(topic, "sync", initial_position=magnetar.InitialPosition.EARLIEST)

    def take(total: int) -> None:
        for _ in range(total):
            message = consumer.receive(ARRIVAL_S)
            assert len(message.data) == size
            consumer.acknowledge(message)

    found = timed(count, take)
    client.close()
    return found


def sync_alone(port: int, topic: str, size: int, count: int) -> Measured:
    import magnetar

    client = magnetar.Client(f"pulsar://localhost:{port}")
    producer = client.create_producer(topic, batching=None)
    consumer = client.subscribe(topic, "s")
    payload = bytes(size)

    def there_and_back() -> None:
        producer.post(payload)
        consumer.acknowledge(consumer.receive(ARRIVAL_S))

    found = latencies("send", count, lambda: producer.send(payload))
    for _ in range(count + count // 10):
        consumer.acknowledge(consumer.receive(ARRIVAL_S))
    found |= latencies("round trip", count, there_and_back)
    client.close()
    return found


# Ours, asyncio


def aio_produce(port: int, topic: str, size: int, count: int) -> Measured:
    from magnetar.aio import Client

    async def body() -> Measured:
        async with Client(f"pulsar://localhost:{port}", pending_messages_max=PENDING) as client:
            producer = await client.create_producer(topic)
            stored = 0

            def done(found: Any, error: Any) -> None:
                nonlocal stored
                stored += error is None

            async def send(total: int) -> None:
                payload = bytes(size)
                for _ in range(total):
                    await producer.post(payload, done)
                await producer.flush()

            found = await timed_aio(count, send)
            assert_all(lambda: stored, count)
            return found

    return asyncio.run(body())


def aio_consume(port: int, topic: str, size: int, count: int) -> Measured:
    import magnetar
    from magnetar.aio import Client

    async def body() -> Measured:
        async with Client(f"pulsar://localhost:{port}") as client:
            consumer = await client.subscribe(topic, "aio", initial_position=magnetar.InitialPosition.EARLIEST)

            async def take(total: int) -> None:
                for _ in range(total):
                    message = await consumer.receive(ARRIVAL_S)
                    assert len(message.data) == size
                    await consumer.acknowledge(message)

            return await timed_aio(count, take)

    return asyncio.run(body())


def aio_alone(port: int, topic: str, size: int, count: int) -> Measured:
    from magnetar.aio import Client

    async def body() -> Measured:
        async with Client(f"pulsar://localhost:{port}") as client:
            producer = await client.create_producer(topic, batching=None)
            consumer = await client.subscribe(topic, "s")
            payload = bytes(size)

            async def there_and_back() -> None:
                await producer.post(payload)
                await consumer.acknowledge(await consumer.receive(ARRIVAL_S))

            found = await latencies_aio("send", count, lambda: producer.send(payload))
            for _ in range(count + count // 10):
                await consumer.acknowledge(await consumer.receive(ARRIVAL_S))
            return found | await latencies_aio("round trip", count, there_and_back)

    return asyncio.run(body())


# Measuring


def timed(count: int, run: Callable[[int], None]) -> Measured:
    run(count // 10)
    cpu, begun = time.process_time(), time.perf_counter()
    run(count)
    return spent(cpu, begun, count)


async def timed_aio(count: int, run: Callable[[int], Any]) -> Measured:
    await run(count // 10)
    cpu, begun = time.process_time(), time.perf_counter()
    await run(count)
    return spent(cpu, begun, count)


def spent(cpu: float, begun: float, count: int) -> Measured:
    return {"cpu": (time.process_time() - cpu) / count * 1e6, "rate": count / (time.perf_counter() - begun)}


def latencies(name: str, count: int, one: Callable[[], object]) -> Measured:
    for _ in range(count // 10):
        one()
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        one()
        took.append(time.perf_counter() - begun)
    return quantiles(name, took)


async def latencies_aio(name: str, count: int, one: Callable[[], Any]) -> Measured:
    for _ in range(count // 10):
        await one()
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        await one()
        took.append(time.perf_counter() - begun)
    return quantiles(name, took)


def quantiles(name: str, took: list[float]) -> Measured:
    took.sort()
    return {f"{name} p50": took[len(took) // 2] * 1e3, f"{name} p99": took[len(took) * 99 // 100] * 1e3}


def assert_all(stored: Callable[[], int], count: int) -> None:
    """The last callbacks may still be on their way when a flush returns."""
    wanted = count + count // 10
    deadline = time.monotonic() + ARRIVAL_S
    while stored() < wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    if stored() != wanted:
        raise SystemExit(f"only {stored()} of {wanted} messages were stored")


# Scenarios


def child(kind: str, what: str, port: int, topic: str, size: int, count: int) -> Measured:
    """One measurement in a process of its own, on the generator's core."""
    arguments = ["-m", "benchmarks.client", "--child", kind, what, str(port), topic, str(size), str(count)]
    done = subprocess.run([sys.executable, *arguments], cwd=HOUSE, stdout=subprocess.PIPE, check=True)
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


def produce(report: Report, size: int) -> None:
    count = MESSAGES[size]
    with broker() as peer:
        peer.connect().close()
        found = {kind: child(kind, "produce", peer.port, f"produce-{kind}", size, count) for kind in KINDS}
    note_cpu(report, f"publish {size} B in batches", found)


def consume(report: Report, size: int) -> None:
    count = MESSAGES[size]
    with broker() as peer:
        peer.connect().close()
        child("stock", "produce", peer.port, "consume", size, count)  # stored in the batches of the stock client
        found = {kind: child(kind, "consume", peer.port, "consume", size, count) for kind in KINDS}
    note_cpu(report, f"consume {size} B in batches", found)


def alone(report: Report, size: int) -> None:
    with broker() as peer:
        peer.connect().close()
        found = {kind: child(kind, "alone", peer.port, f"alone-{kind}", size, ALONE) for kind in KINDS}
    for name in found["stock"]:
        report.note(f"{name} of {size} B, stock", found["stock"][name], "ms")
        for kind in KINDS[1:]:
            report.note(f"{name} of {size} B, {kind}", found[kind][name], "ms")
            report.note(f"  {kind} to stock, {name}", found[kind][name] / found["stock"][name], "ratio", "<= 1.2")


def note_cpu(report: Report, name: str, found: dict[str, Measured]) -> None:
    for kind in KINDS:
        report.note(f"{name}, {kind}", found[kind]["cpu"], "us of processor a message")
        report.note(f"  rate, {kind} ({name})", found[kind]["rate"], "messages/s")
    for kind in KINDS[1:]:
        ratio = found[kind]["cpu"] / found["stock"]["cpu"]
        report.note(f"  {kind} to stock ({name})", ratio, "ratio", "<= 1.0")


SCENARIOS: dict[str, Callable[[Report], None]] = {
    "produce-100": lambda report: produce(report, 100),
    "produce-1024": lambda report: produce(report, 1024),
    "consume-100": lambda report: consume(report, 100),
    "consume-1024": lambda report: consume(report, 1024),
    "latency": lambda report: alone(report, 100),
}
CHILDREN: dict[str, Callable[[int, str, int, int], Measured]] = {
    "stock produce": stock_produce,
    "stock consume": stock_consume,
    "stock alone": stock_alone,
    "sync produce": sync_produce,
    "sync consume": sync_consume,
    "sync alone": sync_alone,
    "aio produce": aio_produce,
    "aio consume": aio_consume,
    "aio alone": aio_alone,
}


def main() -> int:
    if len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, {LOAD_CORE})
    if sys.argv[1:2] == ["--child"]:
        kind, what, port, topic, size, count = sys.argv[2:]
        print(json.dumps(CHILDREN[f"{kind} {what}"](int(port), topic, int(size), int(count))))
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client", description="Our client beside the wheel.")
    parser.add_argument("--only", nargs="+", choices=sorted(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help=f"JSON file; {RESULTS.relative_to(HOUSE)} for a whole run")
    chosen = parser.parse_args()
    SCRATCH.mkdir(exist_ok=True)
    report = Report()
    begun = time.perf_counter()
    for number in range(chosen.rounds):
        for name in chosen.only:
            sys.stderr.write(f"round {number + 1} of {chosen.rounds}: {name}\n")
            SCENARIOS[name](report)
    print(report.table())
    whole = set(chosen.only) == set(SCENARIOS)
    output = chosen.output or (RESULTS if whole else None)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        seconds = (time.perf_counter() - begun) / chosen.rounds / len(chosen.only)
        output.write_text(json.dumps(report.document(chosen.rounds, seconds), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
