"""Short words for what every scenario does with a stock client: send some, take some, see that nothing comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pulsar

WAIT_MS = 60_000  # for what must come: it ends a test that fails, and nothing else
QUIET_MS = 300


def send(producer: pulsar.Producer, messages: Iterable[str | bytes], **options: object) -> list[pulsar.MessageId]:
    return [producer.send(_bytes(message), **options) for message in messages]


def send_all(producer: pulsar.Producer, messages: Iterable[str | bytes], **options: object) -> None:
    """Through the pipeline: all of them under way at once, and every receipt seen."""
    failed: list[object] = []

    def done(result: object, _: object) -> None:
        if result != pulsar.Result.Ok:
            failed.append(result)

    for message in messages:
        producer.send_async(_bytes(message), done, **options)
    producer.flush()
    assert not failed, failed[:3]


def take(consumer: pulsar.Consumer, count: int, *, ack: bool = True, timeout_ms: int = WAIT_MS) -> list[pulsar.Message]:
    """Exactly `count` messages, in the order they came."""
    taken = []
    for number in range(count):
        try:
            message = consumer.receive(timeout_millis=timeout_ms)
        except pulsar.Timeout:
            raise AssertionError(
                f"{number} of {count} messages came: {[one.data()[:40] for one in taken[-10:]]}"
            ) from None
        taken.append(message)
        if ack:
            consumer.acknowledge(message)
    return taken


def drain(consumer: pulsar.Consumer, *, ack: bool = True, quiet_ms: int = QUIET_MS) -> list[pulsar.Message]:
    """What comes until nothing comes for a while."""
    taken = []
    while True:
        try:
            message = consumer.receive(timeout_millis=quiet_ms)
        except pulsar.Timeout:
            return taken
        taken.append(message)
        if ack:
            consumer.acknowledge(message)


def nothing(consumer: pulsar.Consumer, *, quiet_ms: int = QUIET_MS) -> None:
    try:
        message = consumer.receive(timeout_millis=quiet_ms)
    except pulsar.Timeout:
        return
    raise AssertionError(f"nothing should come, but {message.data()[:80]!r} did ({message.message_id()})")


def texts(messages: Iterable[pulsar.Message]) -> list[str]:
    return [message.data().decode() for message in messages]


def numbered(count: int, start: int = 0) -> list[str]:
    return [f"m{number}" for number in range(start, start + count)]


def position(message: pulsar.Message | pulsar.MessageId) -> tuple[int, int, int]:
    found = message.message_id() if isinstance(message, pulsar.Message) else message
    return found.ledger_id(), found.entry_id(), found.batch_index()


def until(condition: Callable[[], bool], *, timeout_s: float = 15.0, what: str = "") -> None:
    """Wait for something to become true that nobody announces."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"still not so after {timeout_s:.0f} s: {what}"
        time.sleep(0.02)


def _bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message
