"""Invariant 17: dead letters are messages that the application refused, and a message that it always refuses becomes
one.

It is checked for queues with dead letters. A message becomes a dead letter only if a consumer of the subscription
refused it before. When the subscription is at rest, every refused message is a dead letter, messages in chunks too.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.check.history_index import Subscription, index_history
from simulation.history import INVOKE, OK, History, Line, Value


def check(history: History) -> Iterator[Finding]:
    for subscription in index_history(history).subscriptions.values():
        if any(line.operation == record.BURY for line in subscription.lines):
            yield from _subscription(subscription)


def _subscription(subscription: Subscription) -> Iterator[Finding]:
    refused: dict[Value, Line] = {}
    buried: set[Value] = set()
    topic, name = subscription.topic.name, subscription.name
    for line in subscription.lines:
        if line.operation == record.SETTLE:
            for value in refused.keys() - buried:
                what = f"{name}: {value} was refused, and is not among the dead letters when all is quiet"
                yield Finding(17, topic, what, (refused[value], line))
        if line.value is None:
            continue
        if line.operation == record.NACK:
            refused[line.value] = line
        elif line.operation == record.BURY and line.phase == OK:
            buried.add(line.value)
        elif line.operation == record.BURY and line.phase == INVOKE and line.value not in refused:
            yield Finding(17, topic, f"{name}: {line.value} is buried, and nobody refused it", (line,))
