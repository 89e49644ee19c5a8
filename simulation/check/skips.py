"""Invariant 16 for seeks to the end: after a successful one, consumers get nothing that existed before it began.

It is checked for consumers that came later: an earlier one may have received a message before and hand it out later.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.check.history_index import Subscription, index_history
from simulation.history import INVOKE, OK, History, Line


def check(history: History) -> Iterator[Finding]:
    for subscription in index_history(history).subscriptions.values():
        yield from _subscription(subscription)


def _subscription(subscription: Subscription) -> Iterator[Finding]:
    sends = subscription.topic.sends
    begun: Line | None = None
    done: tuple[Line, Line] | None = None
    fresh: set[int] = set()  # sessions that came after the last seek
    for line in subscription.lines:
        if line.operation in (record.SEEK, record.UNSUBSCRIBE):
            forward = line.operation == record.SEEK and "since" in line.facts and not line.facts.get("by_time")
            if line.phase == INVOKE:
                begun, done = line if forward else None, None
                fresh.clear()
            elif line.phase == OK and begun is not None:
                done = (begun, line)
        elif line.operation == record.SUBSCRIBE and line.phase == INVOKE and done is not None:
            fresh.add(line.session)
        elif line.operation == record.RECEIVE and done is not None and line.session in fresh:
            send = None if line.value is None else sends.get(line.value)
            if send is not None and send.acked is not None and send.acked.number < done[0].number:
                what = f"{subscription.name}: {line.value} was passed over, and came to a consumer that came later"
                yield Finding(16, subscription.topic.name, what, (send.acked, *done, line))
                return
