"""Segment ids are never used twice (H-C1, H-C2), not even by another incarnation of the topic: part of invariant 13.

The counter in the record never goes back. An id always has the same range and the same parents. Every id is below the
counter, and no id is listed in two incarnations. Plain topics that serve as segments have no ranges of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.history import History, Line


def check(history: History) -> Iterator[Finding]:
    first_uses: dict[tuple[str, str], tuple[object, Line]] = {}
    counters: dict[str, Line] = {}
    for line in history.lines:
        if line.operation != record.RECORD:
            continue
        before = counters.get(line.topic)
        counters[line.topic] = line
        if before is not None and line.facts["next_id"] < before.facts["next_id"]:
            yield Finding(13, line.topic, "the counter of segment ids went back", (before, line))
        for id, (start, end, _, parents, _) in line.facts["segments"].items():
            if int(id) >= line.facts["next_id"]:
                yield Finding(13, line.topic, f"segment {id} was not taken from the counter", (line,))
            if int(id) in line.facts.get("plain", ()):
                start = end = 0  # of partitions the ranges say nothing
            what = (line.facts["incarnation"], start, end, tuple(parents))
            first, first_line = first_uses.setdefault((line.topic, id), (what, line))
            if first != what:
                yield Finding(13, line.topic, f"segment {id} was {first} and is {what}", (first_line, line))
