"""Invariants 9 and 12 for holds: what a hold keeps is there until it is over, and its end is announced before.

A record that says that a hold is over comes after one that said that it will be, by as long as the notice is, with no
word of its reader between them. Whoever is told that messages behind its place are gone was under a hold that ended
since it was last told so. That nothing is missing where nobody was told is for `replays` to see.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.history import History, Line

TICK_S = 0.001  # clocks of different owners


def check(history: History) -> Iterator[Finding]:
    announced: dict[tuple[str, str], Line] = {}
    over: set[tuple[str, str]] = set()
    for line in history.lines:
        if line.operation == record.HOLD:
            name = (line.topic, line.facts["hold"])
            if line.facts["expired"]:
                over.add(name)
                before = announced.get(name)
                if before is None or line.at - before.at < line.facts["notice_s"] - TICK_S:
                    lines = (line,) if before is None else (before, line)
                    yield Finding(12, line.topic, f"hold {name[1]} ended before it was announced long enough", lines)
            elif line.facts["warned"]:
                announced.setdefault(name, line)
            else:
                announced.pop(name, None)  # its reader came
        elif line.operation == record.GAP:
            name = (line.topic, line.facts["hold"])
            if name not in over:
                what = f"messages of segments {line.facts['segments']} are gone under hold {name[1]}, which is not over"
                yield Finding(9, line.topic, what, (line,))
            over.discard(name)
