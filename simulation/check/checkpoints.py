"""Invariants 9 and 12 for readers with checkpoints: what a reader has seen when it began at a checkpoint is what was
received before that was kept, and then its own; of every key that is one sequence, the same for all readers of a topic
whatever was reshaped (where not everything is kept: for each reader), nothing in it twice. Who read all there is in a
healed world has seen every message that was acknowledged to its sender.

Legal: a reader may end anywhere, so one sequence may be the beginning of another.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.check.history_index import Topic, tell
from simulation.history import OK, History, Line


def check(history: History) -> Iterator[Finding]:
    kept: dict[tuple[str, str], list[Line]] = {}
    begun: dict[tuple[str, str], int] = {}  # by topic and reader: the line at which it came
    seen: dict[int, list[Line]] = {}  # by session: all, with what came before its checkpoint
    for line in history.lines:
        if line.operation == record.READ_FROM and line.phase == OK:
            begun.setdefault((line.topic, line.facts["reader"]), line.number)
            seen[line.session] = list(kept.get((line.topic, line.facts["checkpoint"]), []))
        elif line.operation == record.READ:
            seen[line.session].append(line)
        elif line.operation == record.KEPT:
            kept[line.topic, line.facts["checkpoint"]] = list(seen[line.session])
        elif line.operation == record.READ_ALL:
            yield from _missed(history, line, seen[line.session], begun[line.topic, line.facts["reader"]])
    known: dict[tuple[str, str, str], list[Line]] = {}  # by topic, reader and key: the longest sequence so far
    topics = tell(history).topics
    for session in sorted(seen):
        yield from _one_sequence(seen[session], known, topics)


def _one_sequence(
    lines: list[Line], known: dict[tuple[str, str, str], list[Line]], topics: dict[str, Topic]
) -> Iterator[Finding]:
    keys: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        if line.value is not None:
            reader = "" if topics[line.topic].kept else line.facts.get("reader", "")
            keys.setdefault((line.topic, reader, line.value.key), []).append(line)
    for name in sorted(keys):
        mine, other = keys[name], known.get(name, [])
        for ours, theirs in zip(mine, other, strict=False):
            if _what(ours) != _what(theirs):
                what = f"one reader saw {theirs.value} of segment {theirs.facts['segment']}, another one, at the same "
                what += f"turn of the key, {ours.value} of segment {ours.facts['segment']}"
                yield Finding(12, name[0], what, (theirs, ours))
                break
        if len(mine) > len(other):
            known[name] = mine
            yield from _twice(name[0], mine)


def _twice(topic: str, lines: list[Line]) -> Iterator[Finding]:
    places: dict[object, Line] = {}
    for line in lines:
        before = places.setdefault(_what(line), line)
        if before is not line:
            yield Finding(12, topic, f"{line.value} was received twice by one reader", (before, line))
            return


def _missed(history: History, end: Line, lines: list[Line], begun: int) -> Iterator[Finding]:
    """Where nothing is kept for whoever comes later, a reader has a hold: what was sent from then on is kept for it."""
    topic = tell(history).topics[end.topic]
    seen = {line.value for line in lines}
    for value, send in topic.sends.items():
        acked = send.acked
        if acked is None or acked.number > end.number or topic.released(send.first.number, end.number):
            continue
        if not topic.kept and send.first.number < begun:
            continue
        if value not in seen:
            yield Finding(9, topic.name, f"{value} was passed over by a reader of everything", (acked, end))


def _what(line: Line) -> object:
    return line.value, line.place, line.facts["segment"]
