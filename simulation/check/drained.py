"""Invariant 10: a latch is durable. When the record of a subscription calls a segment drained, the cursor is at the end
of the segment on disk. A latched segment stays latched until the subscription is moved.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.history import History, Line


def check(history: History) -> Iterator[Finding]:
    before: dict[tuple[str, str, int, int], Line] = {}
    for line in history.lines:
        if line.operation != record.STREAM:
            continue
        for segment, at_end in line.facts["durable"].items():
            if at_end is False:
                what = f"{line.subscription}: segment {segment} is latched and its cursor not at the end on disk"
                yield Finding(10, line.topic, what, (line,))
        name = (line.topic, line.subscription, line.facts["life"], line.facts.get("seeks", 0))
        previous = before.get(name)
        before[name] = line
        if previous is not None and not set(previous.facts["latched"]) <= set(line.facts["latched"]):
            yield Finding(10, line.topic, f"{line.subscription}: a latch was taken back", (previous, line))
