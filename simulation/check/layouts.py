"""Invariant 14: layouts only advance. Each client uses growing epochs, each consumer growing assignments.

One watch of one client is a session, and so is the assignment of one consumer.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.history import History, Line


def check(history: History) -> Iterator[Finding]:
    before: dict[tuple[str, str, int], Line] = {}
    for line in history.lines:
        if line.operation != record.LAYOUT:
            continue
        name = (line.process, line.topic, line.session)
        previous = before.get(name)
        before[name] = line
        if previous is not None and line.facts["at"] < previous.facts["at"]:
            yield Finding(14, line.topic, f"{line.process} went back to an older layout", (previous, line))
