"""What each client does in `benchmarks.client`, in a process of its own: `python -m benchmarks.clients KIND WHAT ...`.

The same work three times, each in the words of its library: publish in batches with a callback a message, consume and
acknowledge one by one, and send alone. What was measured goes to standard output as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

KINDS = ("stock", "sync", "aio")  # the wheel; our blocking client; our asyncio client
PENDING = 10_000  # in flight at most, all clients alike
ARRIVAL_S = 60
WARM = 20  # messages at the beginning of a turn that are not timed: the process has slept meanwhile

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
    unread = client.create_producer(f"{topic}-unread", batching_enabled=False)
    producer = client.create_producer(topic, batching_enabled=False)
    consumer = client.subscribe(topic, "s")
    payload = bytes(size)

    def send() -> None:
        unread.send(payload)

    def there_and_back() -> None:
        producer.send_async(payload, None)
        consumer.acknowledge(consumer.receive(ARRIVAL_S * 1000))

    turns(count, send, there_and_back)
    client.close()
    return {}


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
    unread = client.create_producer(f"{topic}-unread", batching=None)
    producer = client.create_producer(topic, batching=None)
    consumer = client.subscribe(topic, "s")
    payload = bytes(size)

    def send() -> None:
        unread.send(payload)

    def there_and_back() -> None:
        producer.post(payload)
        consumer.acknowledge(consumer.receive(ARRIVAL_S))

    turns(count, send, there_and_back)
    client.close()
    return {}


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
            unread = await client.create_producer(f"{topic}-unread", batching=None)
            producer = await client.create_producer(topic, batching=None)
            consumer = await client.subscribe(topic, "s")
            payload = bytes(size)

            async def send() -> None:
                await unread.send(payload)

            async def there_and_back() -> None:
                await producer.post(payload)
                await consumer.acknowledge(await consumer.receive(ARRIVAL_S))

            while await asyncio.to_thread(sys.stdin.readline):
                await latencies_aio(WARM, send)
                sends = await latencies_aio(count, send)
                await latencies_aio(WARM, there_and_back)
                print(json.dumps([sends, await latencies_aio(count, there_and_back)]), flush=True)
            return {}

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


def turns(count: int, send: Callable[[], None], there_and_back: Callable[[], None]) -> None:
    """A turn for every line on standard input, its latencies in seconds on standard output."""
    for _ in sys.stdin:
        latencies(WARM, send)
        sends = latencies(count, send)
        latencies(WARM, there_and_back)
        print(json.dumps([sends, latencies(count, there_and_back)]), flush=True)


def latencies(count: int, one: Callable[[], None]) -> list[float]:
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        one()
        took.append(time.perf_counter() - begun)
    return took


async def latencies_aio(count: int, one: Callable[[], Any]) -> list[float]:
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        await one()
        took.append(time.perf_counter() - begun)
    return took


def assert_all(stored: Callable[[], int], count: int) -> None:
    """The last callbacks may still be on their way when a flush returns."""
    wanted = count + count // 10
    deadline = time.monotonic() + ARRIVAL_S
    while stored() < wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    if stored() != wanted:
        raise SystemExit(f"only {stored()} of {wanted} messages were stored")


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
    kind, what, port, topic, size, count = sys.argv[1:]
    found = CHILDREN[f"{kind} {what}"](int(port), topic, int(size), int(count))
    if found:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
