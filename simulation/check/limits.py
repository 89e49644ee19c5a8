"""Invariant 15: bounded. Every sample (memory, connections, pending requests, retries) is within its limit."""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.history import History, Line


def check(history: History) -> Iterator[Finding]:
    worst: dict[str, Line] = {}
    for line in history.lines:
        if line.operation == record.SAMPLE and line.facts["measured"] > line.facts["limit"]:
            before = worst.get(line.process)
            if before is None or line.facts["measured"] > before.facts["measured"]:
                worst[line.process] = line
    for name, line in worst.items():
        what = f"{name} was {line.facts['measured']}, its limit is {line.facts['limit']}"
        yield Finding(15, line.topic, what, (line,))
