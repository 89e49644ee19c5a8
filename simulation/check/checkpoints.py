"""Invariants 9 and 12 for readers with checkpoints: a reader sees one sequence of each key, whole and without
duplicates.

A reader that starts at a checkpoint has seen what was received before that checkpoint, and then what it receives
itself. For each key this is one sequence, the same for all readers of a topic in spite of reshapes. Where the topic
does not retain everything, it is one sequence for each reader. No message occurs twice. A reader that reads to the end
in a healed world has seen every message that its producer got a receipt for.

Legal: a reader may stop at any point, so one sequence may be the beginning of another.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation import history as record
from simulation.check.finding import Finding
from simulation.check.history_index import Topic, index_history
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
    longest: dict[tuple[str, str, str], list[Line]] = {}  # by topic, reader and key: the longest sequence so far
    topics = index_history(history).topics
    for session in sorted(seen):
        yield from _one_sequence(seen[session], longest, topics)


def _one_sequence(
    lines: list[Line], longest: dict[tuple[str, str, str], list[Line]], topics: dict[str, Topic]
) -> Iterator[Finding]:
    keys: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        if line.value is not None:
            reader = "" if topics[line.topic].kept else line.facts.get("reader", "")
            keys.setdefault((line.topic, reader, line.value.key), []).append(line)
    for name in sorted(keys):
        mine, other = keys[name], longest.get(name, [])
        for ours, theirs in zip(mine, other, strict=False):
            if _what(ours) != _what(theirs):
                what = f"one reader saw {theirs.value} of segment {theirs.facts['segment']}, another one, at the same "
                what += f"turn of the key, {ours.value} of segment {ours.facts['segment']}"
                yield Finding(12, name[0], what, (theirs, ours))
                break
        if len(mine) > len(other):
            longest[name] = mine
            yield from _twice(name[0], mine)


def _twice(topic: str, lines: list[Line]) -> Iterator[Finding]:
    places: dict[object, Line] = {}
    for line in lines:
        before = places.setdefault(_what(line), line)
        if before is not line:
            yield Finding(12, topic, f"{line.value} was received twice by one reader", (before, line))
            return


def _missed(history: History, end: Line, lines: list[Line], begun: int) -> Iterator[Finding]:
    """A reader of a topic without retention has a hold: messages sent after its start are kept for it."""
    topic = index_history(history).topics[end.topic]
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
