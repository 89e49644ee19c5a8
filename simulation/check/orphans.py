"""Invariant 13: no orphans. At rest no reshape is in progress, exactly the segments of the record exist, and each of
them has exactly the cursors of the topic's subscriptions.

The first use of a topic creates its first segments if no broker answered at its creation. If the creation or removal of
a subscription had an unknown outcome, some of its cursors may exist until the next request.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.history import History, Line


def check(history: History) -> Iterator[Finding]:
    for line in history.lines:
        if line.operation == record.INVENTORY:
            for what in _wrong(line):
                yield Finding(13, line.topic, what, (line,))


def _wrong(line: Line) -> Iterator[str]:
    facts = line.facts
    if facts["intent"] or facts["lifecycle"] == "DELETING":
        yield f"{facts['intent'] or 'its deletion'} was begun and never finished"
    there = {int(id): cursors for id, cursors in facts["cursors"].items()}
    for segment in sorted(there.keys() - set(facts["listed"])):
        yield f"segment {segment} is there and the record does not list it"
    for segment in sorted(set(facts["listed"]) - there.keys() - set(facts["roots"])):
        yield f"the record lists segment {segment}, and it is not there"
    for segment, cursors in sorted(there.items()):
        missing = set(facts["subscriptions"]) - set(cursors)
        ghosts = set(cursors) - set(facts["subscriptions"]) - set(facts["unready"])
        if segment in facts["listed"] and (missing or ghosts):
            yield f"segment {segment} has the cursors {cursors}, the topic the subscriptions {facts['subscriptions']}"
