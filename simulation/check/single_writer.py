"""Invariant 6: one writer. A position always holds the same message, in every receipt and delivery, and the log only
grows.

A message sent after a receipt was received stands behind the position of that receipt. An old owner that goes on
acknowledging breaks this, even if its entries are never read. Nothing stands behind the final position of a terminated
topic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.check.history_index import Topic, index_history
from simulation.history import OK, History, Line, Place


def check(history: History) -> Iterator[Finding]:
    yield from _two_stories(history)
    for topic in index_history(history).topics.values():
        yield from _grows(topic)


def _two_stories(history: History) -> Iterator[Finding]:
    held: dict[tuple[str, Place], Line] = {}
    final: dict[str, Line] = {}
    for line in history.lines:
        if line.operation == record.TERMINATE and line.phase == OK:
            final.setdefault(line.topic, line)
        if line.place is None or line.phase != OK or line.operation not in (record.SEND, record.RECEIVE):
            continue
        before = held.setdefault((line.topic, line.place), line)
        if before.value != line.value:
            what = f"{line.place} was {before.value} once and {line.value} later"
            yield Finding(6, line.topic, what, (before, line))
        end = final.get(line.topic)
        if end is not None and end.place is not None and line.place[:2] > end.place[:2]:
            what = f"{line.value} is at {line.place}, behind the final position {end.place}"
            yield Finding(6, line.topic, what, (end, line))


def _grows(topic: Topic) -> Iterator[Finding]:
    logs: dict[int, list[tuple[int, Line, int]]] = {}  # one log, or one for each segment of a scalable topic
    for send in topic.sends.values():
        for attempt in send.attempts:
            ended = attempt.ended
            if ended is not None and attempt.ok and ended.place is not None:
                segment_log = logs.setdefault(ended.facts.get("segment", 0), [])
                segment_log.append((ended.number, ended, attempt.invoked.number))
    for log in logs.values():
        yield from _one_grows(topic, sorted(log))


def _one_grows(topic: Topic, acked: list[tuple[int, Line, int]]) -> Iterator[Finding]:
    numbers = [number for number, _, _ in acked]
    highest: list[Line] = []  # of the receipts so far
    for _, line, _ in acked:
        assert line.place is not None
        before = highest[-1] if highest else None
        highest.append(line if before is None or before.place is None or line.place > before.place else before)
    for _, line, invoked in acked:
        count = bisect_left(numbers, invoked)
        if count == 0:
            continue
        newest = highest[count - 1]
        if newest.place is not None and line.place is not None and line.place <= newest.place:
            what = f"{line.value} was sent after the receipt for {newest.place} was there, and is at {line.place}"
            yield Finding(6, topic.name, what, (newest, line))
