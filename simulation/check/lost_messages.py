"""Invariant 1: no acknowledged message is lost.

A message with a receipt is delivered to every subscription that existed before its send began; to a later one as its
start position requires. It is checked where a subscription reached its end: its own consumers in a healed world
(SETTLE), or a fresh consumer or reader (DRAIN). A send with an unknown outcome is not required anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.cursor_state import CursorState
from simulation.check.finding import Finding
from simulation.check.history_index import Subscription, index_history
from simulation.history import OK, History, Line, Value


def check(history: History) -> Iterator[Finding]:
    for subscription in index_history(history).subscriptions.values():
        yield from _subscription(subscription)


def _subscription(subscription: Subscription) -> Iterator[Finding]:
    standing = CursorState()
    delivered: set[Value] = set()
    passed: set[Value] = set()
    moves = 0
    for line in subscription.lines:
        standing.feed(line)
        if line.operation == record.UNSUBSCRIBE and standing.moves != moves:
            delivered.clear()
            passed.clear()
        moves = standing.moves
        if line.operation == record.RECEIVE and line.value is not None:
            delivered.add(line.value)
        elif line.operation in (record.SETTLE, record.DRAIN) and line.phase == OK:
            for finding in _missing(subscription, standing, line, delivered | passed):
                assert finding.lines[0].value is not None
                passed.add(finding.lines[0].value)
                yield finding


def _missing(subscription: Subscription, standing: CursorState, end: Line, delivered: set[Value]) -> Iterator[Finding]:
    topic = subscription.topic
    if standing.born is None or standing.loose:
        return
    for value, send in topic.sends.items():
        acked = send.acked
        if acked is None or value in delivered or acked.number > end.number:
            continue
        sent = subscription.owed(standing.born, value, end.number)
        if sent is None or standing.passes(topic, value):
            continue
        if any(standing.is_skipped(place) for place in topic.copies.get(value, [])):
            continue
        who = "its own consumers" if end.operation == record.SETTLE else "a fresh consumer"
        what = f"{value} has its receipt; {subscription.name} never got it, though {who} came to the end"
        yield Finding(1, topic.name, what, (sent, acked, end))
