"""Invariant 7: one acting leader. The record of a scalable topic never goes back to a lower term or a lower epoch. The
owner's metadata of a segment never goes back to a lower term than it has seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.history import History, Line


def check(history: History) -> Iterator[Finding]:
    records: dict[str, Line] = {}
    owned: dict[tuple[str, int], Line] = {}
    for line in history.lines:
        if line.operation == record.RECORD:
            before = records.get(line.topic)
            records[line.topic] = line
            if before is not None and (line.facts["term"] < before.facts["term"] or line.epoch < before.epoch):
                yield Finding(7, line.topic, "the record went back to a lower term or epoch", (before, line))
            if before is not None and _layout(before) != _layout(line) and line.epoch == before.epoch:
                yield Finding(7, line.topic, "another layout has the same epoch", (before, line))
        elif line.operation == record.SEGMENT:
            name = (line.topic, line.facts["segment"])
            previous = owned.get(name)
            owned[name] = line
            if previous is not None and line.facts["term"] < previous.facts["term"]:
                what = f"segment {name[1]} obeyed term {line.facts['term']} after term {previous.facts['term']}"
                yield Finding(7, line.topic, what, (previous, line))


def _layout(line: Line) -> object:
    """The part of it that clients see."""
    return {id: (start, end, state) for id, (start, end, state, _, _) in line.facts["segments"].items()}
