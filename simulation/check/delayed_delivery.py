"""Delayed messages are never early: a Shared subscription gets one no sooner than its producer requested.

The check uses virtual time, and so runs only where no clock was set: brokers use their own clocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.check.history_index import index_history
from simulation.history import History

GRAIN_S = 0.002  # clocks have milliseconds


def check(history: History) -> Iterator[Finding]:
    if any(" jump " in str(line.facts.get("what")) for line in history.lines if line.operation == record.FAULT):
        return
    for topic, subscription in index_history(history).observed():
        if subscription.type != "Shared":
            continue
        for line in subscription.lines:
            if line.operation != record.RECEIVE or line.value is None or line.value not in topic.sends:
                continue
            due = [attempt.invoked.facts.get("due", 0.0) for attempt in topic.sends[line.value].attempts]
            if line.at < min(due) - GRAIN_S:
                what = f"{subscription.name}: {line.value} was due at {min(due):.3f} and came at {line.at:.3f}"
                yield Finding(1, topic.name, what, (topic.sends[line.value].first, line))
