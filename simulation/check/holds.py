"""Invariants 9 and 12 for holds: a hold keeps messages until it ends, and its end is announced before.

A record that ends a hold comes after a record that announced the end, by at least the time of the notice, without a
sign of its reader in between. A reader that gets an error about deleted messages was under a hold that ended since its
last such error. `checkpoints` checks that nothing is missing without such an error.
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
