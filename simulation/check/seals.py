"""Invariant 8: a seal is final. The end position of a segment is the same in every version of the record and in the
owner's metadata. A sealed segment never becomes active again. Nothing is ever stored or delivered behind its end.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.history import OK, History, Line

Name = tuple[str, int]


def check(history: History) -> Iterator[Finding]:
    ends: dict[Name, tuple[tuple[int, int], Line]] = {}
    sealed: dict[Name, Line] = {}
    for line in history.lines:
        if line.operation == record.RECORD:
            for id, (_, _, state, _, end) in line.facts["segments"].items():
                name = (line.topic, int(id))
                if state != "ACTIVE":
                    sealed.setdefault(name, line)
                elif name in sealed:
                    yield Finding(8, line.topic, f"segment {id} was sealed and is active again", (sealed[name], line))
                yield from _end(ends, name, end, line)
        elif line.operation == record.SEGMENT:
            name = (line.topic, line.facts["segment"])
            if line.facts["end"] is None and name in ends:
                yield Finding(8, line.topic, f"segment {name[1]} has lost its end", (ends[name][1], line))
            yield from _end(ends, name, line.facts["end"], line)
    yield from _behind(history, ends)


def _end(
    ends: dict[Name, tuple[tuple[int, int], Line]], name: Name, end: list[int] | None, line: Line
) -> Iterator[Finding]:
    if end is None:
        return
    before, sealed = ends.setdefault(name, ((end[0], end[1]), line))
    if before != (end[0], end[1]):
        what = f"segment {name[1]} ended at {before} and ends at {tuple(end)}"
        yield Finding(8, name[0], what, (sealed, line))


def _behind(history: History, ends: dict[Name, tuple[tuple[int, int], Line]]) -> Iterator[Finding]:
    for line in history.lines:
        if line.place is None or line.phase != OK or "segment" not in line.facts:
            continue
        if line.operation in (record.SEND, record.RECEIVE):
            end = ends.get((line.topic, line.facts["segment"]))
            if end is not None and line.place[:2] > end[0]:
                what = f"{line.value} is at {line.place}, behind the end of segment {line.facts['segment']}, {end[0]}"
                yield Finding(8, line.topic, what, (end[1], line))
