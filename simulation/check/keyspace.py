"""Invariant 5: cover. In every version of its record the active ranges of a scalable topic cover the whole keyspace,
each hash once. When the world is healed, every range accepts a message.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.history import OK, History, Line

HASHES = 1 << 16


def check(history: History) -> Iterator[Finding]:
    last: dict[str, Line] = {}
    taken: dict[str, set[int]] = {}
    for line in history.lines:
        if line.operation == record.RECORD and line.facts["lifecycle"] == "LIVE":
            last[line.topic] = line
            if not _covers(line):
                yield Finding(5, line.topic, "the active ranges are not the whole keyspace, each hash once", (line,))
        elif line.operation == record.PROBE:
            ids = taken.setdefault(line.topic, set())
            if line.phase == OK:
                ids.add(line.facts["segment"])
            else:
                what = f"segment {line.facts.get('segment')} takes no message in a healed world"
                yield Finding(5, line.topic, what, (line,))
    for topic, segments in taken.items():
        for segment in sorted(set(active(last[topic])) - segments):
            yield Finding(5, topic, f"no message ever reached the active segment {segment} of a healed world", ())


def active(line: Line) -> dict[int, tuple[int, int]]:
    """The active segments of a record, with their ranges."""
    segments = line.facts["segments"].items()
    return {int(id): (start, end) for id, (start, end, state, _, _) in segments if state == "ACTIVE"}


def _covers(line: Line) -> bool:
    free = 0
    for start, end in sorted(active(line).values()):
        if start != free or end < start:
            return False
        free = end + 1
    return free == HASHES
